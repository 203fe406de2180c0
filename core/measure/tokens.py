"""Counts tokens of texts and message parts: by cl100k_base, weighted for Claude's tokenizers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum, StrEnum
from functools import cache
from typing import TYPE_CHECKING, Final

import msgspec

from ..transcript.conversation import RESULT_KINDS, MessagePart, PartKind, decode_tool_input
from .models import model_family

CountText = Callable[[str], "TextCount"]

if TYPE_CHECKING:
    from tiktoken import Encoding


ENCODING_FILE: Final = "cl100k_base.tiktoken"

ENCODING_SHA256: Final = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
"""As in tiktoken's own source (tiktoken_ext/openai_public.py, 0.14)."""

_PATTERN: Final = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
"""The split of cl100k_base, from the same source."""

CHUNK_CHARS: Final = 50_000
"""tiktoken slows down on one very long run of letters; a text is counted in pieces."""


def estimate_tokens(text: str) -> int:
    """Estimate a text's tokens with cl100k_base: a proxy, Claude's own tokenizer is not public."""
    return sum(map(len, encode_in_chunks(text)))


def encode_in_chunks(text: str) -> Iterator[list[int]]:
    """Yield the ids of a text's tokens in cl100k_base, in chunks of `CHUNK_CHARS` characters."""
    encoding = _encoding()
    for start in range(0, len(text), CHUNK_CHARS):
        yield encoding.encode_ordinary(text[start : start + CHUNK_CHARS])


def token_bytes(token: int) -> bytes:
    """Return the bytes of one cl100k_base token."""
    return _encoding().decode_single_token_bytes(token)


def tokens_or_estimate(estimated: int | None, text: str) -> int:
    """Return `estimated`, or estimate the text's tokens now if it is None."""
    return estimate_tokens(text) if estimated is None else estimated


@cache
def _encoding() -> Encoding:
    # tiktoken would keep a second copy in the shared temporary folder.
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", "")
    # Imported late: nothing before the first paint needs them.
    from importlib.resources import as_file, files

    from tiktoken import Encoding
    from tiktoken.load import load_tiktoken_bpe

    with as_file(files("ctxtop.core.data") / ENCODING_FILE) as path:
        ranks = load_tiktoken_bpe(str(path), expected_hash=ENCODING_SHA256)
    return Encoding(name="cl100k_base", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens={})


SAMPLE_CHARS: Final = 4_096  # how much of a text is looked at: what it begins with is what it is
MIN_OTHER_SHARE: Final = 0.2
"""Of a text's characters that are letters beyond ASCII; French has 0.04."""

MIN_JSON_SHARE: Final = 0.08
"""Of a text's characters that are JSON's own marks; JSON of short values has 0.1 to 0.3, and one
that carries a whole text is of that text's kind."""

MIN_CODE_SHARE: Final = 0.045
"""Of a text's characters that are the marks of code; eight in ten of models' words have less."""

_BEYOND_ASCII: Final = re.compile(r"[^\W\d_\x00-\x7f]")
_JSON_MARKS: Final = '"{}[]:,'
_CODE_MARKS: Final = "{}()[];=<>/\\|_$#`*+→"


class ContentKind(StrEnum):
    """What a text is written in; diffs, listings, paths and logs are code."""

    PROSE = "prose"
    CODE = "code"
    JSON = "json"
    OTHER = "other"  # a script other than the Latin one


def content_kind_of(text: str) -> ContentKind:
    """Classify a text by its first characters alone."""
    seen = text[:SAMPLE_CHARS].strip()
    if _is_other_script(seen):
        return ContentKind.OTHER
    # A tool's JSON may itself be a string of JSON.
    if seen[:1] in {"{", "[", '"'} and _mark_share(_JSON_MARKS, seen) > MIN_JSON_SHARE:
        return ContentKind.JSON
    return (
        ContentKind.CODE if _mark_share(_CODE_MARKS, seen) > MIN_CODE_SHARE else ContentKind.PROSE
    )


def _is_other_script(text: str) -> bool:
    return not text.isascii() and len(_BEYOND_ASCII.findall(text)) > MIN_OTHER_SHARE * len(text)


def _mark_share(marks: str, text: str) -> float:
    return sum(map(text.count, marks)) / len(text) if text else 0.0


class TokenClass(IntEnum):
    """What a token is; Claude's tokenizers cut each class in a way of their own.

    The classes were chosen on real sessions: the length of words and of runs of marks
    tells most of how many of Claude's tokens one of cl100k_base is.
    """

    WORD_2 = 0  # up to two letters, and so on; a space before them belongs to them
    WORD_4 = 1
    WORD_7 = 2
    WORD_LONG = 3
    DIGITS = 4
    MARK_1 = 5  # one character that is neither letter, digit nor space
    MARK_2 = 6
    MARKS = 7  # longer runs of them, and what mixes them with letters
    MARKS_LINE = 8  # marks and the line's end after them
    LINE = 9  # space with a line's end
    SPACE = 10
    OTHER = 11  # anything beyond ASCII


ClassCounts = tuple[int, ...]  # how many tokens of each class, in their order
_LAST_OF_ASCII: Final = 127
_WORD_CLASSES: Final = ((2, TokenClass.WORD_2), (4, TokenClass.WORD_4), (7, TokenClass.WORD_7))


def count_token_classes(text: str) -> ClassCounts:
    """Count a text's tokens in cl100k_base by class."""
    # A class a byte: bytes are made and counted faster than anything else.
    classes = b"".join(
        bytes(map(_token_classes.__getitem__, ids)) for ids in encode_in_chunks(text)
    )
    return tuple(map(classes.count, TokenClass))


def token_class(token: bytes) -> TokenClass:
    if any(byte > _LAST_OF_ASCII for byte in token):
        return TokenClass.OTHER
    text = token.decode("ascii")
    said, ends_line = text.strip(), "\n" in text
    if not said:
        return TokenClass.LINE if ends_line else TokenClass.SPACE
    if said.isdigit():
        return TokenClass.DIGITS
    if said.isalpha():
        return next(
            (c for longest, c in _WORD_CLASSES if len(said) <= longest), TokenClass.WORD_LONG
        )
    if ends_line:
        return TokenClass.MARKS_LINE
    return {1: TokenClass.MARK_1, 2: TokenClass.MARK_2}.get(len(said), TokenClass.MARKS)


class _TokenClassCache(dict[int, TokenClass]):
    """Classes by token id, each found when it is met first: all of them would take 0.2 s."""

    def __missing__(self, token: int) -> TokenClass:
        found = self[token] = token_class(token_bytes(token))
        return found


_token_classes: Final = _TokenClassCache()


class Tokenizer(StrEnum):
    """The two generations that count differently (formats 9)."""

    OLDER = "older"
    NEWER = "newer"


_OLDER_MODELS: Final = frozenset(
    {
        "opus-4-6",
        "sonnet-4-6",
        "opus-4-5",
        "sonnet-4-5",
        "haiku-4-5",
        "opus-4-1",
        "opus-4",
        "sonnet-4",
        "3-7-sonnet",
        "3-5-sonnet",
        "3-5-haiku",
        "3-opus",
        "3-sonnet",
        "3-haiku",
    }
)


def model_tokenizer(model: str | None) -> Tokenizer:
    """Return a model's generation of tokenizers; an unknown model counts as new (formats 9)."""
    older = model is not None and model_family(model) in _OLDER_MODELS
    return Tokenizer.OLDER if older else Tokenizer.NEWER


class TokenizerProfile(msgspec.Struct, frozen=True):
    """What a tokenizer makes of a text and of what stands around it; all in its tokens."""

    weights: tuple[float, ...]  # of one token of cl100k_base of each class
    call: float  # around a tool call, beside its name and what it is given
    parameter: float  # around each thing that a call is given, beside its name
    result: float  # around a tool's result
    message: float  # around a prompt, or anything else that the client says in a person's place
    reminder: float
    """The reminder of the task tools, which older transcripts hold without its words."""
    thought: float
    """Of one token of cl100k_base of a thought's text: it is a summary of what was thought."""
    spread: float  # median error of a step of a session that was not measured
    p90: float  # error that nine steps of ten stay below

    def tokens(self, counts: ClassCounts) -> float:
        """Weigh the tokens of a text by their classes."""
        return sum(map(float.__mul__, self.weights, map(float, counts)))


TOKENIZER_PROFILES: Final = {
    Tokenizer.OLDER: TokenizerProfile(
        weights=(0.88, 1.07, 1.15, 1.0, 1.08, 1.21, 1.35, 2.02, 2.48, 1.51, 0.41, 1.22),
        call=33.5,
        parameter=13.5,
        result=12.7,
        message=3.0,
        reminder=130.0,
        thought=1.56,
        spread=0.028,
        p90=0.217,
    ),
    Tokenizer.NEWER: TokenizerProfile(
        weights=(0.81, 1.31, 1.96, 2.69, 1.21, 1.06, 1.82, 2.67, 2.19, 1.42, 1.17, 1.64),
        call=22.0,
        parameter=17.3,
        result=4.6,
        message=13.8,
        reminder=130.0,
        thought=2.48,
        spread=0.015,
        p90=0.066,
    ),
}
"""By `tests/bench/measure_tokens.py` and `bench_tokens.py` on the corpora of real sessions.

Older: 445 steps of 13 sessions (clients 2.1.39 to 2.1.50, Opus 4.6 and Sonnet 4.6). Newer: 636
steps of 5 sessions (2.1.205 to 2.1.217, Fable 5, Opus 5, Sonnet 5). Spread and p90 are those
of sessions left out of the measuring. Of the reminder only the newer corpus tells, of other
scripts little. Who changes a number raises SCHEMA_VERSION: what was learned with the old one goes.
"""


CACHED_FROM_CHARS: Final = 1_000
"""A shorter text is counted in 0.1 ms; kept, it would take more room than time."""


class TextCount(msgspec.Struct, frozen=True):
    """A text's tokens, before a factor that was learnt on this machine."""

    kind: ContentKind
    base: int  # by cl100k_base itself
    older: int
    newer: int

    def for_tokenizer(self, tokenizer: Tokenizer) -> int:
        return self.older if tokenizer is Tokenizer.OLDER else self.newer


def count_text(text: str) -> TextCount:
    """Count a text's tokens; all estimated, since Claude's tokenizers are not public."""
    counts = count_token_classes(text)
    return TextCount(
        content_kind_of(text),
        sum(counts),
        round(TOKENIZER_PROFILES[Tokenizer.OLDER].tokens(counts)),
        round(TOKENIZER_PROFILES[Tokenizer.NEWER].tokens(counts)),
    )


MEDIA_TOKENS: Final = 1_600  # of an image or a document (formats 9: 1,600 to 2,000)
TASK_REMINDERS: Final = frozenset({"task_reminder", "todo_reminder"})
"""Attachments that older transcripts hold without the words that were sent."""


class PartCount(msgspec.Struct, frozen=True):
    """Tokens by kind of content, to which learnt factors apply, and those that are fixed."""

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
    given = decode_tool_input(part.text)
    if given is None:
        return f"{part.name}\n{part.text}", 1
    values = [value if isinstance(value, str) else _json(value) for value in given.values()]
    return "\n".join([" ".join([part.name, *given]), *values]), len(given)


def count_parts(
    parts: Iterable[MessagePart], tokenizer: Tokenizer, count_text: CountText
) -> PartCount:
    """Count pieces by kind of content; a thought counts as fixed, for it is of no kind."""
    by_kind, fixed = dict.fromkeys(ContentKind, 0), 0.0
    for piece in parts:
        text, parameters = model_text(piece)
        fixed += _surrounding_tokens(piece, parameters, tokenizer)
        if not text:
            continue
        counted = count_text(text)
        if piece.kind is PartKind.THINKING:
            fixed += TOKENIZER_PROFILES[tokenizer].thought * counted.base
        else:
            by_kind[counted.kind] += counted.for_tokenizer(tokenizer)
    return PartCount(tuple(by_kind.values()), fixed)


def _surrounding_tokens(piece: MessagePart, parameters: int, tokenizer: Tokenizer) -> float:
    measured, media = TOKENIZER_PROFILES[tokenizer], piece.media * MEDIA_TOKENS
    if piece.kind is PartKind.TOOL_INPUT:
        return measured.call + parameters * measured.parameter
    if piece.name in TASK_REMINDERS:
        return measured.reminder
    if piece.kind in RESULT_KINDS:
        return measured.result + media
    if piece.kind in {PartKind.TEXT, PartKind.THINKING}:
        return media
    return measured.message + media


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
