"""I3: files that a shell command wrote from a text in itself."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from ..changes import Intent, input_of, replace_inputs
from ..notes import note
from ..plan import Harm
from ..stubs import is_worth
from .finding import inputs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import View

NAME: Final = "heredocs"
LEVEL: Final = Harm.INPUTS

_HEREDOC: Final = re.compile(
    r"(<<-?[ \t]*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)[^\n]*\n)"
    r"(?P<body>.*?)(?=\n[ \t]*(?P=end)(?:\n|$))",
    re.DOTALL,
)


def find(view: View) -> Iterator[Operation]:
    """Find long here-documents in the commands of Bash; the command around them stays."""
    for slot in inputs(view, frozenset({"Bash"})):
        command = input_of(view, slot).get("command")
        if not isinstance(command, str):
            continue
        short = _HEREDOC.sub(partial(_shorter, view), command)
        if short == command:
            continue
        intent = Intent(NAME, LEVEL, "the command has written what stood in it")
        made = replace_inputs(view, slot, intent, {"/command": short})
        if made:
            yield made


def _shorter(view: View, found: re.Match[str]) -> str:
    body = found["body"]
    short = note(view, body, "a text given to this command", "Read what it wrote.")
    return found[1] + (short if is_worth(body, short) else body)
