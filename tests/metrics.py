"""Prints the measures of the code's size and order. Usage: make metrics."""

from __future__ import annotations

import ast
import statistics
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from ctxtop.core.store.writer import Writer

from .layout import import_cycles, paths, public_classes, sources
from .unit.test_policy_keys import unobserved_keys

if TYPE_CHECKING:
    from collections.abc import Iterator

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def definitions(tree: ast.Module) -> list[Definition]:
    return [node for node in tree.body if isinstance(node, Definition)]


def first_line(node: Definition) -> int:
    return min([node.lineno, *(each.lineno for each in node.decorator_list)])


def function_lengths() -> Iterator[int]:
    for tree in sources().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                yield node.end_lineno - node.lineno + 1


def empty_store_ms() -> float:
    """CPU milliseconds to create a store, the fastest of five."""
    took = []
    for _ in range(5):
        with TemporaryDirectory() as folder:
            began = time.process_time()
            Writer(Path(folder) / "ctxtop.db").close()
            took.append((time.process_time() - began) * 1000)
    return min(took)


def main() -> None:
    """Print a line for each measure."""
    lines = {name: len(path.read_text().splitlines()) for name, path in paths().items()}
    before = sum(
        min((first_line(node) for node in definitions(tree)), default=lines[name] + 1) - 1
        for name, tree in sources().items()
    )
    few = [
        name
        for name, tree in sources().items()
        if not name.endswith("__init__")
        and sum(not node.name.startswith("_") for node in definitions(tree)) <= 1
    ]
    folders = Counter(path.parent for path in paths().values())
    lengths = sorted(function_lengths())
    repeated = [name for name, each in public_classes().items() if len(each) > 1]
    print(f"product lines / modules: {sum(lines.values()):,} / {len(lines)}")
    print(f"lines before the first definition: {before / sum(lines.values()):.1%}")
    print(f"median module: {statistics.median(lines.values()):.0f} lines")
    print(f"modules with at most one public definition: {len(few)}")
    print(f"modules in the largest folder: {max(folders.values())}")
    print(f"import cycles: {len(import_cycles())}")
    print(f"public class names used for two things: {len(repeated)}")
    print(f"policy keys without an observed effect: {len(unobserved_keys())}")
    p95 = lengths[len(lengths) * 95 // 100]
    print(f"function length, median / p95: {statistics.median(lengths):.0f} / {p95}")
    print(f"empty store: {empty_store_ms():.0f} ms of CPU")


if __name__ == "__main__":
    main()
