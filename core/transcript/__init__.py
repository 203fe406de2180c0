"""A transcript's lines, and the conversation they hold."""
