"""A hook's call and its answer: runs the features that the command names, prints their replies."""

from __future__ import annotations

import os
import time

from ..plugin_files import plugin_log

TYPE_CHECKING = False

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from types import FrameType
    from typing import Any, Final

    from ...core.transcript.line_decoder import TranscriptLine
else:
    try:
        # The C half of signal: importing the rest, with enum, takes half as long as Python's start.
        import _signal as signal
    except ImportError:  # not CPython
        import signal


# Not dataclasses: importing those takes as long as starting Python, and so does pathlib.
class HookCall:
    """What the client told a hook; `fields` as they came, so no type can be relied on."""

    __slots__ = ("event", "fields", "now_ms", "store")

    def __init__(
        self, event: str, fields: Mapping[str, Any], store: str | Path, now_ms: int
    ) -> None:
        self.event = event
        self.fields = fields
        self.store = str(store)  # may be missing, out of date or locked: read it, never write it
        self.now_ms = now_ms

    def begin_slow(self) -> None:
        """Call this before the slow imports, and before what must not be done twice."""


class _FirstLook(HookCall):
    """A call in a process that has loaded next to nothing."""

    __slots__ = ()

    def begin_slow(self) -> None:
        raise _SlowAnswerError


class _SlowAnswerError(BaseException):
    """An answer takes more than a first look; nothing below may contain that."""


class HookReply:
    """What a feature answers."""

    __slots__ = ("block_reason", "context", "message")

    def __init__(self, context: str = "", block_reason: str = "", message: str = "") -> None:
        self.context = context  # additional context for the model; for a compaction plain text
        self.block_reason = block_reason  # why the agent may not stop yet
        self.message = message  # for the person alone: the model does not see it

    @property
    def texts(self) -> list[str]:
        """As they are passed to make it."""
        return [self.context, self.block_reason, self.message]

    def __eq__(self, other: object) -> bool:
        return type(other) is HookReply and self.texts == other.texts

    __hash__ = None  # type: ignore[assignment]


def text_field(fields: Mapping[str, Any], name: str) -> str:
    """Return a text field; empty if the field is missing or not text."""
    value = fields.get(name)
    return value if isinstance(value, str) else ""


TRANSCRIPT_SUFFIX: Final = ".jsonl"


def transcript_path(fields: Mapping[str, Any]) -> str | None:
    """Return the session's transcript; None if the client named no usable path."""
    path = text_field(fields, "transcript_path")
    return path if path.endswith(TRANSCRIPT_SUFFIX) and "\0" not in path else None


def session_of(transcript: str) -> str:
    """Return the id of a transcript's session."""
    return os.path.basename(transcript).removesuffix(TRANSCRIPT_SUFFIX).lower()


PROJECT_VARIABLE = "CLAUDE_PROJECT_DIR"
"""Set for every hook: where the client was started; it does not follow worktrees (2.1.329)."""


def find_hook_project(fields: Mapping[str, Any]) -> str | None:
    """Return the project's folder that the client names, else the one of the transcript."""
    named = os.environ.get(PROJECT_VARIABLE, "")
    if os.path.isabs(named):
        return named
    transcript = transcript_path(fields)
    return None if transcript is None else _first_folder(transcript)


def _first_folder(path: str) -> str | None:
    from pathlib import Path

    from ...core.files.project_folder import find_launch_folder
    from ...core.transcript.lenient_json import NotJsonError
    from ...core.transcript.line_decoder import decode_readable_fields
    from ..claude_code.transcripts.transcript_ends import (
        read_head_lines,  # with msgspec, where the client is an old one
        starts_session,
    )

    def decoded(data: bytes) -> TranscriptLine | None:
        try:
            return decode_readable_fields(data)[0]
        except NotJsonError:
            return None

    transcript = Path(path)
    try:
        lines = read_head_lines(transcript)
    except OSError:
        return None
    chain = (line for data in lines if (line := decoded(data)) and line.cwd)
    first = next((line for line in chain if not line.is_sidechain), None)
    if first is None or first.cwd is None:
        return None
    if starts_session(first):
        return first.cwd
    return find_launch_folder(first.cwd, transcript.parent.name)


ANSWER_TIMEOUT_S: Final = 8.0  # for all answers: the client waits 30 s for a prompt's hooks
MAX_REPLY_CHARS: Final = 10_000  # the client shows the model only a preview of a longer text
PLAIN_TEXT_EVENTS: Final = frozenset({"PreCompact"})  # whose plain stdout is all that is read
OWN_SESSION_EVENTS: Final = frozenset({"PreCompact", "PostToolUse", "UserPromptSubmit"})
"""Events whose answers go back to the session that the texts are of."""

BLOCKING_EVENTS: Final = frozenset({"SubagentStop"})  # nothing else is ever blocked by ctxtop
_CUT_MARK: Final = "\n[cut]"
_SEPARATOR: Final = "\n\n"  # between the answers of two features
_MIN_TIMER_S: Final = 0.001  # 0 would switch the alarm off


class _AnswerTimeoutError(BaseException):
    """The answers took longer than the client should wait; nothing below may contain that."""


def answer_event(store: str, event: str, data: bytes, features: Sequence[str]) -> bool:
    """Print the features' answers to an event, and return whether it was slow. Never raises."""
    is_slow = False
    try:
        call = _read_call(store, event, data)
        if call is None:
            # The log has recorded that it was no JSON.
            return False
        until = time.monotonic() + ANSWER_TIMEOUT_S
        replies, said = _look_first(call, features, until), None
        if set(features) - replies.keys():
            from . import standby

            said = standby.ask(store, _name_answer(call, features, replies), data, until)
            is_slow = said is None
        if said is None:
            said = _say(call, features, replies, until)
        if said:
            plugin_log.write_stdout(said)
    except Exception as error:  # noqa: BLE001 -- whatever it is, the client must not fail by it
        _note_fault(store, event, "answer", error)
    return is_slow


def stand_by(store: str) -> None:
    """Leave this process, with all that it has loaded, to give the next answers."""
    from . import standby

    try:
        standby.stand_by(store, _answer_question)
    except OSError as error:
        _note_fault(store, "", "standby", error)


def _name_answer(
    call: HookCall, features: Sequence[str], replies: Mapping[str, HookReply | None]
) -> list[str]:
    """Describe what a process that stands by is to say, with what was replied already."""
    said = {name: reply and reply.texts for name, reply in replies.items()}
    return [call.store, call.event, plugin_log.encode_json(said), *features]


def _answer_question(words: Sequence[str], data: bytes) -> bytes:
    """Return what `_name_answer` describes, in the process that stands by."""
    store, event, said, *features = words
    call = _read_call(store, event, data)
    if call is None:
        return b""
    texts = (plugin_log.decode_object(said) or {}).items()
    replies = {name: each and HookReply(*each) for name, each in texts}
    return _say(call, features, replies, time.monotonic() + ANSWER_TIMEOUT_S)


def _read_call(store: str, event: str, data: bytes) -> HookCall | None:
    """Read what the client told; None if that is no object."""
    fields = plugin_log.decode_object(data.decode("utf-8", "replace").strip())
    return None if fields is None else HookCall(event, fields, store, time.time_ns() // 1_000_000)


def _look_first(
    call: HookCall, features: Iterable[str], until: float
) -> dict[str, HookReply | None]:
    """Return the replies of those features that have them without loading anything slow."""
    look = _FirstLook(call.event, call.fields, call.store, call.now_ms)
    replies: dict[str, HookReply | None] = {}
    for feature in features:
        try:
            replies[feature] = _run_feature(feature, look, until)
        except _SlowAnswerError:
            continue
    return replies


def _say(
    call: HookCall,
    features: Iterable[str],
    replies: Mapping[str, HookReply | None],
    until: float,
) -> bytes:
    """Render the replies in the features' order; those that are missing are worked out."""
    found = (
        replies[feature] if feature in replies else _run_feature(feature, call, until)
        for feature in features
    )
    return render_replies(call, [reply for reply in found if reply]).encode("utf-8", "replace")


def _run_feature(feature: str, call: HookCall, until: float) -> HookReply | None:
    """Run one feature; a fault costs only its own answer, the time limit is for all."""
    before = signal.signal(signal.SIGALRM, _raise_timeout)
    signal.setitimer(signal.ITIMER_REAL, max(_MIN_TIMER_S, until - time.monotonic()))
    try:
        if not feature.isidentifier():
            raise ValueError(f"unknown feature: {feature!r}")
        # As importlib.import_module does, which takes 2 ms more.
        answers: Any = __import__(f"{__package__}.answers.{feature}", fromlist=["answer"])
        reply: HookReply | None = answers.answer(call)
    # One feature's fault costs no other its answer.
    except (Exception, _AnswerTimeoutError) as error:  # noqa: BLE001
        _note_fault(call.store, call.event, feature, error)
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return reply


def _raise_timeout(_signal: int, _frame: FrameType | None) -> None:
    raise _AnswerTimeoutError(f"took longer than {ANSWER_TIMEOUT_S:.0f} s")


def render_replies(call: HookCall, replies: Iterable[HookReply]) -> str:
    """Render replies as the client reads them at an event; empty if there are none.

    An event is blocked by JSON, not by exit 2 and stderr: with those the client puts the
    hook's whole command in front of the reason. Seen in 2.1.329.
    """
    replies = list(replies)
    if block := _join_texts((reply.block_reason for reply in replies), call.event):
        if call.event not in BLOCKING_EVENTS:
            raise ValueError(f"{call.event} cannot be blocked")
        return plugin_log.encode_json({"decision": "block", "reason": block})
    context = _join_texts((reply.context for reply in replies), call.event)
    if call.event not in PLAIN_TEXT_EVENTS:
        message = _join_texts((reply.message for reply in replies), call.event)
        return _render_json(call.event, context, message)
    # What begins with a brace is taken for JSON.
    return f"- {context}" if context.startswith("{") else context


def _render_json(event: str, context: str, message: str) -> str:
    fields: dict[str, object] = {"systemMessage": message} if message else {}
    if context:
        output = {"hookEventName": event, "additionalContext": context}
        fields["hookSpecificOutput"] = output
    return plugin_log.encode_json(fields) if fields else ""


def _join_texts(texts: Iterable[str], event: str) -> str:
    """Join what is handed to a model, without invisible characters.

    What goes to another model or into another file has no secrets either. At OWN_SESSION_EVENTS
    a session is given its own words, which must stay as they were written.
    """
    stripped = [text.strip() for text in texts if text.strip()]
    if not stripped:
        # Most events have no answer: nothing is imported for them.
        return ""
    from ...core.transcript.sanitize import sanitize_text

    clean = [sanitize_text(text) for text in stripped]
    if event not in OWN_SESSION_EVENTS:
        from ...core.transcript.redaction import redact

        clean = [redact(text) for text in clean]
    return _SEPARATOR.join(_fit_texts(clean))


def _fit_texts(texts: list[str]) -> list[str]:
    """Cut only texts that are longer than their share: a short one stays whole beside them."""
    left = MAX_REPLY_CHARS - len(_SEPARATOR) * (len(texts) - 1)
    fitted = list(texts)
    by_length = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    for count, place in zip(range(len(texts), 0, -1), by_length, strict=True):
        share = left // count
        if len(texts[place]) > share:
            fitted[place] = texts[place][: share - len(_CUT_MARK)] + _CUT_MARK
        left -= len(fitted[place])
    return fitted


def _note_fault(store: str, event: str, feature: str, error: BaseException) -> None:
    fault = f"{event}: {feature}: {type(error).__name__}: {error}"
    plugin_log.note_fault(plugin_log.log_path(store, plugin_log.ANSWER_FAULTS), fault)
