"""A policy with its sources and the files that can set its values, as rows by area."""

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from msgspec.structs import replace
from textual.content import Content

from ...collectors.install.settings_file import NotSafeError
from ...collectors.locations.places import PolicySources
from ...collectors.locations.policy_files import (
    PROJECT_POLICY_NAME,
    PolicyFiles,
    TrustFile,
    TrustFileError,
    content_sha256,
)
from ...collectors.policy_editing import AppliedPolicyChange, PolicyChangeHistory, PolicyFileChange
from ...core.policy.policy import (
    IgnoredValue,
    Policy,
    PolicyNotice,
    PolicyOrigin,
    ProjectTrust,
    ResolvedValue,
)
from ...core.policy.resolve import Policies
from ...core.policy.schema import find_key
from ...core.policy.value_types import PolicyValue, format_value
from ...core.store.queries.config_queries import project_roots
from ...core.transcript.filter_language import fields_filter
from ...core.transcript.sanitize import one_line
from ..base.ui_state import policy_keymap
from ..text.formats import shorten
from ..text.settings_text import name_keys
from ..text.tables import ANY_WIDTH, Cell, Column
from ..text.text_lines import FOLD_SIGNS, ScreenColumn, grow_columns

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class PolicySnapshot:
    folder: str | None  # whose policy; None for the one of all projects
    policy: Policy
    notices: tuple[PolicyNotice, ...]
    last_change: AppliedPolicyChange | None  # the newest change that can be undone
    untrusted: tuple[str, ...] = ()  # for all projects: a line about files that are ignored in part


@dataclass(frozen=True, slots=True)
class EditablePolicyFile:
    path: Path
    roots: tuple[Path, ...]  # the folders that it may be a link into
    name: str  # for a person


def read_policy_snapshot(
    db: sqlite3.Connection, sources: PolicySources, store: Path, folder: str | None
) -> PolicySnapshot:
    files = PolicyFiles(sources)
    folders = project_roots(db)
    files.refresh([*folders, folder] if folder and folder not in folders else folders)
    policy = files.policies.for_project(folder)
    keymap = policy_keymap(policy)
    return PolicySnapshot(
        folder=folder,
        policy=policy,
        notices=(*files.notices, *(keymap.notices if keymap else ())),
        last_change=PolicyChangeHistory(store).last(),
        untrusted=() if folder else _untrusted_lines(files.policies),
    )


def _untrusted_lines(policies: Policies) -> tuple[str, ...]:
    names = sorted(name for name, policy in policies.projects.items() if policy.ignored)
    if not names:
        return ()
    files = "project's file sets" if len(names) == 1 else "projects' files set"
    text = f"{len(names)} {files} more than an untrusted one may: {name_keys(names)}"
    return (f"{text}; `ctxtop trust DIR` shows one, and asks",)


def editable_files(sources: PolicySources, folder: str | None) -> list[EditablePolicyFile]:
    """List the files that can set a value of a folder's policy, the user's first."""
    files = []
    if sources.user_file is not None:
        roots = (sources.user_file.parent, Path.home())
        files.append(EditablePolicyFile(sources.user_file, roots, "your file"))
    if folder and Path(folder).is_dir():
        # No link: its reader follows none.
        path, name = Path(folder, PROJECT_POLICY_NAME), f"{PROJECT_POLICY_NAME} of this project"
        files.append(EditablePolicyFile(path, (Path(folder),), name))
    return files


def value_in_force(sources: PolicySources, folder: str | None, key: str) -> PolicyValue:
    """Return what files and the preset set for all projects or a folder, else the default.

    Raises KeyError if there is no such key.
    """
    files = PolicyFiles(replace(sources, environ={}, command_line=()))
    files.refresh([folder] if folder else [])
    found = files.policies.for_project(folder).values.get(key)
    return find_key(key).default if found is None else found.value


def write_policy_change(
    sources: PolicySources, change: PolicyFileChange, write: Callable[[PolicyFileChange], None]
) -> None:
    """Write a change; a project's file that the person trusted, or that is new, is trusted then.

    The person saw the difference, and everything else is as it was trusted. Raises as `write`
    does, and TrustFileError.
    """
    path, before = change.file.path, change.file.data
    folder, trusted = str(path.parent), TrustFile(sources.trust_file)
    trusted.refresh()
    is_own = before is None or trusted.state(folder, content_sha256(before)) is ProjectTrust.TRUSTED
    write(change)
    if is_own and path.name == PROJECT_POLICY_NAME:
        trusted.trust(folder, content_sha256(change.after))


class PolicyChangeRefused(str):
    """Why nothing was written, and what to do."""

    __slots__ = ()


def try_change(action: Callable[[], Result]) -> Result | PolicyChangeRefused:
    try:
        return action()
    except (NotSafeError, TrustFileError) as error:
        message = str(error)
    except OSError as error:
        file = error.filename or "the file"
        message = f"{file}: {error.strerror or error}: check its permissions"
    return PolicyChangeRefused(one_line(message))


AREAS: Final = {
    "": "how much ctxtop does on its own",
    "usage": "how context is counted",
    "limit": "window size",
    "threshold": "warning thresholds",
    "rearm": "when a warning repeats",
    "absolute": "thresholds in tokens",
    "compact": "compaction",
    "summary": "summaries",
    "importance": "what is kept",
    "recovery": "recovery",
    "tools": "tool results",
    "compliance": "compressed results",
    "injection": "context for new agents",
    "steering": "compaction instructions",
    "prompts": "messages to the model",
    "saveflow": "saves of claude-memory",
    "limits": "the plan's limits",
    "notify": "notices",
    "backup": "how long backups are kept",
    "ui": "the dashboard",
    "keys": "key bindings",
}
"""The first part of a key's name, and what that area is about."""

CHOSEN_SIGN: Final = "●"  # before a value that somebody chose
AREA_KEY_PREFIX: Final = "area "  # begins the key of an area's row

_ORIGIN_NAMES: Final = {
    PolicyOrigin.COMMAND_LINE: "command line",
    PolicyOrigin.ENVIRONMENT: "environment",
    PolicyOrigin.PROJECT_FILE: "project's file",
    PolicyOrigin.USER_FILE: "your file",
    PolicyOrigin.PRESET: "preset",
    PolicyOrigin.BUILT_IN: "built in",
}

_FIXED_REASONS: Final = {
    PolicyOrigin.COMMAND_LINE: "set on the command line: start ctxtop without that option",
    PolicyOrigin.ENVIRONMENT: "set in the environment: unset {where}",
}


def policy_columns(
    values: Sequence[ResolvedValue], width: int, ignored: Mapping[str, IgnoredValue]
) -> list[ScreenColumn[ResolvedValue]]:
    """Return the columns for a width; `ignored` are values of the project's file, by key."""

    def sign(value: ResolvedValue) -> Cell:
        if value.key.name in ignored:
            return Cell("▲", "$level-warning")
        return Cell(CHOSEN_SIGN if is_chosen(value) else "", "$accent")

    def about(value: ResolvedValue) -> Cell:
        if said := ignored.get(value.key.name):
            text = f"ignored: {one_line(said.value_text)} ({one_line(said.why)})"
            return Cell(text, "$level-warning")
        return Cell(value.key.description, "$quiet")

    def styled(value: ResolvedValue, text: str, style: str) -> Cell:
        return Cell(text, style if is_chosen(value) else "$foreground")

    columns: list[ScreenColumn[ResolvedValue]] = [
        Column(
            "",
            sign,
            cells=1,
            tooltip="● was set, ▲ is ignored",
            sort_key=lambda it: not is_chosen(it),
        ),
        Column(
            "key",
            lambda it: styled(it, it.key.name, "bold"),
            cells=26,
            grows_to=40,
            tooltip="the setting's name, in a file and for --set",
            sort_key=lambda it: it.key.name,
        ),
        Column(
            "value",
            lambda it: styled(it, _value_text(it), "$accent"),
            cells=12,
            grows_to=48,
            tooltip="the value in force",
        ),
        Column(
            "origin",
            lambda it: Cell(_ORIGIN_NAMES[it.origin], "$quiet"),
            cells=14,
            priority=1,
            tooltip="what set it",
            sort_key=lambda it: _ORIGIN_NAMES[it.origin],
        ),
        Column(
            "description",
            about,
            cells=30,
            priority=2,
            grows_to=ANY_WIDTH,
            tooltip="what the setting does",
        ),
    ]
    return grow_columns(columns, values, width)


def area_line(area: str, values: Sequence[ResolvedValue], width: int, is_folded: bool) -> Content:  # noqa: FBT001 -- a state
    """Return the line above the values of an area; of folded ones it counts those that are set."""
    name = area or "ctxtop"
    about = AREAS.get(area, "")
    if is_folded:
        chosen = sum(map(is_chosen, values))
        counted = f"{len(values)} values" + (f", {chosen} {CHOSEN_SIGN} set" if chosen else "")
        about = f"{about} · {counted}" if about else counted
    return Content.assemble(
        (f"{FOLD_SIGNS[is_folded]} ", "$quiet"),
        (name, "bold $primary"),
        (f"  {shorten(about, max(1, width - len(name) - 4))}", "$quiet"),
    )


def _value_text(resolved: ResolvedValue) -> str:
    """Format a value with its unit."""
    value = resolved.value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return one_line(format_value(value)) or "none"
    number = f"{value:,}" if isinstance(value, int) else f"{value:g}"
    return f"{number} {resolved.key.unit}".strip()


def is_chosen(value: ResolvedValue) -> bool:
    """Whether the value was set individually; the values of a preset were not."""
    return value.origin not in {PolicyOrigin.BUILT_IN, PolicyOrigin.PRESET}


def filter_values(policy: Policy, filter_text: str, *, chosen_only: bool) -> list[ResolvedValue]:
    """Choose the values that match the filter, or of these only those that somebody chose."""
    matches = fields_filter(filter_text)
    return [
        value
        for value in policy.values.values()
        if (not chosen_only or is_chosen(value)) and matches({"": _searchable_text(value)})
    ]


def _searchable_text(value: ResolvedValue) -> str:
    origin = _ORIGIN_NAMES[value.origin]
    return f"{value.key.name} {_value_text(value)} {origin} {value.key.description}".casefold()


def group_by_area(values: Iterable[ResolvedValue]) -> dict[str, list[ResolvedValue]]:
    """Group values by their area, in the order of the areas."""
    groups: dict[str, list[ResolvedValue]] = {}
    for value in values:
        area, dot, _ = value.key.name.partition(".")
        # A key without a dot belongs to the area that it is named after, or to the first one.
        groups.setdefault(area if dot or area in AREAS else "", []).append(value)
    order = list(AREAS)
    return dict(
        sorted(groups.items(), key=lambda item: order.index(item[0]) if item[0] in order else 99)
    )


def value_details(resolved: ResolvedValue) -> Content:
    """Describe a value, its origin and its default."""
    key = resolved.key
    facts = {
        "value": _value_text(resolved),
        "origin": _origin_text(resolved),
        "built in": _value_text(replace(resolved, value=key.default)),
    }
    lines = [Content.assemble((f"{label:<10}", "$quiet"), text) for label, text in facts.items()]
    return Content("\n").join([Content(one_line(key.description)), Content(""), *lines])


def _origin_text(value: ResolvedValue) -> str:
    """Name a value's origin; the file is named elsewhere."""
    is_file = value.origin in {PolicyOrigin.USER_FILE, PolicyOrigin.PROJECT_FILE}
    where = "" if is_file or not value.where else f": {one_line(value.where)}"
    return f"{_ORIGIN_NAMES[value.origin]}{where}"


def fixed_reason(value: ResolvedValue) -> str:
    """Return why a value cannot be changed in one of ctxtop's files, empty if it can."""
    return _FIXED_REASONS.get(value.origin, "").format(where=one_line(value.where))


def notice_lines(notices: Iterable[object], width: int) -> list[Content]:
    return [
        Content.styled(shorten(f"▲ {one_line(str(notice))}", width), "$level-warning")
        for notice in notices
    ]
