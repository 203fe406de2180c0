"""Parses the API's refusals of requests that exceed the context window, in every known wording."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from ...model.conversation import Entry, Role


class LimitErrorType(StrEnum):
    """The kind of a refusal; each has recovery steps of its own (002-44 to 002-47)."""

    TOKEN_LIMIT = "token_limit_exceeded"  # noqa: S105 -- no password
    NON_EMPTY_CONTENT = "non-empty content"  # of a broken history; nothing is too long
    BEDROCK = "bedrock_input_too_long"  # never names sizes
    CONTEXT_LENGTH = "context_length_exceeded"
    STRING = "token_limit_exceeded_string"  # a bare sentence
    UNKNOWN = "token_limit_exceeded_unknown"  # without sizes


class TokenLimitRefusal(msgspec.Struct, frozen=True):
    """A refusal (002-43); None for what it does not say."""

    error_type: LimitErrorType
    current_tokens: int | None = None  # of the request, in some APIs with the requested answer
    max_tokens: int | None = None
    message_index: int | None = None  # of the message that is at fault, counted from 0
    request_id: str | None = None
    provider_id: str | None = None
    model_id: str | None = None
    matched_keyword: str = ""

    @property
    def exceeds_window(self) -> bool:
        """Whether the request was certainly larger than the window.

        A text that only mentions `max_tokens` may be about the answer, and "too long" may be
        the name of a tool.
        """
        if self.error_type is LimitErrorType.NON_EMPTY_CONTENT:
            return False
        is_sure = self.error_type is LimitErrorType.BEDROCK or self.max_tokens is not None
        return is_sure or self.matched_keyword in _SURE_KEYWORDS | _ERROR_TYPES


LIMIT_KEYWORDS: Final = (
    "non-empty content",
    "prompt is too long",
    "context_length_exceeded",
    "context length",
    "too many tokens",
    "is too long",
    "token limit",
    "max_tokens",
)
"""A text without any of these is another error (002-40, R002-10); the surer come first."""

_SURE_KEYWORDS: Final = frozenset(LIMIT_KEYWORDS[1:5])
_ERROR_TYPES: Final = frozenset(each.value for each in LimitErrorType)

THINKING_BLOCK_ERRORS: Final = (
    ("thinking", "first block"),
    ("first block", "thinking"),
    ("must", "start", "thinking"),
    ("thinking", "redacted_thinking"),
    ("expected", "thinking", "found"),
    ("thinking", "disabled", "cannot", "contain"),
)
"""Words that, in this order, indicate a broken history, which no compaction repairs (R002-10)."""

OUTPUT_LIMIT_PHRASE: Final = "number of output tokens"  # it is not about the window
MAX_ERROR_CHARS: Final = 20_000  # searched of a text: the longest refusals quote one message
MAX_ERROR_DEPTH: Final = 6  # errors wrap errors; deeper ones are a loop
_NUMBER: Final = r"(?<![\w.\-])(?:\d{1,3}(?:[,_.' \u00a0\u202f]\d{3}){1,3}(?!\d)|\d{1,12}(?!\d))"
"""With any separator of thousands; digits inside a name (`gpt-4`, `messages.12`) are none."""

_SIZE: Final = re.compile(f"({_NUMBER})")
_COUNT: Final = re.compile(rf"({_NUMBER})\D{{0,80}}?tokens?")  # with no other number between
_TOKENS_OF_MAXIMUM: Final = re.compile(
    rf"({_NUMBER})\s*tokens?\s*>\s*({_NUMBER})\s*(?:tokens?\s*)?maximum"
)
"""The API's own comparison (002-41): it needs no keyword beside it."""

# Sizes that are compared by a sign.
_SIZE_COMPARISONS: Final = (
    _TOKENS_OF_MAXIMUM,
    re.compile(rf"(?P<input>{_NUMBER})\s*\+\s*(?P<output>{_NUMBER})\s*>\s*(?P<limit>{_NUMBER})"),
    re.compile(rf"({_NUMBER})\s*>\s*({_NUMBER})"),
)

# Sizes in a sentence, by the words around them.
_SIZE_SENTENCES: Final = tuple(
    [step if isinstance(step, re.Pattern) else re.compile(re.escape(step)) for step in steps]
    for steps in (
        ("prompt", _COUNT, "exceed", _SIZE),
        (_COUNT, "limit", _SIZE),
        ("context", "length", _SIZE, "maximum", _SIZE),
        ("max", "context", _SIZE, "but", _SIZE),
        ("maximum context length", _SIZE, _COUNT),
    )
)

_MESSAGE_INDEX: Final = re.compile(r"messages(?:\.|\[)(\d{1,9})")
_BEDROCK: Final = "input is too long for requested model"

_TEXT_KEYS: Final = frozenset(
    {"message", "error", "body", "responseBody", "details", "reason", "description", "code"}
)
_TYPE_KEYS: Final = ("type", "code")  # they may name a LimitErrorType
_WRAPPER_KEYS: Final = (*sorted(_TEXT_KEYS), "data", "cause")
_BODY_KEYS: Final = frozenset({"body", "responseBody"})

_ID_KEYS: Final = {
    "request_id": ("request_id", "requestId", "requestID"),
    "provider_id": ("providerID", "providerId", "provider_id"),
    "model_id": ("modelID", "modelId", "model_id"),
}


class _ErrorParts(msgspec.Struct):
    texts: list[str] = []
    ids: dict[str, str] = {}
    named_types: list[LimitErrorType] = []  # by `error.type`, outermost first
    is_bare_text: bool = False  # a sentence that nothing wraps
    is_message_only: bool = False  # the response is nothing but a message, as Bedrock's are


def parse_limit_error(error: object) -> TokenLimitRefusal | None:
    """Parse an error, a sentence or an object; None if it is no such refusal."""
    parts = _ErrorParts(is_bare_text=isinstance(error, str))
    _collect_texts(error, parts, 0)
    text = " ".join(parts.texts).lower()
    keyword = _find_keyword(parts, text)
    if keyword is None or OUTPUT_LIMIT_PHRASE in text or is_thinking_block_error(text):
        return None
    current, limit = _sizes(parts.texts)
    index = _MESSAGE_INDEX.search(text)
    return TokenLimitRefusal(
        error_type=_type_of(parts, text, sized=limit is not None),
        current_tokens=current,
        max_tokens=limit,
        message_index=int(index[1]) if index else None,
        matched_keyword=keyword,
        **parts.ids,
    )


def _find_keyword(parts: _ErrorParts, text: str) -> str | None:
    """Find what marks an error as a refusal: a keyword, its type, or its comparison of sizes."""
    keyword = next((each for each in LIMIT_KEYWORDS if each in text), None)
    if parts.named_types and keyword not in _SURE_KEYWORDS:
        return parts.named_types[0].value
    comparison = None if keyword else _TOKENS_OF_MAXIMUM.search(text)
    return comparison[0] if comparison else keyword


def parse_recoverable_error(error: object) -> TokenLimitRefusal | None:
    """Parse an error that recovery is for: about a request's size, or an empty message."""
    parsed = parse_limit_error(error)
    if parsed is None:
        return None
    is_empty = parsed.error_type is LimitErrorType.NON_EMPTY_CONTENT
    return parsed if is_empty or parsed.exceeds_window else None


class SessionRefusal(msgspec.Struct, frozen=True):
    session_id: str
    key: str  # the uuid of the refusal's line, which no other refusal of the session has
    error_type: LimitErrorType
    current_tokens: int | None = None
    max_tokens: int | None = None
    message_index: int | None = None
    line: int | None = None  # of the transcript, counted from 1


def find_refusal(
    session_id: str, entries: Sequence[Entry], decode_line: Callable[[int], Any]
) -> SessionRefusal | None:
    """Find the recoverable refusal that a session ended in; `decode_line` decodes by number."""
    entry = _final_refusal(entries, decode_line)
    line = decode_line(entry.line) if entry else None
    if entry is None or not isinstance(line, dict):
        return None
    error = {
        "message": "\n".join(part.text for part in entry.parts),
        "error": line.get("error"),
        "details": line.get("errorDetails"),
    }
    parsed = parse_recoverable_error(error)
    if parsed is None:
        return None
    return SessionRefusal(
        session_id=session_id,
        key=entry.uuid or f"line {entry.line}",
        error_type=parsed.error_type,
        current_tokens=parsed.current_tokens,
        max_tokens=parsed.max_tokens,
        message_index=parsed.message_index,
        line=entry.line,
    )


def _final_refusal(entries: Sequence[Entry], decode_line: Callable[[int], Any]) -> Entry | None:
    """Return the refusal that only prompts follow; None if the session continued.

    A compaction is a continuation, but not if its summary is empty (R002-08).
    """
    for place in range(len(entries) - 1, -1, -1):
        entry = entries[place]
        if entry.boundary is not None and not _has_empty_summary(entries[place:], decode_line):
            return None
        if entry.role is Role.ASSISTANT and not entry.sidechain:
            return entry if entry.hidden else None
    return None


def _has_empty_summary(compaction: Sequence[Entry], decode_line: Callable[[int], Any]) -> bool:
    """Whether a boundary's summary is there and says nothing; `compaction` begins with it."""
    messages = (each for each in compaction if each.role is Role.USER)
    first = next(messages, None)
    if first is None or any(part.text.strip() for part in first.parts):
        return False
    line = decode_line(first.line)
    return isinstance(line, dict) and line.get("isCompactSummary") is True


def is_thinking_block_error(text: str) -> bool:
    """Whether an error is about the order of thinking blocks (R002-10)."""
    return any(_contains_in_order(text.lower(), words) for words in THINKING_BLOCK_ERRORS)


def _contains_in_order(text: str, words: Iterable[str]) -> bool:
    end = 0
    for word in words:
        start = text.find(word, end)
        if start < 0:
            return False
        end = start + len(word)
    return True


def _type_of(parts: _ErrorParts, text: str, *, sized: bool) -> LimitErrorType:
    if LIMIT_KEYWORDS[0] in text:
        return LimitErrorType.NON_EMPTY_CONTENT
    if parts.named_types:
        return parts.named_types[0]
    if LimitErrorType.CONTEXT_LENGTH in text:
        return LimitErrorType.CONTEXT_LENGTH
    if not sized and (parts.is_message_only or _BEDROCK in text):
        return LimitErrorType.BEDROCK
    if parts.is_bare_text:
        return LimitErrorType.STRING
    return LimitErrorType.TOKEN_LIMIT if sized else LimitErrorType.UNKNOWN


def _sizes(texts: Iterable[str]) -> tuple[int | None, int | None]:
    """Return the first pair of request size and limit; the larger is the request's."""
    for text in texts:
        sizes = _compared_sizes(text.lower()) or _sizes_in_sentence(text.lower())
        if sizes:
            return max(sizes), min(sizes)
    return None, None


def _compared_sizes(text: str) -> tuple[int, int] | None:
    for pattern in _SIZE_COMPARISONS:
        match = pattern.search(text)
        if match:
            *sent, limit = map(_to_number, match.groups())
            return sum(sent), limit
    return None


def _sizes_in_sentence(text: str) -> tuple[int, int] | None:
    for steps in _SIZE_SENTENCES:
        numbers: list[int] = []
        end = 0
        for step in steps:
            match = step.search(text, end)
            if match is None:
                break
            end = match.end()
            numbers += map(_to_number, match.groups())
        else:
            return numbers[0], numbers[1]
    return None


def _to_number(number: str) -> int:
    return int(re.sub(r"\D", "", number))


def _collect_texts(value: object, parts: _ErrorParts, depth: int) -> None:
    """Collect the texts of an error through everything that wraps it (002-39)."""
    if depth > MAX_ERROR_DEPTH:
        return
    if isinstance(value, str):
        text = value[:MAX_ERROR_CHARS]
        inner = _inner_object(text)
        parts.texts.append(text if inner is None else text.partition("{")[0])
        if inner is not None:
            parts.is_bare_text = False
            _collect_texts(inner, parts, depth + 1)
    elif isinstance(value, dict):
        _collect_object(value, parts, depth)


def _collect_object(value: dict[Any, Any], parts: _ErrorParts, depth: int) -> None:
    for name, spellings in _ID_KEYS.items():
        ids = (value[each] for each in spellings if isinstance(value.get(each), str))
        if name not in parts.ids and (id_ := next(ids, None)):
            parts.ids[name] = id_
    parts.named_types += _named_types(value)
    for name in _WRAPPER_KEYS:
        inner = value.get(name)
        if name in _BODY_KEYS and isinstance(inner, str):
            body = _inner_object(inner[:MAX_ERROR_CHARS])
            parts.is_message_only |= body is not None and "message" in body and "error" not in body
        if isinstance(inner, dict) or (name in _TEXT_KEYS and isinstance(inner, str)):
            _collect_texts(inner, parts, depth + 1)
    if depth == 0 and not parts.texts:
        parts.texts.append(json.dumps(value, default=str)[:MAX_ERROR_CHARS])


def _named_types(value: dict[Any, Any]) -> list[LimitErrorType]:
    names = (value.get(each) for each in _TYPE_KEYS)
    return [
        LimitErrorType(each) for each in names if isinstance(each, str) and each in _ERROR_TYPES
    ]


def _inner_object(text: str) -> dict[str, Any] | None:
    """Find the JSON object in a text: bare, after a few words, or as an event of a stream."""
    start = text.find("{")
    if start < 0:
        return None
    try:
        value = json.JSONDecoder().raw_decode(text, start)[0]
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
