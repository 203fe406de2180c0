"""What a collector read from transcripts and the files beside them, as it is stored.

Each record names the byte offset that it came from. Times are milliseconds since 1970 (UTC),
offsets and sizes are bytes, context sizes are tokens. None means that the source has no value.
Records of a transcript are array-like, because another process than the one that stores them may
read them. The fields of a record are the columns of its table, by name.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import ClassVar, Final

import msgspec


class MarkerOrigin(StrEnum):
    """Where the marker of compressed results is in an agent's transcript (R000-01)."""

    ASSISTANT = "assistant"
    TASK_PROMPT = "task_prompt"
    HOOK_FEEDBACK = "hook_feedback"
    TOOL_RESULT = "tool_result"
    SKILL_TEXT = "skill_text"
    INJECTED_CONTEXT = "injected_context"  # from a hook, often an earlier agent's result
    REQUEST_COPY = "request_copy"  # in the client's own record of a request: a copy
    OTHER = "other"


class MarkerRecord(msgspec.Struct, frozen=True, array_like=True):
    """A line of an agent's transcript with the marker."""

    offset: int
    line: str  # its uuid, or its place if it has none
    origin: MarkerOrigin
    message_id: str | None = None  # of an assistant's line
    text: str | None = None  # of an assistant's line: it may have been the compressed result


class StopFeedbackRecord(msgspec.Struct, frozen=True, array_like=True):
    """A hook's message to an agent that it kept from stopping."""

    offset: int
    line: str


class GivenSkillRecord(msgspec.Struct, frozen=True, array_like=True):
    offset: int
    line: str
    name: str


class StopBlockRecord(msgspec.Struct, frozen=True, array_like=True):
    """The line that tells a session why a Stop hook kept it from ending."""

    offset: int
    uuid: str
    at: int | None
    text: str
    lines: int
    chars: int  # of the whole text, which may be cut


class MemoryNoteRecord(msgspec.Struct, frozen=True, array_like=True):
    """A note of claude-memory at a prompt: whether a save was done."""

    offset: int
    at: int | None
    text: str


class LogKind(StrEnum):
    """ctxtop's own logs, by the name of the file that is written now."""

    HOOKS = "hooks.jsonl"
    STATUS_LINE = "statusline.jsonl"
    PLUGIN = "plugin.jsonl"
    ANSWERS = "answers.jsonl"


class FileKind(StrEnum):
    SESSION = "session"
    AGENT = "agent"
    JOURNAL = "journal"  # what the agents of one workflow returned


class SourceFile(msgspec.Struct, frozen=True, array_like=True, gc=False):
    path: str  # below Claude Code's folder
    kind: FileKind
    project: str
    session_id: str
    agent_id: str | None = None


class TailState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far a file was read, and how to tell whether it is still the same file."""

    device: int = 0
    inode: int = 0
    offset: int = 0
    anchor: str = ""  # hash of the bytes before `offset`
    size: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0  # 0 if not recorded
    places: str = ""  # hash of samples before `offset`; empty if not recorded


class ChargeRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Tokens of an answer that have one price."""

    COUNTS: ClassVar = (
        *("input_tokens", "cache_creation_tokens", "cache_1h_tokens", "cache_read_tokens"),
        *("output_tokens", "web_searches", "responses"),
    )

    model: str
    rate: int  # a `PriceRate`
    input_tokens: int
    cache_creation_tokens: int
    cache_1h_tokens: int
    cache_read_tokens: int
    output_tokens: int
    web_searches: int = 0
    responses: int = 1  # 0 for a part of an answer that another part counts


class ResponseRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An answer of the API; all lines with one `message_id` are the same answer."""

    offset: int
    last_offset: int  # of the last line that belongs to it
    message_id: str
    at: int | None
    model: str
    input_tokens: int
    cache_creation_tokens: int
    cache_read_tokens: int
    output_tokens: int
    context_tokens: int  # input side of the last iteration: what the model saw
    sidechain: bool
    tools: str = ""  # its tool calls, each once: the end of the call's id, and a comma after it
    request: int | None = None  # key of the `api-request` that it answers
    last_output_tokens: int | None = None  # of the last iteration, if there were several
    cache_1h_tokens: int = 0  # of the tokens written to the cache: for an hour
    lowered: bool = False  # `context_tokens` is an edit's estimate, not the API's number
    has_text: bool = False  # thinking and tool calls are none
    client_version: str | None = None
    cache_miss: str | None = None  # why the prompt cache was missed, in the API's own word
    cache_missed_tokens: int | None = None  # of how many tokens the API says so
    rate: int = 0  # at which its tokens are priced (`PriceRate`)
    web_searches: int = 0  # that the API made for it
    charges: str | None = None  # JSON of ChargeRecords that are priced in its place, if several
    also_counted_tokens: int = 0  # cleared from its request; the next compaction counts them


MAX_TOOL_CALLS: Final = 1_000  # tool calls of one answer that are counted; 60 were seen


def join_tools(known: str, more: str) -> str:
    """Add tool calls that are not listed yet; each ends with a comma (ResponseRecord.tools)."""
    return join_calls(f"{name}," for name in f"{known}{more}".split(",")[:-1])


def join_calls(calls: Iterable[str]) -> str:
    """Join tool calls that each end with a comma, each once."""
    return "".join(list(dict.fromkeys(calls))[:MAX_TOOL_CALLS])


class AdditionRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A line since the last answer began: its own, or part of the next request."""

    offset: int
    message: int | None  # key of the answer's id, in the answer's own lines
    tokens: int  # by the client's own estimate


class ContextReportRecord(msgspec.Struct, frozen=True, array_like=True):
    """The result of `/context`; rounded tokens if an older client wrote only text."""

    offset: int
    model: str  # as it was asked for, with its suffix for a large window
    total_tokens: int
    window_tokens: int  # the window that the client compacts by
    buffer_tokens: int | None  # kept free; None if it compacts only when it must


class PeakRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A context of a model, in tokens, that is not in an answer's last line."""

    message_id: str
    model: str
    sidechain: bool
    context_tokens: int


class BoundaryRecord(msgspec.Struct, frozen=True, array_like=True):
    offset: int
    uuid: str
    at: int | None
    trigger: str | None
    pre_tokens: int | None
    post_tokens: int | None
    dropped_tokens: int | None
    duration_ms: int | None
    kept_messages: int | None
    is_precomputed: bool = False
    """Its summary was made in the background at the trigger, and used once a prompt was refused
    (2.1.332): `pre_tokens` is not where the client begins to compact."""


class MicrocompactionRecord(msgspec.Struct, frozen=True, array_like=True):
    """A `microcompact_boundary`: the client stopped sending some results and attachments."""

    offset: int
    at: int | None
    saved_tokens: int | None
    results: int  # tool results that were cleared
    attachments: int


class HookRunRecord(msgspec.Struct, frozen=True, array_like=True):
    """A Stop hook in a `stop_hook_summary`."""

    offset: int
    number: int  # in its summary
    at: int | None
    event: str
    command: str  # in one line, without what looks like a secret
    duration_ms: int
    reason: str | None  # why hooks stopped the client, or their errors: all of the summary


class ApiErrorRecord(msgspec.Struct, frozen=True, array_like=True):
    offset: int
    at: int | None
    kind: str
    detail: str
    uuid: str | None = None
    prompt_tokens: int | None = None  # size of a prompt that was too long
    limit_tokens: int | None = None


class LaunchRecord(msgspec.Struct, frozen=True, array_like=True):
    """A tool call that starts an agent."""

    offset: int
    tool_use_id: str
    at: int | None
    agent_type: str
    description: str
    asked_model: str | None = None
    prompt: int | None = None  # key of the prompt, with which an agent of 2.0 begins
    skill: str | None = None  # whose format the prompt asks for


class TurnState(StrEnum):
    """Whose turn it is in a conversation, by its newest message."""

    ASKED = "asked"  # a person or the client asked; the model has not answered
    RESULT = "result"  # a tool's result came; the model has not answered
    ANSWERED = "answered"  # the model answered, maybe with a call
    ENDED = "ended"  # an agent's model answered, and says that it is done
    OVER = "over"  # it was refused or interrupted: nothing is in flight


class OpenCallRecord(msgspec.Struct, frozen=True, array_like=True):
    offset: int
    tool_use_id: str
    at: int | None
    name: str
    detail: str  # for example the command or the file


class SidechainLineRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A line of an agent in its session's own file (clients up to 2.0)."""

    offset: int
    line: int  # key of its uuid
    parent: int | None
    message_id: str | None
    prompt: int | None  # key of its text, if it may be the agent's prompt


class ProgressLineRecord(msgspec.Struct, frozen=True, array_like=True):
    """A line of an agent inside a `progress` line of its parent's file (clients up to 2.1.9x)."""

    offset: int
    agent_id: str
    tool_use_id: str | None
    at: int | None
    answer: ResponseRecord | None  # the answer of the API that it holds


class RequestRecord(msgspec.Struct, frozen=True, array_like=True):
    """A request to the API, by the keys of its parts."""

    offset: int
    length: int
    request: int  # key of its id
    at: int | None
    model: str | None
    query_source: str | None
    shape: int | None  # key of its system prompt and tools
    base: int | None  # key of the request whose first `keep` messages it repeats
    keep: int
    tail: bytes  # keys of the messages after those, eight bytes each, the first byte the highest


class RequestPartRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The place of a part of a request: a message as sent, or a shape."""

    offset: int
    length: int
    part: int  # key of its hash


OUTPUT_ID_PREFIX: Final = "output "  # of the id of a return that was requested


class AgentReturnRecord(msgspec.Struct, frozen=True, array_like=True):
    """What an agent returned into its parent."""

    offset: int
    uuid: str
    agent_id: str
    at: int | None
    status: str
    tool_use_id: str | None = None
    model: str | None = None
    context_tokens: int | None = None  # input side of the agent's last request
    total_tokens: int | None = None  # the same with its output: all that a notification has
    tool_uses: int | None = None
    input_tokens: int | None = None
    cache_creation_tokens: int | None = None
    cache_read_tokens: int | None = None
    output_tokens: int | None = None  # the four counts are of its last request
    name: str | None = None  # of a teammate: its messages to its leader have no id


class SummaryRecord(msgspec.Struct, frozen=True, array_like=True):
    """An agent's result, a compaction's summary, a plan, or a rule that a person set."""

    offset: int
    uuid: str
    kind: str
    agent_id: str | None
    at: int | None
    text: str
    lines: int
    chars: int
    source: str | None = None  # the memory file that states a rule


class ReplyRecord(msgspec.Struct, frozen=True, array_like=True):
    """Text of an assistant's line; an agent's last one is its result."""

    offset: int
    message_id: str
    at: int | None
    text: str


class SessionRecord(msgspec.Struct, frozen=True, array_like=True):
    """What the lines of one run say about their file; None if nothing."""

    started_at: int | None = None
    last_at: int | None = None
    opened_at: int | None = None  # time of the first line that has one; of a fork, its own
    forked_from: str | None = None
    cwd: str | None = None  # of the newest line: a session may change its folder
    began_in: str | None = None  # of the file's first line, if the session begins with it
    launched_in: str | None = None
    """The folder that the client named the project's folder after, if a line was written there."""
    client_version: str | None = None
    custom_title: str | None = None
    ai_title: str | None = None
    summary_title: str | None = None
    first_prompt: str | None = None
    last_prompt: str | None = None
    prompt_title: str | None = None  # what the first prompt that says something is about
    message_title: str | None = None  # the same of a message that no person typed as a prompt
    prompt_at: int | None = None  # of the last prompt
    noted_prompt: str | None = None  # what the client noted as the last one, which has no time
    git_branch: str | None = None  # at the last prompt
    model: str | None = None  # the model that was asked for, known before the first answer
    model_offset: int | None = None  # of the line that named it
    turn: TurnState | None = None  # by the newest message of the main chain
    turn_at: int | None = None
    turn_offset: int | None = None
    prompt: int | None = None  # key of an agent's prompt, in its own file
    cost_usd: float | None = None  # the client's total, with agents and unrecorded requests
    cost_offset: int | None = None
    leaf_uuid: str | None = None  # of the newest line: summaries refer to it
    worktree: str | None = None  # the git worktree that it entered
    worktree_owner: str | None = None  # the folder that it was in before
    moved_to: str | None = None  # the folder, or worktree, that the client moved it to


class LeafTitleRecord(msgspec.Struct, frozen=True, array_like=True):
    """The title in a `summary` line for the conversation that ends in a line of any file."""

    leaf_uuid: str
    title: str


MAX_BAD_LINES_PER_FILE: Final = 100
"""Rows of one file: the first ones show the cause; a file that is not a transcript has a
million."""


class BadLine(msgspec.Struct, frozen=True, array_like=True):
    offset: int
    length: int
    reason: str


class TranscriptRecords(msgspec.Struct, frozen=True, array_like=True):
    """The records of one run of lines of one file."""

    lines: int = 0
    session: SessionRecord = SessionRecord()
    responses: tuple[ResponseRecord, ...] = ()
    peaks: tuple[PeakRecord, ...] = ()
    boundaries: tuple[BoundaryRecord, ...] = ()
    api_errors: tuple[ApiErrorRecord, ...] = ()
    launches: tuple[LaunchRecord, ...] = ()
    returns: tuple[AgentReturnRecord, ...] = ()
    failed_calls: tuple[AgentReturnRecord, ...] = ()  # of any tool; some of them started agents
    summaries: tuple[SummaryRecord, ...] = ()
    replies: tuple[ReplyRecord, ...] = ()
    sidechain_lines: tuple[SidechainLineRecord, ...] = ()
    progress_lines: tuple[ProgressLineRecord, ...] = ()
    requests: tuple[RequestRecord, ...] = ()
    request_parts: tuple[RequestPartRecord, ...] = ()
    additions: tuple[AdditionRecord, ...] = ()
    context_reports: tuple[ContextReportRecord, ...] = ()
    markers: tuple[MarkerRecord, ...] = ()
    stop_feedback: tuple[StopFeedbackRecord, ...] = ()
    given_skills: tuple[GivenSkillRecord, ...] = ()
    stop_blocks: tuple[StopBlockRecord, ...] = ()
    memory_notes: tuple[MemoryNoteRecord, ...] = ()
    leaf_titles: tuple[LeafTitleRecord, ...] = ()
    open_calls: tuple[OpenCallRecord, ...] = ()  # tool calls that have no result among these lines
    ended_calls: tuple[str, ...] = ()  # ids of calls whose results are among these lines
    microcompactions: tuple[MicrocompactionRecord, ...] = ()
    hook_runs: tuple[HookRunRecord, ...] = ()
    bad: tuple[BadLine, ...] = ()
    ignored_types: dict[str, int] = {}  # lines by type that are known and not needed
    unknown_types: dict[str, int] = {}  # lines by type that this version does not know
    bad_lines: int = 0  # lines that were not read, or not whole; `bad` holds the first of them


class AgentMeta(msgspec.Struct, frozen=True):
    path: str
    session_id: str
    agent_id: str
    agent_type: str
    description: str
    tool_use_id: str | None
    parent_agent_id: str | None
    depth: int
    model: str | None
    finished: bool | None
    mtime_ns: int
    name: str | None = None  # of a teammate
    stopped: bool = False  # by a person, with or without its session's turn


class LiveSession(msgspec.Struct, frozen=True):
    session_id: str
    pid: int
    status: str
    tmux: str | None
    name: str | None
    updated_at: int | None
    waiting_for: str | None = None  # what a person is asked, if the status is waiting
    cwd: str | None = None
    client_version: str | None = None
    started_at: int | None = None
    process_start: str | None = None  # clock ticks on Linux, a date on macOS
    has_shell: bool = False  # idle, and a shell runs in the background


class ClientReportRecord(msgspec.Struct, frozen=True):
    """What else the client's status line says of a session; the newest replaces the one before."""

    session_id: str
    at: int
    effort: str | None
    thinking: bool | None
    fast_mode: bool | None
    output_style: str | None
    duration_ms: int | None  # since this client opened the session, as the next three
    api_duration_ms: int | None
    lines_added: int | None
    lines_removed: int | None
    pull_request: int | None
    pull_request_url: str | None
    pull_request_state: str | None
    cache_requests: int | None
    cache_misses: int | None
    cache_rebuilds: int | None  # rewrites that were expected
    cache_hit_ratio: float | None
    cache_write_tokens: int | None
    cache_rewritten_tokens: int | None  # because of misses
    cache_last_miss_at: int | None
    cache_miss_causes: str  # JSON: the number of misses by cause
    cache_last_miss_causes: str = "[]"  # JSON: the client's names of the causes (2.1.330)


class WindowRecord(msgspec.Struct, frozen=True):
    """A session's window as the client itself reported it."""

    session_id: str
    model: str
    window_tokens: int
    at: int
    measured: bool = False  # reported by the module inside the client, not the status line
