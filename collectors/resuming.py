"""Going on with a session that was mended, where a policy wants that (`recovery.resume`, T-11)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ..core.compaction.recovery.run import delay_ms
from ..core.conversation import PieceKind, Role
from .asking.client_run import NotRunError, run_client
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
    said: str
    """The client's own words, or why it could not be run; one line."""
    attempts: int


def prompt_to_send(resume: str, transcript: Path, reverted: str | None) -> str | None:
    """Say what to ask (T-11); None where the policy wants nothing, or there is nothing.

    `reverted` are the words that a revert took out. Raises OSError.
    """
    if resume == "continue":
        return CONTINUE
    if resume != "last_prompt":
        return None
    return reverted or _last_prompt(transcript)


def go_on(
    prompt: str,
    receipt: Receipt,
    cwd: str | None,
    config_dir: Path | None,
    retry: RetrySettings,
    sleep: Callable[[float], None] = time.sleep,
) -> Resumed:
    """Send a prompt to the fork, again after a while where it was not answered (002-98)."""
    if receipt.new_session_id is None or cwd is None or not Path(cwd).is_dir():
        return Resumed(prompt, answered=False, said="its folder is gone", attempts=0)
    said = ""
    for attempt in range(retry.max_attempts):
        sleep(delay_ms(attempt, retry) / 1000)
        size = Path(receipt.target).stat().st_size
        try:
            said = run_client(prompt, receipt.new_session_id, Path(cwd), config_dir, TURN_S)
        except NotRunError as error:
            return Resumed(prompt, answered=False, said=str(error), attempts=attempt)
        if _is_answered(Path(receipt.target), size):
            return Resumed(prompt, answered=True, said=said, attempts=attempt + 1)
    return Resumed(prompt, answered=False, said=said, attempts=retry.max_attempts)


def _last_prompt(transcript: Path) -> str | None:
    for entry in reversed(read_conversation(transcript)):
        words = [each.text for each in entry.pieces if each.kind is PieceKind.PROMPT]
        if words and entry.type == "user":
            return clean_text("\n".join(words)) or None
    return None


def _is_answered(transcript: Path, size: int) -> bool:
    new = (each for each in read_conversation(transcript) if each.offset >= size)
    answers = [each for each in new if each.role is Role.ASSISTANT]
    return bool(answers) and not answers[-1].hidden
