"""A transcript's lines as facts: what was written, in the order of the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...core.last_line import AROUND
from ...core.store.facts import Turn
from ..clean import clean_title
from . import whole_lines
from .compressed import find_markers
from .gathered import Gathered
from .glance import brings_agent, glance_at, has_failed, is_tool_result, look_at, tool_calls
from .inner_agents import tools_in
from .line_types import BULK, FIRST_KEY, METADATA, TOOLS_READ_WHOLE
from .lines import NotJsonError, ShapeError, decode_line, mend
from .links import read_links
from .pending import has_exact_output
from .requests import REQUEST, read_part, read_request

if TYPE_CHECKING:
    from ...core.store.facts import Facts, SourceFile
    from ..tail import Block
    from .glance import Glance, MessageGlance

_OPEN, _CLOSE, _TYPE = b"{}t"

SYNTHETIC: Final = "<synthetic>"
"""The model of an answer that the client made up: no request, no usage."""


def read_block(source: SourceFile, block: Block) -> Facts:
    """Read whole lines; the same lines give the same facts, however they are cut."""
    reading = _Reading(source)
    reading.read(block)
    return reading.builder.build()


_ADDED: Final = frozenset({"attachment", "system"})
"""Types of lines, besides messages, of which a request holds some."""


class _Reading:
    """One run of lines: each is looked at, and only those that need it are decoded whole."""

    def __init__(self, source: SourceFile) -> None:
        self.builder: Final = Gathered(source)
        self.seen_links: Final[set[tuple[str | None, str | None, str | None, bool]]] = set()

    def read(self, block: Block) -> None:
        """Take the lines of a block in, each where it stands."""
        data, first = block.data, block.offset
        if first == 0:
            self.builder.uncounted.mark_file_start()
            self.builder.turns.mark_file_start()
        view, find = memoryview(data), data.find
        position, end = 0, block.size
        while position < end:
            stop = find(b"\n", position, end)
            if stop < 0:
                # The last line of a file may have no line end.
                stop = end
            if data[position] == _OPEN and data[stop - 1] == _CLOSE:
                self.builder.lines += 1
                line = view[position:stop]
                # Only what is no message names its type first.
                head = FIRST_KEY.match(line) if data[position + 2] == _TYPE else None
                if not head or not self._index_by_type(first + position, line, head[1]):
                    try:
                        self._index_line(first + position, line, glance_at(line))
                    except (ValueError, RecursionError):
                        self._index_repaired(first + position, bytes(line))
            else:
                # A crash can leave NUL bytes where a line was to be (claude-code-formats 1.7).
                text = data[position:stop].strip(AROUND)
                if text:
                    self.builder.lines += 1
                    self._index_repaired(first + position, text)
            position = stop + 1
        if self.builder.is_agent:
            self.builder.markers.extend(find_markers(data, first, end))

    def _index_by_type(self, offset: int, line: memoryview, kind: bytes) -> bool:
        """Take a line that is known by its head alone; False where it has to be looked into."""
        if kind in BULK:
            self.builder.ignored[kind.decode()] += 1
            return True
        if not kind.startswith(REQUEST):
            return False
        request = read_request(offset, line) if kind == REQUEST else None
        part = None if request else read_part(offset, line)
        if request:
            self.builder.requests.append(request)
        elif part:
            self.builder.parts.append(part)
        return bool(request or part)

    def _index_repaired(self, offset: int, line: bytes) -> None:
        """Take a line that may be no strict JSON, or none at all."""
        try:
            try:
                self._index_line(offset, memoryview(line), look_at(line))
            except NotJsonError:
                mended = mend(line)
                self._index_line(offset, memoryview(mended), look_at(mended))
        except NotJsonError as error:
            self.builder.add_bad_line(offset, line, f"not JSON: {error}")
        except ShapeError as error:
            self.builder.add_bad_line(offset, line, f"unexpected shape: {error}")

    def _index_line(self, offset: int, line: memoryview, seen: Glance) -> None:
        found = self.builder
        stamp, cwd, version = seen.timestamp, seen.cwd, seen.version
        if stamp:
            found.times.append(stamp)
        if cwd:
            if not (found.is_agent or seen.is_sidechain):
                found.add_root(cwd, line)
            found.cwd = cwd
        if version:
            found.version = version
        if seen.uuid and not seen.is_sidechain:
            found.leaf_uuid = seen.uuid
        if seen.session_id != found.source.session_id or seen.session_lineage or seen.forked_from:
            self._index_links(offset, line, seen)
        if seen.is_sidechain and not found.is_agent:
            whole_lines.read_aside_line(self.builder, offset, decode_line(line))
        kind, message = seen.type, seen.message
        if kind == "assistant" and message:
            self._index_assistant(offset, line, seen, message)
        elif kind == "user" and message:
            is_result = is_tool_result(message)
            if found.is_agent or not seen.is_sidechain:
                found.uncounted.add(offset, line)
                if is_result:
                    found.turns.add_results(message)
                    found.turns.set_turn(Turn.RESULT, offset, stamp)
            if not is_result or brings_agent(seen) or seen.is_compact_summary:
                whole_lines.read_user(self.builder, offset, decode_line(line))
            elif has_failed(message):
                whole_lines.read_failures(self.builder, offset, decode_line(line))
        else:
            self._index_other(offset, line, seen)

    def _index_assistant(
        self, offset: int, line: memoryview, seen: Glance, message: MessageGlance
    ) -> None:
        found = self.builder
        if seen.is_api_error_message or message.model == SYNTHETIC:
            whole_lines.read_made_up(found, offset, decode_line(line))
            return
        calls = tool_calls(message)
        aside = not found.is_agent and seen.is_sidechain is True
        if not aside:
            exact = not found.is_agent and has_exact_output(seen.version)
            found.uncounted.add_answer(offset, None if exact else line, message.id)
            found.turns.set_turn(Turn.ANSWERED, offset, seen.timestamp)
            if calls:
                found.turns.add_calls(offset, line, calls)
        tools = tools_in(calls) if calls else ""
        found.answers.add(offset, seen, message, sidechain=aside, tools=tools)
        if found.is_agent or (calls and any(call.name in TOOLS_READ_WHOLE for call in calls)):
            whole_lines.read_answer(found, offset, decode_line(line))

    def _index_other(self, offset: int, line: memoryview, seen: Glance) -> None:
        kind = seen.type or "no type"
        if kind in _ADDED and (self.builder.is_agent or not seen.is_sidechain):
            self.builder.uncounted.add(offset, line)
        reader = whole_lines.READERS.get(kind)
        if reader:
            reader(self.builder, offset, decode_line(line))
        elif kind in METADATA:
            self.builder.ignored[kind] += 1
        elif kind in {"assistant", "user"}:
            self.builder.unknown[f"{kind} without a message"] += 1
        else:
            self.builder.unknown[clean_title(kind)] += 1

    def _index_links(self, offset: int, line: memoryview, seen: Glance) -> None:
        # All lines of a copy say the same of where it comes from.
        fork = seen.forked_from.session_id if seen.forked_from else None
        said = seen.session_id, seen.session_lineage, fork, seen.uuid is None
        if said not in self.seen_links:
            self.seen_links.add(said)
            self.builder.add_links(read_links(offset, decode_line(line), self.builder.source))
