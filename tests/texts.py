"""Prints every text that a person may read, with its place, for proofreading. Usage: make texts.

A text is a string in the source of the program with at least two words, or a label with a capital:
not SQL, and no docstring, except those that are the help of a command.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from .layout import ROOT, paths

if TYPE_CHECKING:
    from collections.abc import Iterator

SHOWN: Final = re.compile(r"[a-z]{2,} [a-zA-Z{]|^[A-Z][a-z]+…?$")
SQL: Final = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|FROM|WHERE|ORDER BY)\b")


def is_command(node: ast.AST) -> bool:
    decorators = getattr(node, "decorator_list", [])
    return any(
        "command" in ast.unparse(each) or "group" in ast.unparse(each) for each in decorators
    )


def docstrings(tree: ast.AST) -> set[int]:
    """Return the identities of the strings that only maintainers read."""
    return {
        id(statement.value)
        for node in ast.walk(tree)
        if isinstance(body := getattr(node, "body", None), list) and not is_command(node)
        for statement in body
        if isinstance(statement, ast.Expr)
    }


def shown_text(node: ast.Constant | ast.JoinedStr) -> str:
    """Return a string as it is written; the values of an f-string stay as {names}."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "".join(
        f"{{{ast.unparse(part.value)}}}"
        if isinstance(part, ast.FormattedValue)
        else shown_text(part)
        for part in node.values
        if isinstance(part, ast.FormattedValue | ast.Constant)
    )


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each string that a person may read."""
    inner = docstrings(tree) | {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
        if part is not node
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in inner:
            text = shown_text(node)
            if SHOWN.search(text) and not SQL.search(text):
                yield node.lineno, text


def main() -> None:
    for path in sorted(paths().values()):
        for line, text in sorted(texts(ast.parse(path.read_text()))):
            print(f"{path.relative_to(ROOT)}:{line}: {text!r}")


if __name__ == "__main__":
    main()
