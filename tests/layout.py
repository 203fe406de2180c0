"""The product's modules and what they import, read from the source without importing it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[1]
PARTS: Final = ("core", "collectors", "tui")


@cache
def paths() -> dict[str, Path]:
    """Every module's file by its dotted name, as `core.measure.window`."""
    found = {}
    for part in PARTS:
        for path in sorted((ROOT / part).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if parts[:2] != ("core", "_root"):
                found[".".join(parts)] = path
    return found


@cache
def sources() -> dict[str, ast.Module]:
    """Every module, parsed."""
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in paths().items()}


def imports(module: str) -> Iterator[str]:
    """Name the modules of ours that one imports, for types and inside functions as well."""
    yield from imported_modules(module, sources()[module])


def imported_modules(module: str, tree: ast.Module) -> Iterator[str]:
    """Name the modules of ours that a part of a module imports."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = module.split(".")[: -node.level]
        target = [*base, *(node.module.split(".") if node.module else [])]
        for alias in node.names:
            name = ".".join([*target, alias.name])
            yield _module(name if name in sources() else ".".join(target))


def outside_imports(module: str) -> set[str]:
    """The packages of others that a module imports, also for types and inside functions."""
    found: set[str] = set()
    for node in ast.walk(sources()[module]):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module.partition(".")[0])
    return found


def _module(name: str) -> str:
    return name if name in sources() else f"{name}.__init__"


@cache
def import_graph() -> dict[str, set[str]]:
    """The modules that each module imports."""
    return {module: set(imports(module)) - {module} for module in sources()}


def import_cycles() -> list[list[str]]:
    """Groups of modules that import each other (Tarjan's strongly connected components)."""
    graph = import_graph()
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for other in graph[module]:
            if other not in number:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], number[other])
        if lowest[module] == number[module]:
            group: list[str] = []
            while not group or group[-1] != module:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for module in graph:
        if module not in number:
            visit(module)
    return found


def public_classes() -> dict[str, list[str]]:
    """The modules that define a public class, by the class's name."""
    found: dict[str, list[str]] = {}
    for module, tree in sources().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(module)
    return found
