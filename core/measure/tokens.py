"""Counts tokens of texts and message parts with cl100k_base, weighted for Claude's tokenizers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum, StrEnum
from functools import cache
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from ..model.claude_models import model_family
from ..model.conversation import RESULT_KINDS, Entry, MessagePart, PartKind, decode_tool_input

if TYPE_CHECKING:
    from tiktoken import Encoding

CountText = Callable[[str], "TextCount"]

ENCODING_FILE: Final = "cl100k_base.tiktoken"
ENCODING_SHA256: Final = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
"""As in tiktoken's own source (tiktoken_ext/openai_public.py, 0.14)."""

_PATTERN: Final = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
"""The split of cl100k_base, from the same source."""

CHUNK_CHARS: Final = 50_000  # tiktoken is slow for one very long run of letters


def estimate_tokens(text: str) -> int:
    """Count a text's tokens in cl100k_base: a proxy, Claude's own tokenizer is not public."""
    return sum(map(len, _encode_in_chunks(text)))


def _encode_in_chunks(text: str) -> Iterator[list[int]]:
    encoding = _encoding()
    for start in range(0, len(text), CHUNK_CHARS):
        yield encoding.encode_ordinary(text[start : start + CHUNK_CHARS])


@cache
def _encoding() -> Encoding:
    # tiktoken would store a second copy in the shared temporary folder.
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", "")
    # Imported late: they are not needed before the first paint.
    from importlib.resources import as_file, files

    from tiktoken import Encoding
    from tiktoken.load import load_tiktoken_bpe

    with as_file(files("ctxtop.core.data") / ENCODING_FILE) as path:
        ranks = load_tiktoken_bpe(str(path), expected_hash=ENCODING_SHA256)
    return Encoding(name="cl100k_base", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens={})


SAMPLE_CHARS: Final = 4_096  # the beginning of a text shows its kind

# Minimum shares of a text's characters.
MIN_OTHER_SHARE: Final = 0.2  # letters beyond ASCII; French has 0.04
MIN_JSON_SHARE: Final = 0.08
"""JSON's own marks: JSON of short values has 0.1 to 0.3, and one that carries a whole text is of
that text's kind."""
MIN_CODE_SHARE: Final = 0.045  # marks of code; eight in ten of models' texts have less
_BEYOND_ASCII: Final = re.compile(r"[^\W\d_\x00-\x7f]")
_JSON_MARKS: Final = '"{}[]:,'
_CODE_MARKS: Final = "{}()[];=<>/\\|_$#`*+→"


class ContentKind(StrEnum):
    """What a text is written in; diffs, listings, paths and logs are code."""

    PROSE = "prose"
    CODE = "code"
    JSON = "json"
    OTHER = "other"  # not in the Latin script


def content_kind_of(text: str) -> ContentKind:
    sample = text[:SAMPLE_CHARS].strip()
    others = 0 if sample.isascii() else len(_BEYOND_ASCII.findall(sample))
    if others > MIN_OTHER_SHARE * len(sample):
        return ContentKind.OTHER
    # A tool's JSON may itself be a string of JSON.
    if sample[:1] in {"{", "[", '"'} and _mark_share(_JSON_MARKS, sample) > MIN_JSON_SHARE:
        return ContentKind.JSON
    is_code = _mark_share(_CODE_MARKS, sample) > MIN_CODE_SHARE
    return ContentKind.CODE if is_code else ContentKind.PROSE


def _mark_share(marks: str, text: str) -> float:
    return sum(map(text.count, marks)) / len(text) if text else 0.0


class TokenClass(IntEnum):
    """Kinds of cl100k_base tokens; Claude's tokenizers split each kind in a different way.

    The classes were chosen on real sessions: the length of words and of runs of marks mostly
    determines how many of Claude's tokens one of cl100k_base is.
    """

    WORD_2 = 0  # up to two letters, and so on; a space before them belongs to them
    WORD_4 = 1
    WORD_7 = 2
    WORD_LONG = 3
    DIGITS = 4
    MARK_1 = 5  # one character that is neither letter, digit nor space
    MARK_2 = 6
    MARKS = 7  # longer runs of them, also mixed with letters
    MARKS_LINE = 8  # marks and the line end after them
    LINE = 9  # space with a line end
    SPACE = 10
    OTHER = 11  # anything beyond ASCII


_WORD_CLASSES: Final = ((2, TokenClass.WORD_2), (4, TokenClass.WORD_4), (7, TokenClass.WORD_7))


def count_token_classes(text: str) -> tuple[int, ...]:
    """Count a text's cl100k_base tokens by class, in the order of TokenClass."""
    # One byte per class: nothing is faster to make and to count.
    classes = b"".join(
        bytes(map(_token_classes.__getitem__, ids)) for ids in _encode_in_chunks(text)
    )
    return tuple(map(classes.count, TokenClass))


def token_class(token: bytes) -> TokenClass:
    if not token.isascii():
        return TokenClass.OTHER
    text = token.decode("ascii")
    stripped, ends_line = text.strip(), "\n" in text
    if not stripped:
        return TokenClass.LINE if ends_line else TokenClass.SPACE
    if stripped.isdigit():
        return TokenClass.DIGITS
    if stripped.isalpha():
        classes = (c for longest, c in _WORD_CLASSES if len(stripped) <= longest)
        return next(classes, TokenClass.WORD_LONG)
    if ends_line:
        return TokenClass.MARKS_LINE
    return {1: TokenClass.MARK_1, 2: TokenClass.MARK_2}.get(len(stripped), TokenClass.MARKS)


class _TokenClassCache(dict[int, TokenClass]):
    """Classes by token id, filled on demand: all of them would take 0.2 s."""

    def __missing__(self, token: int) -> TokenClass:
        found = self[token] = token_class(_encoding().decode_single_token_bytes(token))
        return found


_token_classes: Final = _TokenClassCache()


class Tokenizer(StrEnum):
    """The two generations that count differently (formats 9)."""

    OLDER = "older"
    NEWER = "newer"


_OLDER_MODELS: Final = frozenset(
    {
        "opus-4-6", "sonnet-4-6", "opus-4-5", "sonnet-4-5", "haiku-4-5", "opus-4-1", "opus-4",
        "sonnet-4", "3-7-sonnet", "3-5-sonnet", "3-5-haiku", "3-opus", "3-sonnet", "3-haiku",
    }
)  # fmt: skip


def model_tokenizer(model: str | None) -> Tokenizer:
    """Return a model's tokenizer generation; unknown models count as new (formats 9)."""
    older = model is not None and model_family(model) in _OLDER_MODELS
    return Tokenizer.OLDER if older else Tokenizer.NEWER


class TokenizerProfile(msgspec.Struct, frozen=True):
    """How a tokenizer counts a text and what surrounds it; all in its tokens."""

    weights: tuple[float, ...]  # of one cl100k_base token of each class
    call: float  # around a tool call, besides its name and input
    parameter: float  # around each parameter of a call, besides its name
    result: float  # around a tool's result
    message: float  # around a prompt, or the client's text in a user's line
    reminder: float  # of the task tools, which older transcripts hold without its text
    thought: float  # of one cl100k_base token of thinking text, which is a summary
    signature: float  # characters of a signature for each token of the thinking
    spread: float  # median error of a step of a session that was not measured

    def tokens(self, class_counts: tuple[int, ...]) -> float:
        return sum(map(float.__mul__, self.weights, map(float, class_counts)))


TOKENIZER_PROFILES: Final = {
    Tokenizer.OLDER: TokenizerProfile(
        weights=(0.88, 1.07, 1.15, 1.0, 1.08, 1.21, 1.35, 2.02, 2.48, 1.51, 0.41, 1.22),
        call=33.5,
        parameter=13.5,
        result=12.7,
        message=3.0,
        reminder=130.0,
        thought=1.56,
        signature=4.7,
        spread=0.028,
    ),
    Tokenizer.NEWER: TokenizerProfile(
        weights=(0.81, 1.31, 1.96, 2.69, 1.21, 1.06, 1.82, 2.67, 2.19, 1.42, 1.17, 1.64),
        call=22.0,
        parameter=17.3,
        result=4.6,
        message=13.8,
        reminder=130.0,
        thought=2.48,
        signature=3.6,
        spread=0.015,
    ),
}
"""By `tests/bench/measure_tokens.py` and `bench_tokens.py` on the corpora of real sessions.

Older: 445 steps of 13 sessions (clients 2.1.39 to 2.1.50, Opus 4.6 and Sonnet 4.6). Newer: 636
steps of 5 sessions (2.1.205 to 2.1.217, Fable 5, Opus 5, Sonnet 5). The spread is that of sessions
left out of the measuring. Only the newer corpus has reminders, and neither has much
of other scripts. If you change a number, raise SCHEMA_VERSION: what was learned with the old one
is dropped.
"""


CACHED_FROM_CHARS: Final = 1_000  # shorter texts are counted in 0.1 ms: not worth the space


class TextCount(msgspec.Struct, frozen=True):
    """A text's tokens, before a factor that was learned on this machine."""

    kind: ContentKind
    base: int  # by cl100k_base itself
    older: int
    newer: int

    def for_tokenizer(self, tokenizer: Tokenizer) -> int:
        return self.older if tokenizer is Tokenizer.OLDER else self.newer


def count_text(text: str) -> TextCount:
    """Count a text's tokens; all estimated, since Claude's tokenizers are not public."""
    counts = count_token_classes(text)
    older, newer = (round(TOKENIZER_PROFILES[each].tokens(counts)) for each in Tokenizer)
    return TextCount(content_kind_of(text), sum(counts), older, newer)


TOOL_SEARCH: Final = "ToolSearch"
MEDIA_TOKENS: Final = 1_600  # of an image or a document (formats 9: 1,600 to 2,000)
TOOL_SCHEMA_TOKENS: Final = 500
"""Of a tool that ToolSearch loaded: its result only refers to it. Seen: 318 to 1,213."""
TASK_REMINDERS: Final = frozenset({"task_reminder", "todo_reminder"})
"""Attachments that older transcripts hold without the text that was sent."""


def loaded_tools(part: MessagePart) -> int:
    """Return how many tools a result refers to, whose schemas the API puts in its place."""
    is_reference = part.kind is PartKind.TOOL_RESULT and part.name == TOOL_SEARCH
    return part.text.count("\n") + 1 if is_reference and not part.text.strip("\n") else 0


class PartCount(msgspec.Struct, frozen=True):
    """Tokens by kind of content, to which learned factors apply, and fixed ones."""

    by_kind: tuple[int, ...]
    fixed: float


def model_text(part: MessagePart) -> tuple[str, int]:
    """Return a part's text as a model reads or writes it, and a call's number of parameters.

    A call becomes its name and its parameters' names and values, not JSON: measured, estimates
    are better with the escapes undone (reference: claude-code-formats 2.4).
    """
    if part.name in TASK_REMINDERS:
        return part.text.rstrip(" "), 0
    if part.kind is not PartKind.TOOL_INPUT:
        return part.text, 0
    fields = decode_tool_input(part.text)
    if fields is None:
        return f"{part.name}\n{part.text}", 1
    values = [
        value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for value in fields.values()
    ]
    return "\n".join([" ".join([part.name, *fields]), *values]), len(fields)


def count_parts(
    parts: Iterable[MessagePart], tokenizer: Tokenizer, count_text: CountText
) -> PartCount:
    """Count message parts by kind of content; thinking is of no kind, and counts as fixed."""
    by_kind, fixed = dict.fromkeys(ContentKind, 0), 0.0
    for part in parts:
        text, parameters = model_text(part)
        fixed += _surrounding_tokens(part, parameters, tokenizer)
        if not text:
            continue
        counted = count_text(text)
        if part.kind is PartKind.THINKING:
            fixed += TOKENIZER_PROFILES[tokenizer].thought * counted.base
        else:
            by_kind[counted.kind] += counted.for_tokenizer(tokenizer)
    return PartCount(tuple(by_kind.values()), fixed)


def _surrounding_tokens(part: MessagePart, parameters: int, tokenizer: Tokenizer) -> float:
    profile, media = TOKENIZER_PROFILES[tokenizer], part.media * MEDIA_TOKENS
    if part.kind is PartKind.TOOL_INPUT:
        return profile.call + parameters * profile.parameter
    if part.name in TASK_REMINDERS:
        return profile.reminder
    if part.kind in RESULT_KINDS:
        return profile.result + media + TOOL_SCHEMA_TOKENS * loaded_tools(part)
    if part.kind in {PartKind.TEXT, PartKind.THINKING}:
        return media
    return profile.message + media


class PartCounter(Protocol):
    def tokens(self, part: MessagePart) -> int:
        """Estimate the tokens of a message part, and of what surrounds it."""
        ...


class CachedPartCounter:
    def __init__(self, counter: PartCounter) -> None:
        self._counter = counter
        self._known: dict[MessagePart, int] = {}

    def tokens(self, part: MessagePart) -> int:
        tokens = self._known.get(part)
        if tokens is None:
            tokens = self._known[part] = self._counter.tokens(part)
        return tokens


SIGNATURE_CHARS: Final = 330  # of one that signs hardly any thinking
MIN_OUTPUT_SHARE: Final = 0.5
"""Of what a signature tells: less output is a placeholder. The two differ by 6 %, in nine of ten
answers by 17 % at most (1,225 answers of newer models; of Opus and Sonnet 4.6 the next request
tells the same of 26)."""


def _signed_thinking(lines: Iterable[Entry]) -> int:
    """Return the tokens of an answer's thinking by its signatures, which hold it encrypted."""
    signed = [line for line in lines if line.signature_chars]
    if not signed:
        return 0
    chars = sum(max(0, line.signature_chars - SIGNATURE_CHARS) for line in signed)
    return round(chars / TOKENIZER_PROFILES[model_tokenizer(signed[0].model)].signature)


class ThinkingTokens(msgspec.Struct, frozen=True):
    tokens: int
    measured: bool


def measure_thinking(
    entries: Sequence[Entry], counter: PartCounter
) -> dict[str | None, ThinkingTokens]:
    """Return the size of each thinking part, by the answer's message id.

    The API's count is used if there is one. Clients write no text of thinking, or a summary of
    it, so else it is what remains of the answer's output after its text and calls
    (claude-code-formats 2.4, 2.5). Where that is less than its text has, or half of what its
    signature tells, the output was a placeholder, and the larger of the two counts.
    """
    answers: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.message_id is not None and entry.output_tokens is not None:
            answers.setdefault(entry.message_id, []).append(entry)
    sizes: dict[str | None, ThinkingTokens] = {}
    for message_id, lines in answers.items():
        parts = [part for line in lines for part in line.parts]
        thinking = [part for part in parts if part.kind is PartKind.THINKING]
        if not thinking:
            continue
        reported = next((line.thinking_tokens for line in lines if line.thinking_tokens), None)
        total = reported
        if total is None:
            said = sum(counter.tokens(part) for part in parts if part.kind is not PartKind.THINKING)
            total = max(line.output_tokens or 0 for line in lines) - said
            shown = sum(counter.tokens(part) for part in thinking if part.text)
            signed = _signed_thinking(lines)
            if total <= max(shown, MIN_OUTPUT_SHARE * signed):
                if shown >= signed:
                    continue
                total = signed
        sizes[message_id] = ThinkingTokens(max(0, total) // len(thinking), reported is not None)
    return sizes


CLIENT_CHARS_PER_TOKEN: Final = 4  # of the client's own rough estimate (formats 3.2)
CLIENT_MEDIA_TOKENS: Final = 2_000  # of an image or document, likewise (formats 3.2)


def client_token_estimate(part: MessagePart) -> int:
    """Estimate a part's tokens as the client does for its counter.

    Source: formats 3.2 (four characters a token, rounded; a call with its tool's name);
    seen in the automatic boundaries of 2.1.45 and 2.1.329.
    """
    chars = len(part.text)
    if part.kind is PartKind.TOOL_INPUT:
        chars += len(part.name)
    text_tokens = (chars + CLIENT_CHARS_PER_TOKEN // 2) // CLIENT_CHARS_PER_TOKEN
    return text_tokens + part.media * CLIENT_MEDIA_TOKENS
