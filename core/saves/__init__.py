"""claude-memory's saves: where each stands, and what it cost the session that made it."""
