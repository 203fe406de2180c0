"""Level 4: shorten what tools were called with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Final

from ...transcript.line_types import AGENT_TOOLS, EDIT_TOOLS
from ..edit_builder import Because, read_tool_input, replace_inputs
from ..plan import Operation
from ..transcript_view import TranscriptView
from .stubs import (
    changeable_calls,
    edit_texts,
    is_worth_stubbing,
    stub_with_unique_names,
)


def find_write_contents(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find the contents of files that were written; their names stay, and the path."""
    for block in changeable_calls(view, frozenset({"Write"})):
        text = read_tool_input(view, block).get("content")
        if not isinstance(text, str):
            continue
        path = block.part.path or "a file"
        short = stub_with_unique_names(
            view, text, f"content written to {path}", "Read the file.", path
        )
        if is_worth_stubbing(text, short):
            reason = because("the file holds what was written")
            yield replace_inputs(view, block, reason, {"/content": short})


def find_edit_inputs(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find the old and new texts of Edits; their names stay, and the path."""
    for block in changeable_calls(view, EDIT_TOOLS):
        shorter: dict[str, str] = {}
        for name, text in edit_texts(read_tool_input(view, block)):
            what = f"{name.rpartition('/')[2]} in {block.part.path or 'a file'}"
            short = stub_with_unique_names(
                view, text, what, "Read the file.", "\n".join([what, *shorter.values()])
            )
            if is_worth_stubbing(text, short):
                shorter[name] = short
        yield replace_inputs(view, block, because("the file holds the outcome"), shorter)


_HEREDOC: Final = re.compile(
    r"(<<-?[ \t]*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)[^\n]*\n)"
    r"(?P<body>.*?)(?=\n[ \t]*(?P=end)(?:\n|$))",
    re.DOTALL,
)


def find_heredocs(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find long here-documents in the commands of Bash; the command around them stays."""
    for block in changeable_calls(view, frozenset({"Bash"})):
        command = read_tool_input(view, block).get("command")
        if not isinstance(command, str):
            continue
        short = _HEREDOC.sub(partial(_shorten_heredoc, view), command)
        if short != command:
            reason = because("the command has written what stood in it")
            yield replace_inputs(view, block, reason, {"/command": short})


def _shorten_heredoc(view: TranscriptView, found: re.Match[str]) -> str:
    body = found["body"]
    short = stub_with_unique_names(
        view, body, "a text given to this command", "Read what it wrote."
    )
    return found[1] + (short if is_worth_stubbing(body, short) else body)


KEPT_PROMPT_CHARS: Final = 2_000  # of a prompt (compaction.md 7.4)


def find_agent_prompts(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find what agents were told beyond the first KEPT_PROMPT_CHARS."""
    for block in changeable_calls(view, AGENT_TOOLS):
        prompt = read_tool_input(view, block).get("prompt")
        if not isinstance(prompt, str):
            continue
        kept, rest = prompt[:KEPT_PROMPT_CHARS], prompt[KEPT_PROMPT_CHARS:]
        told = stub_with_unique_names(
            view, rest, "the rest of this prompt", "Its result stands below.", kept
        )
        if is_worth_stubbing(rest, told):
            reason = because("the agent has done it: its result stays")
            yield replace_inputs(view, block, reason, {"/prompt": f"{kept}\n{told}"})
