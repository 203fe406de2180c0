"""Level 4: stubs for what calls were given, once it has been carried out."""

import re
from collections.abc import Iterator
from functools import partial
from typing import Final

from ...summaries.tool_outcomes import READ_AGAIN
from ...transcript.line_types import AGENT_TOOLS, DEDUP_PROTECTED_TOOLS, EDIT_TOOLS
from .. import edit_builder
from ..edit_builder import Because
from ..plan import Operation
from ..transcript_view import TranscriptView
from . import stubs
from .stubs import is_worth_stubbing, stub_with_unique_names


def find_write_contents(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find the contents of files that were written; the path stays."""
    reason = because("the file contains what was written")
    for block in stubs.changeable_calls(view, frozenset({"Write"})):
        text = edit_builder.read_tool_input(view, block).get("content")
        if not isinstance(text, str):
            continue
        stub = stub_with_unique_names(view, text, "", READ_AGAIN, block.part.path or "")
        if is_worth_stubbing(text, stub):
            yield edit_builder.replace_inputs(view, block, reason, {"/content": stub})


def find_edit_inputs(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find the old and new texts of Edits; the path stays."""
    reason = because("the file contains the outcome")
    for block in stubs.changeable_calls(view, EDIT_TOOLS):
        changes: dict[str, str] = {}
        for name, text in stubs.edit_texts(edit_builder.read_tool_input(view, block)):
            kept = "\n".join([block.part.path or "", *changes.values()])
            stub = stub_with_unique_names(view, text, "", READ_AGAIN, kept)
            if is_worth_stubbing(text, stub):
                changes[name] = stub
        yield edit_builder.replace_inputs(view, block, reason, changes)


_HEREDOC: Final = re.compile(
    r"(<<-?[ \t]*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)[^\n]*\n)"
    r"(?P<body>.*?)(?=\n[ \t]*(?P=end)(?:\n|$))",
    re.DOTALL,
)


def find_heredocs(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find long here-documents in shell commands; the rest of the command stays."""
    reason = because("the command has already written this text")
    for block in stubs.changeable_calls(view, frozenset({"Bash"})):
        command = edit_builder.read_tool_input(view, block).get("command")
        if not isinstance(command, str):
            continue
        shorter = _HEREDOC.sub(partial(_shorten_heredoc, view), command)
        if shorter != command:
            yield edit_builder.replace_inputs(view, block, reason, {"/command": shorter})


def _shorten_heredoc(view: TranscriptView, match: re.Match[str]) -> str:
    body = match["body"]
    what, hint = "a text given to this command", "Read what it wrote."
    stub = stub_with_unique_names(view, body, what, hint)
    return match[1] + (stub if is_worth_stubbing(body, stub) else body)


KEPT_PROMPT_CHARS: Final = 500  # of a prompt: the task; its details are in what it returned


def find_agent_prompts(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find agents' prompts beyond the first KEPT_PROMPT_CHARS."""
    reason = because("the agent has finished: its result is kept")
    for block in stubs.changeable_calls(view, AGENT_TOOLS):
        prompt = edit_builder.read_tool_input(view, block).get("prompt")
        if not isinstance(prompt, str):
            continue
        kept, rest = prompt[:KEPT_PROMPT_CHARS], prompt[KEPT_PROMPT_CHARS:]
        what, hint = "the rest of this prompt", "Its result stands below."
        stub = stub_with_unique_names(view, rest, what, hint, kept)
        if is_worth_stubbing(rest, stub):
            yield edit_builder.replace_inputs(view, block, reason, {"/prompt": f"{kept}\n{stub}"})


KEPT_INPUT_CHARS: Final = 120  # of a command or a script: what it begins with
_REMOVES_FILES: Final = re.compile(r"\brm\s")  # nothing else records that the files are gone


def find_long_inputs(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find what long texts in the inputs of other tools hold beyond KEPT_INPUT_CHARS."""
    reason = because("the call has been carried out: its result follows")
    for block in stubs.changeable_calls(view):
        if block.part.name in _HANDLED_ELSEWHERE:
            continue
        tool_input = edit_builder.read_tool_input(view, block)
        changes = {
            name: shorter
            for name, text in edit_builder.iter_strings(tool_input, "")
            if (shorter := _shorten_input(view, text))
        }
        yield edit_builder.replace_inputs(view, block, reason, changes)


def _shorten_input(view: TranscriptView, text: str) -> str | None:
    """Keep the beginning up to the end of a word; None if the rest is not worth a stub."""
    kept = text[:KEPT_INPUT_CHARS].rpartition(" ")[0] or text[:KEPT_INPUT_CHARS]
    rest = text[len(kept) :]
    stub = stub_with_unique_names(view, rest, "the rest", "", kept)
    is_kept = _REMOVES_FILES.search(rest) or not is_worth_stubbing(rest, stub)
    return None if is_kept else f"{kept} {stub}"


_HANDLED_ELSEWHERE: Final = EDIT_TOOLS | DEDUP_PROTECTED_TOOLS | {"Write"}
