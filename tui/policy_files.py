"""What the policy page reads and writes: policies by project, and the files that say them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from ..collectors.install.refused import NotSafeError
from ..collectors.policy_files import PROJECT_FILE, PolicyFiles
from ..collectors.policy_writing import Changes, plan_value
from ..collectors.trust_file import TrustFile, TrustFileError, digest
from ..core.policy.schema import key_of
from ..core.policy.trust import Trust
from ..core.store.surroundings_queries import project_roots
from .formats import one_line
from .settings import keymap_of
from .trust_words import names

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    from ..collectors.policy_sources import PolicySources
    from ..collectors.policy_writing import Change, Written
    from ..core.policy.kinds import Value
    from ..core.policy.layers import Policies
    from ..core.policy.policy import Policy, PolicyNotice

Answer = TypeVar("Answer")

OWN_WORD: Final = "your file"


@dataclass(frozen=True, slots=True)
class PolicyPicture:
    """One moment of the policies."""

    folder: str | None
    """Whose policy; None for the one that all share."""
    policy: Policy
    notices: tuple[PolicyNotice, ...]
    projects: tuple[str, ...]
    """Folders that say something of their own."""
    last_change: Written | None
    """The newest change that can be taken back."""
    untrusted: tuple[str, ...] = ()
    """On the page of all projects: which files say more than counts, in a line."""


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A file that says a policy, and into which folders it may be a link."""

    path: Path
    roots: tuple[Path, ...]
    name: str
    """For a person."""


def read_picture(
    db: sqlite3.Connection, sources: PolicySources, store: Path, folder: str | None
) -> PolicyPicture:
    """Read all files anew, and give the policy of a folder."""
    files = PolicyFiles(sources)
    folders = project_roots(db)
    files.refresh([*folders, folder] if folder and folder not in folders else folders)
    policy = files.policies.for_project(folder)
    keymap = keymap_of(policy)
    return PolicyPicture(
        folder=folder,
        policy=policy,
        notices=(*files.notices, *(keymap.notices if keymap else ())),
        projects=tuple(sorted(files.policies.projects)),
        last_change=Changes(store).last(),
        untrusted=() if folder else untrusted_line(files.policies),
    )


def untrusted_line(policies: Policies) -> tuple[str, ...]:
    """Name the projects of whose files something is ignored; nothing where there is none."""
    found = sorted(name for name, each in policies.projects.items() if each.ignored)
    if not found:
        return ()
    one = "project's file says" if len(found) == 1 else "projects' files say"
    said = f"{len(found)} {one} more than an untrusted one may: {names(found)}"
    return (f"{said}; `ctxtop trust DIR` shows one, and asks",)


def files_of(sources: PolicySources, folder: str | None) -> list[PolicyFile]:
    """List the files in which a value of a folder's policy can be said, the user's first."""
    found = []
    if sources.user_file is not None:
        roots = (sources.user_file.parent, Path.home())
        found.append(PolicyFile(sources.user_file, roots, OWN_WORD))
    if folder and Path(folder).is_dir():
        # No link: what reads it follows none.
        path = Path(folder, PROJECT_FILE)
        found.append(PolicyFile(path, (Path(folder),), f"{PROJECT_FILE} of this project"))
    return found


def check_value(key: str, typed: str) -> Value:
    """Read what a person typed.

    Raises BadValueError, which says what the key takes, or KeyError where there is no such key.
    """
    return key_of(key).value_type.parse(typed.strip())


def plan(file: PolicyFile, key: str, value: Value | None) -> Change:
    """Work out a change; raises NotSafeError or OSError where it cannot be made."""
    return plan_value(file.path, file.roots, key, value)


def make_change(sources: PolicySources, change: Change, write: Callable[[Change], None]) -> None:
    """Write a change; a project's file that the person trusted, or that is new, is trusted then.

    The person saw the difference, and all else is as it was trusted. Raises as `write` does,
    and TrustFileError.
    """
    path, before = change.file.path, change.file.data
    folder, trusted = str(path.parent), TrustFile(sources.trust_file)
    trusted.refresh()
    is_own = before is None or trusted.state(folder, digest(before)) is Trust.TRUSTED
    write(change)
    if is_own and path.name == PROJECT_FILE:
        trusted.trust(folder, digest(change.after))


def roots_of(written: Written, files: Sequence[PolicyFile]) -> tuple[Path, ...]:
    """Name the folders that a file may be a link into; its own where it is none of these."""
    path = Path(written.path)
    return next((each.roots for each in files if each.path == path), (path.parent,))


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was written: why, and what to do."""

    message: str


def attempted(action: Callable[[], Answer]) -> Answer | Refused:
    """Do it; what is in its way comes as words."""
    try:
        return action()
    except (NotSafeError, TrustFileError) as error:
        return Refused(one_line(str(error)))
    except OSError as error:
        where = error.filename or "the file"
        return Refused(one_line(f"{where}: {error.strerror or error}: check who may write there"))
