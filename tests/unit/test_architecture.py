"""The layout: layers, cycles and names."""

from __future__ import annotations

from collections import defaultdict

import pytest

from ..layout import import_cycles, import_graph, public_classes, sources


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


def test_no_module_name_repeats() -> None:
    places = defaultdict(list)
    for module in sources():
        places[module.rpartition(".")[2]].append(module)
    assert [each for name, each in places.items() if len(each) > 1 and name != "__init__"] == []


def test_no_class_name_means_two_things() -> None:
    assert {name: each for name, each in public_classes().items() if len(each) > 1} == {}
