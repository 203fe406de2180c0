"""Turns an unexpected error into a problem that quotes no transcript."""

from typing import Final

from ..model.problem import Problem, printable_path

MAX_ERROR_CHARS: Final = 160  # of an unexpected error's text: it may quote a transcript
MAX_TRACEBACK_CHARS: Final = 8_000  # the innermost calls, which come last


FAULT_FIX: Final = "this is a bug in ctxtop: please report it; the log has the traceback"


def fault_problem(where: str, outcome: str, error: Exception) -> Problem:
    """Turn an unexpected error into a problem that names where it was raised.

    Its texts may quote a transcript: they are cut and sanitized, and secrets are redacted.
    """
    import traceback  # only where something failed, as the rules of redaction

    from ..transcript.redaction import redact
    from ..transcript.sanitize import one_line, sanitize_text

    said = one_line(redact(str(error)))
    if len(said) > MAX_ERROR_CHARS:
        said = f"{said[: MAX_ERROR_CHARS - 1]}…"
    said = ": ".join(part for part in (type(error).__name__, said) if part)
    calls = traceback.extract_tb(error.__traceback__)
    where_raised = f" at {calls[-1].name} line {calls[-1].lineno}" if calls else ""
    listed = sanitize_text("".join(traceback.format_list(calls))[-MAX_TRACEBACK_CHARS:])
    return Problem(
        printable_path(where),
        f"{outcome} ({said}{where_raised})",
        FAULT_FIX,
        f"Traceback (most recent call last):\n{listed}{said}",
    )
