"""Collects the records of one run of a transcript's lines, and bounds every text in them."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, Final, TypeVar, get_args, get_origin

import msgspec
from msgspec.structs import replace

from ....core.files.project_folder import find_launch_folder
from ....core.model import transcript_records as records
from ....core.transcript import line_decoder, sanitize
from ....core.transcript.line_types import LineGlance, client_times
from ....core.transcript.raw_lines import time_span
from .transcript_ends import starts_session
from .turn_tracking import MergedAnswers, TurnTracker, UncountedLines

RecordT = TypeVar("RecordT", bound=msgspec.Struct)

MAX_TOOLS_CHARS: Final = 9 * 1_000  # a thousand tool calls of one answer; 60 were seen
MAX_CHARGES_CHARS: Final = 64 * 1024  # MAX_CHARGES of them with the longest names, as JSON
MAX_COMMANDS_CHARS: Final = 16 * 1024  # 50 commands of a title's length, as JSON


def _sanitize_tools(names: str) -> str:
    if len(names) <= MAX_TOOLS_CHARS and names.isascii() and names.isprintable():
        return names
    # Whole names only: each ends with a comma.
    visible = sanitize.remove_invisible(names[:MAX_TOOLS_CHARS])
    kept = "".join(char for char in visible if char.isprintable())
    return kept[: kept.rfind(",") + 1]


_SANITIZED_FIELDS: Final[tuple[tuple[Callable[[str], str], str], ...]] = (
    # Ids: the same id is cut in the same way wherever it is written.
    (
        sanitize.sanitize_id,
        "agent_id forked_from leaf_uuid line message_id session_id tool_use_id uuid",
    ),
    # One word of a few.
    (sanitize.sanitize_word, "cache_miss client_version kind status trigger"),
    # Names: of models, types of agents, tools, skills.
    (sanitize.sanitize_name, "agent_type asked_model model name query_source skill"),
    # One line.
    (sanitize.sanitize_title, "command description detail event git_branch reason"),
    (
        sanitize.sanitize_long_title,
        "ai_title custom_title summary_title title first_prompt last_prompt prompt_title",
    ),
    (sanitize.sanitize_long_title, "message_title noted_prompt"),
    (sanitize.sanitize_path, "began_in cwd launched_in moved_to source worktree worktree_owner"),
    (sanitize.sanitize_text, "text"),
    (_sanitize_tools, "tools"),
    # JSON of titles and of models' names, each of which was sanitized before.
    (lambda text: text if len(text) <= MAX_CHARGES_CHARS else "[]", "charges"),
    (lambda text: text if len(text) <= MAX_COMMANDS_CHARS else "[]", "commands"),
)

FIELD_SANITIZERS: Final = {
    name: limit for limit, names in _SANITIZED_FIELDS for name in names.split()
}
"""By a field's name, which means the same in every kind of record."""


_RECORD_FIELDS: Final = tuple(
    each.name
    for each in msgspec.structs.fields(records.TranscriptRecords)
    if get_origin(each.type) is tuple and each.name != "ended_calls"
)


def _limit_texts(batch: records.TranscriptRecords) -> records.TranscriptRecords:
    changed: dict[str, Any] = {
        name: tuple(map(_limit_record, value))
        for name in _RECORD_FIELDS
        if (value := getattr(batch, name)) and _has_unlimited_text(value)
    }
    if batch.ended_calls:
        changed["ended_calls"] = tuple(map(sanitize.sanitize_id, batch.ended_calls))
    if batch.progress_lines:
        changed["progress_lines"] = tuple(
            step if step.answer is None else replace(step, answer=_limit_record(step.answer))
            for step in changed.get("progress_lines", batch.progress_lines)
        )
    return replace(batch, session=_limit_record(batch.session), **changed)


def _limit_record(record: RecordT) -> RecordT:
    changed: dict[str, str] = {}
    for name, limit in _limited_fields(type(record)):
        value = getattr(record, name)
        # A field of the same name may be a key or an enumeration's value elsewhere.
        if type(value) is str and (limited := limit(value)) != value:
            changed[name] = limited
    return replace(record, **changed) if changed else record


def _has_unlimited_text(batch: Sequence[msgspec.Struct]) -> bool:
    """Return whether any text of these records, all of one type, has to change: few do.

    A column at a time, because most of its values are the same model, version or id, and because
    ids are looked at together.
    """
    for name, limit in _limited_fields(type(batch[0])):
        values = set(map(attrgetter(name), batch))
        if limit in _PLAIN_CHARS and _are_plain(values, _PLAIN_CHARS[limit]):
            continue
        if any(type(value) is str and limit(value) != value for value in values):
            return True
    return False


_PLAIN_CHARS: Final[dict[Callable[[str], str], int]] = {
    sanitize.sanitize_id: sanitize.MAX_ID_CHARS,
    _sanitize_tools: MAX_TOOLS_CHARS,
}
"""What keeps every text of printable ASCII, up to so many characters."""


def _are_plain(values: set[Any], chars: int) -> bool:
    if set(map(type, values)) != {str}:
        return False
    joined = "".join(values)
    return joined.isascii() and joined.isprintable() and max(map(len, values)) <= chars


@cache
def _limited_fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, Callable[[str], str]], ...]:
    # Looked up once: a large folder has a hundred thousand records of fifteen fields.
    names = filter(FIELD_SANITIZERS.__contains__, kind.__struct_fields__)
    return tuple((name, FIELD_SANITIZERS[name]) for name in names)


_FIELDS: Final = {
    get_args(each.type)[0]: each.name
    for each in reversed(msgspec.structs.fields(records.TranscriptRecords))
    if get_origin(each.type) is tuple
}
"""The field of `TranscriptRecords` that holds the records of a type; the first if there are two."""


class FactBuilder:
    def __init__(
        self, source: records.SourceFile, transcript_path: str = "", *, at_file_start: bool
    ) -> None:
        self.source: Final = source
        self.transcript_path: Final = transcript_path  # the whole path
        self.is_agent: Final = source.kind is records.FileKind.AGENT
        self.lines = 0
        self.seen: Final[list[LineGlance]] = []  # all lines that were not skipped
        self.has_folder = False  # whether any of them names one
        self.session: dict[str, Any] = {}  # further fields of its record
        self.leaf_titles: dict[str, str] = {}  # by the last line of the named conversation
        self.answers: Final = MergedAnswers()
        self.failed_calls: list[records.AgentReturnRecord] = []
        self.uncounted: Final = UncountedLines(at_file_start=at_file_start)
        self.turns: Final = TurnTracker(at_file_start=at_file_start)
        self.unread: tuple[str, ...] = ()  # fields that the present line is read without
        self.ignored: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        self.chain_cwd = ""  # the last folder that `add_folder` was given
        self._records: defaultdict[str, list[msgspec.Struct]] = defaultdict(list)
        self._replies: list[records.ReplyRecord] = []
        self._bad: list[records.BadLine] = []
        self._bad_lines = 0

    def add(self, *found: msgspec.Struct | None) -> None:
        """Add records, each of a type in `_FIELDS`; None is ignored."""
        for record in found:
            if record is not None:
                self._records[_FIELDS[type(record)]].append(record)

    def add_bad_line(self, offset: int, line: bytes, reason: str) -> None:
        self._bad_lines += 1
        if len(self._bad) < records.MAX_BAD_LINES_PER_FILE:
            self._bad.append(records.BadLine(offset, len(line), reason))

    def count_type(self, kind: str, *, known: bool) -> None:
        if known:
            self.ignored[kind] += 1
        else:
            self.unknown[sanitize.sanitize_title(kind)] += 1

    def set_model(self, offset: int, model: str | None) -> None:
        if model:
            self.session |= {"model": model, "model_offset": offset}

    def set_cost(self, offset: int, total: float | None) -> None:
        """Set the client's running total for the session; an agent's file has none."""
        if total is not None:
            self.session |= {"cost_usd": total, "cost_offset": offset}

    def is_sidechain(self, line: line_decoder.TranscriptLine) -> bool:
        """Whether a line in a session's file belongs to an agent (clients up to 2.0)."""
        return bool(line.is_sidechain) and not self.is_agent

    def build(self) -> records.TranscriptRecords:
        opened_at, started_at, last_at = time_span(client_times(self.seen))
        newest = self.seen[::-1]
        leaves = (line.uuid for line in newest if line.uuid and not line.is_sidechain)
        lists: dict[str, Any] = {name: tuple(found) for name, found in self._records.items()}
        return _limit_texts(
            records.TranscriptRecords(
                lines=self.lines,
                session=records.SessionRecord(
                    started_at=started_at,
                    last_at=last_at,
                    opened_at=opened_at,
                    cwd=next((line.cwd for line in newest if line.cwd), None),
                    client_version=next((line.version for line in newest if line.version), None),
                    leaf_uuid=next(leaves, None),  # of the newest line of the conversation
                    **self.turns.session_fields(),
                    **self.session,
                ),
                responses=self.answers.to_records(),
                peaks=self.answers.superseded_peaks(),
                failed_calls=tuple(self.failed_calls),
                additions=self.uncounted.to_records(),
                replies=tuple(self._replies),
                leaf_titles=tuple(
                    records.LeafTitleRecord(*item) for item in self.leaf_titles.items()
                ),
                open_calls=self.turns.open_calls(),
                ended_calls=self.turns.ended_calls(),
                bad=tuple(self._bad),
                ignored_types=dict(self.ignored),
                unknown_types=dict(self.unknown),
                bad_lines=self._bad_lines,
                **lists,
            )
        )

    def add_folder(self, cwd: str, line: LineGlance) -> None:
        # As the store joins batches: a line after any line with a folder is not the first.
        if not self.has_folder and starts_session(line):
            self.session["began_in"] = sanitize.sanitize_path(cwd) or None
        if self.session.get("launched_in") is None:
            self.session["launched_in"] = find_launch_folder(
                cwd[: sanitize.MAX_PATH_CHARS], self.source.project
            )
        self.chain_cwd = cwd

    def add_fork(self, line: line_decoder.TranscriptLine) -> None:
        parent = line.forked_from.session_id if line.forked_from else None
        if not parent and line.type == "derived-from":
            # Client 2.1.329 names other sources too: those of an import.
            sources = line_decoder.decode_list(line.sessions, line_decoder.SourceSession)
            forked = (each.id for each in sources if each.via in {"branch", "fork", "background"})
            parent = next(filter(None, forked), None)
        if parent and (parent := sanitize.sanitize_title(parent).lower()):
            self.session.setdefault("forked_from", parent)

    def add_reply(
        self, offset: int, line: line_decoder.TranscriptLine, blocks: list[line_decoder.RawBlock]
    ) -> None:
        """Record the text of an agent's line: the last answer with any is its reply."""
        text = line_decoder.join_texts(blocks).strip()
        if text and line.message:
            message_id = line.message.id or line.name_at(offset)
            if self._replies and self._replies[-1].message_id != message_id:
                # One earlier answer stays: it shows that an answer with the last one's id, of an
                # earlier batch, has ended.
                del self._replies[:-1]
            self._replies.append(records.ReplyRecord(offset, message_id, line.at, text))
