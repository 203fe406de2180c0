"""Find the names in a text, and whether a text mentions a name, a file or a sentence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from typing import Final

MIN_NAME_CHARS: Final = 8
"""Characters (compaction.md 4.6); shorter ones stand in any text by chance."""

MAX_NAME_CHARS: Final = 160  # characters: a longer one is data, not a name
NAME_CACHE_SIZE: Final = 8_192
"""Tokens of which it is remembered whether they are names: about 2 MB."""

PASTE_TAG: Final = "pasted_content"
"""The tag in which the client puts what was pasted into a prompt."""

_PASTE_TAG_PATTERN: Final = re.compile(rf"</?{PASTE_TAG}\b[^<>]{{0,200}}>")

_TOKEN: Final = re.compile(rf"[\w./\\$@-]{{{MIN_NAME_CHARS},}}")
_HUMP: Final = re.compile(r"[a-z0-9][A-Z]")
_OWNER_PREFIX: Final = re.compile(
    r"^(?:self|this|cls)\.|^\.{2,}(?![/\\])|^\.(?=\w+(?:\.|[a-z0-9][A-Z]))|^//+"
)
_BUILTIN_NAME: Final = re.compile(
    r"(?:console|JSON|Math|Object|Array|Promise|Number|String|document|window|\w)\.|/dev/|\d"
)
"""How names begin that every program uses, that a loop gives, or that are no name."""
_NOT_A_PATH: Final = re.compile(r"\w@|\\\W|\.\.\.")
"""An address, a pattern of a search, and what was left out."""
_TWO_WORDS: Final = re.compile(r"[A-Za-z]+/[A-Za-z]+")
_NAME_SEPARATOR: Final = re.compile(r"[./\\-]+")
_TWO_LETTERS: Final = re.compile(r"[^\W\d_]{2}")
_NUMBER_OR_HASH: Final = re.compile(r"[0-9a-fA-F]{7,}|[\d_.:TZ+-]+|v?\d[\w.-]*")
_SECRET: Final = re.compile(
    r"(?:sk|pk|rk)[-_](?:live|test|ant|proj|[A-Za-z0-9]{16})|gh[pousr]_|github_pat_|glpat-|xox[a-z]-"
    r"|AKIA|ASIA|eyJ[\w-]{8}|(?:toolu|msg|req|call|srvtoolu|resp|chatcmpl)_"
)
"""How keys begin, and the ids that an API gives: neither is a name of anything."""

_MIXED_CHARS: Final = 24
"""From here on, small and capital letters with digits between them are a key or a hash."""

_DECLARATION: Final = re.compile(
    r"(?:\b(?:def|class|function|fn|func|struct|interface|type|enum|trait|module|namespace)"
    r"|^(?:export )?(?:const|let|var))\s+([A-Za-z_$][\w$]+)",
    re.MULTILINE,
)
"""Of variables those of a module alone: the others do not live long."""


def find_names(text: str) -> set[str]:
    """Find the names that a text uses: 8 characters or more, with the look of a name.

    A name has a path separator, a dot, an underscore or a camel hump inside
    (compaction.md 4.6); hashes, ids, versions, numbers and keys are left out.
    """
    said = strip_paste_tags(text)
    return {name for token in set(_TOKEN.findall(said)) if (name := _name_of_token(token))}


def strip_paste_tags(text: str) -> str:
    """Leave the tags around pasted texts out; the texts stay."""
    return _PASTE_TAG_PATTERN.sub(" ", text) if PASTE_TAG in text else text


def strip_pasted_text(text: str) -> str:
    """Return a prompt without what was pasted; all of it where nothing else was said."""
    if PASTE_TAG not in text:
        return text
    opens, closes = f"<{PASTE_TAG}", f"</{PASTE_TAG}>"
    typed, at = [], 0
    while (start := text.find(opens, at)) >= 0 and (end := text.find(closes, start)) >= 0:
        typed.append(text[at:start])
        at = end + len(closes)
    words = strip_paste_tags(" ".join((*typed, text[at:])))
    return words if words.strip() else strip_paste_tags(text)


def find_names_in_order(text: str) -> Iterator[str]:
    """Yield the names of `find_names` in the order in which they first occur."""
    seen: set[str] = set()
    for found in _TOKEN.finditer(strip_paste_tags(text)):
        name = _name_of_token(found[0])
        if name and name not in seen:
            seen.add(name)
            yield name


def find_declarations(text: str) -> set[str]:
    """Find the functions, classes and constants that a piece of code declares."""
    return {name for token in set(_DECLARATION.findall(text)) if (name := _name_of_token(token))}


def contains_secret(text: str) -> bool:
    """Whether a text holds what looks like a key; such a text is not kept."""
    return any(
        _SECRET.match(token) or _is_random(token.rpartition("=")[2])
        for token in re.split(r"[\s'\"`(),;=]+", text)
        if len(token) >= MIN_NAME_CHARS
    )


def split_path(path: str) -> list[str]:
    """Split a path of any operating system into its parts."""
    return [part for part in re.split(r"[/\\]+", path) if part not in {"", "."}]


def _name_of_token(token: str) -> str | None:
    # A session says the same names again and again.
    return _parse_name_cached(token) if len(token) <= MAX_NAME_CHARS else _parse_name(token)


def _parse_name(token: str) -> str | None:
    name = _OWNER_PREFIX.sub("", token.lstrip("-").rstrip(".-/\\"))
    if not MIN_NAME_CHARS <= len(name) <= MAX_NAME_CHARS or not _looks_like_name(name):
        return None
    if _BUILTIN_NAME.match(name) or _NOT_A_PATH.search(name):
        return None
    parts = [part for part in _NAME_SEPARATOR.split(name) if part]
    if not parts or any(_SECRET.match(part) or _is_random(part) for part in parts):
        return None
    if all(_NUMBER_OR_HASH.fullmatch(part) or not _TWO_LETTERS.search(part) for part in parts):
        return None
    # One part that is a hash (a build's file, a temporary folder) makes the whole passing.
    return None if any(len(part) >= MIN_NAME_CHARS and _is_hash(part) for part in parts) else name


_parse_name_cached: Final = lru_cache(NAME_CACHE_SIZE)(_parse_name)


def _looks_like_name(name: str) -> bool:
    inside = name[1:-1]
    if "_" in inside or _HUMP.search(name):
        return True
    if "/" in inside or "\\" in inside:
        return not _TWO_WORDS.fullmatch(name)
    return "." in inside or name.startswith((".", "@"))


def _is_hash(part: str) -> bool:
    return bool(re.fullmatch(r"[0-9a-fA-F]+", part)) and any(each.isdigit() for each in part)


def _is_random(part: str) -> bool:
    if len(part) < _MIXED_CHARS or "_" in part or "/" in part:
        return False
    digits = sum(each.isdigit() for each in part)
    return digits >= len(part) // 8 and part.lower() != part


MIN_SENTENCE_SHARE: Final = 0.5
"""Of a sentence's weight that must be exceeded. Of the decisions in the recorded sessions'
segments those above it are in the summaries in other words, and those below are not."""

PASSAGE_LINES: Final = 3
"""Sentences or lines that are looked at together: over a whole summary of 4,000 words the
words of any sentence about the same work are found, each said of something else."""

ENTITY_WEIGHT: Final = 3
"""A name or a quoted word weighs as much as so many words: it is what a sentence is about."""

STEM_LETTERS: Final = 6
"""Letters by which a word is known again in another form: decide, decided, deciding."""

_LINE_OR_SENTENCE_END: Final = re.compile(r"\n|(?<=[.!?])\s")
_WORD: Final = re.compile(r"[^\W\d_]{3,}")
_QUOTED: Final = re.compile(r"`([^`\n]{2,80})`|\"([^\"\n]{2,40})\"")
_HANGUL: Final = re.compile(r"[가-힣]+")

_STOP_WORD_LIST: Final = (
    "about after again also always and any are because been before being but can cannot chose"
    " chosen could decided decision did does doing don done each every for from going had has"
    " have here how instead into its just let like make may more most must need never not now"
    " off only onto opted our out over please rather should since some such sure than that the"
    " their them then there these they this those though thus too under use used using very"
    " want was were what when where which while who why will with would you your"
)
_STOP_WORDS: Final = frozenset(_STOP_WORD_LIST.split())
"""Words that stand in every text, and the cues themselves: they tell nothing apart."""


class MentionIndex:
    """A text that is asked many times whether it speaks of something; capitals do not count."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._text: Final = "\n".join(texts).casefold()

    def has_name(self, name: str) -> bool:
        """Whether the text holds a name as a whole word."""
        return _contains_word(self._text, name.casefold())

    def has_path(self, path: str, shared: frozenset[str] = frozenset()) -> bool:
        """Whether a file is named: by its basename, or with its folder if that is ambiguous.

        `shared` are the basenames (casefolded) that several files have: `index.ts` alone does not
        identify one of them.
        """
        parts = split_path(path)
        if not parts:
            return False
        if parts[-1].casefold() not in shared or len(parts) == 1:
            return self.has_name(parts[-1])
        return self.has_name("/".join(parts[-2:])) or self.has_name("\\".join(parts[-2:]))

    def has_sentence(self, sentence: str) -> bool:
        """Whether the text holds a sentence: word for word, or most of it in one passage.

        Names and quoted words weigh ENTITY_WEIGHT, other words 1 and stop words nothing; a passage
        of PASSAGE_LINES must hold more than MIN_SENTENCE_SHARE of the whole weight.
        A sentence of stop words alone must occur word for word.
        """
        plain = " ".join(sentence.casefold().split())
        if plain.rstrip(".!?…") in self._flat:
            return True
        entities = {each.casefold() for each in _entities(sentence)}
        words = _stems(plain) - {stem for each in entities for stem in _stems(each)}
        found: Counter[int] = Counter()
        for places, weight in (
            *((self._lines_naming(each), ENTITY_WEIGHT) for each in entities),
            *((self._lines_with(each), 1) for each in words),
        ):
            for passage in {line - back for line in places for back in range(PASSAGE_LINES)}:
                found[passage] += weight
        whole = ENTITY_WEIGHT * len(entities) + len(words)
        return max(found.values(), default=0) > MIN_SENTENCE_SHARE * whole

    @cached_property
    def _flat(self) -> str:
        return " ".join(self._text.split())

    @cached_property
    def _lines(self) -> list[str]:
        return [
            line for line in _LINE_OR_SENTENCE_END.split(self._text) if line and not line.isspace()
        ]

    @cached_property
    def _places(self) -> dict[str, set[int]]:
        places: dict[str, set[int]] = {}
        for number, line in enumerate(self._lines):
            for word in _WORD.findall(line):
                places.setdefault(word[:STEM_LETTERS], set()).add(number)
        return places

    def _lines_with(self, stem: str) -> Iterable[int]:
        if not _HANGUL.match(stem):
            return self._places.get(stem, ())
        # Korean puts its particles at the word's end: without them it is found inside others.
        return [number for number, line in enumerate(self._lines) if stem in line]

    def _lines_naming(self, name: str) -> Iterable[int]:
        if name not in self._text:
            return ()
        return [number for number, line in enumerate(self._lines) if _contains_word(line, name)]


def _stems(plain: str) -> set[str]:
    stems = set()
    for word in _WORD.findall(plain):
        if _HANGUL.match(word):
            stems.add(word[:-1])
        elif word not in _STOP_WORDS:
            stems.add(word[:STEM_LETTERS])
    return stems


def _entities(sentence: str) -> set[str]:
    quoted = {one or other for one, other in _QUOTED.findall(sentence)}
    inside = " ".join(quoted)
    return quoted | {name for name in find_names(sentence) if name not in inside}


def _contains_word(text: str, wanted: str) -> bool:
    place = text.find(wanted)
    while place >= 0:
        if not (
            _is_word_character(text, place - 1) or _is_word_character(text, place + len(wanted))
        ):
            return True
        place = text.find(wanted, place + 1)
    return False


def _is_word_character(text: str, place: int) -> bool:
    return 0 <= place < len(text) and (text[place].isalnum() or text[place] == "_")
