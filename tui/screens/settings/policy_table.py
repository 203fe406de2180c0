"""A policy with its sources and the files that can set its values, as rows by area."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from msgspec.structs import replace
from textual.content import Content

from ....collectors.install.settings_file import NotSafeError
from ....collectors.places import PolicySources
from ....collectors.policy_editing import (
    AppliedPolicyChange,
    PolicyChangeHistory,
    PolicyFileChange,
    plan_value_change,
)
from ....collectors.policy_files import (
    PROJECT_POLICY_NAME,
    PolicyFiles,
    TrustFile,
    TrustFileError,
    content_sha256,
)
from ....core.model.filter_language import fields_filter
from ....core.policy.policy import (
    IgnoredValue,
    Policy,
    PolicyNotice,
    PolicyOrigin,
    ProjectTrust,
    ResolvedValue,
)
from ....core.policy.resolve import Policies
from ....core.policy.schema import find_key
from ....core.policy.value_types import PolicyValue, format_value
from ....core.store.queries.config_queries import project_roots
from ....core.transcript.sanitize import one_line
from ...text.formats import fit_left, shorten_middle
from ...text.policy_text import name_keys
from ...text.text_lines import FOLD_SIGNS
from ...ui_state import policy_keymap

Result = TypeVar("Result")

USER_FILE_NAME: Final = "your file"


@dataclass(frozen=True, slots=True)
class PolicySnapshot:
    """One moment of the policies."""

    folder: str | None  # whose policy; None for the one that all share
    policy: Policy
    notices: tuple[PolicyNotice, ...]
    projects: tuple[str, ...]  # folders that say something of their own
    last_change: AppliedPolicyChange | None  # the newest change that can be taken back
    untrusted: tuple[str, ...] = ()
    """On the page of all projects: which files say more than counts, in a line."""


@dataclass(frozen=True, slots=True)
class EditablePolicyFile:
    """A file that says a policy, and into which folders it may be a link."""

    path: Path
    roots: tuple[Path, ...]
    name: str  # for a person


def read_policy_snapshot(
    db: sqlite3.Connection, sources: PolicySources, store: Path, folder: str | None
) -> PolicySnapshot:
    """Read all files anew, and give the policy of a folder."""
    files = PolicyFiles(sources)
    folders = project_roots(db)
    files.refresh([*folders, folder] if folder and folder not in folders else folders)
    policy = files.policies.for_project(folder)
    keymap = policy_keymap(policy)
    return PolicySnapshot(
        folder=folder,
        policy=policy,
        notices=(*files.notices, *(keymap.notices if keymap else ())),
        projects=tuple(sorted(files.policies.projects)),
        last_change=PolicyChangeHistory(store).last(),
        untrusted=() if folder else untrusted_lines(files.policies),
    )


def untrusted_lines(policies: Policies) -> tuple[str, ...]:
    """Name the projects of whose files something is ignored; nothing where there is none."""
    found = sorted(name for name, each in policies.projects.items() if each.ignored)
    if not found:
        return ()
    one = "project's file says" if len(found) == 1 else "projects' files say"
    said = f"{len(found)} {one} more than an untrusted one may: {name_keys(found)}"
    return (f"{said}; `ctxtop trust DIR` shows one, and asks",)


def editable_files(sources: PolicySources, folder: str | None) -> list[EditablePolicyFile]:
    """List the files in which a value of a folder's policy can be said, the user's first."""
    found = []
    if sources.user_file is not None:
        roots = (sources.user_file.parent, Path.home())
        found.append(EditablePolicyFile(sources.user_file, roots, USER_FILE_NAME))
    if folder and Path(folder).is_dir():
        # No link: what reads it follows none.
        path = Path(folder, PROJECT_POLICY_NAME)
        found.append(
            EditablePolicyFile(path, (Path(folder),), f"{PROJECT_POLICY_NAME} of this project")
        )
    return found


def parse_value(key: str, typed: str) -> PolicyValue:
    """Read what a person typed.

    Raises InvalidValueError, which says what the key takes, or KeyError where there is no such key.
    """
    return find_key(key).parse(typed.strip())


def plan_policy_change(
    file: EditablePolicyFile, key: str, value: PolicyValue | None
) -> PolicyFileChange:
    """Work out a change; raises NotSafeError or OSError where it cannot be made."""
    return plan_value_change(file.path, file.roots, key, value)


def write_policy_change(
    sources: PolicySources, change: PolicyFileChange, write: Callable[[PolicyFileChange], None]
) -> None:
    """Write a change; a project's file that the person trusted, or that is new, is trusted then.

    The person saw the difference, and all else is as it was trusted. Raises as `write` does,
    and TrustFileError.
    """
    path, before = change.file.path, change.file.data
    folder, trusted = str(path.parent), TrustFile(sources.trust_file)
    trusted.refresh()
    is_own = before is None or trusted.state(folder, content_sha256(before)) is ProjectTrust.TRUSTED
    write(change)
    if is_own and path.name == PROJECT_POLICY_NAME:
        trusted.trust(folder, content_sha256(change.after))


def link_roots(
    written: AppliedPolicyChange, files: Sequence[EditablePolicyFile]
) -> tuple[Path, ...]:
    """Name the folders that a file may be a link into; its own where it is none of these."""
    path = Path(written.path)
    return next((each.roots for each in files if each.path == path), (path.parent,))


@dataclass(frozen=True, slots=True)
class PolicyChangeRefused:
    """Nothing was written: why, and what to do."""

    message: str


def try_change(action: Callable[[], Result]) -> Result | PolicyChangeRefused:
    """Do it; what is in its way comes as words."""
    try:
        return action()
    except (NotSafeError, TrustFileError) as error:
        return PolicyChangeRefused(one_line(str(error)))
    except OSError as error:
        where = error.filename or "the file"
        return PolicyChangeRefused(
            one_line(f"{where}: {error.strerror or error}: check who may write there")
        )


AREAS: Final = {
    "": "how far ctxtop goes",
    "usage": "how much is in a context",
    "limit": "how large a window is",
    "threshold": "where levels begin",
    "rearm": "when a level is told again",
    "absolute": "levels in tokens",
    "compact": "how a session is made smaller",
    "summary": "what a summary is",
    "importance": "what is kept",
    "recovery": "after a prompt that is too long",
    "tools": "results of tools",
    "compliance": "what an agent's result must be",
    "injection": "what an agent that starts is given",
    "steering": "what a compaction is told",
    "prompts": "what the model is told",
    "saveflow": "saves of claude-memory",
    "notify": "notices",
    "ui": "the dashboard",
    "keys": "keys of your own",
}
"""The first part of a key's name, and what all of that area is about."""

CHOSEN_SIGN: Final = "●"  # before a value that somebody chose
IGNORED_SIGN: Final = "▲ "
"""Before a value of which the project's file says something else, in vain."""

AREA_KEY_PREFIX: Final = "area "  # begins the row of an area, which is no value
_KEY_CELLS: Final = 26
_ORIGIN_CELLS: Final = 14
_MIN_VALUE_CELLS: Final = 12

_ORIGIN_NAMES: Final = {
    PolicyOrigin.COMMAND_LINE: "command line",
    PolicyOrigin.ENVIRONMENT: "environment",
    PolicyOrigin.PROJECT_FILE: "project's file",
    PolicyOrigin.USER_FILE: "your file",
    PolicyOrigin.PRESET: "preset",
    PolicyOrigin.BUILT_IN: "built in",
}

_FIXED_REASONS: Final = {
    PolicyOrigin.COMMAND_LINE: "the command line says it: start ctxtop without that option",
    PolicyOrigin.ENVIRONMENT: "the environment says it: unset {where}",
}


@dataclass(frozen=True, slots=True)
class PolicyLayout:
    """The cells of a line's parts; 0 for what has no room."""

    key: int
    value: int
    origin: int
    about: int


def lay_out_policy(width: int) -> PolicyLayout:
    """Share a width: what a value is for goes first, then where it was said."""
    rest = width - 2 - _KEY_CELLS - 1
    origin = _ORIGIN_CELLS if rest >= _MIN_VALUE_CELLS + 1 + _ORIGIN_CELLS else 0
    rest -= origin + 1 if origin else 0
    value = rest
    about = 0
    if rest > 2 * _MIN_VALUE_CELLS + 12:
        value = max(_MIN_VALUE_CELLS, rest * 2 // 5)
        about = rest - value - 1
    return PolicyLayout(_KEY_CELLS, max(1, value), origin, about)


def policy_header(layout: PolicyLayout) -> Content:
    """Write the line above the values."""
    parts = [fit_left("  key", layout.key + 2), fit_left("value", layout.value)]
    parts += [fit_left("said by", layout.origin)] if layout.origin else []
    parts += [fit_left("what it is for", layout.about)] if layout.about else []
    return Content.styled(" ".join(parts), "$quiet")


def value_line(
    found: ResolvedValue, layout: PolicyLayout, ignored: IgnoredValue | None = None
) -> Content:
    """Write a value's line: what somebody chose stands out, and has a sign.

    `ignored` is what the project's file says of it in vain.
    """
    chosen = is_chosen(found)
    sign = f"{CHOSEN_SIGN} " if chosen else "  "
    parts = [
        (IGNORED_SIGN if ignored else sign, "$level-warning" if ignored else "$accent"),
        (f"{fit_left(found.key.name, layout.key)} ", "bold" if chosen else "$foreground"),
        (fit_left(value_text(found), layout.value), "$accent" if chosen else "$foreground"),
    ]
    if layout.origin:
        parts.append((f" {fit_left(_ORIGIN_NAMES[found.origin], layout.origin)}", "$quiet"))
    if layout.about:
        about = found.key.description
        if ignored:
            about = f"ignored: {one_line(ignored.value_text)} ({one_line(ignored.why)})"
        parts.append(
            (f" {fit_left(about, layout.about)}", "$level-warning" if ignored else "$quiet")
        )
    return Content.assemble(*parts)


def area_line(area: str, values: Sequence[ResolvedValue], width: int, is_folded: bool) -> Content:  # noqa: FBT001 -- a state
    """Write the line above the values of an area, which says of folded ones how many are set."""
    name = area or "ctxtop"
    about = AREAS.get(area, "")
    if is_folded:
        chosen = sum(map(is_chosen, values))
        counted = f"{len(values)} values" + (f", {chosen} {CHOSEN_SIGN} set" if chosen else "")
        about = f"{about} · {counted}" if about else counted
    return Content.assemble(
        (f"{FOLD_SIGNS[is_folded]} ", "$quiet"),
        (name, "bold $primary"),
        (f"  {shorten_middle(about, max(1, width - len(name) - 4))}", "$quiet"),
    )


def value_text(found: ResolvedValue) -> str:
    """Write a value with its unit."""
    value = found.value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return one_line(format_value(value)) or "none"
    said = f"{value:,}" if isinstance(value, int) else f"{value:g}"
    return f"{said} {found.key.unit}".strip()


def is_chosen(found: ResolvedValue) -> bool:
    """Whether the value was set individually; the values of a preset were not."""
    return found.origin not in {PolicyOrigin.BUILT_IN, PolicyOrigin.PRESET}


def area_of(found: ResolvedValue) -> str:
    """Name the area that a value stands in; one alone stands with what is about all."""
    area, dot, _ = found.key.name.partition(".")
    return area if dot or area in AREAS else ""


def filter_values(policy: Policy, filter_text: str, *, chosen_only: bool) -> list[ResolvedValue]:
    """Choose the values that meet the filter, or of these only those that somebody chose."""
    is_wanted = fields_filter(filter_text)
    return [
        each
        for each in policy.values.values()
        if (not chosen_only or is_chosen(each)) and is_wanted({"": _searchable_text(each)})
    ]


def group_by_area(chosen: Iterable[ResolvedValue]) -> dict[str, list[ResolvedValue]]:
    """Group values by their area, in the order of the areas."""
    found: dict[str, list[ResolvedValue]] = {}
    for each in chosen:
        found.setdefault(area_of(each), []).append(each)
    order = list(AREAS)
    return dict(
        sorted(found.items(), key=lambda item: order.index(item[0]) if item[0] in order else 99)
    )


def _searchable_text(found: ResolvedValue) -> str:
    parts = (found.key.name, value_text(found), _ORIGIN_NAMES[found.origin], found.key.description)
    return " ".join(parts).casefold()


def value_details(found: ResolvedValue) -> Content:
    """Write all that is known of a value."""
    key = found.key
    lines = [
        Content(one_line(key.description)),
        Content(""),
        _labelled("value", value_text(found)),
        _labelled("said by", origin_text(found)),
        _labelled("built in", value_text(replace(found, value=key.default))),
    ]
    return Content("\n").join(lines)


def origin_text(found: ResolvedValue) -> str:
    """Name where a value was said; which file that is stands where it is written."""
    is_file = found.origin in {PolicyOrigin.USER_FILE, PolicyOrigin.PROJECT_FILE}
    where = "" if is_file or not found.where else f": {one_line(found.where)}"
    return f"{_ORIGIN_NAMES[found.origin]}{where}"


def fixed_reason(found: ResolvedValue) -> str:
    """Return why a value cannot be changed in one of ctxtop's files, empty if it can."""
    return _FIXED_REASONS.get(found.origin, "").format(where=one_line(found.where))


def notice_lines(notices: Sequence[PolicyNotice | str], width: int) -> list[Content]:
    """Write what was said and does not hold."""
    return [
        Content.styled(shorten_middle(f"▲ {one_line(str(each))}", width), "$level-warning")
        for each in notices
    ]


def _labelled(label: str, said: str) -> Content:
    return Content.assemble((f"{label:<10}", "$quiet"), said)
