"""Parses what the API says when a request exceeds the context window, in every known wording."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

import msgspec


class LimitErrorType(StrEnum):
    """What kind of refusal it is; each has recovery steps of its own (002-44 to 002-47)."""

    TOKEN_LIMIT = "token_limit_exceeded"  # noqa: S105 -- no password
    NON_EMPTY_CONTENT = "non-empty content"
    """A message without content, which a broken history has; nothing is too long."""
    BEDROCK = "bedrock_input_too_long"  # never names sizes
    CONTEXT_LENGTH = "context_length_exceeded"
    STRING = "token_limit_exceeded_string"  # told as a bare sentence
    UNKNOWN = "token_limit_exceeded_unknown"  # told without sizes


class TokenLimitRefusal(msgspec.Struct, frozen=True):
    """A refusal (002-43); None where it does not say."""

    error_type: LimitErrorType
    current_tokens: int | None = None
    """Of the request, with the answer that it asked for where the API adds that."""
    max_tokens: int | None = None
    message_index: int | None = None  # of the message that is at fault, counted from 0
    request_id: str | None = None
    provider_id: str | None = None
    model_id: str | None = None
    api_type: str | None = None  # the API's own name of the error
    matched_keyword: str = ""  # by which it was known

    @property
    def exceeds_window(self) -> bool:
        """Whether the request was certainly larger than the window.

        A text that only mentions `max_tokens` may be about the answer, and one that says that
        something is too long about the name of a tool.
        """
        if self.error_type is LimitErrorType.NON_EMPTY_CONTENT:
            return False
        sure = self.error_type is LimitErrorType.BEDROCK or self.matched_keyword in _SURE_KEYWORDS
        return sure or self.max_tokens is not None


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

THINKING_BLOCK_ERRORS: Final = (
    ("thinking", "first block"),
    ("first block", "thinking"),
    ("must", "start", "thinking"),
    ("thinking", "redacted_thinking"),
    ("expected", "thinking", "found"),
    ("thinking", "disabled", "cannot", "contain"),
)
"""Words that, in this order, tell of a broken history, which no compaction mends (R002-10)."""

OUTPUT_LIMIT_PHRASE: Final = "number of output tokens"
"""A longer answer was requested than the model supports; the window is not the cause."""

MAX_ERROR_CHARS: Final = 20_000  # a text is searched so far: the longest refusals quote one message
MAX_ERROR_DEPTH: Final = 6  # errors wrap errors; deeper ones are a loop
_NUMBER: Final = r"(?<![\w.\-])(?:\d{1,3}(?:[,_.' \u00a0\u202f]\d{3}){1,3}(?!\d)|\d{1,12}(?!\d))"
"""With any sign between thousands; digits inside a name (`gpt-4`, `messages.12`) are none."""

_SIZE: Final = re.compile(f"({_NUMBER})")
_COUNT: Final = re.compile(rf"({_NUMBER})\D{{0,80}}?tokens?")
"""A number and the word that it counts, with no other number between."""

_SIZE_COMPARISONS: Final = (
    re.compile(rf"({_NUMBER})\s*tokens?\s*>\s*({_NUMBER})\s*(?:tokens?\s*)?maximum"),
    re.compile(rf"(?P<input>{_NUMBER})\s*\+\s*(?P<output>{_NUMBER})\s*>\s*(?P<limit>{_NUMBER})"),
    re.compile(rf"({_NUMBER})\s*>\s*({_NUMBER})"),
)
"""Sizes that are compared by a sign."""


def _word(text: str) -> re.Pattern[str]:
    return re.compile(re.escape(text))


_SIZE_SENTENCES: Final = (
    (_word("prompt"), _COUNT, _word("exceed"), _SIZE),
    (_COUNT, _word("limit"), _SIZE),
    (_word("context"), _word("length"), _SIZE, _word("maximum"), _SIZE),
    (_word("max"), _word("context"), _SIZE, _word("but"), _SIZE),
    (_word("maximum context length"), _SIZE, _COUNT),
)
"""Sizes that are told in a sentence, by the words that stand around them."""

_MESSAGE_INDEX: Final = re.compile(r"messages(?:\.|\[)(\d{1,9})")
_BEDROCK: Final = "input is too long for requested model"

_TEXT_KEYS: Final = frozenset(
    {"message", "error", "body", "responseBody", "details", "reason", "description", "code"}
)
"""Where errors keep what they say."""
_WRAPPER_KEYS: Final = (*sorted(_TEXT_KEYS), "data", "cause")
_BODY_KEYS: Final = frozenset({"body", "responseBody"})

_ID_KEYS: Final = {
    "request_id": ("request_id", "requestId", "requestID"),
    "provider_id": ("providerID", "providerId", "provider_id"),
    "model_id": ("modelID", "modelId", "model_id"),
}


class _ErrorTexts(msgspec.Struct):
    """What was found in an error, however it is wrapped."""

    texts: list[str] = []
    ids: dict[str, str] = {}
    api_type: str | None = None
    is_bare_text: bool = False  # it is a sentence, in nothing
    is_message_only: bool = False  # the response is nothing but a message, as Bedrock's are


def parse_limit_error(error: object) -> TokenLimitRefusal | None:
    """Read an error, a sentence or an object; None where it is no refusal for its size."""
    said = _ErrorTexts(is_bare_text=isinstance(error, str))
    _collect_texts(error, said, 0)
    text = " ".join(said.texts).lower()
    keyword = next((each for each in LIMIT_KEYWORDS if each in text), None)
    if keyword is None or OUTPUT_LIMIT_PHRASE in text or is_thinking_block_error(text):
        return None
    current, limit = _sizes(said.texts)
    index = _MESSAGE_INDEX.search(text)
    return TokenLimitRefusal(
        error_type=_type_of(said, text, sized=limit is not None),
        current_tokens=current,
        max_tokens=limit,
        message_index=int(index[1]) if index else None,
        api_type=said.api_type,
        matched_keyword=keyword,
        **said.ids,
    )


def is_thinking_block_error(text: str) -> bool:
    """Whether an error is about the order of thinking blocks (R002-10)."""
    lower = text.lower()
    return any(_contains_in_order(lower, words) for words in THINKING_BLOCK_ERRORS)


def _contains_in_order(text: str, words: Iterable[str]) -> bool:
    end = 0
    for word in words:
        found = text.find(word, end)
        if found < 0:
            return False
        end = found + len(word)
    return True


def _type_of(said: _ErrorTexts, text: str, *, sized: bool) -> LimitErrorType:
    if LIMIT_KEYWORDS[0] in text:
        return LimitErrorType.NON_EMPTY_CONTENT
    if LimitErrorType.CONTEXT_LENGTH in text:
        return LimitErrorType.CONTEXT_LENGTH
    if not sized and (said.is_message_only or _BEDROCK in text):
        return LimitErrorType.BEDROCK
    if said.is_bare_text:
        return LimitErrorType.STRING
    return LimitErrorType.TOKEN_LIMIT if sized else LimitErrorType.UNKNOWN


def _sizes(texts: Iterable[str]) -> tuple[int | None, int | None]:
    """Return the first pair of request size and limit; the larger is the request's."""
    for text in texts:
        found = _compared_sizes(text.lower()) or _sizes_in_sentence(text.lower())
        if found:
            return max(found), min(found)
    return None, None


def _compared_sizes(text: str) -> tuple[int, int] | None:
    for pattern in _SIZE_COMPARISONS:
        found = pattern.search(text)
        if found:
            *sent, limit = (_to_number(number) for number in found.groups())
            return sum(sent), limit
    return None


def _sizes_in_sentence(text: str) -> tuple[int, int] | None:
    for steps in _SIZE_SENTENCES:
        numbers: list[int] = []
        end = 0
        for step in steps:
            found = step.search(text, end)
            if found is None:
                break
            end = found.end()
            numbers += [_to_number(number) for number in found.groups()]
        else:
            return numbers[0], numbers[1]
    return None


def _to_number(number: str) -> int:
    return int(re.sub(r"\D", "", number))


def _collect_texts(value: object, said: _ErrorTexts, depth: int) -> None:
    """Collect what an error says, through everything that it is wrapped in (002-39)."""
    if depth > MAX_ERROR_DEPTH:
        return
    if isinstance(value, str):
        text = value[:MAX_ERROR_CHARS]
        inner = _inner_object(text)
        said.texts.append(text if inner is None else text.partition("{")[0])
        if inner is not None:
            said.is_bare_text = False
            _collect_texts(inner, said, depth + 1)
    elif isinstance(value, dict):
        _collect_object(value, said, depth)


def _collect_object(value: dict[Any, Any], said: _ErrorTexts, depth: int) -> None:
    for name, spellings in _ID_KEYS.items():
        found = next((value[each] for each in spellings if isinstance(value.get(each), str)), None)
        if found and name not in said.ids:
            said.ids[name] = found
    for name in _WRAPPER_KEYS:
        inner = value.get(name)
        if name == "error" and isinstance(inner, dict) and isinstance(inner.get("type"), str):
            said.api_type = inner["type"]
        if name in _BODY_KEYS and isinstance(inner, str):
            body = _inner_object(inner[:MAX_ERROR_CHARS])
            said.is_message_only |= body is not None and "message" in body and "error" not in body
        if isinstance(inner, dict) or (name in _TEXT_KEYS and isinstance(inner, str)):
            _collect_texts(inner, said, depth + 1)
    if depth == 0 and not said.texts:
        said.texts.append(json.dumps(value, default=str)[:MAX_ERROR_CHARS])


def _inner_object(text: str) -> dict[str, Any] | None:
    """Find the JSON object in a text: bare, after a few words, or as an event of a stream."""
    start = text.find("{")
    if start < 0:
        return None
    try:
        found = json.JSONDecoder().raw_decode(text, start)[0]
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
