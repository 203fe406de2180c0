"""Find the names and facts in a text, and whether a text mentions a name, a file or a sentence."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from typing import Final

from ..lazy_pattern import lazy_pattern
from ..transcript.authorship import PASTE_TAG, remove_pastes

MIN_NAME_CHARS: Final = 8  # compaction.md 4.6; shorter ones occur in any text by chance
MIN_SHAPED_CHARS: Final = 4  # of `tool_0` or `runAll`: no word of prose looks like that
MAX_NAME_CHARS: Final = 160  # a longer one is data, not a name

_NAME_CHARS: Final = r"[\w./\\$@-]"
_TOKEN: Final = re.compile(
    rf"{_NAME_CHARS}{{{MIN_NAME_CHARS},}}"
    rf"|(?<!{_NAME_CHARS})(?:[^\W_]+_\w+|[a-z][a-z0-9]+[A-Z]\w*)"
)


def find_names(text: str) -> set[str]:
    """Find the names that a text uses: 8 characters or more, with the look of a name.

    A name has a path separator, a dot, an underscore or a camel hump inside
    (compaction.md 4.6), and an underscore or a hump after small letters makes four characters
    enough; hashes, ids, versions, numbers and keys are left out. Korean, Japanese and Chinese
    words that are joined to a name's end are no part of it.
    """
    return _names_of(_TOKEN.findall(strip_paste_tags(text)))


_DECLARATION: Final = re.compile(
    r"(?:\b(?:def|class|function|fn|func|struct|interface|type|enum|trait|module|namespace)"
    r"|^(?:export )?(?:const|let|var))\s+([A-Za-z_$][\w$]+)",
    re.MULTILINE,
)
"""Variables count only at the top of a module: the others are short-lived."""


def find_declarations(text: str) -> set[str]:
    return _names_of(_DECLARATION.findall(text))


_PASTE_TAG_PATTERN: Final = re.compile(rf"</?{PASTE_TAG}\b[^<>]{{0,200}}>")


def strip_paste_tags(text: str) -> str:
    return _PASTE_TAG_PATTERN.sub(" ", text) if PASTE_TAG in text else text


def strip_pasted_text(text: str) -> str:
    """Return a prompt without what was pasted; all of it if nothing else was typed."""
    words = remove_pastes(text)
    return words if words.strip() else strip_paste_tags(text)


def fitting_names(names: Iterable[str], chars: int) -> list[str]:
    """Return the first names that a list of so many characters holds."""
    fitting: list[str] = []
    for name in names:
        if len(name) + 2 <= chars:
            fitting.append(name)
            chars -= len(name) + 2
    return fitting


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


def _names_of(tokens: Iterable[str]) -> set[str]:
    return {name for token in set(tokens) if (name := _name_of_token(token))}


def _name_of_token(token: str) -> str | None:
    # A session uses the same names again and again.
    return _parse_name_cached(token) if len(token) <= MAX_NAME_CHARS else _parse_name(token)


_HUMP: Final = re.compile(r"[a-z0-9][A-Z]")
_SHAPED: Final = re.compile(r"\w_\w|^[a-z][a-z0-9]+[A-Z]")
_OWNER: Final = re.compile(
    r"^(?:self|this|cls)\.|^\.{2,}(?![/\\])|^\.(?=\w+(?:\.|[a-z0-9][A-Z]))|^//+"
)
_BUILTIN_NAME: Final = re.compile(
    r"(?:console|JSON|Math|Object|Array|Promise|Number|String|document|window|\w)\.|/dev/|\d"
)
"""How names begin that every program uses, loop variables, and what is not a name."""
_NOT_A_PATH: Final = re.compile(r"\w@|\\\W|\.\.\.")  # an address, a search pattern, an ellipsis
_TWO_WORDS: Final = re.compile(r"[A-Za-z]+/[A-Za-z]+")
_NAME_SEPARATOR: Final = re.compile(r"[./\\-]+")
_TWO_LETTERS: Final = re.compile(r"[^\W\d_]{2}")
_NUMBER_OR_HASH: Final = lazy_pattern(r"[0-9a-fA-F]{7,}|[\d_.:TZ+-]+|v?\d[\w.-]*")
_HASH: Final = re.compile(r"(?=.*\d)[0-9a-fA-F]+")
_SECRET: Final = lazy_pattern(
    r"(?:sk|pk|rk)[-_](?:live|test|ant|proj|[A-Za-z0-9]{16})|gh[pousr]_|github_pat_|glpat-|xox[a-z]-"
    r"|AKIA|ASIA|eyJ[\w-]{8}|(?:toolu|msg|req|call|srvtoolu|resp|chatcmpl)_"
)
"""How keys begin, and the ids that an API gives: neither names anything."""

_MIXED_CHARS: Final = 24  # mixed-case letters and digits of this length are a key or a hash


_CJK: Final = lazy_pattern("[\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\u3400-\u9fff\uac00-\ud7a3]")
_JOINED_WORD: Final = lazy_pattern(rf"(?<=[A-Za-z0-9]){_CJK.pattern}+\Z")
"""A Korean particle and the like: `parse_block_3을`, `src/app.py에서`."""


def _without_joined_word(word: str) -> str:
    return word if word.isascii() else _JOINED_WORD.sub("", word)


def _parse_name(token: str) -> str | None:
    name = _OWNER.sub("", _without_joined_word(token).lstrip("-").rstrip(".-/\\"))
    least = MIN_SHAPED_CHARS if _SHAPED.search(name) else MIN_NAME_CHARS
    if not least <= len(name) <= MAX_NAME_CHARS or not _looks_like_name(name):
        return None
    if _BUILTIN_NAME.match(name) or _NOT_A_PATH.search(name):
        return None
    parts = [part for part in _NAME_SEPARATOR.split(name) if part]
    if not parts or any(_SECRET.match(part) or _is_random(part) for part in parts):
        return None
    if all(_NUMBER_OR_HASH.fullmatch(part) or not _TWO_LETTERS.search(part) for part in parts):
        return None
    # A part that is a hash (a build's file, a temporary folder) makes the name short-lived.
    has_hash = any(len(part) >= MIN_NAME_CHARS and _HASH.fullmatch(part) for part in parts)
    return None if has_hash else name


_parse_name_cached: Final = lru_cache(8_192)(_parse_name)  # about 2 MB


def _looks_like_name(name: str) -> bool:
    inside = name[1:-1]
    if "_" in inside or _HUMP.search(name):
        return True
    if "/" in inside or "\\" in inside:
        return not _TWO_WORDS.fullmatch(name)
    return "." in inside or name.startswith((".", "@"))


def _is_random(part: str) -> bool:
    if len(part) < _MIXED_CHARS or "_" in part or "/" in part:
        return False
    digits = sum(character.isdigit() for character in part)
    return digits >= len(part) // 8 and part.lower() != part


def _find_whole_word(text: str, word: str, before: str = "_", after: str = "_") -> int:
    """Return where a word occurs with no letter, digit or mark beside it, or -1.

    `before` and `after` are the marks that may not directly precede or follow it.
    """
    place = text.find(word)
    while place >= 0:
        end = place + len(word)
        before_it, behind_it = text[place - 1 : place], text[end : end + 1]
        if (not _joins(before_it, before) or _is_joined_word(before_it, word[:1])) and (
            not _joins(behind_it, after) or _is_joined_word(behind_it, word[-1:])
        ):
            return place
        place = text.find(word, place + 1)
    return -1


def _joins(character: str, marks: str) -> bool:
    return character.isalnum() or (character != "" and character in marks)


def _is_joined_word(character: str, edge: str) -> bool:
    """Whether a Korean particle and the like is joined to a word that ends in another script."""
    return _CJK.match(character) is not None and _CJK.match(edge) is None


MIN_SENTENCE_SHARE: Final = 0.5
"""Share of a sentence's weight that must be exceeded. Of the decisions in the recorded sessions'
segments, those above it are in the summaries in other words and those below it are not."""

PASSAGE_LINES: Final = 3
"""Lines or sentences that form a passage: a whole summary of 4,000 words holds the words of any
sentence about the same work, each about something else."""

ENTITY_WEIGHT: Final = 3  # words that a name or quoted word counts for: the sentence is about it
STEM_LETTERS: Final = 6  # letters that identify a word in another form: decide, decided, deciding

_LINE_OR_SENTENCE_END: Final = re.compile(r"\n|(?<=[.!?])\s")
_LETTERS: Final = re.compile(r"[^\W\d_]{3,}")
_QUOTED: Final = re.compile(r"`([^`\n]{2,80})`|\"([^\"\n]{2,40})\"")
_HANGUL: Final = re.compile(r"[가-힣]+")
_REJECTED: Final = re.compile(r"\b(?:instead of|rather than)\b.*?(?=[,;:.!?](?:\s|$)|$)", re.I)
"""What was not chosen: a summary states the choice."""

_STOP_WORD_LIST: Final = (
    "about after again also always and any are because been before being but can cannot chose"
    " chosen could decided decision did does doing don done each every for from going had has"
    " have here how instead into its just keep let like make may more most must need never not now"
    " off okay only onto opted option our out over please rather should since some such sure than"
    " that the"
    " their them then there these they this those though thus too under use used using very"
    " want was were what when where which while who why will with would yeah yes you your"
)
_STOP_WORDS: Final = frozenset(_STOP_WORD_LIST.split())
"""Words that occur in every text, and the cue words: they distinguish nothing."""


class MentionIndex:
    """A text that is asked many times whether it mentions something, ignoring case."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._whole: Final = "\n".join(texts)
        self._text: Final = self._whole.casefold()

    def has_name(self, name: str) -> bool:
        return _find_whole_word(self._text, name.casefold()) >= 0

    def has_verbatim(self, name: str) -> bool:
        """Whether a name occurs as it is written: a path whole, letters in their case."""
        return _find_whole_word(self._whole, name) >= 0

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
        of PASSAGE_LINES must hold more than MIN_SENTENCE_SHARE of the whole weight. What was not
        chosen ("rather than …") is not looked for.
        A sentence of stop words alone must occur word for word: `yes, let's go with A`.
        """
        plain = " ".join(sentence.casefold().split())
        if plain.rstrip(".!?…") in self._flat:
            return True
        sentence = _REJECTED.sub("", sentence)
        quoted = {ticked or in_quotes for ticked, in_quotes in _QUOTED.findall(sentence)}
        inside = " ".join(quoted)
        names = {name for name in find_names(sentence) if name not in inside}
        entities = {entity.casefold() for entity in quoted | names}
        words = _stems(sentence.casefold()) - {
            stem for entity in entities for stem in _stems(entity)
        }
        weights: Counter[int] = Counter()
        for lines, weight in (
            *((self._lines_naming(entity), ENTITY_WEIGHT) for entity in entities),
            *((self._lines_with(word), 1) for word in words),
        ):
            for passage in {line - back for line in lines for back in range(PASSAGE_LINES)}:
                weights[passage] += weight
        whole = ENTITY_WEIGHT * len(entities) + len(words)
        return max(weights.values(), default=0) > MIN_SENTENCE_SHARE * whole

    @cached_property
    def _flat(self) -> str:
        return " ".join(self._text.split())

    @cached_property
    def _lines(self) -> list[str]:
        lines = _LINE_OR_SENTENCE_END.split(self._text)
        return [line for line in lines if line and not line.isspace()]

    @cached_property
    def _lines_by_stem(self) -> dict[str, set[int]]:
        lines: dict[str, set[int]] = {}
        for number, line in enumerate(self._lines):
            for word in _LETTERS.findall(line):
                lines.setdefault(word[:STEM_LETTERS], set()).add(number)
        return lines

    def _lines_with(self, stem: str) -> Iterable[int]:
        if not _HANGUL.match(stem):
            return self._lines_by_stem.get(stem, ())
        # Korean joins its particles to the word's end: the bare word is found inside others.
        return [number for number, line in enumerate(self._lines) if stem in line]

    def _lines_naming(self, name: str) -> Iterable[int]:
        if name not in self._text:
            return ()
        return [n for n, line in enumerate(self._lines) if _find_whole_word(line, name) >= 0]


def _stems(plain: str) -> set[str]:
    return {
        word[:-1] if _HANGUL.match(word) else word[:STEM_LETTERS]
        for word in _LETTERS.findall(plain)
        if word not in _STOP_WORDS
    }


_WORD: Final = re.compile(r"[\w./\\$@-]{3,}")  # what a name or a fact is made of
_WORD_MARKS: Final = "_./\\$@-"
_OWNER_PREFIX: Final = re.compile(r"(?:self|this|cls)\.|//")  # before a word, and no part of it
_WORD_JOINTS: Final = re.compile(r"[-@]|\.\.+|\\+[nrt]?")
"""Between the parts of an id, before a version, in a range, and where a line end is written as
an escape: each part is a fact of its own."""

_MAX_LOST_PER_TOKEN: Final = 2 / 1_000
"""Names that an operation may lose for each token that it frees: measured, a conversation names
5 to 20 things in 1,000 tokens, and 98 % of their weight is to stay (compaction.md 7.8)."""

_FACT: Final = re.compile(
    r"(?P<code>E[A-Z]{4,12}|[A-Z]{1,4}\d{3,5}|[A-Z][A-Za-z]+(?:Error|Exception))"
    r"|(?P<variable>[A-Z][A-Z0-9]*_[A-Z0-9_]+)"
    r"|(?P<opaque>v?\d+\.\d+\.\d+(?:-[\w.]+)?|(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40})"
    r"|(?P<port>\d{2,5})"
)
"""Error codes and classes, environment variables, versions and hashes; ports depend on what
surrounds them (compaction.md 4.2, Q3)."""

_PORT_PREFIXES: Final = ("localhost:", "127.0.0.1:", "0.0.0.0:", "ort ", "--port ", "--port=")
_SCHEMES: Final = ("https://", "http://")
_URL: Final = re.compile(r"[^\s\"'<>`\])\\]+")
_QUOTES: Final = "\"'`"
_CONSTANT: Final = re.compile(r"([\"'`])([A-Za-z][\w:-]{3,39})(?=\1)")
"""A quoted word, which code compares with: `"failed"` is a value, other than the word failed."""
_QUOTED_WORD: Final = "'"  # how a constant begins among the words of a text, whatever quotes it
FACT_CONTEXT_CHARS: Final = 40  # before an opaque fact; where they are few, half as many behind it


class NameIndex:
    """How many parts of a conversation hold each word."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._held: Final = Counter[str]()
        for text in texts:
            self._held.update(split_words(text))
        self._ever: Final = self._held.copy()

    def unique_names(self, text: str, kept_text: str = "") -> list[str]:
        """List what a part's text names and neither another part nor what is kept of it does.

        What most parts held comes first; of equals facts, for they are short and occur
        nowhere else, then names, in the order of the text. A number or a hash includes
        the words before it: alone it has no meaning.
        """
        names = self._names_only_in(text, kept_text)
        return sorted(names, key=lambda shown: -self._ever[names[shown]])

    def allows_loss(self, before: str, after: str, saved_tokens: int) -> bool:
        """Whether a change loses few enough names for the tokens that it frees."""
        lost = self._names_only_in(before, after).values()
        return sum(max(1, self._ever[word]) for word in lost) <= _MAX_LOST_PER_TOKEN * saved_tokens

    def replace_text(self, before: str, after: str) -> None:
        old, new = split_words(before), split_words(after)
        self._held.subtract(old - new)
        self._held.update(new - old)

    def _names_only_in(self, text: str, kept: str) -> dict[str, str]:
        """Map each name or fact found only in this text, as displayed, to its counted word."""
        kept_words = split_words(kept)
        unique = {word for word in split_words(text) if self._held[word] <= 1} - kept_words
        return find_names_and_facts(text, unique) if unique else {}


@lru_cache(maxsize=16)
def split_words(text: str) -> frozenset[str]:
    """Split a text into possible names and constants; joined words also into their parts."""
    words = {_QUOTED_WORD + word for _, word in set(_CONSTANT.findall(text))}
    return frozenset(words.union(*map(_word_and_parts, set(_WORD.findall(text)))))


@lru_cache(maxsize=16_384)  # about 3 MB
def _word_and_parts(word: str) -> tuple[str, ...]:
    owner = _OWNER_PREFIX.match(word)
    stripped = _without_joined_word(word[owner.end() :] if owner else word).rstrip("-./\\")
    if not _WORD_JOINTS.search(stripped):
        return (stripped,)
    return stripped, *_WORD_JOINTS.split(stripped)


def find_names_and_facts(text: str, words: Iterable[str]) -> dict[str, str]:
    """Find which words are facts or names: as displayed, facts first.

    Each is mapped to the word under which it is counted.
    """
    facts: dict[str, str] = {}
    names: dict[str, str] = {}
    shown_to = 0
    # Finding a word's place takes most of the time. After a scheme any word is part of an address.
    likely = words if "://" in text else filter(_may_be_shown, words)
    for place, _, word in sorted((_find_word(text, word), -len(word), word) for word in likely):
        if place < shown_to:
            # A longer name or fact includes it.
            continue
        if fact := _fact_at(text, place, word):
            if not contains_secret(fact):
                facts.setdefault(fact, word)
        elif name := _name_of_token(word):
            names.setdefault(name, word)
        else:
            continue
        shown_to = place + len(word)
    in_facts = split_words("\n".join(facts))
    return facts | {name: word for name, word in names.items() if word not in in_facts}


def _may_be_shown(word: str) -> bool:
    is_fact = word.startswith(_QUOTED_WORD) or _FACT.fullmatch(word) is not None
    return is_fact or _name_of_token(word) is not None


def decoded_text(value: object, call_id: str | None) -> str:
    """Join the texts of a decoded line's message: of one call or result, or of all others."""
    line = value if isinstance(value, dict) else {}
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list):
        return "\n".join(_strings([content, line.get("attachment"), line.get("content")]))
    return "\n".join(
        text
        for block in content
        if isinstance(block, dict)
        and call_id == (block.get("tool_use_id") or (block.get("input") and block.get("id")))
        for text in _strings([block.get(name) for name in ("text", "content", "input")])
    )


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)


def _find_word(text: str, word: str) -> int:
    """Find where a word occurs as a whole; its first place if it is always a part of others."""
    if word.startswith(_QUOTED_WORD):
        places = (text.find(f"{mark}{word[1:]}{mark}") for mark in _QUOTES)
        return min(place for place in places if place >= 0)
    # A dot after it ends a sentence.
    place = _find_whole_word(text, word, _WORD_MARKS, _WORD_MARKS.replace(".", ""))
    return place if place >= 0 else text.find(word)


def _fact_at(text: str, place: int, word: str) -> str | None:
    """Return the fact as a stub displays it; None if the word is no fact."""
    if word.startswith(_QUOTED_WORD):
        return f"{word}{_QUOTED_WORD}"
    scheme = next((scheme for scheme in _SCHEMES if text.endswith(scheme, 0, place)), None)
    if scheme:
        address = _URL.match(text, place)
        return f"{scheme}{address[0].rstrip('.,;:!?)') if address else word}"
    fact = _FACT.fullmatch(word)
    if fact is None:
        return None
    kind, end = fact.lastgroup, place + len(word)
    if kind == "opaque" or (kind == "port" and text.endswith(_PORT_PREFIXES, 0, place)):
        return _fact_with_context(text, place, end)
    return None if kind == "port" else word


def _fact_with_context(text: str, start: int, end: int) -> str:
    first = max(text.rfind("\n", 0, start) + 1, start - FACT_CONTEXT_CHARS)
    before, after = text[first:start], ""
    if first and text[first - 1] != "\n":
        # The word that the window cuts is left out.
        before = before.partition(" ")[2] if " " in before else before
    if len(before) < FACT_CONTEXT_CHARS // 2:
        after = text[end : end + FACT_CONTEXT_CHARS // 2].partition("\n")[0]
        is_complete = text[end + len(after) : end + len(after) + 1] in {"", "\n"}
        after = after if is_complete else after.rpartition(" ")[0]
    return f"{before.lstrip()}{text[start:end]}{after.rstrip()}"
