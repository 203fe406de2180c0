"""A folder like Claude Code's, made by ourselves, for the demo, the tests and the pictures."""

from .folder import make_demo
from .model import DemoFolder, DemoSession
from .past import make_past
from .saves import make_saves
from .writer import DemoWriter

__all__ = ["DemoFolder", "DemoSession", "DemoWriter", "make_demo", "make_past", "make_saves"]
