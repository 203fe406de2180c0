"""The verdict is given in the hook's process too: what it needs is small."""

from __future__ import annotations

import ast
from pathlib import Path

import ctxtop.core.compliance as package

SMALL = {"__future__", "collections", "dataclasses", "enum", "itertools", "re", "statistics"}


def test_only_small_modules_are_imported() -> None:
    (place,) = package.__path__
    modules = sorted(Path(place).glob("*.py"))
    assert modules
    for module in modules:
        for node in ast.walk(_without_types(ast.parse(module.read_text(encoding="utf-8")))):
            if isinstance(node, ast.Import):
                assert {each.name for each in node.names} <= SMALL, module.name
            if isinstance(node, ast.ImportFrom):
                # Inside the package alone: nothing of ctxtop's besides.
                is_own = node.level == 1
                assert is_own or (node.level == 0 and node.module in SMALL), module.name


def _without_types(tree: ast.Module) -> ast.Module:
    """Leave out what only a type checker reads."""
    tree.body = [
        node
        for node in tree.body
        if not (
            isinstance(node, ast.If)
            and isinstance(node.test, ast.Name)
            and node.test.id == "TYPE_CHECKING"
        )
    ]
    return tree
