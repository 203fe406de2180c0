"""What the client is set up with: settings, definitions, plugins, claude-memory's saves."""
