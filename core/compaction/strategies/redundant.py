"""Levels 1 and 2: remove what the context repeats elsewhere, or what something newer supersedes."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ...model.conversation import PartKind, canonical_tool_input, decode_tool_input
from ...transcript.line_types import DEDUP_PROTECTED_TOOLS, EDIT_TOOLS
from .. import edit_builder
from ..edit_builder import Because, FindOperations, read_text
from ..plan import Operation
from ..transcript_view import INDEXED_CHARS, TranscriptView, VisibleBlock
from . import stubs
from .stubs import READ_TOOLS, FileCall, is_worth_stubbing, make_short_stub


def find_duplicate_results(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find results whose whole text is also in another result that stays."""
    retained = _retained_results(view)
    for block in stubs.changeable_results(view):
        twin = retained[block.digest]
        if twin is block or block.part.name in DEDUP_PROTECTED_TOOLS:
            continue
        text = read_text(view, block) or ""
        where = "later" if twin.index > block.index else "earlier"
        stub = make_short_stub(text, f"same text as the {where} {twin.part.name} result")
        reason = because(f"the same text is at line {twin.line}")
        yield stubs.stub_result(view, block, reason, text, stub)


def _retained_results(view: TranscriptView) -> dict[str, VisibleBlock]:
    """Choose which of equal results stays: a protected one, or else the newest."""
    retained: dict[str, VisibleBlock] = {}
    for block in view.blocks:
        if block.is_replaced or not block.call_id or block.part.kind is PartKind.TOOL_INPUT:
            continue
        known = retained.get(block.digest)
        if known is None or known.protected_reason is None or block.protected_reason is not None:
            retained[block.digest] = block
    return retained


COMPARED_READS: Final = 2  # newest Reads to compare: a file may be read hundreds of times


def find_unchanged_reads(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find Reads that a later Read of the same lines repeats unchanged."""
    for old, later in stubs.changeable_file_calls(view, READ_TOOLS):
        text = read_text(view, old.result) or ""
        stub = make_short_stub(text, "unchanged in a later Read of this file")
        if not is_worth_stubbing(text, stub):
            continue
        # The newest Read is the one that stays.
        newest = [call for call in later if call.covers_read(old)][: -COMPARED_READS - 1 : -1]
        for call in newest:
            if text.rstrip() in (read_text(view, call.result) or ""):
                reason = because(f"read again unchanged at line {call.result.line}")
                yield edit_builder.replace_result(view, old.result, reason, stub)
                break


MIN_CHARS_REMOVED: Final = 200  # an edit that removes less costs more than it frees
_ANSI_SEQUENCE: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])"
)
_OVERWRITTEN: Final = re.compile(r"^[^\n]*\r(?=[^\r\n])", re.MULTILINE)
_TRAILING: Final = re.compile(r"[ \t\r]+$", re.MULTILINE)
_BLANK_LINES: Final = re.compile(r"\n{3,}")
_JSON_SPACE: Final = re.compile(r'("(?:[^"\\]|\\.)*")|\s+', re.DOTALL)


def find_plain_output(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find shell and web output that can be written in fewer characters."""
    reason = because("colors, overwritten lines and blanks carry no information")
    for block in stubs.changeable_results(view, stubs.SHELL_TOOLS | stubs.WEB_TOOLS):
        text = read_text(view, block) or ""
        plain = simplify_output(text)
        if len(text) - len(plain) >= MIN_CHARS_REMOVED and not stubs.has_stub(text):
            yield edit_builder.replace_result(view, block, reason, plain)


def simplify_output(text: str) -> str:
    """Return a text as a terminal would show it, and JSON without indentation."""
    if text.lstrip()[:1] in {"{", "["}:
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            pass
        else:
            return _JSON_SPACE.sub(lambda match: match[1] or "", text)
    text = _OVERWRITTEN.sub("", _ANSI_SEQUENCE.sub("", text))
    return _BLANK_LINES.sub("\n\n", _TRAILING.sub("", text)).strip("\n") or text


def _read_finder(
    supersedes: Callable[[FileCall, FileCall], bool], how: str, note: str
) -> FindOperations:
    """Return what finds Reads that a later call supersedes, given the later call and the Read."""

    def find(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
        for old, later in stubs.changeable_file_calls(view, READ_TOOLS):
            newer = next((call for call in later if supersedes(call, old)), None)
            if newer:
                reason = because(f"{how} at line {newer.result.line}")
                yield stubs.stub_superseded_result(view, old.result, reason, note)

    return find


find_covered_reads: Final = _read_finder(
    FileCall.covers_read, "read again", "old: these lines were read again later"
)
find_overwritten_reads: Final = _read_finder(
    lambda newer, _: newer.tool == "Write",
    "written again",
    "old: this file was written again later",
)


MIN_REPEATED_SHARE: Final = 0.75
"""Share of a result's characters that later ones must hold. Below it, level 3 frees more."""
_CHANGES_FOLDER: Final = re.compile(r"^\s*cd\s[^;&|]*(?:&&|;)")  # before the command itself


def find_repeated_lines(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find Reads and outputs of which later ones hold most lines; lines that differ stay."""
    reason = because("later results hold the same lines: those that differ are kept")
    for blocks in _comparable_results(view):
        later: set[str] = set()
        for block in reversed(blocks):
            text = read_text(view, block) or ""
            lines = text.split("\n")
            if later and (view.is_changeable(block) or stubs.is_failed_command(view, block)):
                others = [line for line in lines if line.strip() and line not in later]
                shorter = _only_others(text, others)
                if is_worth_stubbing(text, shorter):
                    yield edit_builder.replace_result(view, block, reason, shorter)
            later.update(lines)


def _only_others(text: str, others: list[str]) -> str:
    kept = "\n".join(others)
    if len(kept) > (1 - MIN_REPEATED_SHARE) * len(text):
        return text
    note = "later results hold the other lines"
    return f"{make_short_stub(text, note)}\n{kept}".rstrip()


def _comparable_results(view: TranscriptView) -> Iterator[list[VisibleBlock]]:
    """Group the Reads of a file, and the outputs of commands that begin with the same two words."""
    groups: dict[str, list[VisibleBlock]] = {}
    for block in view.blocks:
        is_result = block.part.kind is PartKind.TOOL_RESULT and not block.is_replaced
        if not is_result or block.chars < stubs.MIN_STUBBED_CHARS or block.part.media:
            continue
        if block.part.name in READ_TOOLS and block.part.path:
            groups.setdefault(block.part.path, []).append(block)
        elif block.part.name == "Bash" and (call := view.call_of(block)):
            groups.setdefault(_command_start(call), []).append(block)
    return (blocks for blocks in groups.values() if len(blocks) > 1)


def _command_start(call: VisibleBlock) -> str:
    tool_input = decode_tool_input(call.part.text) or {}
    command = _CHANGES_FOLDER.sub("", str(tool_input.get("command") or call.part.text))
    return " ".join(command.split(maxsplit=2)[:2])


def find_reread_edits(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find Edits whose outcome a later Read of the whole file shows, or a Write replaced."""
    for old, later in stubs.changeable_file_calls(view, EDIT_TOOLS):
        newer = next((call for call in later if _shows_whole_file(call)), None)
        if newer is None:
            continue
        texts = stubs.edit_texts(edit_builder.read_tool_input(view, old.call))
        changes = _stub_texts(view, texts, "old: this file was read again later")
        reason = because(f"its outcome is at line {newer.result.line}")
        yield edit_builder.replace_inputs(view, old.call, reason, changes)


def _stub_texts(
    view: TranscriptView, texts: Iterable[tuple[str, str]], note: str
) -> dict[str, str]:
    """Map the pointers of the texts that are long enough to their stubs."""
    named = ((name, text, stubs.superseded_stub(view, text, note)) for name, text in texts)
    return {name: stub for name, text, stub in named if is_worth_stubbing(text, stub)}


def _shows_whole_file(call: FileCall) -> bool:
    lines = call.read_range
    whole = call.tool == "Read" and lines.offset in {None, 0, 1} and lines.limit is None
    return whole or call.tool == "Write"


def find_old_todos(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find every TodoWrite but the last, which is protected."""
    for block in stubs.changeable_calls(view, frozenset({"TodoWrite"})):
        todos = edit_builder.read_tool_input(view, block).get("todos")
        if not isinstance(todos, list):
            continue
        text = edit_builder.to_json(todos)
        stub = stubs.superseded_stub(view, text, "old: a newer list of todos follows")
        items = [{"content": stub, "status": "completed", "activeForm": "old"}]
        if is_worth_stubbing(text, edit_builder.to_json(items)) and not stubs.has_stub(text):
            reason = because("a newer list follows")
            yield edit_builder.replace_inputs(view, block, reason, {"/todos": items})


MIN_TURNS_SINCE_FAILURE: Final = 4  # answers; by then it was tried another way (DCP purgeErrors)
_KEPT_FIELD_SUFFIXES: Final = ("path", "url")  # the client reads paths when it loads


def find_failed_inputs(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find the long texts in the inputs of calls that failed; the error itself stays."""
    turns = _answer_numbers(view)
    newest = max(turns.values(), default=0)
    for block in stubs.changeable_calls(view):
        result = view.result_of(block)
        if result is None or not result.part.failed:
            continue
        if newest - turns[block.index] < MIN_TURNS_SINCE_FAILURE:
            continue
        strings = edit_builder.iter_strings(edit_builder.read_tool_input(view, block), "")
        texts = ((name, text) for name, text in strings if not name.endswith(_KEPT_FIELD_SUFFIXES))
        changes = _stub_texts(view, texts, "this call failed, see its result")
        reason = because(f"the call failed at line {result.line}")
        yield edit_builder.replace_inputs(view, block, reason, changes)


def _answer_numbers(view: TranscriptView) -> dict[int, int]:
    """Number the answers from 0, by the index of each of their blocks."""
    numbers: dict[str, int] = {}
    return {
        block.index: numbers.setdefault(block.entry.message_id, len(numbers))
        for block in view.blocks
        if block.entry.message_id is not None
    }


_NEVER_REPEATED: Final = EDIT_TOOLS | {"Write"} | DEDUP_PROTECTED_TOOLS


def find_repeated_calls(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find results of calls that were later repeated with the same input and succeeded.

    Inputs are compared as values: key order and spacing do not matter (R002-17).
    """
    last: dict[tuple[str, str], VisibleBlock] = {}
    for block in view.blocks:
        succeeded = block.part.kind is PartKind.TOOL_RESULT and not block.part.failed
        key = _call_key(view, block) if succeeded and stubs.has_own_content(block) else None
        if key:
            last[key] = block
    for block in stubs.changeable_results(view):
        key = _call_key(view, block)
        later = last.get(key) if key else None
        if later and later.index > block.index:
            reason = because(f"same call again at line {later.line}")
            note = "old: the same call was made again later"
            yield stubs.stub_superseded_result(view, block, reason, note)


def _call_key(view: TranscriptView, result: VisibleBlock) -> tuple[str, str] | None:
    """Return what equal calls have in common; None for a tool that is never repeated."""
    call = view.call_of(result)
    if call is None or result.part.name in _NEVER_REPEATED:
        return None
    if call.chars <= INDEXED_CHARS:
        return result.part.name, canonical_tool_input(call.part.text)
    tool_input = edit_builder.read_tool_input(view, call)
    text = edit_builder.to_json(tool_input) if tool_input else call.digest
    return result.part.name, canonical_tool_input(text)
