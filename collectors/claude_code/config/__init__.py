"""Reads how Claude Code is configured: settings, definitions, plugins, claude-memory's saves."""
