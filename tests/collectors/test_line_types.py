"""Every type of line that the reference names is known: used, or ignored for a reason."""

from __future__ import annotations

import json
from typing import Final

import pytest
from ctxtop.collectors.claude_code.tail import LineBlock
from ctxtop.collectors.claude_code.transcripts.line_indexer import index_block
from ctxtop.core.model.transcript_records import FileKind, SourceFile, TranscriptRecords
from ctxtop.core.transcript.line_types import (
    IGNORED_ATTACHMENTS,
    IGNORED_SYSTEM,
    IGNORED_TYPES,
    why_ignored,
)

from ..transcripts import PROJECT, SESSION, JsonLine, attachment, chained, user

MAIN: Final = SourceFile(f"{PROJECT}/{SESSION}.jsonl", FileKind.SESSION, PROJECT, SESSION)

# claude-code-formats 2.1 and 2.9, claude-code-live; the last two rows: client 2.1.329's own tables.
LINES: Final = [
    "user",
    "assistant",
    "system",
    "attachment",
    "progress",
    "summary",
    "custom-title",
    "ai-title",
    "last-prompt",
    "tag",
    "agent-name",
    "agent-color",
    "agent-setting",
    "mode",
    "permission-mode",
    "worktree-state",
    "pr-link",
    "bridge-session",
    "atis-latch",
    "isolation-latch",
    "cost-state",
    "queue-operation",
    "file-history-snapshot",
    "file-history-delta",
    "attribution-snapshot",
    "speculation-accept",
    "content-replacement",
    "frame-link",
    "artifact-create",
    "marble-origami-commit",
    "marble-origami-snapshot",
    "continued-in",
    "history-suppression",
    "fork-context-ref",
    "relocated",
    "ended",
    "ended-by-model",
    "conversation_reset",
    "launched",
    "started",
    "result",
    "failed",
    "tools-used",
    "api-request",
    "api-request-shape",
    "api-request-blob",
    "api-request-resumed",
    "resume-head-vouch",
    "data-flow-records",
    "data-flow-incomplete",
    "derived-from",
    "artifact-comment-monitor",
    "artifact-autoreact-ledger",
    "session-owner",
    "dev-mods",
    "memory-mode",
    "observer-ref",
]

# claude-code-formats 2.7.
SUBTYPES: Final = [
    "compact_boundary",
    "microcompact_boundary",
    "local_command",
    "turn_duration",
    "stop_hook_summary",
    "api_error",
    "informational",
    "away_summary",
    "model_refusal_fallback",
    "memory_saved",
    "agents_killed",
    "scheduled_task_fire",
    "permission_retry",
    "bridge_status",
    "file_snapshot",
    "api_metrics",
    "post_tool_hook_feedback",
]

# claude-code-formats 2.8; the rows after the blank one: client 2.1.329's own list.
KINDS: Final = [
    "queued_command",
    "prompt_snapshot",
    "session_context",
    "environment",
    "model",
    "date",
    "date_change",
    "hook_success",
    "hook_additional_context",
    "hook_blocking_error",
    "hook_non_blocking_error",
    "hook_cancelled",
    "compact_file_reference",
    "invoked_skills",
    "plan_file_reference",
    "instructions",
    "nested_memory",
    "file",
    "edited_text_file",
    "directory",
    "task_status",
    "task_reminder",
    "total_tokens_reminder",
    "skill_listing",
    "agent_listing_delta",
    "mcp_instructions_delta",
    "deferred_tools_delta",
    "plan_mode",
    "auto_mode",
    "agent_mention",
    "at_mention_reference",
    "peer_mention",
    "skill_mention",
    "already_read_file",
    "async_hook_response_batch",
    "attention_budget",
    "auto_mode_exit",
    "budget_usd",
    "command_permissions",
    "context_efficiency",
    "cowork_memory_context",
    "account_memory_recall",
    "critical_system_reminder",
    "thread_state",
    "widget_context_hint",
    "prefix_delta",
    "diagnostics",
    "dynamic_skill",
    "edited_image_file",
    "goal_status",
    "goals",
    "hook_deferred_tool",
    "hook_error_during_execution",
    "hook_permission_decision",
    "hook_plugin_listing",
    "hook_stopped_continuation",
    "hook_system_message",
    "max_turns_reached",
    "mcp_dropped_tools_delta",
    "linked_plugin_tools_note",
    "inlined_image_paths",
    "tool_hosts_notice",
    "claude_app_notice",
    "agent_ask_notice",
    "tool_hosts_correction",
    "tool_host_result_lines",
    "mcp_resource",
    "memory_update",
    "instruction_files_not_loaded",
    "withheld_memory",
    "opened_file_in_ide",
    "output_style",
    "output_token_usage",
    "pdf_reference",
    "plan_mode_exit",
    "plan_mode_reentry",
    "proactivity",
    "first_week",
    "read_truncation_notice",
    "sandbox_instructions",
    "artifact_opening_prefetch",
    "output_style_instructions",
    "language",
    "coordinator_context",
    "context_sections",
    "project_doc_reads",
    "message_pdf_reads",
    "whole_texts_withdrawn",
    "prompt_render_point",
    "thinking_stripped",
    "advisor_stripped",
    "thinking_drop",
    "tool_results_cut",
    "credential_org",
    "tool_offer_record",
    "projects_thread_ask",
    "deferred_tools_record",
    "bash_output_audience_note",
    "unknown_command_fallback",
    "relevant_memories",
    "selected_lines_in_diff",
    "selected_lines_in_ide",
    "silent_turn_reminder",
    "elapsed_time_reminder",
    "output_limit_note",
    "structured_output",
    "team_context",
    "teammate_shutdown_batch",
    "todo_reminder",
    "token_usage",
    "tool_search_usage_reminder",
    "batching_reminder",
    "batching_reminder_sent",
    "secondary_reminder",
    "secondary_reminder_sent",
    "prompt_as_file",
    "ultra_effort_enter",
    "ultra_effort_exit",
    "ultrathink_effort",
    "repl_mcp_needs_auth",
    "repl_mcp_servers",
    "workflow_keyword_request",
    "workflow_size_guideline_change",
    "remote_session_change",
    "advisor_tool",
    "fork_briefing",
    "session_cron_carry",
    "poll_events",
    "async_hook_response",
    "teammate_mailbox",
]

JOURNAL_ONLY: Final = {"result", "failed"}

INDEXED_TYPES: Final = frozenset(
    {
        "ai-title",
        "api-request",
        "api-request-blob",
        "api-request-shape",
        "assistant",
        "attachment/model",
        "attachment/queued_command",
        "attachment/teammate_mailbox",
        "cost-state",
        "custom-title",
        "derived-from",
        "failed",
        "last-prompt",
        "progress/agent_progress",
        "progress/skill_progress",
        "queue-operation",
        "relocated",
        "result",
        "summary",
        "system/compact_boundary",
        "system/microcompact_boundary",
        "user",
        "worktree-state",
    }
)
"""What becomes rows."""


def read(line: JsonLine, source: SourceFile = MAIN) -> TranscriptRecords:
    data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
    return index_block(source, LineBlock(0, data, len(data)))


@pytest.mark.parametrize("name", LINES)
def test_every_type_of_line_is_used_or_ignored_for_a_reason(name: str) -> None:
    if name in {"system", "attachment", "progress"}:
        assert any(used.startswith(f"{name}/") for used in INDEXED_TYPES)
        return

    assert (name in INDEXED_TYPES) != (name in IGNORED_TYPES) or name == "queue-operation"
    assert name in INDEXED_TYPES or why_ignored(name)


@pytest.mark.parametrize("name", sorted({*IGNORED_TYPES} | {"queue-operation", "derived-from"}))
def test_a_known_line_is_never_counted_as_unknown(name: str) -> None:
    facts = read({"type": name, "sessionId": SESSION})

    assert facts.unknown_types == {}
    assert sum(facts.ignored_types.values()) == (name in IGNORED_TYPES)


@pytest.mark.parametrize("name", SUBTYPES)
def test_every_subtype_is_known(name: str) -> None:
    facts = read(chained("system", subtype=name))

    assert facts.unknown_types == {}
    assert (f"system/{name}" in INDEXED_TYPES) != (name in IGNORED_SYSTEM)
    assert f"system/{name}" in INDEXED_TYPES or why_ignored(f"system/{name}")


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_attachment_is_known(name: str) -> None:
    facts = read(attachment(name))

    assert facts.unknown_types == {}
    assert (f"attachment/{name}" in INDEXED_TYPES) != (name in IGNORED_ATTACHMENTS)
    assert f"attachment/{name}" in INDEXED_TYPES or why_ignored(f"attachment/{name}")


@pytest.mark.parametrize(
    "kind", ["hook_progress", "bash_progress", "mcp_progress", "agent_progress"]
)
def test_every_kind_of_progress_is_known(kind: str) -> None:
    facts = read(chained("progress", data={"type": kind}))

    assert facts.unknown_types == {}
    assert facts.ignored_types == {f"progress/{kind}": 1}
    assert why_ignored(f"progress/{kind}")


@pytest.mark.parametrize("data", [{"type": "of_tomorrow"}, {}, "text", None])
def test_progress_of_tomorrow_is_counted(data: object) -> None:
    assert sum(read(chained("progress", data=data)).unknown_types.values()) == 1


def test_whatever_is_ignored_is_counted_under_a_name_that_has_a_reason() -> None:
    lines: list[JsonLine] = [{"type": name} for name in IGNORED_TYPES]
    lines += [chained("system", subtype=name) for name in IGNORED_SYSTEM]
    lines += [attachment(name) for name in IGNORED_ATTACHMENTS]
    lines.append(chained("assistant", message={"model": "<synthetic>", "content": []}))
    counted = {name for line in lines for name in read(line).ignored_types}

    assert len(counted) == len(lines)
    assert [name for name in counted if not why_ignored(name)] == []


def test_what_is_not_known_has_no_reason() -> None:
    assert why_ignored("of-tomorrow") is None
    assert why_ignored("attachment/of_tomorrow") is None
    assert why_ignored("system/of_tomorrow") is None


@pytest.mark.parametrize("name", sorted(JOURNAL_ONLY))
def test_a_workflows_result_in_a_session_is_not_known(name: str) -> None:
    assert read({"type": name, "agentId": "a1", "result": "x"}).unknown_types == {name: 1}


@pytest.mark.parametrize("name", ["cause", "trigger", "sessions", "data", "content", "result"])
@pytest.mark.parametrize("value", [None, 5, "x", [1], {"a": 1}])
def test_fields_of_one_type_may_be_of_another_kind_elsewhere(name: str, value: object) -> None:
    facts = read(user("hello") | {name: value})

    assert (facts.unknown_types, facts.bad) == ({}, ())
    assert facts.session.first_prompt == "hello"
