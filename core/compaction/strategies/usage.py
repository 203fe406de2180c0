"""Level 0: the newest recorded usage is lowered to what is left, so that the client believes it.

Client 2.1.329 does not count what it loads. It takes the last iteration of the newest answer's
usage, else its sums, and compacts at once where that is above its trigger, however small the
transcript has become (tests/client: `USAGE`). The sums stay: they are what was paid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..chain import follow_chain
from ..changes import bytes_saved, replacing
from ..overhead import cleared_tokens
from ..plan import Append, Harm, Operation, Replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...conversation import Entry
    from ..plan import Edit
    from ..view import View

NAME: Final = "usage"
LEVEL: Final = Harm.FILE_ONLY

_USAGE: Final = "/message/usage"
_ITERATIONS: Final = "iterations"


def with_usage(view: View, operations: tuple[Operation, ...]) -> tuple[Operation, ...]:
    """Add the lowered usage to a plan's operations, where they make it untrue."""
    lowered = lower_usage(view, operations)
    return operations if lowered is None else (*operations, lowered)


def lower_usage(view: View, operations: Sequence[Operation]) -> Operation | None:
    """Plan that the newest answer says what `operations` leave of the context it saw.

    None where nothing of it goes, and where no answer stands behind the last boundary: the
    client goes by the boundary then.
    """
    answer = _newest(view, _taken(operations))
    saved = sum(each.tokens_saved for each in operations if _is_before(each, answer))
    recorded = max((each.context_tokens or 0 for each in answer), default=0)
    # What was cleared in memory comes back on a resume: what it saves, the answer never saw.
    saved -= sum(cleared_tokens(view.blocks, view.entries, each) for each in answer[:1])
    if not 0 < saved < recorded:
        # Nothing that it saw goes, or it says less than that: then it is low already.
        return None
    left = recorded - saved
    edits = [edit for entry in answer for edit in _edits(view, entry.line, left)]
    return Operation(
        strategy=NAME,
        level=LEVEL,
        line=answer[-1].line,
        kind=NAME,
        what=f"the newest answer's usage: {recorded:,} → {left:,} tokens",
        why="the client goes by it when it resumes: too high, and it compacts at once",
        tokens_saved=0,
        bytes_saved=bytes_saved(view, edits),
        edits=tuple(edits),
    )


def _newest(view: View, taken: set[int]) -> list[Entry]:
    """List the lines of the newest answer behind the last boundary that says what it used."""
    boundary = max((each.offset for each in view.entries if each.boundary), default=-1)
    answers = [
        each
        for each in follow_chain(view.entries)
        if each.context_tokens and each.offset > boundary and each.line not in taken
    ]
    return [each for each in answers if each.message_id == answers[-1].message_id]


def _is_before(operation: Operation, answer: Sequence[Entry]) -> bool:
    """Say whether the answer saw what an operation changes."""
    return operation.line is not None and any(operation.line < each.line for each in answer)


def _taken(operations: Sequence[Operation]) -> set[int]:
    """Name the lines that go, or that another operation writes anew as a whole."""
    edits = (edit for each in operations for edit in each.edits)
    return {edit.line for edit in edits if not isinstance(edit, Append) and not _is_apart(edit)}


def _is_apart(edit: Edit) -> bool:
    return isinstance(edit, Replace) and not f"{_USAGE}/".startswith(f"{edit.pointer}/")


def _edits(view: View, number: int, left: int) -> Iterator[Edit]:
    usage: dict[str, Any] = view.decoded_line(number)["message"]["usage"]
    last = {
        "type": "message",
        "input_tokens": left,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": _output(usage),
    }
    if _ITERATIONS in usage:
        return replacing(view, number, {f"{_USAGE}/{_ITERATIONS}": [last]})
    return replacing(view, number, {_USAGE: usage | {_ITERATIONS: [last]}})


def _output(usage: dict[str, Any]) -> int:
    """Take the last step's output where there were several, as the client does."""
    steps = usage.get(_ITERATIONS) or [usage]
    return int(steps[-1].get("output_tokens") or 0)
