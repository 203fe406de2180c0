"""Resumes a recovered session with a prompt, within the hourly limit of client runs (T-11)."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from ...core.compaction.recovery.recovery_run import retry_delay_ms
from ...core.store.automation_records import claim_client_run
from ...core.store.database import StoreError
from ...core.store.writer import Writer
from ...core.transcript.conversation import PartKind, Role
from ...core.transcript.entry_decoder import read_entries
from ...core.transcript.sanitize import sanitize_text
from ..client_compact.client_run import ClientRunError, prepare_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...core.compaction.receipts import CompactionReceipt
    from ...core.compaction.recovery.recovery_settings import RecoveryRetry


def claim_run(store: Path, session_id: str) -> None:
    """Note a run before it begins; raises NotRunError where there were too many within an hour.

    A run that cannot be noted is none that may begin.
    """
    try:
        with closing(Writer(store)) as writer:
            why = claim_client_run(writer.connection, session_id, time.time_ns() // 1_000_000)
    except (StoreError, sqlite3.Error) as error:
        raise ClientRunError(f"it cannot be noted that the client is run: {error}") from error
    if why is not None:
        raise ClientRunError(f"{why}: resume it yourself, or wait")


CONTINUE_PROMPT: Final = "Continue"
"""What is said with `continue` (R002-16)."""

TURN_TIMEOUT_S: Final = 600.0
"""A turn may run tools; one that takes longer is ended."""


class ResumeResult(msgspec.Struct, frozen=True):
    """How going on ended."""

    prompt: str
    answered: bool
    """The fork has a new answer, and it is no refusal."""
    output: str
    """The client's own words, or why it could not be run; one line."""
    attempts: int
    command: tuple[str, ...] = ()
    """What was run; empty where nothing was."""
    folder: str | None = None
    """Where that was run."""


class RunLocation(msgspec.Struct, frozen=True):
    """Where the client is run for a session, and where that is noted."""

    project_root: str | None
    """Where the session began."""
    config_dir: Path | None
    """None where it is the client's own default."""
    store: Path


def resume_prompt(mode: str, transcript: Path, reverted_prompt: str | None) -> str | None:
    """Return the prompt to resume with (T-11); None if the policy wants none or none is found.

    `reverted_prompt` is the prompt that a revert removed. Raises OSError.
    """
    if mode == "continue":
        return CONTINUE_PROMPT
    if mode != "last_prompt":
        return None
    return reverted_prompt or _last_prompt(transcript)


def resume_fork(
    prompt: str,
    receipt: CompactionReceipt,
    location: RunLocation,
    retry: RecoveryRetry,
    sleep: Callable[[float], None] = time.sleep,
) -> ResumeResult:
    """Send a prompt to the fork, again after a while where it was not answered (002-98).

    However many attempts the policy allows, no more are made than `claim_run` does.
    """
    found = ResumeResult(prompt, answered=False, output="", attempts=0)
    if receipt.new_session_id is None:
        return replace(found, output="there is no fork")
    try:
        prepared = prepare_run(location.project_root, location.config_dir)
        for attempt in range(retry.max_attempts):
            sleep(retry_delay_ms(attempt, retry) / 1000)
            claim_run(location.store, receipt.session_id)
            size = Path(receipt.target).stat().st_size
            ran = prepared.run(prompt, receipt.new_session_id, TURN_TIMEOUT_S)
            found = ResumeResult(
                prompt,
                answered=_is_answered(Path(receipt.target), size),
                output=ran.output,
                attempts=attempt + 1,
                command=ran.command,
                folder=ran.folder,
            )
            if found.answered:
                break
    except ClientRunError as error:
        return replace(found, output=str(error))
    return found


def _last_prompt(transcript: Path) -> str | None:
    for entry in reversed(read_entries(transcript)):
        words = [each.text for each in entry.parts if each.kind is PartKind.PROMPT]
        if words and entry.type == "user":
            return sanitize_text("\n".join(words)) or None
    return None


def _is_answered(transcript: Path, size: int) -> bool:
    new = (each for each in read_entries(transcript) if each.offset >= size)
    answers = [each for each in new if each.role is Role.ASSISTANT]
    return bool(answers) and not answers[-1].hidden
