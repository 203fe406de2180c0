"""Top for the context windows of Claude Code."""

from typing import Final

__version__: Final = "0.1.0"
