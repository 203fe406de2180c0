"""The types of lines that clients from 1.0 to 2.1.329 write, and why some are not needed."""

from __future__ import annotations

import re
from typing import Final

FIRST_KEY: Final = re.compile(rb'\{"type":"([a-z-]+)"')
"""The type where it stands first; chained lines carry it elsewhere."""

BULK: Final = frozenset(
    {
        b"api-request",  # what was sent: the engine reads it when asked what fills a context
        b"api-request-blob",
        b"api-request-shape",
        b"artifact-create",
        b"atis-latch",  # switches of the client itself
        b"attribution-snapshot",
        b"bridge-session",  # holds account ids: never read
        b"content-replacement",
        b"cost-state",  # totals that include requests which no line records
        b"file-history-delta",
        b"file-history-snapshot",
        b"frame-link",
        b"isolation-latch",
        b"mode",
        b"permission-mode",
        b"queue-operation",  # says again what a user's or attachment's line says
        b"speculation-accept",
        b"tools-used",
    }
)
"""Types that are skipped unread where they stand first in the line."""

METADATA: Final = frozenset(
    {
        "agent-color",
        "agent-name",
        "agent-setting",
        "continued-in",
        "conversation_reset",
        "ended",
        "ended-by-model",
        "fork-context-ref",
        "history-suppression",
        "marble-origami-commit",
        "marble-origami-snapshot",
        "pr-link",
        "progress",  # an agent's steps, of clients before 2.1.112; its return is what counts
        "relocated",
        "tag",
        "worktree-state",
    }
    | {name.decode() for name in BULK}
)
"""Types that are known and say nothing that ctxtop shows."""

SYSTEM: Final = frozenset(
    {
        "agents_killed",
        "api_error",  # one a retry; the answer that is refused for good has its own line
        "api_metrics",
        "away_summary",
        "bridge_status",
        "file_snapshot",
        "informational",
        "local_command",
        "memory_saved",
        "microcompact_boundary",
        "model_fallback",  # the answer that follows names its own model
        "model_refusal_fallback",
        "permission_retry",
        "post_tool_hook_feedback",
        "scheduled_task_fire",
        "stop_hook_summary",
        "turn_duration",
    }
)
"""Subtypes of `system` that are known and not needed."""

ATTACHMENTS: Final = frozenset(
    {
        "agent_listing_delta",
        "auto_mode",
        "auto_mode_exit",
        "budget_usd",
        "command_permissions",
        "compact_file_reference",
        "date",
        "date_change",
        "deferred_tools_delta",
        "deferred_tools_record",
        "directory",
        "edited_text_file",
        "environment",
        "file",
        "hook_additional_context",
        "hook_blocking_error",
        "hook_cancelled",
        "hook_error_during_execution",
        "hook_non_blocking_error",
        "hook_stopped_continuation",
        "hook_success",
        "hook_system_message",
        "instructions",
        "invoked_skills",
        "language",
        "max_turns_reached",
        "mcp_instructions_delta",
        "nested_memory",
        "output_style",
        "output_style_instructions",
        "plan_file_reference",
        "plan_mode",
        "plan_mode_exit",
        "plan_mode_reentry",
        "prompt_snapshot",
        "remote_session_change",
        "session_context",
        "skill_listing",
        "structured_output",
        "task_reminder",
        "task_status",
        "todo_reminder",
        "total_tokens_reminder",
        "ultrathink_effort",
    }
)
"""Kinds of attachment that are known and not needed."""

TOOLS_THAT_START_AGENTS: Final = frozenset({"Agent", "Task"})
"""The tool's name since about 2.1.63, and before."""

# Text of a user's line that no person typed (claude-code-formats 2.3).
MACHINE_TEXT: Final = re.compile(
    r"\s*(?:<(?:command-|local-command-|bash-|task-notification|teammate-message|system-reminder"
    r"|user-memory-input|ide_)|\[Request interrupted|Caveat: |This session is being continued)"
)
