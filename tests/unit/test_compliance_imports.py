"""The verdict is given in the hook's process too: what it needs is small."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..layout import imported_modules, sources

if TYPE_CHECKING:
    from collections.abc import Iterator

SMALL = {"__future__", "collections", "dataclasses", "enum", "itertools", "re", "statistics"}


def test_only_small_modules_are_imported() -> None:
    read = dict(_load("core.compliance.judge"))
    assert set(read) >= {"core.compliance.expectations", "core.model.findings"}
    for module, tree in read.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert {each.name for each in node.names} <= SMALL, module
            if isinstance(node, ast.ImportFrom):
                assert node.level or node.module in SMALL, module


def _load(module: str) -> Iterator[tuple[str, ast.Module]]:
    """Yield what importing a module reads, without what only a type checker does."""
    waiting, seen = [module], {module}
    while waiting:
        module = waiting.pop()
        tree = _without_types(sources()[module])
        yield module, tree
        more = set(imported_modules(module, tree)) - seen
        waiting += more
        seen |= more


def _without_types(tree: ast.Module) -> ast.Module:
    body = [
        node
        for node in tree.body
        if not (
            isinstance(node, ast.If)
            and isinstance(node.test, ast.Name)
            and node.test.id == "TYPE_CHECKING"
        )
    ]
    return ast.Module(body, [])
