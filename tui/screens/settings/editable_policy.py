"""A policy with its sources, the files that can set its values, and changing one of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from ....collectors.install.settings_file import NotSafeError
from ....collectors.policy_editing import PolicyChangeHistory, plan_value_change
from ....collectors.policy_files import PROJECT_POLICY_NAME, PolicyFiles
from ....collectors.trust_file import TrustFile, TrustFileError, content_sha256
from ....core.policy.policy import ProjectTrust
from ....core.policy.schema import find_key
from ....core.store.queries.config_queries import project_roots
from ....core.transcript.sanitize import one_line
from ...dashboard_settings import policy_keymap
from ...text.policy_text import name_keys

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    from ....collectors.policy_editing import AppliedPolicyChange, PolicyFileChange
    from ....collectors.policy_sources import PolicySources
    from ....core.policy.policy import Policy, PolicyNotice
    from ....core.policy.resolve import Policies
    from ....core.policy.value_types import PolicyValue


Result = TypeVar("Result")

USER_FILE_NAME: Final = "your file"


@dataclass(frozen=True, slots=True)
class PolicySnapshot:
    """One moment of the policies."""

    folder: str | None
    """Whose policy; None for the one that all share."""
    policy: Policy
    notices: tuple[PolicyNotice, ...]
    projects: tuple[str, ...]
    """Folders that say something of their own."""
    last_change: AppliedPolicyChange | None
    """The newest change that can be taken back."""
    untrusted: tuple[str, ...] = ()
    """On the page of all projects: which files say more than counts, in a line."""


@dataclass(frozen=True, slots=True)
class EditablePolicyFile:
    """A file that says a policy, and into which folders it may be a link."""

    path: Path
    roots: tuple[Path, ...]
    name: str
    """For a person."""


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

    Raises BadValueError, which says what the key takes, or KeyError where there is no such key.
    """
    return find_key(key).value_type.parse(typed.strip())


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
