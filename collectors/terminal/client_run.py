"""Run the client without a screen, for one prompt in a session that nobody has open.

It is started only in the folder in which the session began, and only if the client itself
trusts that folder: without a screen it asks nobody, and runs what the project's settings name.

In 2.1.329 (seen), trust is `projects[FOLDER].hasTrustDialogAccepted` in .claude.json. FOLDER is
the repository's root, for a worktree the root of the repository that it belongs to, and without
git the folder itself. What is below a trusted folder is trusted too, up to the root of its own
repository: a repository that was cloned into a trusted one is not.
"""

import os
import subprocess
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from ...core.files.safe_open import open_regular
from ...core.host import client_environment, find_program
from ...core.transcript.sanitize import sanitize_path, sanitize_title
from ..locations.places import claude_config_dir as default_folder
from ..plugin_files.compact_requests import is_session_id

MAX_STATE_BYTES: Final = 64 * 1024 * 1024  # the client keeps megabytes of caches in its state
_MAX_LINK_BYTES: Final = 4096  # of a file that names one path: `.git` of a worktree


class _ProjectState(msgspec.Struct, rename="camel"):
    has_trust_dialog_accepted: bool = False


class _ClientState(msgspec.Struct):
    projects: dict[str, _ProjectState] = {}


_decode: Final = msgspec.json.Decoder(_ClientState).decode


def state_file(config_dir: Path | None, environ: Mapping[str, str], home: Path) -> Path:
    """Return the client's state file; `config_dir` is None for the client's default."""
    chosen = environ.get("CLAUDE_CONFIG_DIR")
    folder = config_dir or (Path(chosen).expanduser() if chosen else None)
    # Where it exists, the client reads this older file instead.
    older = (folder or home / ".claude") / ".config.json"
    if older.is_file() and older.stat().st_size:
        return older
    return (folder or home) / ".claude.json"


def is_folder_trusted(folder: Path, state: Path) -> bool:
    """Whether the client would start in a folder without asking; False if in doubt.

    `folder` has no links in it.
    """
    try:
        # The user's own file may be a link into a folder of dotfiles.
        with open_regular(Path(os.path.realpath(state))) as file:
            projects = _decode(file.read(MAX_STATE_BYTES)).projects
    except (OSError, ValueError, RecursionError):
        return False
    names = (unicodedata.normalize("NFC", str(path)) for path in _trust_candidates(folder))
    return any(name in projects and projects[name].has_trust_dialog_accepted for name in names)


def find_repository(folder: Path) -> Path | None:
    """Return the root of a folder's repository, for a worktree of the main one; None without.

    `folder` has no links in it.
    """
    for path in (folder, *folder.parents):
        if os.path.lexists(path / ".git"):
            return _main_repository(path) or path
    return None


def _trust_candidates(folder: Path) -> Iterator[Path]:
    """List the folders whose record counts for this one."""
    for path in (folder, *folder.parents):
        yield path
        if os.path.lexists(path / ".git"):
            if main := _main_repository(path):
                yield main
            return


def _main_repository(worktree: Path) -> Path | None:
    """Return the repository that a worktree belongs to, if that repository confirms it."""
    named = _read_path(worktree / ".git", "gitdir:")
    if named is None or named.parent.name != "worktrees":
        return None
    # Anybody can write a `.git` file that names a trusted repository.
    if _read_path(named / "gitdir", "") != worktree / ".git":
        return None
    git = named.parent.parent
    return git.parent if git.name == ".git" else None


def _read_path(file: Path, start: str) -> Path | None:
    try:
        with open_regular(file) as opened:
            text = opened.read(_MAX_LINK_BYTES).decode().strip()
    except (OSError, ValueError):
        return None
    if not text.startswith(start):
        return None
    return Path(os.path.realpath(file.parent / text.removeprefix(start).strip()))


CLIENT_PROGRAM: Final = "claude"
MAX_OUTPUT_CHARS: Final = 200  # of the client's output: one line
USER_SETTINGS_ONLY: Final = ("--setting-sources", "user")  # no hook of the project's settings runs


class ClientRunError(Exception):
    """The client could not be run to its end."""


class FolderNotTrustedError(ClientRunError):
    """The client must not be run there."""


class FinishedRun(msgspec.Struct, frozen=True):
    command: tuple[str, ...]
    folder: str
    output: str  # the client's own words, one line


class ClientRun(msgspec.Struct, frozen=True):
    program: str
    folder: Path
    environment: Mapping[str, str]

    def command(
        self, prompt: str, session_id: str, settings: tuple[str, ...] = USER_SETTINGS_ONLY
    ) -> tuple[str, ...]:
        # Behind the dashes: a prompt out of a transcript may begin like an option.
        return (self.program, "-p", "--resume", session_id, *settings, "--", prompt)

    def run(self, prompt: str, session_id: str, timeout_s: float) -> FinishedRun:
        """Resume a session for one prompt; raises ClientRunError.

        Only the transcript tells whether it worked: the caller interprets the output.
        """
        if not is_session_id(session_id):
            raise ClientRunError(
                f"{sanitize_title(session_id)} is not an id that Claude Code can resume"
            )
        command = self.command(prompt, session_id)
        ended = self._run(command, timeout_s)
        is_unknown = (
            b"unknown option" in ended.stderr and USER_SETTINGS_ONLY[0].encode() in ended.stderr
        )
        if ended.returncode and is_unknown:
            # An older client, in a folder that it trusts: it has done nothing yet.
            command = self.command(prompt, session_id, ())
            ended = self._run(command, timeout_s)
        output = sanitize_title((ended.stderr or ended.stdout).decode("utf-8", "replace"))
        output = output[:MAX_OUTPUT_CHARS] or f"it printed nothing, exit code {ended.returncode}"
        return FinishedRun(command, sanitize_path(str(self.folder)), output)

    def _run(
        self, command: tuple[str, ...], timeout_s: float
    ) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(  # noqa: S603 -- no shell; the prompt is one argument
                command,
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            why = f"Claude Code took more than {timeout_s:.0f} s and was stopped"
            raise ClientRunError(why) from error
        except OSError as error:
            raise ClientRunError(f"{command[0]} cannot be run: {error.strerror}") from error


def prepare_run(project_root: str | None, config_dir: Path | None) -> ClientRun:
    """Check that the client may be run for a session that began in `project_root`.

    `config_dir` is None for the client's own default. Raises ClientRunError,
    FolderNotTrustedError.
    """
    program = find_program(CLIENT_PROGRAM)
    if program is None:
        raise ClientRunError(f"`{CLIENT_PROGRAM}` is not on the PATH")
    if project_root is None or not Path(project_root).is_absolute():
        raise FolderNotTrustedError(
            "the folder that it started in is unknown: resume it yourself with `claude --resume`"
        )
    folder = Path(os.path.realpath(project_root))
    if not folder.is_dir():
        why = (
            f"its folder {project_root} no longer exists, and Claude Code can resume it only there"
        )
        raise ClientRunError(why)
    if not is_folder_trusted(folder, state_file(config_dir, os.environ, Path.home())):
        raise FolderNotTrustedError(
            f"Claude Code does not trust {sanitize_path(str(folder))}, so ctxtop starts nothing"
            " there: run `claude` there once and accept its trust dialog"
        )
    environment = client_environment(os.environ)
    if config_dir is not None:
        environment["CLAUDE_CONFIG_DIR"] = str(config_dir)
    return ClientRun(program, folder, environment)


def explicit_config_dir(root: Path) -> Path | None:
    """Return a client folder as `prepare_run` takes it: None for the default.

    A client whose default is set explicitly keeps its settings elsewhere.
    """
    default = default_folder(os.environ, Path.home()).expanduser()
    return None if default.resolve() == root.resolve() else root
