"""A folder like Claude Code's, made by ourselves, for the demo, the tests and the pictures."""
