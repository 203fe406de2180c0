"""What the store consists of, known without the library that creates it."""

from __future__ import annotations

from typing import Final

MIGRATION_SET: Final = "ctxtop"

MIGRATION_NAMES: Final = (
    "m001_files_and_facts",
    "m002_sidecars",
    "m003_answers",
    "m004_agent_eras",
    "m005_requests",
    "m006_hook_log",
    "m007_surroundings",
    "m008_additions",
    "m009_warnings",
    "m010_token_counts",
    "m011_compaction_told",
    "m012_compliance",
    "m013_measurements",
    "m014_saves",
    "m015_answers_given",
    "m016_recovery",
    "m017_automatic",
    "m018_activity_and_cost",
    "m019_plans",
    "m020_project_root",
    "m021_client_runs",
    "m022_how_agents_ended",
    "m023_last_lines",
    "m024_clearings",
    "m026_forecast",
    "m027_bad_lines",
    "m028_registry_and_changes",
    "m029_leaf_titles",
)
"""In their order; a store that has another one was written by a newer ctxtop."""

TABLES_WITH_FILE_ID: Final = (
    "session",
    "response",
    "model_use",
    "boundary",
    "clearing",
    "api_error",
    "launch",
    "agent_return",
    "reply",
    "summary",
    "line_count",
    "bad_line",
    "aside_line",
    "step_agent",
    "step",
    "session_link",
    "leaf_title",
    "request",
    "request_part",
    "addition",
    "context_report",
    "compaction_told",
    "compaction_left",
    "stop_block",
    "stop_hook",
    "memory_note",
    "save_noise",
    "growth",
    "learnt",
    "judged_file",
    "marker",
    "feedback",
    "given_skill",
    "open_call",
    "spending",
    "shared_response",
)
"""Tables whose rows belong to one file: read again, they are made again."""
