"""The texts that the tools which change files are given, by their pointers in the input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_TEXTS: Final = ("old_string", "new_string", "new_source")


def edit_texts(tool_input: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Give what an Edit, MultiEdit or NotebookEdit takes out and puts in."""
    for name in _TEXTS:
        if isinstance(tool_input.get(name), str):
            yield f"/{name}", tool_input[name]
    edits = tool_input.get("edits")
    for number, edit in enumerate(edits if isinstance(edits, list) else []):
        if isinstance(edit, dict):
            for name in _TEXTS:
                if isinstance(edit.get(name), str):
                    yield f"/edits/{number}/{name}", edit[name]
