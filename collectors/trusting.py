"""What trusting a project's policy file would change, and the files that are trusted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ..core.policy.policy import Origin
from ..core.policy.projects import ProjectFile, begins_to_count, resolve_project
from ..core.policy.trust import Trust
from .policy_files import PROJECT_FILE, PolicyFiles, parse, read_project_file
from .trust_file import TrustFile, TrustFileError, digest

if TYPE_CHECKING:
    from ..core.policy.policy import Ignored
    from ..core.policy.projects import Begun
    from .policy_sources import PolicySources


class Preview(msgspec.Struct, frozen=True):
    """A project's file as it was read, and what begins to count once it is trusted."""

    folder: str
    """Without links."""
    path: Path
    text: str
    sha256: str
    trust: Trust
    changes: tuple[Begun, ...]
    still_ignored: tuple[Ignored, ...]


class Known(msgspec.Struct, frozen=True):
    """A folder that the person trusted, and how its file stands now."""

    folder: str
    at: int
    """In ms since 1970."""
    state: str
    """trusted, changed, gone, or why it cannot be read."""


def preview(sources: PolicySources, folder: Path) -> Preview:
    """Read a folder's file; raises TrustFileError where there is none that could be trusted."""
    real = Path(os.path.realpath(folder))
    path = real / PROJECT_FILE
    data = _read(path)
    try:
        given = parse(data, path, Origin.PROJECT_FILE)
        text = data.decode()
    except (ValueError, RecursionError) as error:
        raise TrustFileError(f"{path} is not TOML ({error}): mend it first") from error
    found = TrustFile(sources.trust_file)
    found.refresh()
    if found.problem:
        raise TrustFileError(found.problem)
    person = PolicyFiles(sources).user_values
    file = ProjectFile(str(real), given, Trust.TRUSTED)
    sha256 = digest(data)
    return Preview(
        folder=str(real),
        path=path,
        text=text,
        sha256=sha256,
        trust=found.state(str(real), sha256),
        changes=tuple(begins_to_count(person, file)),
        still_ignored=resolve_project(person, file).shown.ignored,
    )


def list_trusted(trust_file: Path | None) -> list[Known]:
    """List what is trusted, by folder; raises TrustFileError where nobody can say."""
    found = TrustFile(trust_file)
    found.refresh()
    if found.problem:
        raise TrustFileError(found.problem)
    return [
        Known(folder, each.at, _state(found, folder))
        for folder, each in sorted(found.projects.items())
    ]


def _state(found: TrustFile, folder: str) -> str:
    path = Path(folder, PROJECT_FILE)
    try:
        return found.state(folder, digest(read_project_file(path))).value
    except (FileNotFoundError, NotADirectoryError):
        return "gone"
    except TrustFileError as error:
        return str(error).removeprefix(f"{path}: ")
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"


def _read(path: Path) -> bytes:
    try:
        return read_project_file(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise TrustFileError(f"no {PROJECT_FILE} in {path.parent}: nothing to trust") from error
    except OSError as error:
        raise TrustFileError(f"{path} cannot be read ({error.strerror or error})") from error
