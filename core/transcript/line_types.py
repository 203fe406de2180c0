"""A first look at a transcript line: its type, what most lines are read for, why some are ignored.

Sources for the types, which are those of Claude Code 1.0 to 2.1.329: claude-code-formats 2.1 and
2.7 to 2.9, claude-code-live, and the tables by which client 2.1.329 decides what it keeps of each.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType, field

from .line_decoder import JSON_TRUE, ForkSource, RawUsage, decode_checked

LEADING_TYPE: Final = re.compile(rb'\{"type":"([a-z-]+)"')  # only lines without a parent begin so

SKIPPED_TYPES: Final = frozenset(
    (
        b"artifact-autoreact-ledger artifact-comment-monitor artifact-create atis-latch "
        b"attribution-snapshot bridge-session content-replacement data-flow-incomplete "
        b"data-flow-records dev-mods file-history-delta file-history-snapshot frame-link "
        b"isolation-latch memory-mode mode observer-ref permission-mode resume-head-vouch "
        b"session-owner speculation-accept tools-used"
    ).split()
)
"""Types that are skipped unread where the line begins with its type."""


def _reasons_by_name(names_by_reason: Mapping[str, str]) -> dict[str, str]:
    return {name: why for why, names in names_by_reason.items() for name in names.split()}


# Known names that need no row, each with the reason; most attachments are what `api-request` lines
# hold as sent, and clients up to about 2.1.9x wrote `progress`.
IGNORED_TYPES: Final = _reasons_by_name(
    {
        "Claude Code's own state": (
            "atis-latch dev-mods isolation-latch memory-mode mode permission-mode "
            "resume-head-vouch session-owner speculation-accept"
        ),
        "account ids, which ctxtop never reads": "bridge-session",
        "a link to another session; `derived-from` says what it was forked from": (
            "continued-in conversation_reset fork-context-ref history-suppression relocated"
        ),
        "a copy of the user's files": (
            "attribution-snapshot file-history-delta file-history-snapshot"
        ),
        "where data came from, for Claude Code's own checks": (
            "data-flow-incomplete data-flow-records"
        ),
        "a link to something outside the conversation": (
            "artifact-autoreact-ledger artifact-comment-monitor artifact-create frame-link "
            "observer-ref pr-link worktree-state"
        ),
        "how Claude Code shows the session": "agent-color agent-name agent-setting tag",
        "a list of tools by name": "tools-used",
        "how the session ended, which its last line also says": "ended ended-by-model",
        "an edit of the context, read when ctxtop works out what the model sees": (
            "content-replacement marble-origami-commit marble-origami-snapshot"
        ),
        "a request that continued: its answer's line has the rest": "api-request-resumed",
        "an entry that does not end a task": "queue-operation",
        "a workflow's own progress": ("launched restored restoring resumed started"),
    }
)
IGNORED_PROGRESS: Final = _reasons_by_name(
    {
        "a tool's progress: only its result counts": (
            "bash_progress hook_progress mcp_progress powershell_progress query_update "
            "search_results_received task_progress tool_progress waiting_for_task"
        ),
        "an agent's step that does not name the agent": "agent_progress skill_progress",
    }
)
IGNORED_SYSTEM: Final = _reasons_by_name(
    {
        "a notice to the user": (
            "away_summary bridge_status file_attachments_missing informational "
            "instruction_size_warning notification peer_message_hold session_writes_lost "
            "turn_preempted"
        ),
        "a command's output, unless it was /context": "local_command",
        "a hook's run, which is in the hook log": "post_tool_hook_feedback stop_hook_summary",
        "a retry: a final refusal has its own line": "api_error api_retry",
        "a counter of Claude Code": "api_metrics thinking_tokens turn_duration",
        "a change of model, which the next answer names": (
            "model_consent_fallback model_fallback model_refusal_fallback "
            "model_refusal_no_fallback per_turn_effort_changed"
        ),
        "the end of agents, whose results have lines of their own": "agents_killed",
        "a file that Claude Code wrote": "file_snapshot memory_recall memory_saved",
        "something that started or was allowed": (
            "permission_denied permission_retry rewind_stand_in scheduled_task_fire"
        ),
    }
)
IGNORED_ATTACHMENTS: Final = _reasons_by_name(
    {
        "a hook's run, which is in the hook log": (
            "async_hook_response async_hook_response_batch hook_additional_context "
            "hook_blocking_error hook_cancelled hook_deferred_tool hook_error_during_execution "
            "hook_non_blocking_error hook_permission_decision hook_plugin_listing "
            "hook_stopped_continuation hook_success hook_system_message"
        ),
        "what the model is told about its tools, skills and agents": (
            "advisor_stripped advisor_tool agent_listing_delta agent_mention command_permissions "
            "deferred_tools_delta deferred_tools_record dynamic_skill invoked_skills "
            "linked_plugin_tools_note mcp_dropped_tools_delta mcp_instructions_delta peer_mention "
            "plugin_note prompt_snapshot repl_mcp_needs_auth repl_mcp_servers skill_listing "
            "skill_mention tool_host_result_lines tool_hosts_correction tool_hosts_notice "
            "tool_offer_record tool_search_usage_reminder unknown_command_fallback"
        ),
        "what the model is told about its environment": (
            "artifact_opening_prefetch claude_app_notice context_sections coordinator_context "
            "credential_org date date_change diagnostics dir_sync_notice directory environment "
            "instruction_files_not_loaded instructions language opened_file_in_ide output_style "
            "output_style_instructions remote_session_change sandbox_instructions "
            "selected_lines_in_diff selected_lines_in_ide session_context session_cron_carry "
            "team_context thread_state widget_context_hint withheld_memory"
        ),
        "a file's text, measured with the context": (
            "already_read_file at_mention_reference compact_file_reference edited_image_file "
            "edited_text_file file inlined_image_paths mcp_resource message_pdf_reads "
            "pdf_reference plan_file_reference project_doc_reads projects_thread_ask "
            "prompt_as_file"
        ),
        "what the model is told about its memory": (
            "account_memory_recall cowork_memory_context memory_update nested_memory "
            "relevant_memories"
        ),
        "a reminder to the model": (
            "agent_ask_notice attention_budget auto_mode auto_mode_exit bash_output_audience_note "
            "batching_reminder batching_reminder_sent budget_usd context_efficiency "
            "critical_system_reminder elapsed_time_reminder first_week fork_briefing goal_status "
            "goals max_turns_reached output_limit_note output_token_usage plan_mode "
            "plan_mode_exit plan_mode_reentry poll_events prefix_delta proactivity "
            "read_truncation_notice secondary_reminder secondary_reminder_sent "
            "silent_turn_reminder structured_output task_reminder task_status todo_reminder "
            "token_usage total_tokens_reminder ultra_effort_enter ultra_effort_exit "
            "ultrathink_effort workflow_keyword_request workflow_size_guideline_change"
        ),
        "a marker for what was removed from the context": (
            "prompt_render_point thinking_drop thinking_stripped tool_results_cut "
            "whole_texts_withdrawn"
        ),
        "also in the teammate's own lines": "teammate_shutdown_batch",
    }
)

_REASONS: Final = {
    "attachment": IGNORED_ATTACHMENTS,
    "progress": IGNORED_PROGRESS,
    "system": IGNORED_SYSTEM,
    "assistant": {"synthetic": "words that the client made up: no request, no usage"},
}


def why_ignored(name: str) -> str | None:
    """Return why lines counted under `name` produce no rows; None for an unknown name."""
    kind, _, detail = name.partition("/")
    return _REASONS.get(kind, {}).get(detail) if detail else IGNORED_TYPES.get(name)


AGENT_TOOLS: Final = frozenset({"Agent", "Task"})  # the tool's name since about 2.1.63, and before
EDIT_TOOLS: Final = frozenset({"Edit", "MultiEdit", "NotebookEdit"})

AGENT_OUTPUT_TOOLS: Final = frozenset({"TaskOutput", "AgentOutputTool", "AgentOutput"})
"""Tools that return a background task's output (clients 2.0.x to 2.1.x; 2.1.329 has none)."""

PLAN_TOOL: Final = "ExitPlanMode"  # the client puts the plan's file into its input (2.1.329)
FULLY_DECODED_TOOLS: Final = AGENT_TOOLS | {PLAN_TOOL}  # an answer that calls one is decoded whole

CLIENT_TEXT: Final = re.compile(
    r"\s*(?:<(?:command-|local-command-|bash-|task-notification|teammate-message|system-reminder"
    r"|user-memory-input|ide_)|\[Request interrupted|Caveat: |This session is being continued"
    r"|Another Claude session sent a message|A peer session sent a message)"
)
"""Text of a user's line that no person typed (claude-code-formats 2.3)."""


NonObject = list[Raw] | str | int | float | bool | None
"""What some lines hold in place of an object: an error's text, or a future client's value."""


class BlockGlance(msgspec.Struct, gc=False):
    type: str | None = None
    id: str | None = None
    name: str | None = None
    tool_use_id: str | None = None
    is_error: Raw | UnsetType = UNSET


class MessageGlance(msgspec.Struct, gc=False):
    id: str | None = None
    model: str | None = None
    content: list[BlockGlance | NonObject] | BlockGlance | str | int | float | bool | None = None
    usage: RawUsage | None = None


class ResultGlance(msgspec.Struct, gc=False):
    """`toolUseResult`: an agent's has at least one of these fields, another tool's has none."""

    agent_id: Raw | UnsetType = field(name="agentId", default=UNSET)
    teammate_id: Raw | UnsetType = field(name="teammate_id", default=UNSET)
    task_id: Raw | UnsetType = field(name="taskId", default=UNSET)
    retrieval_status: Raw | UnsetType = field(name="retrieval_status", default=UNSET)
    stopped_task_id: Raw | UnsetType = field(name="task_id", default=UNSET)
    tool_uses: Raw | UnsetType = field(name="totalToolUseCount", default=UNSET)


class LineGlance(msgspec.Struct, gc=False, rename="camel"):
    """The few fields that most lines are read for; no text is decoded."""

    type: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    version: str | None = None
    message: MessageGlance | None = None
    tool_use_result: ResultGlance | NonObject = None
    is_sidechain: bool | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    forked_from: ForkSource | None = None
    uuid: str | None = None
    session_id: str | None = None
    request_ref: str | None = None


glance_unchecked: Final = msgspec.json.Decoder(LineGlance).decode
"""Decode a glance; raises msgspec's own errors, for the reader of every line."""


def glance(line: bytes) -> LineGlance:
    """Decode a glance; raises NotJsonError or UnexpectedShapeError with the reason."""
    return decode_checked(line, glance_unchecked)


def starts_with_tool_result(message: MessageGlance) -> bool:
    content = message.content
    first = content[0] if type(content) is list and content else None
    return type(first) is BlockGlance and first.type == "tool_result"


def has_failed_result(message: MessageGlance) -> bool:
    content = message.content
    return type(content) is list and any(
        type(block) is BlockGlance and block.is_error is not UNSET and block.is_error == JSON_TRUE
        for block in content
    )


def list_tool_calls(message: MessageGlance) -> list[BlockGlance]:
    if type(message.content) is not list:
        return []
    return [
        block
        for block in message.content
        if type(block) is BlockGlance and block.type == "tool_use"
    ]


def has_agent_result(line: LineGlance) -> bool:
    """Return whether a tool's result has one of the fields that refer to an agent."""
    result = line.tool_use_result
    return type(result) is ResultGlance and not (
        result.agent_id is UNSET
        and result.teammate_id is UNSET
        and result.task_id is UNSET
        and result.retrieval_status is UNSET
        and result.stopped_task_id is UNSET
        and result.tool_uses is UNSET
    )
