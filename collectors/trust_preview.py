"""What trusting a project's policy file would change, and which files are trusted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ..core.policy.policy import PolicyOrigin, ProjectTrust
from ..core.policy.resolve import ProjectFile, changes_if_trusted, resolve_project_policy
from .policy_files import PROJECT_POLICY_NAME, PolicyFiles, parse_policy, read_project_policy
from .trust_file import TrustFile, TrustFileError, content_sha256

if TYPE_CHECKING:
    from ..core.policy.policy import IgnoredValue
    from ..core.policy.resolve import TrustChange
    from .policy_sources import PolicySources


class TrustPreview(msgspec.Struct, frozen=True):
    """A project's file as it was read, and what begins to count once it is trusted."""

    folder: str
    """Without links."""
    path: Path
    text: str
    sha256: str
    trust: ProjectTrust
    changes: tuple[TrustChange, ...]
    still_ignored: tuple[IgnoredValue, ...]


class TrustedFolder(msgspec.Struct, frozen=True):
    """A folder that the person trusted, and how its file stands now."""

    folder: str
    at: int
    """In ms since 1970."""
    state: str
    """trusted, changed, gone, or why it cannot be read."""


def preview_trust(sources: PolicySources, folder: Path) -> TrustPreview:
    """Read a folder's file; raises TrustFileError where there is none that could be trusted."""
    real = Path(os.path.realpath(folder))
    path = real / PROJECT_POLICY_NAME
    data = _read_existing(path)
    try:
        given = parse_policy(data, path, PolicyOrigin.PROJECT_FILE)
        text = data.decode()
    except (ValueError, RecursionError) as error:
        raise TrustFileError(f"{path} is not TOML ({error}): mend it first") from error
    found = TrustFile(sources.trust_file)
    found.refresh()
    if found.problem:
        raise TrustFileError(found.problem)
    person = PolicyFiles(sources).user_values
    file = ProjectFile(str(real), given, ProjectTrust.TRUSTED)
    sha256 = content_sha256(data)
    return TrustPreview(
        folder=str(real),
        path=path,
        text=text,
        sha256=sha256,
        trust=found.state(str(real), sha256),
        changes=tuple(changes_if_trusted(person, file)),
        still_ignored=resolve_project_policy(person, file).shown.ignored,
    )


def list_trusted(trust_file: Path | None) -> list[TrustedFolder]:
    """List what is trusted, by folder; raises TrustFileError where nobody can say."""
    found = TrustFile(trust_file)
    found.refresh()
    if found.problem:
        raise TrustFileError(found.problem)
    return [
        TrustedFolder(folder, each.at, _trust_state(found, folder))
        for folder, each in sorted(found.projects.items())
    ]


def _trust_state(found: TrustFile, folder: str) -> str:
    path = Path(folder, PROJECT_POLICY_NAME)
    try:
        return found.state(folder, content_sha256(read_project_policy(path))).value
    except (FileNotFoundError, NotADirectoryError):
        return "gone"
    except TrustFileError as error:
        return str(error).removeprefix(f"{path}: ")
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"


def _read_existing(path: Path) -> bytes:
    try:
        return read_project_policy(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise TrustFileError(
            f"no {PROJECT_POLICY_NAME} in {path.parent}: nothing to trust"
        ) from error
    except OSError as error:
        raise TrustFileError(f"{path} cannot be read ({error.strerror or error})") from error
