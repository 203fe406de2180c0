"""The layout: layers, cycles and names."""

from __future__ import annotations

import ast
import builtins
import re
from collections import Counter, defaultdict

import pytest

from ..layout import import_cycles, import_graph, outside_imports, paths, public_classes, sources

MAX_MODULES = 25


def test_no_import_goes_in_a_circle() -> None:
    assert import_cycles() == []


@pytest.mark.parametrize(
    ("part", "others"), [("core", ("collectors", "tui")), ("collectors", ("tui",))]
)
def test_a_layer_imports_only_those_below_it_even_for_types(
    part: str, others: tuple[str, ...]
) -> None:
    wrong = [
        f"{module} imports {name}"
        for module, names in import_graph().items()
        if module.startswith(f"{part}.")
        for name in names
        if name.startswith(tuple(f"{other}." for other in others))
    ]
    assert wrong == []


def test_only_the_store_and_the_actions_of_core_hold_a_connection() -> None:
    outside = [
        module
        for module in sources()
        if module.startswith("core.") and not module.startswith(("core.store.", "core.actions."))
    ]
    assert [each for each in outside if outside_imports(each) & {"sqlite3", "sqlite_utils"}] == []


def test_a_folder_can_be_seen_at_a_glance() -> None:
    sizes = Counter(path.parent for path in paths().values() if path.name != "__init__.py")
    assert {folder: size for folder, size in sizes.items() if size > MAX_MODULES} == {}


def test_no_module_name_repeats() -> None:
    places = defaultdict(list)
    for module in sources():
        places[module.rpartition(".")[2]].append(module)
    assert [each for name, each in places.items() if len(each) > 1 and name != "__init__"] == []


def test_no_class_name_means_two_things() -> None:
    assert {name: each for name, each in public_classes().items() if len(each) > 1} == {}


def test_an_error_that_a_docstring_names_exists() -> None:
    known = {name for name in vars(builtins) if name.endswith("Error")}
    for tree in sources().values():
        known |= {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        known |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    named = {
        (module, error)
        for module, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, documented)
        for error in re.findall(r"\b[A-Z]\w*Error\b", ast.get_docstring(node) or "")
    }
    assert [each for each in sorted(named) if each[1] not in known] == []
