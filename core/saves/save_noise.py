"""What one save added to its session: visible lines, tool calls and tokens.

A save begins with the text by which the plugin's Stop hook asks for it; it names categories.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final

import msgspec

from ..transcript.conversation import Entry, MessagePart, PartKind
from ..transcript.line_types import AGENT_TOOLS

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


def expand_categories(said: Iterable[str]) -> tuple[str, ...]:
    """Name each category once, in lower case; `all` is all six (R004-06)."""
    found: dict[str, None] = {}
    for name in said:
        lower = name.strip().lower()
        found |= dict.fromkeys(
            MEMORY_CATEGORIES if lower == ALL_CATEGORIES else (lower,) if lower else ()
        )
    return tuple(found)


STOP_FEEDBACK_PREFIX: Final = "Stop hook feedback:"
"""How the client begins the line that a blocking Stop hook puts in (client 2.1.329)."""

_OPENING: Final = "items should be saved as memories"
"""In the first line of the plugin's reason, in every version."""

_FILE_TAG: Final = re.compile(r"<triage_data_file>\s*(.*?)\s*</triage_data_file>", re.DOTALL)
_INLINE_TAG: Final = "<triage_data>"
_CATEGORY: Final = re.compile(r"^\s*[-*]\s*\[?([A-Za-z_]+)\]?\b", re.MULTILINE)


class TriageDataForm(StrEnum):
    """How the triage's data reached the session."""

    FILE = "file"
    INLINE = "inline"
    NONE = "none"


class TriageBlock(msgspec.Struct, frozen=True):
    """A reason of the plugin's, taken apart."""

    data_form: TriageDataForm
    categories: tuple[str, ...]
    data_path: str | None = None  # of the triage's data, as it was said


def parse_triage_block(text: str) -> TriageBlock | None:
    """Parse the plugin's reason for a block; None if another Stop hook wrote it."""
    if not text.startswith(STOP_FEEDBACK_PREFIX):
        return None
    named = _FILE_TAG.search(text)
    inline = _INLINE_TAG in text
    if not (named or inline or _OPENING in text):
        return None
    told = text.partition(_INLINE_TAG)[0]
    said = [
        name for name in expand_categories(_CATEGORY.findall(told)) if name in MEMORY_CATEGORIES
    ]
    form = (
        TriageDataForm.FILE if named else TriageDataForm.INLINE if inline else TriageDataForm.NONE
    )
    return TriageBlock(form, tuple(said), named[1] if named else None)


SHOWN_RESULT_LINES: Final = 3
"""Lines of a tool's result that the client shows; one more says how many it folds away."""

_HIDDEN_KINDS: Final = frozenset({PartKind.THINKING, PartKind.ATTACHMENT})


def visible_lines(piece: MessagePart) -> int:
    """Count the lines that a piece takes: a call one, a result its first ones, a text all.

    What an agent gave back is one line: the client folds it (client 2.1.329).
    """
    if piece.kind in _HIDDEN_KINDS:
        return 0
    if piece.kind in {PartKind.TOOL_INPUT, PartKind.AGENT_RETURN}:
        return 1
    lines = len(piece.text.splitlines()) or 1
    if piece.kind is PartKind.TOOL_RESULT:
        return lines if lines <= SHOWN_RESULT_LINES else SHOWN_RESULT_LINES + 1
    return lines


NOISE_VERSION: Final = 1  # version of the rules: what an older one measured is measured again


class NoiseClass(StrEnum):
    """Where a line of a save comes from (004-02 to 004-05)."""

    TRIAGE = "triage_block"
    SPAWN = "spawn"
    SAVE_OP = "save_op"
    RETRY = "retry"
    OTHER = "other"


class Saver(StrEnum):
    """Who carried the save out (004-39, 004-40, R004-17)."""

    MAIN = "main_agent_save"
    AGENT = "subagent_save"
    SCRIPT = "script_save"


class NoiseShare(msgspec.Struct, frozen=True):
    """What one class has of it; tokens are estimated."""

    lines: int = 0
    items: int = 0
    estimated_tokens: int = 0


class SaveNoise(msgspec.Struct, frozen=True):
    """One save, from its Stop hook's block to the next prompt, or as far as it has come."""

    form: TriageDataForm
    categories: tuple[str, ...]
    lines: int  # as a terminal shows them: of a result its first lines
    items: int  # tool calls (R004-05)
    tokens: int
    is_estimated: bool  # the API told no size before and after it in one segment of the context
    classes: dict[NoiseClass, NoiseShare]
    agents: int = 0
    agents_in_background: int = 0
    """Which the session does not wait for: their end comes as a notification."""
    leaked_calls: int = 0  # tool calls of a save agent that stand in the main transcript (004-19)
    leaked_lines: int = 0
    saver: Saver | None = None
    said: tuple[str, ...] = ()
    """The words of the closing line, `Saved: a (create), b (update)` (R004-17)."""
    said_at: int | None = None
    at: int | None = None
    last_at: int | None = None
    end_offset: int = 0  # of the last line that belongs to it, in bytes
    end_line: int = 0  # counted from the block's own line, which is 1
    closed: bool = False  # a prompt or another block came after it: no line can be added any more
    was_compacted: bool = False


_SAVE_SCRIPT: Final = re.compile(r"memory_(?:candidate|draft|write|enforce|orchestrate)\.py")
_WRITE_SCRIPT: Final = re.compile(r"memory_(?:write|enforce)\.py")
_ORCHESTRATE: Final = "memory_orchestrate.py"
_STAGING: Final = re.compile(r"\.claude/memory/|\.claude-memory-staging-|claude-memory/staging")
_SAVED: Final = re.compile(r"^Saved: (.+)$", re.MULTILINE)
_BACKGROUND: Final = "Async agent launched"
_SKILL_WORD: Final = "memory"  # in the names of the plugin's skills


def measure_noise(
    entries: Iterable[Entry],
    tokens: Callable[[MessagePart], int],
    before_tokens: int | None,
) -> SaveNoise | None:
    """Measure the save that the first entry begins; None where that is no block of the plugin's.

    `entries` are the lines of the main transcript from the block on. `tokens` estimates a
    piece; `before_tokens` is what the context held, with its output, when the hook spoke
    (T-03: what the API reports, where it does). Sources: 004-01 to 004-07, 004-19, R004-05.
    """
    meter: _NoiseMeter | None = None
    for entry in entries:
        if meter is None:
            block = parse_triage_block(entry.parts[0].text) if entry.parts else None
            if block is None:
                return None
            meter = _NoiseMeter(tokens, block.data_form, block.categories, entry)
        elif _ends_save(entry):
            return meter.result(before_tokens, closed=True)
        meter.take(entry)
    return meter.result(before_tokens, closed=False) if meter else None


def _ends_save(entry: Entry) -> bool:
    """Whether an entry is the user's next prompt, or the hook's next block."""
    if entry.sidechain or entry.type != "user":
        return False
    first = entry.parts[0] if entry.parts else None
    if first is None:
        return False
    return first.kind is PartKind.PROMPT or parse_triage_block(first.text) is not None


class _NoiseMeter:
    def __init__(
        self,
        tokens: Callable[[MessagePart], int],
        form: TriageDataForm,
        categories: tuple[str, ...],
        first: Entry,
    ) -> None:
        self._tokens: Final = tokens
        self._form: Final = form
        self._categories: Final = categories
        self._first: Final = first
        self._last = first
        self._last_at = first.at
        self._numbers = 0
        self._shares: Final = {each: [0, 0, 0] for each in NoiseClass}
        self._classes: Final[dict[str, NoiseClass]] = {}
        self._failed: Final[set[str]] = set()
        self._asked: Final[dict[str, str]] = {}
        self._agents = self._background = 0
        self._leaked = [0, 0]
        self._leaks: Final[set[str]] = set()
        self._writes = self._orchestrated = False
        self._said: tuple[str, ...] = ()
        self._said_at: int | None = None
        self._after: int | None = None
        self._compacted = False

    def take(self, entry: Entry) -> None:
        self._last = entry
        self._numbers = entry.line
        self._last_at = entry.at or self._last_at
        if entry.boundary:
            self._compacted = True
        if entry.hidden:
            return
        if entry.context_tokens and not entry.sidechain:
            self._after = entry.context_tokens + (entry.output_tokens or 0)
        for piece in entry.parts:
            if entry.sidechain:
                # A save agent's own line in the main file; no part of its context.
                if piece.kind is PartKind.TOOL_INPUT:
                    self._leaked[0] += 1
                self._leaked[1] += visible_lines(piece)
                continue
            self._add(piece)

    def _add(self, piece: MessagePart) -> None:
        kind = self._class_of(piece)
        share = self._shares[kind]
        share[0] += (lines := visible_lines(piece))
        share[1] += piece.kind is PartKind.TOOL_INPUT
        share[2] += self._tokens(piece)
        if piece.tool_use_id in self._leaks:
            self._leaked[0] += piece.kind is PartKind.TOOL_INPUT
            self._leaked[1] += lines
        if piece.kind is PartKind.TEXT and (said := _SAVED.findall(piece.text)):
            self._said = tuple(each.strip() for each in said[-1].split(", "))
            self._said_at = self._last_at

    def _class_of(self, piece: MessagePart) -> NoiseClass:
        if piece.kind is PartKind.TOOL_INPUT:
            return self._call(piece)
        if piece.kind is PartKind.META and parse_triage_block(piece.text):
            return NoiseClass.TRIAGE
        if piece.kind is PartKind.AGENT_RETURN:
            self._background += piece.text.startswith(_BACKGROUND)
            return NoiseClass.SPAWN
        if piece.kind is PartKind.TOOL_RESULT and piece.tool_use_id:
            if piece.failed:
                self._failed.add(self._asked.get(piece.tool_use_id, ""))
                return NoiseClass.RETRY
            return self._classes.get(piece.tool_use_id, NoiseClass.OTHER)
        return NoiseClass.OTHER

    def _call(self, piece: MessagePart) -> NoiseClass:
        found = self._kind_of_call(piece)
        text = f"{piece.name} {piece.text}"
        if found is not NoiseClass.SPAWN and text in self._failed:
            found = NoiseClass.RETRY
        if piece.tool_use_id:
            self._classes[piece.tool_use_id] = found
            self._asked[piece.tool_use_id] = text
            if self._agents and found is NoiseClass.SAVE_OP and _WRITE_SCRIPT.search(piece.text):
                # What the agent was started for is done by the session itself.
                self._leaks.add(piece.tool_use_id)
        return found

    def _kind_of_call(self, piece: MessagePart) -> NoiseClass:
        if piece.name in AGENT_TOOLS:
            self._agents += 1
            return NoiseClass.SPAWN
        if _SAVE_SCRIPT.search(piece.text):
            if not self._agents:
                self._writes |= bool(_WRITE_SCRIPT.search(piece.text))
            self._orchestrated |= _ORCHESTRATE in piece.text
            return NoiseClass.SAVE_OP
        if piece.name == "Skill" and _SKILL_WORD in piece.text:
            return NoiseClass.SAVE_OP
        staged = _STAGING.search(piece.path or "") or _STAGING.search(piece.text)
        return NoiseClass.SAVE_OP if staged else NoiseClass.OTHER

    def _saver(self) -> Saver | None:
        if self._orchestrated:
            return Saver.SCRIPT
        if self._writes:
            return Saver.MAIN
        return Saver.AGENT if self._agents else None

    def result(self, before_tokens: int | None, *, closed: bool) -> SaveNoise:
        grown = None
        if self._after is not None and before_tokens is not None and not self._compacted:
            grown = self._after - before_tokens
        is_measured = grown is not None and grown > 0
        estimated = sum(share[2] for share in self._shares.values())
        return SaveNoise(
            form=self._form,
            categories=self._categories,
            lines=sum(share[0] for share in self._shares.values()),
            items=sum(share[1] for share in self._shares.values()),
            tokens=(grown or 0) if is_measured else estimated,
            is_estimated=not is_measured,
            classes={
                name: NoiseShare(*share) for name, share in self._shares.items() if any(share)
            },
            agents=self._agents,
            agents_in_background=self._background,
            leaked_calls=self._leaked[0],
            leaked_lines=self._leaked[1],
            saver=self._saver(),
            said=self._said,
            said_at=self._said_at,
            at=self._first.at,
            last_at=self._last_at,
            end_offset=self._last.offset,
            end_line=self._numbers,
            closed=closed,
            was_compacted=self._compacted,
        )


def encode_noise(noise: SaveNoise) -> str:
    """Write it as the store keeps it."""
    return msgspec.json.encode(noise).decode()


def decode_noise(kept: str | None) -> SaveNoise | None:
    """Read it as the store keeps it; None where newer rules wrote it."""
    if kept is None:
        return None
    try:
        return _NOISE_DECODER.decode(kept)
    except msgspec.DecodeError:
        return None


_NOISE_DECODER: Final = msgspec.json.Decoder(SaveNoise)
