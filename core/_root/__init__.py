"""Top for the context windows of Claude Code."""

# Nothing is imported here: Claude Code waits for our hooks, and `typing` takes them as long
# as Python takes to start.
__version__ = "0.1.0"
