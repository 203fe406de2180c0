"""Going on with a session that was mended, where a policy wants that (`recovery.resume`, T-11)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from ..core.compaction.recovery.run import delay_ms
from ..core.conversation import PieceKind, Role
from .asking.client_run import NotRunError, prepare_run
from .asking.run_limit import claim_run
from .clean import clean_text
from .transcripts.conversation import read_conversation

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..core.compaction.receipts import Receipt
    from ..core.compaction.recovery.settings import RetrySettings

CONTINUE: Final = "Continue"
"""What is said with `continue` (R002-16)."""

TURN_S: Final = 600.0
"""A turn may run tools; one that takes longer is ended."""


class Resumed(msgspec.Struct, frozen=True):
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


class Place(msgspec.Struct, frozen=True):
    """Where the client is run for a session, and where that is noted."""

    project_root: str | None
    """Where the session began."""
    config_dir: Path | None
    """None where it is the client's own default."""
    store: Path


def prompt_to_send(mode: str, transcript: Path, reverted_prompt: str | None) -> str | None:
    """Say what to ask (T-11); None where the policy wants nothing, or there is nothing.

    `reverted` are the words that a revert took out. Raises OSError.
    """
    if mode == "continue":
        return CONTINUE
    if mode != "last_prompt":
        return None
    return reverted_prompt or _last_prompt(transcript)


def go_on(
    prompt: str,
    receipt: Receipt,
    location: Place,
    retry: RetrySettings,
    sleep: Callable[[float], None] = time.sleep,
) -> Resumed:
    """Send a prompt to the fork, again after a while where it was not answered (002-98).

    However many attempts the policy allows, no more are made than `claim_run` does.
    """
    found = Resumed(prompt, answered=False, output="", attempts=0)
    if receipt.new_session_id is None:
        return replace(found, output="there is no fork")
    try:
        prepared = prepare_run(location.project_root, location.config_dir)
        for attempt in range(retry.max_attempts):
            sleep(delay_ms(attempt, retry) / 1000)
            claim_run(location.store, receipt.session_id)
            size = Path(receipt.target).stat().st_size
            ran = prepared.run(prompt, receipt.new_session_id, TURN_S)
            found = Resumed(
                prompt,
                answered=_is_answered(Path(receipt.target), size),
                output=ran.output,
                attempts=attempt + 1,
                command=ran.command,
                folder=ran.folder,
            )
            if found.answered:
                break
    except NotRunError as error:
        return replace(found, output=str(error))
    return found


def _last_prompt(transcript: Path) -> str | None:
    for entry in reversed(read_conversation(transcript)):
        words = [each.text for each in entry.parts if each.kind is PieceKind.PROMPT]
        if words and entry.type == "user":
            return clean_text("\n".join(words)) or None
    return None


def _is_answered(transcript: Path, size: int) -> bool:
    new = (each for each in read_conversation(transcript) if each.offset >= size)
    answers = [each for each in new if each.role is Role.ASSISTANT]
    return bool(answers) and not answers[-1].hidden
