"""Who wrote a text of the user's role: the one place that tells a person's words from all others.

The client sends much in the user's role that the user did not write: messages from channels,
other sessions and schedules, text from hooks, attached files, pastes. Only what it does not mark
as foreign is the person's, and of that only what the message does not quote.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Final

from msgspec import UNSET, Raw

from ..lazy_pattern import lazy_pattern
from ..model.conversation import Author
from .line_decoder import TranscriptLine
from .prompt_parts import typed_parts

PROMPT_AUTHORS: Final = frozenset({Author.PERSON, Author.CALLER, Author.CTXTOP})
"""Authors whose texts begin a turn."""

_PERSON_ORIGIN: Final = "human"
_PERSON_SOURCES: Final = frozenset({None, "typed", "queued", "sdk", "suggestion_accepted"})
_PERSON_TURNS: Final = frozenset({None, "human", "sdk", "unknown"})

_FOREIGN_MARKS: Final = frozenset(
    {
        "emailSenderTurn", "fromAnotherSession", "fromConnector", "handedOff", "isMeta",
        "isVirtual", "isVisibleInTranscriptOnly", "projectsUserTurn", "promptRewritten",
        "queueSkipAttachments", "queueTranscriptOnly", "scheduledTaskId", "textNotTyped",
        "turnCompanion", "verifiedSlackHumanTurn", "wakeupSource",
    }
)  # fmt: skip
"""Fields by which client 2.1.329 marks a message that its user did not type (read in the program,
where it decides whether a turn is "human")."""

_line_marks: Final = attrgetter(
    *(
        re.sub("[A-Z]", lambda sign: f"_{sign[0].lower()}", name)
        for name in sorted(_FOREIGN_MARKS - {"isMeta"})
    )
)
_PROVENANCE: Final = frozenset(
    {"origin", "promptSource", "replacesSpan", "turnOrigin", *_FOREIGN_MARKS}
)
_UNMARKED: Final = (Raw(b"false"), Raw(b"null"))
_OWN_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-5")


SUMMARY_MARKER: Final = "[Previous conversation summary]"  # 001-34; begins our own summaries
HAND_OFF_MARKER: Final = "[Hand-off from session "  # begins the first message of a new session
CUT_MARKER: Final = "[Earlier conversation removed]"  # begins the summary of a cut
DIGEST_MARKER: Final = "[Condensed conversation]"  # begins our digests (`turn_digest`)
OWN_MARKERS: Final = (SUMMARY_MARKER, DIGEST_MARKER, HAND_OFF_MARKER, CUT_MARKER)


USER_REJECTED: Final = "user-rejected"  # of a call that a person refused, often with words


def line_author(line: TranscriptLine, unread: Collection[str] = ()) -> Author:
    """Return who wrote the texts of a user's line, or why a call was refused.

    `unread` names the line's fields that could not be decoded. Lines of clients before about
    2.1.200 name no origin: what they do not mark as the client's is the person's.
    """
    if line.is_meta or line.replaces_span or not _PROVENANCE.isdisjoint(unread):
        return Author.OTHER
    if line.tool_use_result is not UNSET and line.tool_denial_kind != USER_REJECTED:
        return Author.OTHER
    marks = _line_marks(line)
    # Most lines have none.
    if marks.count(UNSET) < len(marks) and any(
        mark is not UNSET and mark not in _UNMARKED for mark in marks
    ):
        return Author.OTHER
    if line.origin is not None:
        return Author.PERSON if line.origin.kind == _PERSON_ORIGIN else Author.OTHER
    if line.prompt_source not in _PERSON_SOURCES or line.turn_origin not in _PERSON_TURNS:
        return Author.OTHER
    if _is_hand_off(line):
        return Author.CTXTOP
    return Author.CALLER if line.is_sidechain else Author.PERSON


def _is_hand_off(line: TranscriptLine) -> bool:
    """Whether ctxtop wrote the line, rather than a person who pasted such a text.

    The client's ids are random (UUID version 4), ours are derived (version 5).
    """
    if (
        line.message is None
        or line.message.content is UNSET
        or not _OWN_UUID.match(line.uuid or "")
    ):
        return False
    return bytes(memoryview(line.message.content)).startswith(f'"{HAND_OFF_MARKER}'.encode())


def queued_author(attachment: Mapping[str, Any]) -> Author:
    """Return who wrote a message that was queued while the model worked (`queued_command`)."""
    origin = attachment.get("origin")
    is_persons = (
        (origin is None or (isinstance(origin, dict) and origin.get("kind") == _PERSON_ORIGIN))
        and attachment.get("commandMode") in (None, "prompt")
        and all(attachment.get(name) in (None, False) for name in _FOREIGN_MARKS)
    )
    return Author.PERSON if is_persons else Author.OTHER


CLIENT_TEXT: Final = lazy_pattern(
    r"\s*(?:<(?:command-|local-command-|bash-|task-notification|teammate-message|agent-message"
    r"|cross-session-message|channel[ >]|slack-|coordinator-relay|fetched-web-content"
    r"|untrusted-widget-state|voice-call|mcp-|(?:cowritten-)?artifact-|system[-_]reminder"
    r"|user-memory-input|total_tokens|scheduled-task|forked-skill-launch|terminal[ >]|browser[ >_]"
    r"|user-prompt-submit-hook|post-tool-use-hook|function_results|tool_use_error"
    r"|sandbox_violations|persisted-output|fork-boilerplate|remote-review|tick[ >]|ide_)"
    r"|\[Request interrupted|Caveat: |This session is being continued"
    r"|Another Claude session sent a message|A peer session sent a message"
    r"|\w+ hook feedback:)"
)
"""Text of a user's line that no person typed (claude-code-formats 2.3; the tags that client
2.1.332 knows as its own)."""

NOT_TYPED_PREFIXES: Final = (
    SUMMARY_MARKER,
    "This session is being continued from a previous conversation",
    "CRITICAL: Respond with TEXT ONLY",
    "Your task is to create a detailed summary of",
    "Please analyze this codebase and create a CLAUDE.md file",
    "<command-",
    "<local-command-",
)
"""How texts begin that take a person's place: summaries, prompts for one, the client's `/init`,
local commands (client 2.1.170 to 2.1.332; compaction.md 6.1 has a summary that lists one)."""

PASTE_TAG: Final = "pasted_content"
"""The tag that the client puts around pasted text of more than a line or two; since about 2.1.300
both tags have the session's id for them, so that no pasted text can close its own."""

_PASTE_START: Final = re.compile(rf"<{PASTE_TAG}\b([^<>]{{0,200}})>")
LONG_PROMPT_CHARS: Final = 20_000  # a longer prompt is a pasted file or log (compaction.md 3)

_CLIENT_BLOCK: Final = lazy_pattern(
    r"<(?:system[-_]reminder|channel|cross-session-message|teammate-message|agent-message"
    r"|task-notification|user-prompt-submit-hook|function_results|fetched-web-content"
    r"|persisted-output|local-command-stdout|bash-stdout|mcp-resource)\b[^<>]*>.*",
    re.DOTALL,
)
"""A block of the client's, with all that follows it: its content may hold its end tag."""

_FENCE: Final = lazy_pattern(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1|\Z)", re.MULTILINE | re.DOTALL)
_QUOTED_LINE: Final = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
_QUOTATION: Final = lazy_pattern(
    r"(\bI(?: \w+)? (?:said|meant|asked|told you)[,:]? "
    r"|\b(?i:never|do not|don[’']?t) (?:\w+ ){1,3})?[\"“]([^\"“”\n]*)[\"”]"
)
MAX_QUOTED_NAME_WORDS: Final = 4  # a longer quotation is someone else's words


def remove_pastes(text: str) -> str:
    """Leave out what the client marked as pasted; a block without an end is all that follows."""
    if PASTE_TAG not in text:
        return text
    kept, at = [], 0
    while found := _PASTE_START.search(text, at):
        kept.append(text[at : found.start()])
        at = _paste_end(text, found)
    return "".join((*kept, text[at:]))


def _paste_end(text: str, start: re.Match[str]) -> int:
    if start[1].strip():
        closing = f"</{PASTE_TAG}{start[1]}>"
        if (end := text.find(closing, start.end())) >= 0:
            return end + len(closing)
    # Without an id, a pasted text may hold the closing tag itself: the last one counts.
    closing = f"</{PASTE_TAG}>"
    end = text.rfind(closing)
    return end + len(closing) if end >= start.end() else len(text)


def typed_words(text: str) -> str:
    """Return the own words of a message's author; empty if all of it is quoted.

    Pastes, quotes, code, blocks of the client's and what looks like a pasted file are left out:
    what cannot be distinguished from quoted text does not count as the author's.
    """
    if text.startswith((*OWN_MARKERS, *NOT_TYPED_PREFIXES)) or CLIENT_TEXT.match(text):
        return ""
    text = remove_pastes(text)
    for pattern in (_CLIENT_BLOCK, _FENCE, _QUOTED_LINE):
        text = pattern.sub("\n", text)
    if len(text) > LONG_PROMPT_CHARS:
        return ""
    return _QUOTATION.sub(_without_quotation, "\n\n".join(typed_parts(text)))


def _without_quotation(found: re.Match[str]) -> str:
    is_persons = found[1] or len(found[2].split()) <= MAX_QUOTED_NAME_WORDS
    return found[0] if is_persons else "…"


def iter_typed_words(texts: Iterable[str]) -> Iterator[str]:
    """Yield the author's own words in each of a line's texts."""
    return filter(str.strip, map(typed_words, texts))
