"""The layout: layers, cycles and names."""

from __future__ import annotations

import ast
import builtins
import re
from collections import Counter, defaultdict

from ..layout import import_cycles, import_graph, outside_imports, paths, public_classes, sources

MAX_MODULES = 25

FOLDERS = [
    {"tui/cli"},
    {"tui"},
    {
        *("tui/screens", "tui/screens/agents", "tui/screens/compact", "tui/screens/fleet"),
        *("tui/screens/history", "tui/screens/log", "tui/screens/search", "tui/screens/session"),
        *("tui/screens/settings", "tui/screens/summaries"),
    },
    {"tui/conversation"},
    {"tui/page_kit"},
    {"tui/app_state"},
    {"tui/export", "tui/widgets"},
    {"tui/entities"},
    {"tui/doctor"},
    {"tui/base"},
    {"tui/text"},
    {"collectors"},
    {"collectors/install"},
    {"collectors/demo", "collectors/plugin", "collectors/terminal"},
    {"collectors/claude_code"},
    {"collectors/locations", "collectors/plugin_files"},
    {"core/actions"},
    {"core/readers"},
    {"core/archive", "core/compaction", "core/saves"},
    {"core/compliance", "core/injection", "core/summaries"},
    {"core/store"},
    {"core/measure"},
    {"core/policy", "core/transcript"},
    {"core/model"},
    {"core", "core/data", "core/files"},
]
"""From top to bottom: a folder imports only from rows below its own, for types as well."""


def test_no_import_goes_in_a_circle() -> None:
    assert import_cycles() == []


def test_a_folder_imports_only_those_below_it_even_for_types() -> None:
    rows = {folder: row for row, folders in enumerate(FOLDERS) for folder in folders}
    wrong = [
        f"{module} imports {name}"
        for module, names in import_graph().items()
        for name in names
        if _folder(name) != _folder(module) and rows[_folder(name)] <= rows[_folder(module)]
    ]
    assert wrong == []


def _folder(module: str) -> str:
    """Name a module's folder, to the depth to which folders are in an order."""
    parts = module.split(".")[:-1]
    return "/".join(parts[: 3 if parts[:2] == ["tui", "screens"] else 2])


HOLDERS = ("core.store.", "core.readers.", "core.actions.")


def test_only_the_store_its_readers_and_the_actions_of_core_hold_a_connection() -> None:
    outside = [
        module
        for module in sources()
        if module.startswith("core.") and not module.startswith(HOLDERS)
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
