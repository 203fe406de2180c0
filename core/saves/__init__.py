"""claude-memory's saves: the state of each, and what it cost the session that made it."""
