"""Rows of the store made by hand: only what a test is about is named."""

# ruff: noqa: ANN401 -- any field may be named

from __future__ import annotations

from typing import Any

from ctxtop.core.model.stored_rows import AgentRow, SessionRow

from .transcripts import PROJECT, SESSION


def session_row(**fields: Any) -> SessionRow:
    """A session of which nothing is known but its file."""
    row: dict[str, Any] = dict.fromkeys(SessionRow.__struct_fields__)
    row |= {
        "file_id": 1,
        "session_id": SESSION,
        "path": f"{PROJECT}/{SESSION}.jsonl",
        "project": PROJECT,
        "gone": 0,
        "boundaries": 0,
        "answer_text_tokens": 0,
        "after_answer_tokens": 0,
        "agents": 0,
        "mtime_ns": 0,
    }
    return SessionRow(**(row | fields))


def agent_row(**fields: Any) -> AgentRow:
    """An agent of which nothing is known but its id."""
    row: dict[str, Any] = dict.fromkeys(AgentRow.__struct_fields__)
    row |= {
        "agent_id": "a1",
        "session_id": SESSION,
        "answer_text_tokens": 0,
        "after_answer_tokens": 0,
    }
    row |= fields
    return AgentRow(**row)
