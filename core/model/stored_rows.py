"""Rows of sessions, agents, summaries and problems, as queries return them.

Times are milliseconds since 1970 (UTC), sizes are tokens. None means that nothing is known.
"""

from __future__ import annotations

import msgspec

from .problem import Problem


class SessionRow(msgspec.Struct, frozen=True):
    """A session's file, its metadata, and the newest numbers after its last boundary."""

    file_id: int
    session_id: str
    path: str
    project: str
    gone: int = 0
    started_at: int | None = None
    last_at: int | None = None
    cwd: str | None = None
    project_root: str | None = None  # where the session began; `cwd` is where it is now
    client_version: str | None = None
    custom_title: str | None = None
    ai_title: str | None = None
    summary_title: str | None = None
    first_prompt: str | None = None
    last_prompt: str | None = None
    prompt_title: str | None = None
    message_title: str | None = None  # of a message that no person typed as a prompt
    git_branch: str | None = None
    asked_model: str | None = None
    boundary_at: int | None = None
    post_tokens: int | None = None
    boundaries: int = 0
    answer_model: str | None = None
    answer_tokens: int | None = None
    answer_output: int | None = None  # of the last iteration of that answer
    last_model: str | None = None  # of the last answer, even if it is before the boundary
    next_model: str | None = None  # chosen after that, with its suffix for a large window
    peak_tokens: int | None = None  # the most that an answer of `last_model` saw
    error_kind: str | None = None  # of the last refused answer, if no answer came after it
    error_detail: str | None = None
    error_prompt_tokens: int | None = None
    error_limit_tokens: int | None = None
    limit_tokens: int | None = None  # the largest limit that the API named in this file
    answer_text_tokens: int = 0  # the client's estimate of the last answer's own texts
    after_answer_tokens: int = 0  # the client's estimate of what follows it
    report_model: str | None = None  # of the last `/context`, as it was asked for
    report_tokens: int | None = None  # its total, if it came after the last boundary
    report_window: int | None = None
    report_buffer: int | None = None
    agents: int = 0
    live_status: str | None = None
    live_name: str | None = None
    tmux: str | None = None
    mtime_ns: int = 0
    forked_from: str | None = None  # the session that it was made from
    estimated_next_tokens: int | None = None  # if no answer follows the last boundary
    is_answer_estimated: int | None = None  # 1 if an edit of ctxtop lowered that answer's tokens
    cleared_tokens: int = 0  # what the client cleared after that answer
    status_tokens: int | None = None
    """The input side of an open session's last answer, as the client itself reported it after that
    answer and the last boundary."""
    status_output_tokens: int | None = None
    is_unregistered: int = 0  # 1 if the client's registry exists without an entry for it
    answer_input: int | None = None  # this and the next two: spent by the answer, all steps
    answer_cache_creation: int | None = None
    answer_cache_read: int | None = None
    status_input: int | None = None  # this and the next two: of `status_tokens`, where reported
    status_cache_creation: int | None = None
    status_cache_read: int | None = None
    first_answers: str | None = None
    """Of the first answers after the last boundary: 1 for text or a tool call, 0 for neither."""
    text_counts: str | None = None  # tokens of its text by the rule of counting, JSON
    archived: str = ""  # how much the archive has of a file that is gone: all, summaries
    recovered_in: str | None = None  # the session that ctxtop forked after the refused answer
    problem: str | None = None  # why its file is not read, or not to its end
    passed_tokens: int | None = None  # the smaller context of the last two answers of its model
    live_at: int | None = None  # when its client last wrote its entry in the registry
    worktree: str | None = None  # the git worktree that `cwd` is in, a newline, and its repository
    fork_kind: str | None = None  # how ctxtop made it of another one: a strategy, or `levels`
    is_fork_undone: int | None = None  # 1 if that was undone
    also_counted_tokens: int | None = None  # cleared from the last answer's request


class AgentRow(msgspec.Struct, frozen=True):
    """One run of an agent, from what started it, its own file, and its return."""

    agent_id: str
    session_id: str
    parent_agent_id: str | None
    agent_type: str | None
    description: str | None
    model: str | None
    asked_model: str | None  # as the client names it, with its mark for a large window
    launched_at: int | None
    started_at: int | None
    last_at: int | None
    returned_at: int | None
    return_status: str | None
    finished: int | None
    client_version: str | None
    cwd: str | None
    project_root: str | None  # of its session
    answer_tokens: int | None
    answer_output: int | None
    answer_text_tokens: int
    after_answer_tokens: int
    post_tokens: int | None
    peak_tokens: int | None
    returned_context_tokens: int | None
    returned_total_tokens: int | None
    tool_uses: int | None
    summary_id: int | None
    result_text: str | None
    result_lines: int | None
    result_chars: int | None
    result_tokens: int | None
    reply_text: str | None
    file_mtime_ns: int | None
    tool_use_id: str | None  # the tool call that started it
    depth: int | None  # 1 for an agent that the session itself started
    input_tokens: int | None  # spent by its answers in files; each counts for one agent
    cache_creation_tokens: int | None
    cache_read_tokens: int | None
    output_tokens: int | None
    estimated_next_tokens: int | None = None  # if no answer follows its last boundary
    has_returned: int = 0  # something came back for it, if only that it was started elsewhere
    prompted_skill: str | None = None  # whose format its prompt asks for
    progress_responses: int = 0  # of its answers, those only in `progress` lines
    answer_input: int | None = None  # this and the next two: spent by the last answer, all steps
    answer_cache_creation: int | None = None
    answer_cache_read: int | None = None
    text_counts: str | None = None  # tokens of its text by the rule of counting, JSON
    session_ended_at: int | None = None  # the last SessionEnd that a hook recorded
    closed_at: int | None = None  # when a person closed it
    awaits_messages: int = 0  # a teammate, or elsewhere: its silence says nothing
    problem: str | None = None  # why its file is not read, or not to its end
    stopped_at: int | None = None  # the last SubagentStop that a hook recorded
    has_answered: int = 0  # its file ends with an answer that ends its turn
    was_stopped: int = 0  # by a person
    sessions: int = 1  # that contain it: a fork contains its parent's agents, too
    counted_in: str = ""  # the session that it counts for
    passed_tokens: int | None = None  # the smaller context of the last two answers in its file
    also_counted_tokens: int | None = None  # cleared from the last answer's request


class SummaryRow(msgspec.Struct, frozen=True):
    summary_id: int
    kind: str
    session_id: str
    agent_id: str | None
    agent_type: str | None
    description: str | None
    at: int | None
    lines: int
    estimated_tokens: int | None
    text: str


class CompactionRow(msgspec.Struct, frozen=True):
    session_id: str
    agent_id: str | None
    uuid: str
    at: int | None
    trigger: str | None
    pre_tokens: int | None
    post_tokens: int | None
    dropped_tokens: int | None
    duration_ms: int | None
    kept_messages: int | None
    summary: str | None
    report: str | None = None  # as `encode_report` writes it; None if there is none yet
    next_tokens: int | None = None  # what the first answer after it held; None while there is none
    estimated_next_tokens: int | None = None  # estimate of that, while there is none
    counted_messages_alone: int = 0  # `pre_tokens` is without system prompt and tools
    is_precomputed: int = 0  # its summary was made in the background at the trigger


class FillRow(msgspec.Struct, frozen=True):
    """One step of a context's fill: an answer or a boundary."""

    at: int | None
    tokens: int | None
    is_compaction: int
    path: str = ""  # below projects/
    offset: int = 0
    mark: str = ""  # the message id or boundary's uuid: it survives a rewrite of the file


class UsageRow(msgspec.Struct, frozen=True):
    """Tokens of a session's answers; an answer in several sessions counts for one of them."""

    session_id: str
    input_tokens: int
    cache_creation_tokens: int
    cache_read_tokens: int
    output_tokens: int
    responses: int


class ProblemRow(Problem, frozen=True):
    at: int = 0


class RequestRow(msgspec.Struct, frozen=True):
    file_id: int
    request: int
    offset: int
    length: int
    at: int | None
    model: str | None
    query_source: str | None
    shape: int | None  # key of its system prompt and tools
    message_id: str | None  # of the answer, if that is in the file


class HookRun(msgspec.Struct, frozen=True):
    """One run of a hook, as the client recorded it; times are milliseconds since 1970 (UTC)."""

    session_id: str
    cwd: str | None
    at: int | None
    event: str
    command: str  # in one line, without what looks like a secret
    duration_ms: int
    reason: str | None  # why it stopped the client, or its error
