"""The answers of the features that a hook's command names, as Claude Code expects them."""

from __future__ import annotations

import signal
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .call import Call
from .hook import print_out
from .log import ANSWERING, decode, encode, log_path, note_fault

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType

    from .call import Reply

ANSWER_S: Final = 8.0
"""How long all answers to one event may take: the client waits 30 s for a prompt's hooks."""

REPLY_CHARS: Final = 10_000
"""The client takes this much of a hook's text, and gives the model a preview of more."""

PLAIN: Final = frozenset({"PreCompact"})
"""Events whose plain stdout is read; they have no other way to hand something over."""

BLOCKING: Final = frozenset({"SubagentStop"})
"""Events at which something may be held up; nothing else of ctxtop's ever is."""

_CUT: Final = "\n[cut]"

_LEAST_S: Final = 0.001
"""No time at all would switch the alarm off."""


class _TooLongError(Exception):
    """The answers took longer than the client should wait."""


def answer(store: str, event: str, data: bytes, features: Iterable[str]) -> None:
    """Print what the features say of an event. Never raises."""
    try:
        fields = decode(data.decode("utf-8", "replace").strip())
        if fields is None:
            # The log says that it was no JSON.
            return
        call = Call(event, fields, Path(store), time.time_ns() // 1_000_000)
        until = time.monotonic() + ANSWER_S
        replies = [reply for feature in features if (reply := _ask(feature, call, until))]
        if said := words_for(call, replies):
            print_out(said.encode("utf-8", "replace"))
    except Exception as error:  # noqa: BLE001 -- whatever it is, the client must not fail by it
        _note(store, event, "answer", error)


def _ask(feature: str, call: Call, until: float) -> Reply | None:
    """Ask one feature; its fault is its own, the time is that of all."""
    before = signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, max(_LEAST_S, until - time.monotonic()))
    try:
        if not feature.isidentifier():
            raise ValueError(f"no feature: {feature!r}")
        module: Any = import_module(f".answers.{feature}", __package__)
        reply: Reply | None = module.answer(call)
    except Exception as error:  # noqa: BLE001 -- one feature's fault costs no other its answer
        _note(str(call.store), call.event, feature, error)
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return reply


def _give_up(_signal: int, _frame: FrameType | None) -> None:
    raise _TooLongError(f"took longer than {ANSWER_S:.0f} s")


def words_for(call: Call, replies: Iterable[Reply]) -> str:
    """Put replies as the client reads them at an event; empty where there are none.

    An event is held up by JSON, not by exit 2 and stderr: with those the client puts the
    hook's whole command in front of the reason. Seen in 2.1.329.
    """
    replies = list(replies)
    if block := _joined(reply.block_reason for reply in replies):
        if call.event not in BLOCKING:
            raise ValueError(f"nothing may be held up at {call.event}")
        return encode({"decision": "block", "reason": block})
    context = _joined(reply.context for reply in replies)
    if context and call.event not in PLAIN:
        said = {"hookEventName": call.event, "additionalContext": context}
        return encode({"hookSpecificOutput": said})
    # What begins with a brace is taken for JSON.
    return f"- {context}" if context.startswith("{") else context


def _joined(texts: Iterable[str]) -> str:
    """Join what is handed to a model: without what nobody sees, and without secrets."""
    whole = "\n\n".join(text.strip() for text in texts if text.strip())
    if whole:
        # Most events end without a word: nothing is imported for them.
        from ...core.redaction import redact
        from ..clean import clean_text

        whole = redact(clean_text(whole))
    return whole if len(whole) <= REPLY_CHARS else whole[: REPLY_CHARS - len(_CUT)] + _CUT


def _note(store: str, event: str, feature: str, error: Exception) -> None:
    fault = f"{event}: {feature}: {type(error).__name__}: {error}"
    note_fault(log_path(store, ANSWERING), fault)
