"""Generate a config folder like Claude Code's for the demo, the tests and the screenshots."""

from .demo_folder import DemoFolder, make_demo, make_demo_history, make_demo_saves
from .demo_transcript import DemoSession
from .demo_writer import DemoWriter

__all__ = [
    "DemoFolder",
    "DemoSession",
    "DemoWriter",
    "make_demo",
    "make_demo_history",
    "make_demo_saves",
]
