"""The parts of a prompt that its author typed, told by their form from those that were pasted.

The client marks few pastes as such. What else was written before (a file, a plan, a log, a review,
a model's answer) shows by its form: headings, labels, tables, typography, names of code, and that
nobody speaks. Who quotes a rule sets none, so in doubt a part is not the author's.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from ..lazy_pattern import lazy_pattern

DOCUMENT: Final = lazy_pattern(
    r"^(?:#{1,6} +\S|(?:---|\+\+\+|===)[ \t]*$|<!|<\?xml|<[a-zA-Z][\w-]*(?: [^<>\n]*)?>[ \t]*$|#!/"
    r"|diff --git |@@ -\d|==> |[ \t]*\d+(?:→|\t)|\|.*\|[ \t]*$|(?:From|Subject): \S"
    r"|(?:[^\"“\n]*[\"“][^\"”\n]*[\"”])*[^\"“\n]*[\"“][^\"”\n]{20,}$"
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|Traceback \(most recent|[ \t]*[$❯➜⏺⎿●] \S|--- FAIL: "
    r"|\(\w+ pid=\d|[ \t]*(?:Uncaught )?\w*(?:Error|Exception)\b[^\n]{0,40}:|\[[\w-]+:[\w:-]+\]"
    r"|[ \t]*(?:warn(?:ing)?|error|fail|info|debug|hint|note)(?::|\[\w+\]:|:?[ \t]*$)"
    r"|[ \t]*(?:FAIL|PASS) +\S+[/.]\S|[ \t]*[✓✔✗✘×] \S"
    r"|[ \t]*(?:at \S+ ?\(|File \"[^\"\n]+\", line \d|npm (?:ERR!|error)|Caused by:)"
    r"|\d{1,2}:\d\d(?::\d\d)?[ \t]*$|[ \t]*\d+:\d+[ \t]+(?:warning|error)\b"
    r"|(?:low|medium|high|critical|minor|major) (?:severity|priority)[ \t]*$)"
    r"|^[^\n]{0,200}\b(?:files?|readme|docs?|documents?|documentation|pages?|articles?|web ?sites?"
    r"|outputs?|logs?|errors?|messages?|e?mails?|issues?|tickets?|comments?|reviews?|posts?"
    r"|feedback|findings?|suggestions?|reports?|reviewers?|copilot|coderabbit"
    r"|specs?|specifications?|briefs?|prds?|plans?|proposals?|transcripts?|release notes"
    r"|texts?|contents?|snippets?|guides?|answers?|replies|says|said|wrote|writes|reads|pasted?"
    r"|[\w./-]+\.(?:md|txt|rst|html?|json|ya?ml|toml|py|js|ts|log))\b[^\n:]{0,60}:[ \t]*\n",
    re.MULTILINE | re.IGNORECASE,
)
"""Where a document begins that was pasted without the client's mark: a heading, a table, a log, a
diff, a page's tag, a quotation over lines, or a line that introduces text by someone else. All
after it may belong to it."""

COMMAND_VERBS: Final = (
    r"(?:add|answer|apply|ask|avoid|build|call|change|check|commit|create|define|delete|document"
    r"|ensure|explain|fix|follow|format|handle|implement|import|include|indent|keep|leave|limit|log"
    r"|make|mark|match|move|name|never|pass|place|prefer|put|quote|raise|read|refer|remove|rename"
    r"|reply|report|respond|return|reuse|run|save|set|show|sort|split|start|stick|store|test|treat"
    r"|update|use|validate|verify|wrap|write)"
)
"""How a line begins that tells the model what to do."""

LONG_PROMPT_WITH_SECTIONS: Final = 1_000  # few type this many characters under titles
MIN_SECTIONS: Final = 3
MAX_TITLE_CHARS: Final = 60
MAX_TITLE_WORDS: Final = 8
MIN_CODE_LINES: Final = 2  # in a row: a single one may be an example

MIN_WRITTEN_CHARS: Final = 120  # of a part that counts as pasted: a shorter one may be an order
MIN_CODE_NAMES: Final = 2  # names of code in what describes code
MIN_FUNCTION_WORDS: Final = 3  # only English is known well enough to say that nobody is addressed
MIN_SIGNS: Final = 2  # one alone is how some people write

_RULER: Final = lazy_pattern(r"[ \t]*[–—─═━=_*~#-]{5,}[ \t]*")
_TITLE_START: Final = lazy_pattern(r"[^\w\s\"'`(]{0,3} *(?:\d+[.)] *)?[A-Z]")
_NUMBERED: Final = lazy_pattern(r"\d+[.)]")
_LIST_ITEM: Final = lazy_pattern(r"[ \t]*(?:[-*•+o]|\d+[.)]|[a-z][.)])[ \t]+\S")
_CODE_LINE: Final = lazy_pattern(
    r"[})\]]+[;,)]*|.*[{;]|- \w+: .*|.*[^\s]\\"
    r"|(?:import|from|export|const|let|var|def|class|function|return|public|private|echo|if|fi|done)\b"
    r".*[(){}\[\]=;\"'].*|\w[\w.]*\(.*\)[ \t]*[:;{]?|.*(?:=>|&&|\|\||\$\{|::).*"
    r"|[a-z][\w.]* \+?= \S.*"
)
_INDENTED_CODE: Final = lazy_pattern(r"[\w.\"'-]+: ?\S*|#.*")
_LETTER: Final = lazy_pattern(r"(?<=\n)(?:dear|hi|hello|welcome)\b[^\n]{0,60}[,!]", re.IGNORECASE)
_ORDER: Final = lazy_pattern(
    r"^[ \t]*(?:(?:[^\w\s\"'`(]{1,3}|\d+[.)])[ \t]*)?(?:please )?(?:do not|don[’']?t|never|always"
    r"|avoid|only|prefer|ensure|make sure|make only|keep)\b.*",
    re.MULTILINE | re.IGNORECASE,
)
_PARAGRAPH_END: Final = lazy_pattern(r"\n[ \t]*\n")
_SPOKEN: Final = lazy_pattern(
    r"\b(?:I|we|my|me|us|our|please|pls|plz|let(?:[’']?s| me)|(?:can|could|would) you|thanks|thank"
    r"|hey|ok|okay)\b|\b(?:I|we)[’']\w|(?<!\S)@[\w.(\[-]+/",
    re.IGNORECASE,
)
"""A person speaks, or names a file as the client completes it. "You" is no sign of it: a model's
answer addresses the person too."""

_OWN_LABEL: Final = r"(?:constraints?|rules?|important|note|remember|scope|goal|task|context)"
_ADDRESSED: Final = lazy_pattern(r"\b(?:you|your)\b|\byou[’']\w|\?\s*$", re.I | re.M)
_COMMANDED: Final = lazy_pattern(
    rf"\W*(?:\d+\W+)?(?:{_OWN_LABEL}:\s+)?(?:{COMMAND_VERBS}|do|don[’']t|always|only)\b"
    rf"|[^\n]*\b{COMMAND_VERBS}:[ \t]*\n",
    re.IGNORECASE,
)
_FUNCTION_WORD: Final = lazy_pattern(r"\b(?:the|is|are|this|these|of|to|and|but|in|for)\b")
_CODE_NAME: Final = lazy_pattern(
    r"`[^`\n]+`|\b\w+_\w+\b|\b[A-Za-z]+[a-z0-9][A-Z]\w*|\b\w+\(\)|\b\w[\w/-]*\.[A-Za-z]\w*"
)
_TYPOGRAPHY: Final = lazy_pattern(r"[—–•●→⇒✅❌⚠│├└“]|\*\*[^*\n]+\*\*")
"""What keyboards lack: models, documents and the frames of terminals have it."""

_LABEL: Final = lazy_pattern(
    r"^[ \t]*(?:(?:[-*+•]|\d+[.)])[ \t]*)?(?:\*\*[^*\n]{2,60}\*\*|[A-Z][\w /&-]{2,40}:[ \t]+\S"
    r"|\w[\w `/&-]{2,40} [—–] \S)",
    re.MULTILINE,
)
_OPENING_LABEL: Final = lazy_pattern(rf"(?!{_OWN_LABEL}\b)[A-Z][\w /&-]{{2,40}}:[ \t]+[A-Z]")
_TITLE: Final = lazy_pattern(r"(?:\d+[.)] )?[A-Z][^\n.!?:;,]{2,60}\n(?=[ \t]*\S)")
_ADOPTED: Final = lazy_pattern(
    r"\b(?:rules?|guidelines?|conventions?|constraints?|principles?|remember|obey|respect|stick to"
    r"|from now on|going forward|always|never)\b[^\n]{0,80}:\s*\Z",
    re.IGNORECASE,
)
"""Ends a part whose author makes the next one an order."""


def typed_parts(text: str) -> Iterator[str]:
    """Yield the parts of a prompt that its author typed.

    A document lasts to the end of the prompt, as it may hold anything; other pasted text lasts
    until somebody speaks. Of a long text under titles, a brief, only the orders count: they
    address the model, where a specification describes what is built.
    """
    end = _find_document(text)
    brief = _find_brief(text[:end]) if len(text) >= LONG_PROMPT_WITH_SECTIONS else end
    is_pasted, is_adopted = False, False
    for part in _PARAGRAPH_END.split(text[:brief]):
        if is_adopted or _SPOKEN.search(part):
            is_pasted = False
        elif is_written(part):
            is_pasted = True
        if not is_pasted:
            yield part
        is_adopted = not is_pasted and _ADOPTED.search(part) is not None
    yield from _ORDER.findall(text[brief:end])


def _find_document(text: str) -> int:
    """Return where a document begins in a prompt; its length if there is none."""
    found = [each for each in (DOCUMENT.search(text), _LETTER.search(text)) if each]
    end = min((each.start() for each in found), default=len(text))
    code: list[int] = []
    for offset, line, _ in _numbered_lines(text[:end]):
        code = [*code, offset] if _is_code(line) else []
        if len(code) >= MIN_CODE_LINES:
            return code[0]
    return end


def _is_code(line: str) -> bool:
    words = line.strip()  # so that no pattern tries each of many blanks
    is_indented = line[:1] in {" ", "\t"} and _INDENTED_CODE.fullmatch(words) is not None
    return is_indented or _CODE_LINE.fullmatch(words) is not None


def _find_brief(text: str) -> int:
    """Return where the first of several titles stands; the text's length if there are few."""
    titles = [
        offset
        for offset, line, following in _numbered_lines(text)
        if _is_title(line.strip(), following.rstrip())
    ]
    return titles[0] if len(titles) >= MIN_SECTIONS else len(text)


def _numbered_lines(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the offset of each line, the line and the one after it."""
    offset = 0
    for line, following in pairwise([*text.split("\n"), ""]):
        yield offset, line, following
        offset += len(line) + 1


def _is_title(line: str, following: str) -> bool:
    if _RULER.fullmatch(line):
        return True
    if (
        not 3 <= len(line) <= MAX_TITLE_CHARS
        or len(line.split()) > MAX_TITLE_WORDS
        or line[-1] in ".!?;,"
        or not _TITLE_START.match(line)
        or _SPOKEN.search(line)
        or (_COMMANDED.match(line) and not line.isupper())
    ):
        return False
    is_heading = line.isupper() or line.endswith(":") or not following
    is_numbered = len(following) > MAX_TITLE_CHARS and _NUMBERED.match(line) is not None
    return is_heading or is_numbered or _LIST_ITEM.match(following) is not None


def is_written(part: str) -> bool:
    """Whether a paragraph reads like a document: it has two signs of one, and nobody speaks."""
    if len(part) < MIN_WRITTEN_CHARS or _SPOKEN.search(part) or part.lstrip()[:1].islower():
        return False
    is_english = len(_FUNCTION_WORD.findall(part)) >= MIN_FUNCTION_WORDS
    is_command = _COMMANDED.match(part) is not None
    signs = (
        is_english and not is_command and not _ADDRESSED.search(part),
        len(set(_CODE_NAME.findall(part))) >= MIN_CODE_NAMES and not is_command,
        _TYPOGRAPHY.search(part) is not None,
        len(_LABEL.findall(part)) > 1 or _OPENING_LABEL.match(part) is not None,
        _TITLE.match(part) is not None,
    )
    return sum(signs) >= MIN_SIGNS
