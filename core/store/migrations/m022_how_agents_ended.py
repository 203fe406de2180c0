"""How agents ended that no notification told of, teammates' names, what prompts ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .known import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database


@migrations()
def m022_how_agents_ended(db: Database) -> None:
    """Read again what can be; of files that are gone, drop to-dos that were taken for agents."""
    db.executescript(
        """
        ALTER TABLE agent_return ADD COLUMN name TEXT;
        ALTER TABLE agent_meta ADD COLUMN name TEXT;
        ALTER TABLE launch ADD COLUMN skill TEXT;
        ALTER TABLE session ADD COLUMN prompt INTEGER;
        CREATE INDEX step_of_agent ON step (file_id, agent_id);

        -- To-dos are numbered from 1; an agent's id has at least seven characters.
        DELETE FROM agent_return WHERE LENGTH(agent_id) < 7 AND agent_id NOT GLOB '*[^0-9]*';

        -- No file has this time: a meta.json that is still there is read again.
        UPDATE agent_meta SET mtime_ns = 0;
        DELETE FROM file WHERE gone = 0;
        """
    )
