"""The layout: layers, cycles and names, read from the source without importing it."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PARTS = ("core", "collectors", "tui")


@cache
def sources() -> dict[str, ast.Module]:
    """Every module of the product by its dotted name, as `core.measure.window`."""
    found = {}
    for part in PARTS:
        for path in sorted((ROOT / part).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if parts[:2] != ("core", "_root"):
                found[".".join(parts)] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def imports(module: str, tree: ast.Module) -> Iterator[str]:
    """Name the modules of ours that one imports, for types and inside functions as well."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = module.split(".")[: -node.level]
        target = [*base, *(node.module.split(".") if node.module else [])]
        for alias in node.names:
            name = ".".join([*target, alias.name])
            yield name if name in sources() else ".".join(target)


def real(name: str) -> str:
    """The module that a package's name stands for."""
    return name if name in sources() else f"{name}.__init__"


def test_no_import_goes_in_a_circle() -> None:
    graph = {
        module: {real(name) for name in imports(module, tree)} - {module}
        for module, tree in sources().items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@pytest.mark.parametrize(
    ("part", "others"), [("core", ("collectors", "tui")), ("collectors", ("tui",))]
)
def test_a_layer_imports_only_those_below_it_even_for_types(
    part: str, others: tuple[str, ...]
) -> None:
    wrong = [
        f"{module} imports {name}"
        for module, tree in sources().items()
        if module.startswith(f"{part}.")
        for name in imports(module, tree)
        if name.startswith(tuple(f"{other}." for other in others))
    ]
    assert wrong == []


def test_no_module_name_repeats() -> None:
    places = defaultdict(list)
    for module in sources():
        places[module.rpartition(".")[2]].append(module)
    assert [each for name, each in places.items() if len(each) > 1 and name != "__init__"] == []


def test_no_class_name_means_two_things() -> None:
    places = defaultdict(list)
    for module, tree in sources().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module)
    assert {name: each for name, each in places.items() if len(each) > 1} == {}
