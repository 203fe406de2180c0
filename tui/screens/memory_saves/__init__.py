"""The page of claude-memory's saves."""
