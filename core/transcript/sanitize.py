"""Removes from text what a terminal would act on; every text of a transcript passes here once."""

from __future__ import annotations

import re
from functools import cache, lru_cache

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

# Limits in characters.
MAX_TITLE_CHARS: Final = 200  # no row shows more, and a prompt can hold a whole file
MAX_LONG_TITLE_CHARS: Final = 1_000  # of what a session is called by; a sentence has about 100
MAX_TEXT_CHARS: Final = 200_000  # 25 times the longest agent's result that was measured
MAX_PATH_CHARS: Final = 4096  # Linux allows no longer path
MAX_ID_CHARS: Final = 128  # a uuid has 36, a tool call's id about 30
MAX_WORD_CHARS: Final = 40  # one of a few words, such as a compaction's trigger: at most about 20
MAX_NAME_CHARS: Final = 80  # one of many names: the client's tools have up to 64

_FIRST_CHARS: Final = 16  # of a text, in which most have a letter


def has_usual_signs(text: str) -> bool:
    """Whether all signs are as harmless as letters and take one cell: there is nothing to do."""
    if text.isascii():
        return text.isprintable()
    return _usual_signs().fullmatch(text) is not None


@cache
def _usual_signs() -> re.Pattern[str]:
    return re.compile("[ -~…≈·×–—‘’“”→░█-▏]*")  # quicker than to look for any other sign


def sanitize_text(text: str) -> str:
    """Remove control, bidirectional and invisible characters; cut to MAX_TEXT_CHARS."""
    if len(text) <= MAX_TEXT_CHARS and has_usual_signs(text):
        return text
    clean = _strip(text.replace("\r\n", "\n"))
    return clean if len(clean) <= MAX_TEXT_CHARS else clean[:MAX_TEXT_CHARS] + _TRUNCATION_NOTE


def sanitize_title(text: str) -> str:
    """Make one line of at most MAX_TITLE_CHARS."""
    return _cached_title(text) if len(text) <= MAX_TITLE_CHARS else _to_title(text)


def sanitize_long_title(text: str) -> str:
    """Make one line of at most MAX_LONG_TITLE_CHARS, for titles and prompts of sessions."""
    if len(text) <= MAX_TITLE_CHARS:
        return _cached_title(text)
    return _to_title(text, MAX_LONG_TITLE_CHARS)


def has_visible_text(text: str) -> bool:
    """Whether `sanitize_long_title` leaves something; most texts show it by their beginning."""
    return bool(sanitize_title(text[:_FIRST_CHARS]) or sanitize_long_title(text))


def sanitize_path(text: str) -> str:
    """Write what a terminal would obey, and what is invisible, as codes: <U+000A>.

    Without these characters, the path would name another file. `stored_paths` reads the codes.
    """
    path = text[:MAX_PATH_CHARS]
    return path if path.isprintable() else _write_codes(path, _is_removed)


def sanitize_word(text: str) -> str:
    """Make one line of at most MAX_WORD_CHARS."""
    return _truncate(sanitize_title(text), MAX_WORD_CHARS)


def sanitize_name(text: str) -> str:
    """Make one line of at most MAX_NAME_CHARS."""
    return _truncate(sanitize_title(text), MAX_NAME_CHARS)


def sanitize_id(text: str) -> str:
    """Keep an id; one that no client makes becomes harmless but stays distinct."""
    if len(text) <= MAX_ID_CHARS and text.isascii() and text.isprintable():
        return text
    clean = sanitize_title(text)
    if len(clean) <= MAX_ID_CHARS and clean == text:
        return text
    from ..files.digests import blake2b  # no client's id comes here

    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{clean[: MAX_ID_CHARS - len(digest) - 1]}~{digest}"


def one_line(text: str) -> str:
    """Sanitize a text for the terminal, and join its lines."""
    return " ".join(sanitize_text(text).split())


def reveal_text(text: str) -> str:
    """Write every character that is not seen by its code, as <U+202E>: for a person who approves.

    Blanks other than a space are not seen for what they are. Line ends, tabs and what writing
    systems need stay.
    """
    return _write_codes(text.replace("\r\n", "\n"), _is_unseen)


def reveal_line(text: str) -> str:
    """Do the same with line ends and tabs, so that it is one line."""
    return _write_codes(text, lambda char: _is_unseen(char) or char in _WHITESPACE_CHARS)


def map_texts(change: Callable[[str], str], value: Any) -> Any:  # noqa: ANN401 -- any JSON
    """Change every string of a JSON value; keys stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {name: map_texts(change, each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [map_texts(change, each) for each in value]
    return value


@lru_cache(maxsize=512)
def _cached_title(text: str) -> str:
    # The same few models, versions and folders occur in every line.
    return _to_title(text)


def _to_title(text: str, limit: int = MAX_TITLE_CHARS) -> str:
    return _truncate(" ".join(_strip(text[: 4 * limit]).split()), limit)


def _truncate(title: str, limit: int) -> str:
    # A cut may leave a joiner with nothing to join.
    return title if len(title) <= limit else remove_invisible(title[:limit]).rstrip()


_TRUNCATION_NOTE: Final = "\n[… cut by ctxtop; the transcript has the rest]"
_LINE_BREAKS: Final = {0x2028: "\n", 0x2029: "\n", 0x85: "\n"}
_CONTROLS: Final = {
    code: None
    for code in (*range(0x20), *range(0x7F, 0xA0), 0xFEFF)
    if code not in {0x09, 0x0A, 0x85}
}
# Marks, embeddings, overrides and isolates that change the reading direction.
_BIDI: Final = dict.fromkeys(
    (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
)
_SURROGATES: Final = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
_TRANSLATION: Final = _CONTROLS | _BIDI | _LINE_BREAKS | _SURROGATES
# Most texts hold none of these, and searching is far quicker than translating.
_NEEDS_TRANSLATION: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)

# Invisible characters hide text from a person that a model still reads. Three kinds are part of
# writing systems, and stay where they have an effect: joiners between two emoji or two letters of
# a script that needs them, variation selectors right after a character with variants, and the tags
# that make a region's flag.
_EMOJI: Final = "\u00a9\u00ae\u203c-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_JOINING_SCRIPTS: Final = "\u0600-\u0dff\u1000-\u109f\u1780-\u18af\ua840-\ua87f"
_VIRAMA: Final = "\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca"
_IDEOGRAPHS: Final = "\u1000-\u109f\u2200-\u22ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_JOINER: Final = "\u200d"
_JOINERS: Final = f"\u200c{_JOINER}"
_INVISIBLE: Final = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\u3164"
    "\ufe00-\ufe0f\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_INVISIBLE_OR_JOINER: Final = re.compile(f"[{_INVISIBLE}{_JOINERS}]")
_REMOVED_INVISIBLE: Final = (
    "(\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{2,6}\U000e007f"
    f"|(?<=[{_EMOJI}#*0-9])[\ufe0e\ufe0f]"
    f"|(?<=[{_IDEOGRAPHS}])[\ufe00-\ufe0d\U000e0100-\U000e01ef]"
    "|(?<=[\u1820-\u18aa])[\u180b-\u180d\u180f])"
    f"|[{_INVISIBLE}]"
)
_LOOSE_JOINERS: Final = (
    f"((?<=[{_EMOJI}\ufe0f]){_JOINER}(?=[{_EMOJI}])"
    f"|(?<=[{_JOINING_SCRIPTS}])[{_JOINERS}](?=[{_JOINING_SCRIPTS}])"
    f"|(?<=[{_VIRAMA}]){_JOINER})"
    f"|[{_JOINERS}]"
)


_WHITESPACE_CHARS: Final = "\n\t"
_BRAILLE_BLANK: Final = "\u2800"
_NEEDED_BY_SCRIPTS: Final = frozenset({*_JOINERS, *map(chr, range(0xE0020, 0xE0080))})


def _is_unseen(char: str) -> bool:
    if char in _NEEDED_BY_SCRIPTS or char in _WHITESPACE_CHARS:
        return False  # where they have no effect, `_write_codes` has replaced them
    return not char.isprintable() or char == _BRAILLE_BLANK


def _is_removed(char: str) -> bool:
    return char in _WHITESPACE_CHARS or _NEEDS_TRANSLATION.match(char) is not None


def _write_codes(text: str, is_hidden: Callable[[str], bool]) -> str:
    if not text.isascii() and _INVISIBLE_OR_JOINER.search(text):
        for pattern in _invisible_patterns():
            text = pattern.sub(lambda match: match[1] or _code(match[0]), text)
    hidden = filter(is_hidden, set(text))
    return text.translate({ord(char): _code(char) for char in hidden})


def _code(char: str) -> str:
    return f"<U+{ord(char):04X}>"


def remove_invisible(text: str) -> str:
    """Remove invisible characters, except those that writing systems need."""
    if text.isascii() or not _INVISIBLE_OR_JOINER.search(beyond_ascii(text)):
        return text
    # In this order: whether a joiner stays depends on its remaining neighbors.
    for pattern in _invisible_patterns():
        text = pattern.sub(lambda match: match[1] or "", text)
    return text


@cache
def _invisible_patterns() -> tuple[re.Pattern[str], ...]:
    """Compile what takes 3 ms when it is first needed: most texts never need it."""
    return re.compile(_REMOVED_INVISIBLE), re.compile(_LOOSE_JOINERS)


_ASCII: Final = bytes(range(0x80))


def beyond_ascii(text: str) -> str:
    """Return the characters that are not ASCII: most texts have few, and they are found quickly."""
    others = text.encode("utf-8", "surrogatepass").translate(None, _ASCII)
    return others.decode("utf-8", "surrogatepass")


def _strip(text: str) -> str:
    # What is printable needs none: that takes a tenth of the time to find out.
    if not text.isprintable() and _NEEDS_TRANSLATION.search(text):
        text = text.translate(_TRANSLATION)
    return remove_invisible(text)
