"""Feature `cold`: tell the person once what a prompt writes to an expired prompt cache again.

The prompt goes through as it is, and the model is told nothing. Nearly every prompt finds a warm
cache: that takes one look at the transcript's end, with the standard library alone.
"""

from __future__ import annotations

import os

from ...plugin_files.plugin_log import MAX_TOKENS, decode_object, open_safely
from ..hook_answer import session_of, text_field, transcript_path

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import Any, Final

    from ..hook_answer import HookCall, HookReply


class LastAnswer:
    """What the newest answer of the main conversation left in the cache."""

    __slots__ = ("at_ms", "lifetime_ms", "model", "next_model", "tokens")

    def __init__(self, at_ms: int, model: str, tokens: int) -> None:
        self.at_ms = at_ms
        self.model = model
        self.tokens = tokens
        self.lifetime_ms = HOUR_MS  # in doubt: nothing is said of a cache that may be warm
        self.next_model = ""  # what the client answered to /model since; empty if nothing


FIVE_MINUTES_MS: Final = 300_000  # as in core.model.claude_models, whose import would take too long
HOUR_MS: Final = 3_600_000
_TAIL_BYTES: Final = 256 * 1024
_USAGE_KEY: Final = b'"usage":{'
_BOUNDARY: Final = b'"compact_boundary"'
_MODEL_SET: Final = b"Set model to"
_INSTEAD: Final = (
    "To avoid that, use /compact before a long pause, while the cache is warm, or start a new"
    " session with a hand-off."
)


def answer(call: HookCall) -> HookReply | None:
    """Return a message on what this prompt writes again; None if it is cached, small or known."""
    transcript = transcript_path(call.fields)
    if call.event != "UserPromptSubmit" or transcript is None:
        return None
    last = read_last_answer(transcript)
    if last is None or not last.tokens:
        return None
    if call.now_ms >= last.at_ms + last.lifetime_ms:
        return _tell_once(call, transcript, last, _expired_text(call.now_ms, last))
    if last.next_model and _is_other_model(call, last):
        why = "another model was chosen, and it has no prompt cache of this session"
        return _tell_once(call, transcript, last, why)
    return None


def read_last_answer(transcript: str | Path) -> LastAnswer | None:
    """Read the newest answer since the last compaction; None if the file's end has none."""
    found, next_model = None, ""
    for line in _lines_from_end(transcript):
        if _BOUNDARY in line and decode_line(line).get("subtype") == "compact_boundary":
            break
        if found is None and not next_model and _MODEL_SET in line:
            next_model = _command_output(decode_line(line))
        usage = _answer_usage(decode_line(line)) if _USAGE_KEY in line else None
        if usage is None:
            continue
        fields, counts = usage
        written = _count(counts.get("cache_creation_input_tokens"))
        if found is None:
            at_ms = _time_ms(fields.get("timestamp"))
            if at_ms is None:
                return None
            tokens = written + _count(counts.get("cache_read_input_tokens"))
            found = LastAnswer(at_ms, str(fields["message"].get("model")), tokens)
            found.next_model = next_model
        if written:
            lifetimes = counts.get("cache_creation")
            in_hours = type(lifetimes) is dict and lifetimes.get("ephemeral_1h_input_tokens")
            found.lifetime_ms = HOUR_MS if _count(in_hours) else FIVE_MINUTES_MS
            break
    return found


def _lines_from_end(transcript: str | Path) -> Iterator[bytes]:
    try:
        with open_safely(transcript, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = max(0, size - _TAIL_BYTES)
            tail = os.pread(file.fileno(), _TAIL_BYTES, start)
    except OSError:
        return
    lines = tail.split(b"\n")
    # The first one is cut, unless it is the file's first.
    yield from reversed(lines[1:] if start else lines)


def decode_line(line: bytes) -> Mapping[str, Any]:
    return decode_object(line.decode("utf-8", "replace")) or {}


def _answer_usage(fields: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
    """Return the fields of an answer of the main conversation, and its usage."""
    message = fields.get("message")
    if fields.get("type") != "assistant" or fields.get("isSidechain") or type(message) is not dict:
        return None
    usage = message.get("usage")
    # The client writes names in <> for messages that no model made.
    if type(usage) is not dict or str(message.get("model")).startswith("<"):
        return None
    return fields, usage


def _command_output(fields: Mapping[str, Any]) -> str:
    """Return what a local command wrote; empty for another line."""
    message = fields.get("message")
    text = fields.get("content") if message is None else message.get("content")
    if not isinstance(text, str) or "<local-command-stdout>" not in text:
        return ""
    return text


def _is_other_model(call: HookCall, last: LastAnswer) -> bool:
    call.begin_slow()
    from ....core.model.claude_models import is_same_model
    from ...claude_code.transcripts.client_output import read_model_choice

    model = read_model_choice(last.next_model)
    return model is not None and not is_same_model(model, last.model)


def _tell_once(call: HookCall, transcript: str, last: LastAnswer, why: str) -> HookReply | None:
    from ...plugin_files.state_files import (
        ThresholdAnnouncement,
        record_answer,
        remove_old_announcements,
    )

    session_id = session_of(transcript)
    told = ThresholdAnnouncement(call.store, session_id, f"cold@{last.at_ms}")
    if told.announced_at() is not None:
        return None
    call.begin_slow()
    from ....core.model.cold_prompt import price_rewrite
    from ....core.transcript.authorship import CLIENT_TEXT
    from ..hook_answer import HookReply
    from ..hook_inputs import resolve_hook_policy
    from ..statusline import format_tokens

    if CLIENT_TEXT.match(text_field(call.fields, "prompt")):
        # No person typed it, and there may be no one to read the message.
        return None
    policy = resolve_hook_policy(call.fields)
    if last.tokens < policy.count("cold.min_tokens") or not told.claim():
        return None
    remove_old_announcements(call.store)
    prices = policy.strings_by_name("price")
    cost = price_rewrite(last.tokens, last.model, last.lifetime_ms, prices)
    price = f", ≈${cost.usd:,.2f}" if cost else ""
    text = f"{why}: this prompt writes ≈{format_tokens(last.tokens)} tokens again{price}."
    record_answer(
        call.store, "cold", session_id=session_id, kind="cold", text=text, tokens=last.tokens
    )
    return HookReply(message=f"ctxtop: {text} {_INSTEAD}")


def _expired_text(now_ms: int, last: LastAnswer) -> str:
    minutes = (now_ms - last.at_ms - last.lifetime_ms) // 60_000
    ago = f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"
    return f"the prompt cache expired {ago} ago"


def _time_ms(text: object) -> int | None:
    if TYPE_CHECKING:
        from datetime import datetime
    else:
        try:
            from _datetime import datetime  # the C half; the whole module takes ten times as long
        except ImportError:  # not CPython
            from datetime import datetime
    try:
        return round(datetime.fromisoformat(str(text)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def _count(value: object) -> int:
    return value if type(value) is int and 0 < value <= MAX_TOKENS else 0
