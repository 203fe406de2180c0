"""What a session is called: the telling part of a prompt, and the choice among several titles."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from ..lazy_pattern import lazy_pattern
from .sanitize import MAX_LONG_TITLE_CHARS, one_line
from .slash_commands import find_slash_command

MAX_READ_CHARS: Final = 8_000  # of a prompt: its beginning says what it is about
MAX_BLOCK_LINES: Final = 20  # that are joined: no sentence is longer
MIN_LETTERS: Final = 2  # of a prompt that says something
_FIRST_CHARS: Final = 100  # which show of almost every text that it says something

_SMALL_TALK_TEXT: Final = (
    "a again and claude continue do done exit fine from go goes going great hello help here "
    "hey hi hmm i is it just keep let lets me next no nope now ok okay on perfect please pls "
    "plz proceed quit resume resumed retry run same session start stop sure test thank thanks "
    "that the there this to try up well what where we were work working y yeah yep yes you "
    "off left ahead carry one more bye clear commit push"
)
_SMALL_TALK: Final = frozenset(_SMALL_TALK_TEXT.split())
"""A prompt of only such words says nothing about the task: `ok`, `resume please`, `go on`."""

_UNTELLING_COMMANDS: Final = frozenset({"init", "insights", "statusline", "team-onboarding"})
"""Commands of the client that ask the model, but whose names say nothing about the task."""

_PLAN_INTRO: Final = re.compile(
    r"\s*(?:please\s+)?implement (?:the following|this) plan\s*[:.]?\s*", re.IGNORECASE
)
_PLAN_PREFIX: Final = lazy_pattern(
    r"(?:(?:implementation )?plan)\s*[:\u2013\u2014-]\s+", re.IGNORECASE
)
_HEADING: Final = lazy_pattern(r"(?:^|\n)[ \t]{0,3}#{1,6}[ \t]+([^\n]+)")
_HEADING_MARK: Final = re.compile(r"#{1,6}\s+")
_NEXT_HEADING: Final = lazy_pattern(r"\s+#{1,6}\s.*", re.DOTALL)  # where a prompt is one line

_WRAPPERS: Final = lazy_pattern(
    r"<(system[-_]reminder|local-command-(?:stdout|stderr|caveat)|bash-(?:stdout|stderr|exit-code)"
    r"|ide_opened_file|ide_selection|user-prompt-submit-hook|post-tool-use-hook|function_results"
    r"|tool_use_error|sandbox_violations|persisted-output|total_tokens|task-notification"
    r"|fetched-web-content|untrusted-widget-state|mcp-[a-z-]+|remote-review(?:-progress)?|tick"
    r"|terminal|browser(?:_instruction)?|fork-boilerplate|(?:cowritten-)?artifact-[a-z-]+"
    r")\b[^<>]{0,300}>.*?(?:</\1>|\Z)"
    r"|\[(?:Image|Pasted text) #\d+[^\]\n]{0,80}\]|\[Request interrupted[^\]\n]{0,80}\]",
    re.DOTALL,
)
"""What says nothing of the task: all tags of the client's but those below (2.1.332, its list)."""

_ENVELOPES: Final = lazy_pattern(
    r"<(teammate-message|agent-message|cross-session-message|channel|slack-ping|slack-tag-message"
    r"|coordinator-relay|voice-call-talk|user-memory-input)\b[^<>]{0,300}>(.*?)(?:</\1>|\Z)",
    re.DOTALL,
)
"""Tags of the client's around a message: what a person or an agent sent from elsewhere."""

_SHELL_COMMAND: Final = lazy_pattern(r"\s*<bash-input>\s*(.*?)\s*(?:</bash-input>|\Z)", re.DOTALL)
_SCHEDULED_TASK: Final = lazy_pattern(
    r"\s*<scheduled-task\b[^<>]{0,300}?\bname=\"([^\"<>]{1,200})\""
)
_FENCED: Final = lazy_pattern(r"```.*?(?:```|\Z)", re.DOTALL)
_LOG_LINE: Final = lazy_pattern(
    r"\s*(?:at \S.*[(:]\S*:\d+|Traceback \(most recent|File \"[^\"]+\", line \d+"
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?\d\d:\d\d:\d\d\b|\[(?:ERROR|WARN|WARNING|INFO|DEBUG)\]"
    r"|(?:ERROR|WARN|INFO|DEBUG|FATAL|npm ERR!)[ :]|Uncaught \w|\w*(?:Error|Exception): "
    r"|[$>%] \S|[|+=*~_-]{4,}\s*$|[{}\[\]();,\s]+$|\S+\.(?:js|ts|py|go|java|rb):\d+)"
)
# This and _SENTENCE_END begin with what they look for, and check what stands around it behind that:
# `re` is ten times faster so.
_MARKUP: Final = lazy_pattern(r"\*\*|`|__(?:(?<!\w__)(?=\w)|(?<=\w__)(?!\w))")
_MARKS: Final = ("**", "`", "__")  # without one, which takes no time to see, there is no markup
_BULLET: Final = lazy_pattern(r"\s*(?:[-*+\u2022]|\d{1,2}[.)])\s+")
_TRACKER_URL: Final = lazy_pattern(
    r"https?://\S+?/(?:issues|pull|pulls|merge_requests|-/issues)/(\d+)\S*"
)
_LEADING_URLS: Final = lazy_pattern(r"(?:https?://\S+\s+)+")
_SENTENCE_END: Final = lazy_pattern(r"[.!?](?=\s)(?<!\be\.g.)(?<!\bi\.e.)(?<!\betc.)(?<!\bvs.)")
_WORD: Final = re.compile(r"[^\W\d_]+(?:'[a-z]+)?")


def is_telling(text: str) -> bool:
    """Return whether a text says what a session is about: `9`, `ok` and `resume please` do not."""
    start = text[:_FIRST_CHARS].rpartition(" ")[0] if len(text) > _FIRST_CHARS else ""
    return _has_telling_word(start) or _has_telling_word(text)


def _has_telling_word(text: str) -> bool:
    letters, says_more = 0, False
    for found in _WORD.finditer(text.casefold()):
        letters += len(found[0])
        says_more = says_more or found[0].replace("'", "") not in _SMALL_TALK
        # The first words of a long prompt decide.
        if says_more and letters >= MIN_LETTERS:
            return True
    return False


def first_telling(candidates: Iterable[str | None]) -> str:
    """Choose the first telling text; empty if there is none."""
    return next((each for each in candidates if each and is_telling(each)), "")


def prompt_title(prompt: str) -> str:
    """Return what a prompt is about; empty if it does not say.

    That is the heading of a plan, else the first telling sentence without wrappers, pasted logs
    and code.
    """
    text = _unwrap(prompt[:MAX_READ_CHARS])
    plan = _PLAN_INTRO.match(text)
    if plan or text.lstrip().startswith("#"):
        title = _plan_heading(text[plan.end() :] if plan else text)
        if is_telling(title):
            return title
    for sentence in _sentences(text[plan.end() :] if plan else text):
        if is_telling(sentence):
            return _tidy(sentence)
    return ""


def recorded_title(title: str | None) -> str:
    """Tidy a title that the client or a person gave: it may be a plan's beginning, in one line."""
    if not title:
        return ""
    plan = _PLAN_INTRO.match(title)
    if plan or _HEADING_MARK.match(title):
        return _plan_heading(title[plan.end() :] if plan else title) or title
    return title


def command_prompt(text: str) -> str:
    """Return what was typed behind a slash command, or the command if it is the user's own."""
    command = find_slash_command(text)
    if command is None or not command.asks_model or command.name in _UNTELLING_COMMANDS:
        return ""
    # What follows /plan is a prompt; other commands of the client take options.
    return command.arguments if command.name == "plan" else str(command)


def _unwrap(text: str) -> str:
    if "<command-name>" in text:
        return command_prompt(text)
    if "<" not in text and "[" not in text:
        return text
    return _ENVELOPES.sub(_open_envelope, _WRAPPERS.sub(" ", text))


def _open_envelope(found: re.Match[str]) -> str:
    content = found[2].strip()
    # Agents also send each other states as JSON.
    return " " if content.startswith("{") else f" {content} "


def message_title(text: str) -> str:
    """Return what a message that no person typed as a prompt is about; empty if it does not say.

    That is a shell command behind `!`, the name of a scheduled task, or what the client's tags are
    around.
    """
    text = text[:MAX_READ_CHARS]
    if command := _SHELL_COMMAND.match(text):
        return one_line(f"! {command[1]}")[:MAX_LONG_TITLE_CHARS] if command[1] else ""
    task = _SCHEDULED_TASK.match(text)
    return one_line(task[1]) if task else prompt_title(text)


def _plan_heading(text: str) -> str:
    found = _HEADING.search(text)
    if found is None:
        return ""
    return _tidy(_without_start(_NEXT_HEADING.sub("", found[1]).strip(), _PLAN_PREFIX))


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences outside code and logs; one that ends in a colon has the next with it."""
    pending = ""
    for block in _blocks(_FENCED.sub("\n\n", text)):
        for sentence in _split_block(block):
            whole = f"{pending} {sentence}".strip()
            if whole.endswith(":"):
                pending = whole
                continue
            pending = ""
            yield whole
    if pending:
        yield pending


def _blocks(text: str) -> Iterator[str]:
    """Join wrapped lines; an empty line, a heading, a list item or a log's line ends a block."""
    block: list[str] = []
    for line in text.splitlines():
        is_start = bool(_BULLET.match(line) or _HEADING_MARK.match(line))
        is_end = not line.strip() or bool(_LOG_LINE.match(line))
        if block and (is_start or is_end or len(block) == MAX_BLOCK_LINES):
            yield " ".join(block)
            block = []
        if not is_end:
            block.append(_without_start(_without_start(line, _BULLET), _HEADING_MARK).strip())
    if block:
        yield " ".join(block)


def _without_start(text: str, start: re.Pattern[str]) -> str:
    found = start.match(text)
    return text[found.end() :] if found else text


def _split_block(block: str) -> Iterator[str]:
    start = 0
    for end in _SENTENCE_END.finditer(block):
        yield block[start : end.end()].strip()
        start = end.end()
    if block[start:].strip():
        yield block[start:].strip()


def _tidy(sentence: str) -> str:
    """Write links to issues as their numbers, and leave out marks of Markdown."""
    has_markup = any(mark in sentence for mark in _MARKS)
    text = _MARKUP.sub("", sentence) if has_markup else sentence
    text = _TRACKER_URL.sub(r"#\1", text)
    links = _LEADING_URLS.match(text)
    if links and is_telling(text[links.end() :]):
        text = text[links.end() :]
    text = one_line(text)[:MAX_LONG_TITLE_CHARS].rstrip()
    is_whole = text.endswith(".") and not text.endswith("..")
    return text.rstrip(".:").rstrip() if is_whole or text.endswith(":") else text
