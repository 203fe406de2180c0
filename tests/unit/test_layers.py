"""Who may import whom, seen in a fresh interpreter and in the source."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

_LOAD = """
import importlib, json, pkgutil, sys
package = importlib.import_module(sys.argv[1])
# core/_root is the root package itself, seen again where the source is linked.
parts = pkgutil.walk_packages(package.__path__, sys.argv[1] + ".")
names = [found.name for found in parts if "._root" not in found.name]
for name in names:
    importlib.import_module(name)
print(json.dumps([names, sorted(sys.modules)]))
"""


def loaded_with(package: str) -> tuple[list[str], list[str]]:
    """Name a package's modules, and everything that a fresh interpreter loads with them."""
    done = subprocess.run(
        [sys.executable, "-c", _LOAD, package],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    )
    names, modules = json.loads(done.stdout)
    return names, modules


def below(modules: list[str], *packages: str) -> list[str]:
    return [
        name
        for name in modules
        if any(name == package or name.startswith(package + ".") for package in packages)
    ]


def test_core_knows_neither_collectors_nor_the_screen() -> None:
    names, modules = loaded_with("ctxtop.core")

    assert "ctxtop.core.store.writer" in names
    assert below(modules, "ctxtop.collectors", "ctxtop.tui", "textual") == []


def test_collectors_know_no_screen() -> None:
    names, modules = loaded_with("ctxtop.collectors")

    assert "ctxtop.collectors.collector_thread" in names
    assert below(modules, "ctxtop.tui", "textual") == []


_HOOK = """
import sys
before = set(sys.modules)
sys.path.insert(0, sys.argv[1])
import plugin_log
assert plugin_log.append_record(sys.argv[2], "Stop", b'{"session_id":"s"}') is None
print(*sorted(set(sys.modules) - before))
"""


def test_what_claude_code_waits_for_loads_next_to_nothing(tmp_path: Path) -> None:
    plugin = ROOT / "collectors" / "plugin_files"
    done = subprocess.run(
        [sys.executable, "-I", "-c", _HOOK, str(plugin), str(tmp_path / "hooks.jsonl")],
        capture_output=True,
        text=True,
        check=True,
    )

    # The rest (os, stat, time) Python loads by itself. json alone would take as long
    # as Python takes to start.
    assert set(done.stdout.split()) == {"__future__", "_json", "plugin_log"}
    assert (tmp_path / "hooks.jsonl").stat().st_size
