"""Patterns that find the sentences of a text that state a decision, a reason or a rule.

The cue patterns are broad and cheap: "the prompt never warns" matches one. `find_rules` and
`find_decisions` then keep only the sentences that set a rule or say what was decided;
`tests/bench/bench_stated.py` measures them on labeled sentences of recorded sessions.
"""

import re
from collections.abc import Iterator
from typing import Final

from ..lazy_pattern import lazy_pattern
from ..transcript.prompt_parts import COMMAND_VERBS
from ..transcript.sanitize import beyond_ascii

DECISION_PATTERN: Final = lazy_pattern(
    r"\b(?:decided|decision|(?:we|I|you) chose|chosen|opted (?:for|to)|settled on|agreed (?:on|to)"
    r"|instead of|rather than|going with"
    r"|(?:let[’']?s|we[’']ll|I[’']ll|we will|I will) (?:use|go with|keep)|switched (?:to|from))\b"
    r"|결정|하기로|대신|선택(?:했|하겠|함)",
    re.IGNORECASE,
)
"""A decision (compaction.md 4.3: decided, chose, instead of), in English and Korean."""

REASON_PATTERN: Final = lazy_pattern(r"\b(?:because|the reason)\b|때문에|이므로", re.IGNORECASE)
"""A reason: it belongs to a decision if the sentence names something (compaction.md 4.3)."""

RULE_PATTERN: Final = lazy_pattern(
    r"\b(?:must(?:n't)?|never|always|only|do not|don[’']?t|should(?:n[’']?t| not)|no longer"
    r"|required to|forbidden"
    r"|make sure|prefer|from now on|going forward|stop \w+ing|avoid|use \S[^.?!\n]{0,60} instead of"
    r"|that[’']s (?:wrong|not)|I (?:already |just )?(?:said|told you|asked you))\b"
    r"|\bno, (?=\w)|, not\b"
    r"|지\s?마(?:세요|라|십시오)?(?![가-힣])|지\s?말(?:고|아|것|라)|반드시|항상|절대|금지"
    r"|앞으로|이제부터|그만|말고|아니라|틀렸|라고 했",
    re.IGNORECASE,
)
"""A person's rule or correction (compaction.md 4.2, Q8), in English and Korean."""

_RULE_WORDS: Final = frozenset(
    b"must mustn never always only not don dont should shouldn shouldnt no longer required"
    b" forbidden sure prefer now forward stop avoid instead wrong said told".split()
)
_OTHER_LETTERS: Final = re.compile("[가-힣ıİKſ]")  # Korean; i, k and s to a pattern without case
_TO_SMALL_WORDS: Final = bytes(
    ord(chr(code).lower()) if chr(code).isascii() and chr(code).isalnum() else ord(" ")
    for code in range(256)
)


def states_rule(text: str) -> bool:
    """Whether RULE_PATTERN matches.

    In English one of a few words stands in every match. Most texts have none, which their words
    show in a twentieth of the time.
    """
    words = text.encode("utf-8", "replace").translate(_TO_SMALL_WORDS)
    if (
        _RULE_WORDS.isdisjoint(words.split())
        and b"asked you" not in words
        and not _OTHER_LETTERS.search(beyond_ascii(text))
    ):
        return False
    return RULE_PATTERN.search(text) is not None


MIN_SENTENCE_CHARS: Final = 8  # a shorter one ("Don't!") names nothing that a summary could hold
MAX_SENTENCE_CHARS: Final = 500  # a longer run without an end is a table, a log or code
QUOTE_CHARS: Final = 180  # of a sentence that is shown: two lines of a terminal
_FENCED: Final = lazy_pattern(r"^[ \t]*```.*?(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL)
_SENTENCE_END: Final = lazy_pattern(r"(?<!\be\.g)(?<!\bi\.e)[.!?…](?=\s|$)|[。！？]|\n")
_LIST_MARKS: Final = lazy_pattern(r"^(?:[-*+>#|]+|\d+[.)])\s+|^[\s*_>#|]+|[\s*_|]+$")


def find_sentences(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """Yield the sentences that match a pattern, in order, each once; fenced code is skipped.

    White space is collapsed to one space, and list and heading marks are removed.
    """
    if not pattern.search(text):
        return
    if "```" in text:
        text = _FENCED.sub("\n", text)
    end = 0
    for match in pattern.finditer(text):
        if match.start() < end:
            continue
        begin, end = _sentence_bounds(text, match.start(), match.end())
        if end - begin <= MAX_SENTENCE_CHARS:
            words = _LIST_MARKS.sub("", text[begin:end].strip()).replace("**", "").split()
            sentence = " ".join(words)
            if len(sentence) >= MIN_SENTENCE_CHARS:
                yield sentence


def quote_line(text: str, chars: int = QUOTE_CHARS) -> str:
    """Cut a text to one short line."""
    line = " ".join(text[: 4 * chars].split())
    return line if len(line) <= chars else line[: chars - 1].rstrip() + "…"


def _sentence_bounds(text: str, start: int, end: int) -> tuple[int, int]:
    # Anything longer is not a sentence: the search ends there.
    begin = max(0, start - MAX_SENTENCE_CHARS - 1)
    for match in _SENTENCE_END.finditer(text, begin, start):
        begin = match.end()
    after = _SENTENCE_END.search(text, end, end + MAX_SENTENCE_CHARS + 1)
    return begin, after.end() if after else min(len(text), end + MAX_SENTENCE_CHARS + 1)


# Where a command may begin: at the start of the sentence or of a clause.
_CLAUSE_START: Final = (
    r"(?:^|[,;:(—–]\s*|\b(?:and|but|so|or|then|please|also|just)\s+)"
    r"(?:(?:and|but|so|or|then|please|also|just|you)\s+)*"
)
_NOT_COMMANDED: Final = (
    r"(?:know|think|see|like|mind|care|remember|understand|believe|worry|(?:only )?have|seem|exist"
    r"|appear|need)\b"
)
_MODAL_VERBS: Final = (
    r"(?:must|should|shall|will|would|may|have to|has to|need to|needs to|ought to)"
)
_OBLIGES: Final = (
    r"(?:must|should|shall|have to|has to|need to|needs to|ought to|(?:we|you) (?:will|would|may))"
)
"""The verbs of obligation: `will` and `may` describe, unless the two who speak are meant."""

_NO_WISH: Final = (
    r"(?:have\b|need\b|happen|occur|fail|crash|break|matter|take\b|it\b|we\b|I\b|be (?:too\b"
    r"|an? (?:problem|issue|concern)\b|hard\b|needed\b|necessary\b|possible\b|happening\b"
    r"|the case\b|\w*difficult))"
)
"""What should not be so, in a complaint."""

_LETS: Final = r"(?:let[’']s|(?<!\w )lets|(?<=\b(?:so|ok) )lets|(?<=\b(?:and|now|but) )lets)"
"""Also without its apostrophe, but not the verb: "this lets it stop"."""

_WE_WILL: Final = rf"(?:{_LETS}|we[’']ll|I[’']ll|we will|I will|let me)"

_CORRECTION: Final = (
    rf"^(?:no|nope|wrong)[,:;—–-]+\s*(?:please\s+)?(?:{COMMAND_VERBS}\b"
    rf"|(?:it|that|they|we|you)\s+{_MODAL_VERBS}\b)"
    r"|^(?:please\s+)?use\b[^.?!]{1,80}?(?:,\s*not\b|\binstead of\b)|\bshould\b[^.?!]{1,80}, not\b"
    r"|\bI(?: already| just)? (?:said|told you|asked you)[,:]?\s+[\"“]?"
    r"(?:not\b|never\b|to \w|no\b|only\b|use\b|that (?:you|it|we|they)\b)"
    r"|\bthat[’']s (?:wrong|incorrect|not right|not what I \w+)[,:;—–-]+\s*\w+\s+\w+"
)
"""What was not as the person wants it, with what is wanted."""

_RULE: Final = lazy_pattern(
    rf"{_CLAUSE_START}(?:(?:{_LETS}\s+)?(?:never|always)|do not|don[’']?t|prefer|make sure"
    rf"|(?:ensure|be sure)\b)(?!\s+{_NOT_COMMANDED})(?=\s+\w)"
    r"|^(?:when(?:ever)?|if|before|after|once|for)\b[^.?!;]{1,120}\b(?:always|never)\s+"
    r"(?!be\b|been\b|an?\b|the\b|in\b|on\b)[a-z-]{2,}(?<!ed)(?<!ing)(?<!s)\b"
    r"|\b(?:I|we)(?: really| also| still)? (?:don[’']?t|do not) want\b"
    r"(?! to (?:know|see if|ask|say))"
    rf"|{_CLAUSE_START}only\s+(?!because|if\b|then|one\b|two\b|a\b|an\b)"
    r"(?:\w+(?<!ed)(?<!s)\s+(?:(?:it|them|this|that)\s+)?(?:when|if|for|in|on|the|what|these|those|to)\b)"
    r"|^(?!there|this|that|it|these|the|a|an|i|we|they|you|he|she|which|what|who|still|currently|now|so)[a-z]+\s+only\b"
    rf"|\b{_OBLIGES}\s+(?:only|never|always)\b"
    rf"|\b(?:{_OBLIGES}\s+not|shouldn[’']?t)\s+(?!{_NO_WISH})\w"
    r"|\bmust(?:n[’']t)?\s+(?!have\b|admit\b|be (?:due|because|some|caused|coming|related)\b)\w"
    r"|\bonly\s+(?:the|this|that|these|those)\s[\w\s-]{1,40}?\b(?:should|must|may)\b"
    r"|(?<!\bis )(?<!\bare )(?<!\bwas )\bonly\s+(?:be\s+)?\w+ed\s+(?:when|if)\b"
    r"|\bonly\s+(?:be\s+)?(?:shown|run|sent|built)\s+(?:when|if)\b"
    r"|\b(?:make|keep|keeps?)\b[\w\s'’-]{1,60}?\balways\b"
    r"|\bI(?:\s+\w+)?\s+prefer\s+\w|\bno longer\s+(?:to\s+)?be\b.*\b(?:should|must)\b"
    r"|\b(?:is|are)\s+(?:forbidden|required to|not allowed)\b|^forbidden\b"
    rf"|\bfrom now on\b|\bgoing forward\b|{_CLAUSE_START}(?:stop\s+\w+ing|avoid)\s+\w"
    rf"|{_CORRECTION}"
    r"|지\s?마(?:세요|라|십시오)?(?![가-힣])|지\s?말(?:고|아|것|라)|반드시|항상|절대|금지"
    r"|^앞으로(?:는|도)?\s|이제부터|그만\s?(?:하|해|쓰|써)|라고 했(?:잖|는데|지|습니다|어)"
    r"|(?:말고|아니라|틀렸)[\s\w]*[\s,].*(?:사용|쓰|써|하세요|해 ?주세요|해야)",
    re.IGNORECASE,
)
"""A command, an obligation, a restriction or a correction, in the person's own words."""

_MEMORY_RULE: Final = lazy_pattern(
    rf"^{COMMAND_VERBS}\b|[:;—–]\s+{COMMAND_VERBS}\b|{_RULE.pattern}", re.IGNORECASE
)

_SUBJECT: Final = r"\b(?:I|we|they|it|he|she|which|that|who|where)(?:[’'](?:ll|ve|m|re))?"

_UNIVERSAL: Final = (
    r"\b(?:always|never|every(?!thing)\w*|each|any(?!thing)\w*|only|do not|don[’']?t|prefer"
    r"|from now on|going forward|(?:claude|agents)\.md)\b"
)
"""What makes a request hold for longer than one piece of work."""

_OF_THE_MOMENT: Final = lazy_pattern(
    # A question, also without its mark, and a clause that asks nothing by itself.
    r"^(?!.*\b(?:always|never)\b)(?:(?:so|also|and|but|or|ok(?:ay)?|now|then|yes|no)[, ]+)*"
    r"(?:(?:can|could|would|will|should)"
    r" (?:we|you|I|it|there|this|that|they|the)|(?:is|are) (?:it|there|this|that|they|we|the)"
    r"|(?:do|does|did) (?:you|we|I|they|it|the)|(?:is|are|should|could|would)n[’']?t)\b"
    r"|^(?:what|which|how|why|where|who|whether|whatever)\b"
    r"|^\W*(?:ok(?:ay)?|so|and|yes|then|please)?\W*(?:from now on|going forward)\W*$"
    # One step among others of a task, which is done once.
    rf"|^(?!.*{_UNIVERSAL}).*(?:[,;.(–—-]|\b(?:and|then|also|so|but|to))\s+(?:please\s+)?"
    r"(?:make sure|ensure|be sure)\b"
    rf"|^(?!.*{_UNIVERSAL}).*\b(?:make sure|ensure)"
    r"(?: also\b| (?:that )?(?:\S+ ){1,5}?(?:is|are|isn[’']t|aren[’']t|works?)\b)"
    r"|\bto \w+[^.;]{1,80} and (?:ensure|avoid|make sure)\b|\bgoal (?:is|of)\b|^[a-z]+ only \d"
    # What must be so, as it follows from something.
    r"|\b(?:so|then|therefore|thus|which means|meaning)[, ]+"
    r"(?:it|this|that|there|they|the \w+) must\b|\bif (?:I|we|you|it) must\b"
    r"|^(?:but |so )?there must be (?:some|other|another|an? \w+(?: \w+){0,3} (?:that|which|who)\b"
    r"|an? (?:reason|way|problem|bug|mistake))|^because\b|\bseems?\b"
    r"|\b(?:I|we) (?:think|guess|assume|suppose)\b.*\bmust\b|\bmust be (?:there|here|somewhere)\b"
    r"|\b(?:it|this|that|they) must be \w+ing\b"
    r"|\bmust[- ](?:fix(?:es)?|haves?|knows?|requirements?)\b"
    r"|\b(?:what|which|why|how|whether|where|when) (?:\S+ )?(?:should|must)\b"
    r"|\bfirst\b.*\bthen\b|\bfix (?:this|it|that)\b|\ba fix\b"
    r"|\b(?:make|be) sure (?:that )?(?:everything|there|all (?:of )?(?:those|these|the|my|our))\b"
    r"|^\W*(?:invalid|unexpected|missing|cannot|expected)\b|\bmust be (?:some\w*|because)\b"
    r"|\b(?:must|should) \w+:$|\bdetected\b"
    r"|\blet[’']?s (?:first )?fix\b"
    r"|^\W*(?:ok(?:ay)?\W+)?(?:do not|don[’']?t) do (?:that|this|it)\W*$"
    r"|^(?!.*\b(?:always|never|every\w*|all|each|any\w*|only)\b).*\bmust (?:be )?(?:updated?"
    r"|renamed?|moved?|removed?|replaced?|fixed|deleted?|created?|added?|changed?|split)\b"
    r"|\bwe are required to\b|\bwonder(?:s|ing)?\b"
    r"|^(?:make|add|apply|do|run|here)\b.*\bto (?:ensure|avoid)\b"
    # A wish, somebody's words, and what does not say what is meant.
    r"|\bI should(?:n[’']?t)? be able\b|\b(?:plan|path|way|steps?) (?:for )?going forward\b"
    r"|\bmake sure (?:that )?(?:we|you)(?:[’']?re| are)\b|\w(?:Error|Exception)\b:"
    r"|\b(?:saying|says|said)[,:]? (?:okay|ok|if|that)\b"
    r"|\bwant (?:it|them|that|this|those|these)\W*$"
    r"|\b(?:right|wrong|incorrect)[,:;]\s*(?:please|can|could|try|let|so|still|it still|I see"
    r"|we need)\b"
    # What names nothing cannot be followed once its neighbors are gone.
    r"|^(?:but |and )?(?:it|this|that|these|those|they) (?:must|should)"
    r"(?:n[’']?t| not)?(?: be)? \w+\W*$"
    r"|^and (?:avoid|never|always|only) \w+\W*$|\bI can\b.*\bonly\b"
    r"|^not? only\b|\balways \d|\bfollowing\b.*:$|\byou never (?:did|\w+ed)\b"
    r"|\b(?:make sure|ensure) to (?:check|look|implement|add|test|create|run)\b",
    re.IGNORECASE,
)
"""What a prompt asks, concludes or wants done once, where a memory file would mean it for good."""

_NOT_A_RULE: Final = lazy_pattern(
    r"\?\s*$|\bcan always\b|\bwould be to\b|\bcould\b(?!.*\bmust\b)|\bbug\b|\broot cause\b"
    r"|\b(?:don[’']t|do not) (?:know|think|see|mind|care)\b"
    # The message of an error, a guess, an example, and the check of one piece of work.
    r"|\berror['\"]?\s*[:–—-][^.]*\bmust be\b"
    r"|\bmake sure (?:that )?the \w+ (?:name )?(?:is|are) (?:correct|available|installed|loaded)\b"
    r"|\bmake sure (?:that )?(?:it|they|everything)\b[^.,;]{0,60}\bwork(?:s|ing)?$"
    r"|\b(?:possibly|perhaps|maybe)\b|^(?:for example|e\.g\.)"
    r"|\b(?:and|then),? (?:then )?make sure (?:that )?"
    r"(?:(?:it|this|that|they|everything|all)\b|(?:we|you)(?:[’']re| are)\b)"
    r"|\bmake sure (?:that )?(?:we|you)(?:[’']ve| have)\b"
    # A log's line, and a linter's or a compiler's: `src/a.go:1:9: avoid …`.
    r"|^\[(?:warn(?:ing)?|error|info|debug|trace)\b|\bmust be \w+ed before\b.*\bcan be\b"
    r"|\S\.\w{1,5}:\d+(?::\d+)?:\s"
    r"|\b(?:scenario|option|variant|approach|alternative) \w{1,3}\s*[:)]"
    # What somebody does, did or will do, or what happens: no command.
    r"|\b(?:it|this|that|they) will (?:only|never|always|not)\b"
    r"|^only \w+ing\b[^,;:]* (?:is|are|was|does|do|did)\b|^only \w+ in \w+ (?:is|are|was)\b"
    r"|\b(?:is|are) \w+ (?:and|but) only\b"
    r"|\b(?:don[’']t|do not) even\b|\bget to the bottom\b"
    rf"|{_SUBJECT} [^,;:.]{{1,80}}?\b(?:and|but|so) (?:then )?"
    r"(?:don[’']t|do not|never|always|make sure)\b"
    rf"|{_SUBJECT} (?:don[’']t|do not)\b[^.;:]*,\s*(?:don[’']t|do not)\b"
    r"|\b(?:is|are|was|were|has|have|been|does|did)\b.{0,80}"
    r"\b(?:and|but),? (?:it )?never \w+(?:ed|n|t)\b",
    re.IGNORECASE,
)
"""A question, a possibility, the description of a fault or of what happens, a tool's output, one
step of a task, and what is not known."""

_PURPOSE: Final = r"\b(?:so|which|where|because|since|as it|to see|to make)\b"
"""Begins what a choice is for: the alternative in it is not what was chosen."""

_STEP: Final = r"(?:now |also |first |next |just |then )*"

_DECISION: Final = lazy_pattern(
    r"\b(?:I|we|you)(?:\s+(?:have|had|then|also|finally)|[’']ve)?\s+"
    r"(?:decided\b(?! whether)|chose\b|opted\b|settled\b|agreed\b|picked\b|made the call\b"
    r"|went with\b)"
    r"|^(?:decided (?:to|on|against|that)|chose|opted|settled on|agreed (?:on|to)|picked"
    r"|accepted|kept|dropped|rejected|going with|went with|sticking with)\b"
    r"|^(?:\w+\s+)?decision:\s*\S"
    rf"|\b{_WE_WILL}\s+(?:use|go with|keep|stick with|switch)\b"
    rf"|\b{_WE_WILL}\s(?:(?!{_PURPOSE})[^.])*\b(?:instead of|rather than)\b"
    rf"|^(?:rather than|instead of)\b.*\b{_WE_WILL}"
    r"|^(?:switch(?:ing|ed)|mov(?:ing|ed)) to\b[^.]*\b(?:instead of|rather than)\b"
    r"|\b(?:becomes?|stays?|is (?:deleted|kept|dropped|removed|replaced))\b[^.`]*\brather than\b"
    r"|^\w+ing\b.*\brather than\b.*\bwas right\b"
    r"|, not (?:the|a|an)\b[^.,;]{1,60},?\s+because\b"
    r"|\bdecided once\b|\bswitched (?:to|from)\b.*\b(?:because|so that|for)\b|^last stop because\b"
    r"|결정(?:했|하였|함|됨|됐|되었|합니다|:)|하기로|선택(?:했|하겠|함)|대신.*(?:사용|쓰|하겠|합니다|했)",
    re.IGNORECASE,
)
"""A choice that was made, or is made by saying so."""

_NOT_A_DECISION: Final = lazy_pattern(
    r"\?\s*$|\b(?:needs? (?:to be )?a decision|to decide|undecided|should (?:we|I)"
    r"|tell me (?:if|whether)|let me know)\b"
    r"|\bdecision:\s*(?:whether|if|what|which|how|who)\b|, or (?:I[’']ll|let me)\b"
    rf"|{_WE_WILL} {_STEP}use [^.]{{0,40}}\b(?:skills?|agent\w*|subagents?|tools?"
    r"|functions?|grep|search|apply_patch|a patch)\b"
    rf"|{_WE_WILL} {_STEP}use [^.,;]{{0,80}}? to (?:\w+ )?(?:check|find|look|search"
    r"|read|see|guide|structure|formulate|understand|explore|inspect|list|verify|get|determine|navigate"
    r"|identify|make it)\b"
    rf"|{_WE_WILL} {_STEP}use `(?:\w+_)?(?:search|read|list|grep|fetch|find|replace)"
    r"(?:_\w+)?`|\bmaybe I should\b"
    rf"|{_WE_WILL} {_STEP}use `[a-z_]+`\.?$"
    rf"|{_WE_WILL} {_STEP}use [^.]{{0,40}}?(?:\b(?:scripts?|commands?|operations?|\w*search|browser"
    r"|terminal|curl|python|node|bash|jq)\b|\b[a-z]+_[a-z]+ and\b)"
    rf"|{_WE_WILL} {_STEP}use [^.]{{0,40}}?(?:`[a-z][\w.-]* [^`]+`(?![^.]* in (?:the|our|an?)\b)"
    r"|`?\b[a-z]+_in_[a-z]+\b"
    r"|\b(?:rebase|CLI|command[- ]line)\b)"
    # How an answer is given, which is no choice about the work.
    rf"|{_WE_WILL} {_STEP}(?:use|keep) [^.]*\b(?:backticks?|bullet points?|headers?|markdown"
    r"|explanations?|final (?:answer|message)|my (?:answer|response|summary))\b"
    rf"|\bfinal (?:answer|message|response)\b|{_WE_WILL} keep (?:track|an eye|in mind|work)\b"
    rf"|{_WE_WILL} keep (?!.*`)(?:it|things|this|that|the \w+)(?: \w+)? (?:simple|short|brief"
    r"|tight|clear|clean|concise|consistent|focused|minimal|organized|straightforward|tidy)\b"
    rf"|{_WE_WILL} (?:\w+ )?(?:produce|treat|consider|drive|give|summarize|present|report|list"
    r"|answer)\b"
    rf"|{_WE_WILL}[^.]*\b(?:rather than|instead of) (?:leav|guess|assum|conclud|wait|speculat"
    r"|just\b|only\b|another\b)"
    rf"|{_WE_WILL} (?:(?:[^.]*\band )?(?:verify|enumerate|poll|provide|audit)|use my)\b"
    # A choice that somebody else is to make, and one that is not named.
    r"|\b(?:rather|wish|prefer|once|until|till|when|if|whether|before|after) (?:you|we|I)"
    r"(?:[’']ve| have)? (?:\w+ )?(?:chose|picked|decided|settled|agreed)\b"
    r"|\b(?:chose|picked) (?:it|this|that|them)\b(?! (?:over|because|for|as))"
    r"|^here(?:[’']s| is| are)\b|^(?:\w+\s+)?decision:[^.]* or "
    rf"|{_WE_WILL} {_STEP}use an? [\w ]+ or [\w ]+\b"
    # Another attempt at the same, a step on the way, and what follows from a choice.
    rf"|{_WE_WILL} [^.]{{0,40}}\b(?:approach|method|way|strategy|tack|technique|workaround)\b"
    r"(?![^.]*(?:\b(?:instead of|rather than)\b|: \w))"
    rf"|^(?:\w+[,.!]? ){{0,2}}(?:now|next|then|first),? {_WE_WILL} {_STEP}use\b"
    r"(?![^.]*\b(?:instead of|rather than|as the|as our)\b)"
    r"|\b(?:so that|ensure|sure|that|which|what|where|if|once|when|before)\b[^.,]{0,40}"
    rf"{_WE_WILL} (?:use|keep)\b"
    rf"|{_WE_WILL} keep (?:\w+ing|it up|on)\b"
    r"|\b(?:maybe|perhaps)\b|\b(?:best practices|industry standards?)\b|\bhere:$"
    rf"|{_WE_WILL} (?:use|keep)\W*$|{_WE_WILL} {_STEP}(?:use|keep|go with|stick with)"
    r" (?!.*`)(?:it|this|that|these|those|them)\b"
    r"(?!.*\b(?:instead|rather|as|apart|separate\w*|for now)\b)"
    r"|\b(?:you|I|we)(?:[’']ve)? (?:chose|picked|selected) (?:is|are|was|were|has|have|does)\b"
    r"|\b(?:the|that|which) \w+(?: \w+)? you (?:chose|picked|selected)\b(?!,)"
    rf"|{_WE_WILL} {_STEP}use [a-z]+_[a-z_]+\b|{_WE_WILL} {_STEP}use (?:the|this|that)"
    r" (?:\w+ ){0,3}?(?:context|contents?|information|next|results?|output|above)\b|^if\b"
    rf"|{_WE_WILL} keep (?:the rest\b|[\w ]{{0,20}}(?:style|code block))"
    rf"|{_WE_WILL} (?:help you|provide a summary)\b"
    r"|^\W*(?:why|how|what)\b"
    r"|\b(?:different|another) (?:approach|way|method)\b"
    rf"|{_WE_WILL} {_STEP}(?:check|verify|look|read|see|investigate|explore|search"
    r"|run|try|test|debug)\b",
    re.IGNORECASE,
)
"""A decision that is still to be made, and a step that decides nothing: how something is looked
into, or by which tool."""


_QUOTED: Final = lazy_pattern(r"[\"“][^\"“”]*[\"”]")


def find_rules(text: str) -> Iterator[str]:
    """Yield the sentences of a person's own words (`typed_words`) that set a rule, in order."""
    for sentence in find_sentences(RULE_PATTERN, text):
        own = _QUOTED.sub("…", sentence)
        if _RULE.search(own) and not (_NOT_A_RULE.search(own) or _OF_THE_MOMENT.search(own)):
            yield sentence


_MEMORY_CUE: Final = lazy_pattern(
    rf"(?:^[ \t>*+-]*(?:\d+[.)][ \t]*)?|[.!:;][ \t*]+){COMMAND_VERBS}\b|{RULE_PATTERN.pattern}",
    re.IGNORECASE | re.MULTILINE,
)


def find_memory_rules(text: str) -> Iterator[str]:
    """Yield the sentences of a memory file (CLAUDE.md) that tell the model what to do, in order."""
    for sentence in find_sentences(_MEMORY_CUE, text):
        is_rule = _MEMORY_RULE.search(sentence) and not _NOT_A_RULE.search(sentence)
        if is_rule and not sentence.endswith(":"):
            yield sentence


def find_decisions(text: str) -> Iterator[str]:
    """Yield the sentences that say what was decided, each once."""
    cues = (DECISION_PATTERN, REASON_PATTERN)
    for sentence in dict.fromkeys(
        sentence for cue in cues for sentence in find_sentences(cue, text)
    ):
        own = _QUOTED.sub("…", sentence)
        if _DECISION.search(own) and not _NOT_A_DECISION.search(own):
            yield sentence
