"""What one save added to its session: visible lines, tool calls and tokens.

A save begins with the text in which the plugin's Stop hook asks for it; it names categories.
"""

import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final

import msgspec

from ..model.conversation import Entry, MessagePart, PartKind, decode_tool_input
from ..transcript.line_types import AGENT_TOOLS
from ..transcript.sanitize import one_line, sanitize_path

ALL_CATEGORIES: Final = "all"  # stands for every category (R004-06)
MEMORY_CATEGORIES: Final = (
    "session_summary",
    "decision",
    "runbook",
    "constraint",
    "tech_debt",
    "preference",
)
"""The six of claude-memory (R004-12)."""


def expand_categories(names: Iterable[str]) -> tuple[str, ...]:
    """Return each category once, in lower case; `all` is all six (R004-06)."""
    categories: list[str] = []
    for name in names:
        lower = name.strip().lower()
        categories += MEMORY_CATEGORIES if lower == ALL_CATEGORIES else [lower]
    return tuple(filter(None, dict.fromkeys(categories)))


STOP_FEEDBACK_PREFIX: Final = "Stop hook feedback:"  # of a blocking Stop hook's line (2.1.329)
_OPENING: Final = "items should be saved as memories"  # in every version's first line
_FILE_TAG: Final = re.compile(r"<triage_data_file>\s*(.*?)\s*</triage_data_file>", re.DOTALL)
_INLINE_TAG: Final = "<triage_data>"
_CATEGORY: Final = re.compile(r"^\s*[-*]\s*\[?([A-Za-z_]+)\]?\b", re.MULTILINE)


class TriageDataForm(StrEnum):
    """How the triage's data reached the session."""

    FILE = "file"
    INLINE = "inline"
    NONE = "none"


class TriageBlock(msgspec.Struct, frozen=True):
    data_form: TriageDataForm
    categories: tuple[str, ...]
    data_file: str | None = None  # that it names


def parse_triage_block(text: str) -> TriageBlock | None:
    """Parse the plugin's reason for a block; None if another Stop hook wrote it."""
    if not text.startswith(STOP_FEEDBACK_PREFIX):
        return None
    file = _FILE_TAG.search(text)
    reason, inline, _ = text.partition(_INLINE_TAG)
    if not (file or inline or _OPENING in text):
        return None
    named = expand_categories(_CATEGORY.findall(reason))
    categories = tuple(name for name in named if name in MEMORY_CATEGORIES)
    without_file = TriageDataForm.INLINE if inline else TriageDataForm.NONE
    if file is None:
        return TriageBlock(without_file, categories)
    return TriageBlock(TriageDataForm.FILE, categories, sanitize_path(file[1]))


SHOWN_RESULT_LINES: Final = 3  # one more line says how many the client hides
_HIDDEN_KINDS: Final = frozenset({PartKind.THINKING, PartKind.ATTACHMENT})


def visible_lines(part: MessagePart) -> int:
    """Count a part's lines on the screen: one of a call, a result's first ones, all of a text.

    An agent's result is one line: the client folds it (client 2.1.329).
    """
    if part.kind in _HIDDEN_KINDS:
        return 0
    if part.kind in {PartKind.TOOL_INPUT, PartKind.AGENT_RETURN}:
        return 1
    lines = len(part.text.splitlines()) or 1
    if part.kind is PartKind.TOOL_RESULT:
        return lines if lines <= SHOWN_RESULT_LINES else SHOWN_RESULT_LINES + 1
    return lines


NOISE_VERSION: Final = 2  # of the rules: what an older version measured is measured again


class NoiseClass(StrEnum):
    """Where a line of a save comes from (004-02 to 004-05)."""

    TRIAGE = "triage_block"
    SPAWN = "spawn"
    SAVE_OP = "save_op"
    RETRY = "retry"
    OTHER = "other"


class Saver(StrEnum):
    """Who saved (004-39, 004-40, R004-17)."""

    MAIN = "main_agent_save"
    AGENT = "subagent_save"
    SCRIPT = "script_save"


class NoiseShare(msgspec.Struct):
    lines: int = 0
    items: int = 0
    estimated_tokens: int = 0


class SaveNoise(msgspec.Struct):
    """One save, from its Stop hook's block to the next prompt, or as far as it has come."""

    form: TriageDataForm
    categories: tuple[str, ...]
    lines: int  # as a terminal shows them: of a result its first lines
    items: int  # tool calls (R004-05)
    tokens: int
    is_estimated: bool  # no sizes of the API before and after it in one segment of the context
    classes: dict[NoiseClass, NoiseShare]
    agents: int = 0
    agents_in_background: int = 0  # their end comes as a notification
    leaked_calls: int = 0  # tool calls of a save agent in the main transcript (004-19)
    leaked_lines: int = 0
    saver: Saver | None = None
    said: tuple[str, ...] = ()  # of the closing line, `Saved: a (create), b (update)` (R004-17)
    said_at: int | None = None
    at: int | None = None
    last_at: int | None = None
    end_offset: int = 0  # of the last line that belongs to it, in bytes
    end_line: int = 0  # counted from the block's own line, which is 1
    closed: bool = False  # a prompt or another block came after it: no line can be added
    was_compacted: bool = False
    data_file: str | None = None  # of the triage, that the block names
    save_agents: int = 0  # that were told to write memories; one is enough (004-41)
    commands: tuple[str, ...] = ()  # that they were given (004-42), the first MAX_COMMANDS


_SAVE_SCRIPT: Final = re.compile(r"memory_(?:candidate|draft|write|enforce|orchestrate)\.py")
_WRITE_SCRIPT: Final = re.compile(r"memory_(?:write|enforce)\.py")
MAX_COMMANDS: Final = 30  # of one save: six categories, each drafted, written and enforced
MAX_COMMAND_CHARS: Final = 300
_LIST_MARK: Final = re.compile(r"^(?:[\s*$`-]|\d+[.)])+")
_STAGING: Final = re.compile(r"\.claude/memory/|\.claude-memory-staging-|claude-memory/staging")
_SAVED: Final = re.compile(r"^Saved: (.+)$", re.MULTILINE)


def measure_noise(
    entries: Iterable[Entry],
    tokens: Callable[[MessagePart], int],
    before_tokens: int | None,
) -> SaveNoise | None:
    """Measure the save that the first entry begins; None if that is no block of the plugin's.

    `entries` are the lines of the main transcript from the block on. `tokens` estimates a part;
    `before_tokens` is the size of the context, with its output, when the hook blocked (T-03: as
    the API reports it, where it does). Sources: 004-01 to 004-07, 004-19, R004-05.
    """
    meter: _NoiseMeter | None = None
    for entry in entries:
        if meter is None:
            block = parse_triage_block(entry.parts[0].text) if entry.parts else None
            if block is None:
                return None
            meter = _NoiseMeter(tokens, block, entry)
        elif _ends_save(entry):
            return meter.finish(before_tokens, closed=True)
        meter.add_entry(entry)
    return meter.finish(before_tokens, closed=False) if meter else None


def _ends_save(entry: Entry) -> bool:
    """Whether an entry is the user's next prompt, or the hook's next block."""
    if entry.sidechain or entry.type != "user" or not entry.parts:
        return False
    first = entry.parts[0]
    return first.kind is PartKind.PROMPT or parse_triage_block(first.text) is not None


class _NoiseMeter:
    def __init__(
        self, tokens: Callable[[MessagePart], int], block: TriageBlock, first: Entry
    ) -> None:
        self._tokens: Final = tokens
        self._noise: Final = SaveNoise(
            form=block.data_form,
            categories=block.categories,
            lines=0,
            items=0,
            tokens=0,
            is_estimated=True,
            classes={name: NoiseShare() for name in NoiseClass},
            at=first.at,
            last_at=first.at,
            data_file=block.data_file,
        )
        self._class_of_call: Final[dict[str, NoiseClass]] = {}
        self._call_texts: Final[dict[str, str]] = {}
        self._failed: Final[set[str]] = set()  # texts of calls
        self._leaks: Final[set[str]] = set()  # ids of calls
        self._writes = self._orchestrated = False
        self._after: int | None = None  # tokens of the context

    def add_entry(self, entry: Entry) -> None:
        noise = self._noise
        noise.end_offset, noise.end_line = entry.offset, entry.line
        noise.last_at = entry.at or noise.last_at
        noise.was_compacted = noise.was_compacted or bool(entry.boundary)
        if entry.hidden:
            return
        if entry.context_tokens and not entry.sidechain:
            self._after = entry.context_tokens + (entry.output_tokens or 0)
        for part in entry.parts:
            if entry.sidechain:
                # A save agent's own line in the main file; no part of its context.
                self._add_leak(part)
            else:
                self._add_part(part)

    def _add_leak(self, part: MessagePart) -> None:
        self._noise.leaked_calls += part.kind is PartKind.TOOL_INPUT
        self._noise.leaked_lines += visible_lines(part)

    def _add_part(self, part: MessagePart) -> None:
        share = self._noise.classes[self._classify(part)]
        share.lines += visible_lines(part)
        share.items += part.kind is PartKind.TOOL_INPUT
        share.estimated_tokens += self._tokens(part)
        if part.tool_use_id in self._leaks:
            self._add_leak(part)
        if part.kind is PartKind.TEXT and (said := _SAVED.findall(part.text)):
            self._noise.said = tuple(item.strip() for item in said[-1].split(", "))
            self._noise.said_at = self._noise.last_at

    def _classify(self, part: MessagePart) -> NoiseClass:
        if part.kind is PartKind.TOOL_INPUT:
            return self._add_call(part)
        if part.kind is PartKind.META and parse_triage_block(part.text):
            return NoiseClass.TRIAGE
        if part.kind is PartKind.AGENT_RETURN:
            self._noise.agents_in_background += part.text.startswith("Async agent launched")
            return NoiseClass.SPAWN
        if part.kind is PartKind.TOOL_RESULT and part.tool_use_id:
            if part.failed:
                self._failed.add(self._call_texts.get(part.tool_use_id, ""))
                return NoiseClass.RETRY
            return self._class_of_call.get(part.tool_use_id, NoiseClass.OTHER)
        return NoiseClass.OTHER

    def _add_call(self, part: MessagePart) -> NoiseClass:
        name = self._classify_call(part)
        text = f"{part.name} {part.text}"
        if name is not NoiseClass.SPAWN and text in self._failed:
            name = NoiseClass.RETRY
        if part.tool_use_id:
            self._class_of_call[part.tool_use_id] = name
            self._call_texts[part.tool_use_id] = text
            is_write = name is NoiseClass.SAVE_OP and _WRITE_SCRIPT.search(part.text)
            if self._noise.agents and is_write:
                # The session itself does what the agent was started for.
                self._leaks.add(part.tool_use_id)
        return name

    def _classify_call(self, part: MessagePart) -> NoiseClass:
        if part.name in AGENT_TOOLS:
            self._noise.agents += 1
            self._add_commands(part.text)
            return NoiseClass.SPAWN
        if _SAVE_SCRIPT.search(part.text):
            if not self._noise.agents:
                self._writes |= bool(_WRITE_SCRIPT.search(part.text))
            self._orchestrated |= "memory_orchestrate.py" in part.text
            return NoiseClass.SAVE_OP
        # "memory" is in the names of the plugin's skills.
        is_save = (part.name == "Skill" and "memory" in part.text) or (
            _STAGING.search(part.path or "") or _STAGING.search(part.text)
        )
        return NoiseClass.SAVE_OP if is_save else NoiseClass.OTHER

    def _add_commands(self, tool_input: str) -> None:
        """Add the commands in an agent's prompt, if it is to write memories."""
        prompt = str((decode_tool_input(tool_input) or {}).get("prompt", ""))
        if not _WRITE_SCRIPT.search(prompt):
            return
        from ..transcript.redaction import redact  # compiles many patterns

        self._noise.save_agents += 1
        found = [line for line in prompt.splitlines() if _SAVE_SCRIPT.search(line)]
        commands = (redact(one_line(_LIST_MARK.sub("", line)).rstrip("` ")) for line in found)
        room = MAX_COMMANDS - len(self._noise.commands)
        self._noise.commands += tuple(each[:MAX_COMMAND_CHARS] for each in commands)[:room]

    def finish(self, before_tokens: int | None, *, closed: bool) -> SaveNoise:
        noise = self._noise
        grown = 0
        if self._after is not None and before_tokens is not None and not noise.was_compacted:
            grown = self._after - before_tokens
        shares = noise.classes.values()
        noise.lines = sum(share.lines for share in shares)
        noise.items = sum(share.items for share in shares)
        noise.is_estimated = grown <= 0
        noise.tokens = grown if grown > 0 else sum(share.estimated_tokens for share in shares)
        noise.classes = {name: it for name, it in noise.classes.items() if it != NoiseShare()}
        if self._orchestrated:
            noise.saver = Saver.SCRIPT
        elif self._writes:
            noise.saver = Saver.MAIN
        elif noise.agents:
            noise.saver = Saver.AGENT
        noise.closed = closed
        return noise


def encode_noise(noise: SaveNoise) -> str:
    return msgspec.json.encode(noise).decode()


_NOISE_DECODER: Final = msgspec.json.Decoder(SaveNoise)


def decode_noise(stored: str | None) -> SaveNoise | None:
    """Decode it; None if newer rules wrote it."""
    try:
        return None if stored is None else _NOISE_DECODER.decode(stored)
    except msgspec.DecodeError:
        return None
