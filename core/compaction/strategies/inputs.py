"""Level 4: shorten what tools were called with."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from ..edit_builder import OperationReason, read_tool_input, replace_inputs
from ..plan import Severity
from ..stubs import is_worth_stubbing, stub_with_unique_names
from .block_search import EDIT_TOOLS, changeable_calls, edit_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..transcript_view import TranscriptView


WRITE_CONTENTS: Final = "write-contents"
LEVEL: Final = Severity.INPUTS


def find_write_contents(view: TranscriptView) -> Iterator[Operation]:
    """Find the contents of files that were written; their names stay, and the path."""
    for slot in changeable_calls(view, frozenset({"Write"})):
        text = read_tool_input(view, slot).get("content")
        if not isinstance(text, str):
            continue
        path = slot.part.path or "a file"
        short = stub_with_unique_names(
            view, text, f"content written to {path}", "Read the file.", path
        )
        if not is_worth_stubbing(text, short):
            continue
        intent = OperationReason(WRITE_CONTENTS, LEVEL, "the file holds what was written")
        made = replace_inputs(view, slot, intent, {"/content": short})
        if made:
            yield made


EDIT_INPUTS: Final = "edit-inputs"


def find_edit_inputs(view: TranscriptView) -> Iterator[Operation]:
    """Find the old and new texts of Edits; their names stay, and the path."""
    for slot in changeable_calls(view, EDIT_TOOLS):
        shorter: dict[str, str] = {}
        for name, text in edit_texts(read_tool_input(view, slot)):
            what = f"{name.rpartition('/')[2]} in {slot.part.path or 'a file'}"
            short = stub_with_unique_names(
                view, text, what, "Read the file.", "\n".join([what, *shorter.values()])
            )
            if is_worth_stubbing(text, short):
                shorter[name] = short
        made = replace_inputs(
            view, slot, OperationReason(EDIT_INPUTS, LEVEL, "the file holds the outcome"), shorter
        )
        if made:
            yield made


HEREDOCS: Final = "heredocs"

_HEREDOC: Final = re.compile(
    r"(<<-?[ \t]*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)[^\n]*\n)"
    r"(?P<body>.*?)(?=\n[ \t]*(?P=end)(?:\n|$))",
    re.DOTALL,
)


def find_heredocs(view: TranscriptView) -> Iterator[Operation]:
    """Find long here-documents in the commands of Bash; the command around them stays."""
    for slot in changeable_calls(view, frozenset({"Bash"})):
        command = read_tool_input(view, slot).get("command")
        if not isinstance(command, str):
            continue
        short = _HEREDOC.sub(partial(_shorten_heredoc, view), command)
        if short == command:
            continue
        intent = OperationReason(HEREDOCS, LEVEL, "the command has written what stood in it")
        made = replace_inputs(view, slot, intent, {"/command": short})
        if made:
            yield made


def _shorten_heredoc(view: TranscriptView, found: re.Match[str]) -> str:
    body = found["body"]
    short = stub_with_unique_names(
        view, body, "a text given to this command", "Read what it wrote."
    )
    return found[1] + (short if is_worth_stubbing(body, short) else body)


AGENT_PROMPTS: Final = "agent-prompts"

KEPT_PROMPT_CHARS: Final = 2_000
"""Of a prompt (compaction.md 7.4)."""


def find_agent_prompts(view: TranscriptView) -> Iterator[Operation]:
    """Find what agents were told beyond the first KEPT_CHARS."""
    for slot in changeable_calls(view, frozenset({"Agent", "Task"})):
        prompt = read_tool_input(view, slot).get("prompt")
        if not isinstance(prompt, str):
            continue
        kept, rest = prompt[:KEPT_PROMPT_CHARS], prompt[KEPT_PROMPT_CHARS:]
        told = stub_with_unique_names(
            view, rest, "the rest of this prompt", "Its result stands below.", kept
        )
        if not is_worth_stubbing(rest, told):
            continue
        short = f"{kept}\n{told}"
        intent = OperationReason(AGENT_PROMPTS, LEVEL, "the agent has done it: its result stays")
        made = replace_inputs(view, slot, intent, {"/prompt": short})
        if made:
            yield made
