"""Changes one key of a policy file, keeping its comments and order, and undoes the change."""

import difflib
import tomllib
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import tomlkit
from tomlkit.exceptions import TOMLKitError

from ..core.files.file_operations import write_file_atomically
from ..core.files.safe_open import open_regular
from ..core.model.levels import Threshold
from ..core.policy.resolve import POLICY_TABLE, flatten_tables
from ..core.policy.value_types import PolicyValue, format_threshold, to_json_value
from ..core.transcript.sanitize import reveal_text
from .install.settings_file import (
    NotSafeError,
    SettingsFile,
    read_settings_file,
    shown_lines,
    write_settings_file,
)
from .locations.policy_files import content_sha256

TomlTable = MutableMapping[str, object]  # with its comments and order
MAX_KEPT_CHANGES: Final = 20  # earlier contents; people undo the last few changes
MAX_HISTORY_BYTES: Final = 4 << 20  # twenty of the largest policies make less
CONTEXT_LINES: Final = 2  # lines around a change that are shown


class PolicyFileChange(msgspec.Struct, frozen=True):
    file: SettingsFile
    key: str
    after: bytes

    @property
    def is_empty(self) -> bool:
        return self.after == (self.file.data or b"")


class AppliedPolicyChange(msgspec.Struct, frozen=True):
    path: str
    key: str
    before: bytes | None  # None if there was no file
    after_sha256: str


def plan_value_change(
    path: Path, roots: Sequence[Path], key: str, value: PolicyValue | None
) -> PolicyFileChange:
    """Plan a file that sets a value, or for None no longer sets the key.

    The file may be a link into one of `roots`. Raises NotSafeError if it cannot be changed
    without losing something, OSError if it cannot be read.
    """
    file = read_settings_file(path, roots)
    try:
        text = (file.data or b"").decode()
        before = flatten_tables(tomllib.loads(text))
        expected = {name: each for name, each in before.items() if name != key}
        if value is not None:
            expected[key] = _toml_value(value)
        for after in _edited_texts(text, key, value):
            if _parse_values(after) == expected:
                return PolicyFileChange(file, key, after.encode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, TOMLKitError) as error:
        raise NotSafeError(f"{path} is not valid TOML ({error}): correct it by hand") from error
    raise NotSafeError(
        f"ctxtop cannot change {key} in {path} because of how it is written: edit it by hand"
    )


def diff_policy_change(change: PolicyFileChange) -> list[str]:
    """Show a change as removed (-) and added (+) lines and the lines around them."""
    old, new = shown_lines(change.file.data), shown_lines(change.after)
    lines = difflib.unified_diff(old, new, lineterm="", n=CONTEXT_LINES)
    # Without file names and line numbers.
    return [reveal_text(line) for line in lines if not line.startswith(("---", "+++", "@@"))]


class PolicyChangeHistory:
    """The changes that ctxtop made to policies' files; kept beside its store."""

    def __init__(self, store: Path) -> None:
        self._path: Final = store.with_name(f"{store.name}.policy.json")

    def apply(self, change: PolicyFileChange) -> None:
        """Keep the content before the change, then write the file.

        Raises NotSafeError if the file was changed meanwhile, OSError if it cannot be written;
        then nothing has changed.
        """
        written = AppliedPolicyChange(
            str(change.file.path), change.key, change.file.data, content_sha256(change.after)
        )
        earlier = self.all()
        self._save((*earlier, written)[-MAX_KEPT_CHANGES:])
        try:
            write_settings_file(change.file, change.after)
        except BaseException:
            self._save(earlier)
            raise

    def last(self) -> AppliedPolicyChange | None:
        return next(reversed(self.all()), None)

    def plan_undo(self, applied: AppliedPolicyChange, roots: Sequence[Path]) -> PolicyFileChange:
        """Plan the file as it was; raises NotSafeError if it changed since, or OSError."""
        file = read_settings_file(Path(applied.path), roots)
        if content_sha256(file.data or b"") != applied.after_sha256:
            raise NotSafeError(f"{applied.path} has changed since: edit it by hand")
        return PolicyFileChange(file, applied.key, applied.before or b"")

    def undo(self, applied: AppliedPolicyChange, change: PolicyFileChange) -> None:
        """Write the file as it was, or remove a new one; raises as `apply` does."""
        write_settings_file(change.file, applied.before)
        self._save(tuple(change for change in self.all() if change != applied))

    def all(self) -> tuple[AppliedPolicyChange, ...]:
        """List the changes, oldest first; none if the file cannot be read."""
        with suppress(OSError, msgspec.DecodeError), open_regular(self._path) as file:
            return msgspec.json.decode(
                file.read(MAX_HISTORY_BYTES), type=tuple[AppliedPolicyChange, ...]
            )
        return ()

    def _save(self, changes: tuple[AppliedPolicyChange, ...]) -> None:
        write_file_atomically(self._path, msgspec.json.encode(changes))


def _parse_values(text: str) -> dict[str, object] | None:
    try:
        return flatten_tables(tomllib.loads(text))
    except tomllib.TOMLDecodeError:
        return None


def _toml_value(value: PolicyValue) -> object:
    """Convert a value for the file; thresholds become text, for readability."""
    if isinstance(value, tuple) and any(isinstance(each, Threshold) for each in value):
        return [format_threshold(each) for each in value if isinstance(each, Threshold)]
    return to_json_value(value)


def _edited_texts(text: str, key: str, value: PolicyValue | None) -> Iterator[str]:
    """Yield the text with the change in several ways, the one that moves the least first."""
    document: TomlTable = tomlkit.parse(text)
    places = list(_find_key(document, key.split(".")))
    *parents, name = key.split(".")
    for table, at in places:
        if value is None:
            del table[at]
        else:
            table[at] = _toml_item(value)
    if value is not None and not places:
        yield from _insert_line(
            text,
            parents or [POLICY_TABLE],
            f"{name} = {tomlkit.item(_toml_item(value)).as_string()}",
        )
        _ensure_table(document, parents or [POLICY_TABLE])[name] = _toml_item(value)
    yield tomlkit.dumps(document)


def _insert_line(text: str, parents: list[str], setting: str) -> Iterator[str]:
    """Add a line after the first lines of its table, before the next table's comments."""
    lines = text.splitlines(keepends=True)
    header = f"[{'.'.join(parents)}]"
    for number, line in enumerate(lines):
        if line.partition("#")[0].strip() == header:
            at = number + 1
            while at < len(lines) and lines[at].strip() and lines[at].lstrip()[0] not in "#[":
                at += 1
            end = "\r\n" if line.endswith("\r\n") else "\n"
            before = "".join(lines[:at])
            joined = before if before.endswith("\n") else before + end
            yield f"{joined}{setting}{end}{''.join(lines[at:])}"


def _toml_item(value: PolicyValue) -> object:
    item = _toml_value(value)
    if isinstance(item, dict):
        table = tomlkit.inline_table()
        table.update(item)
        return table
    return item


def _find_key(table: TomlTable, parts: list[str]) -> Iterator[tuple[TomlTable, str]]:
    """Find where a key is set: `[a] b.c`, `[a.b] c`, and the same below `[policy]`."""
    if len(parts) == 1 and parts[0] in table:
        yield table, parts[0]
    below = table.get(parts[0]) if len(parts) > 1 else None
    if isinstance(below, MutableMapping):
        yield from _find_key(below, parts[1:])
    root = table.get(POLICY_TABLE)
    if isinstance(root, MutableMapping):
        yield from _find_key(root, parts)


def _ensure_table(document: TomlTable, names: list[str]) -> TomlTable:
    table = document
    for name in names:
        if name not in table:
            table[name] = tomlkit.table()
        below = table[name]
        if not isinstance(below, MutableMapping):
            raise NotSafeError(f"{name} is a value there, not a table: edit the file by hand")
        table = below
    return table
