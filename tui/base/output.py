"""What the standard output can show."""

import codecs
import os
import sys


def wants_colors() -> bool:
    return (
        sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM", "") not in {"", "dumb"}
    )


def output_encoding() -> str:
    """Return Python's name of the output's encoding."""
    return codecs.lookup(getattr(sys.stdout, "encoding", None) or "utf-8").name
