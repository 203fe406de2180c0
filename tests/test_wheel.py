"""The wheel holds all of the package under one name, and runs its own code anywhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = {"core": "ctxtop/core", "collectors": "ctxtop/collectors", "tui": "ctxtop/tui"}
SHIPPED = {".py", ".tcss", ".tiktoken"}
NOT_THE_SOURCE = shutil.ignore_patterns(
    ".git", ".venv", "build", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis"
)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build from a clean copy: a stale build/ hides what is missing."""
    top = tmp_path_factory.mktemp("wheel")
    copy = shutil.copytree(ROOT, top / "source", ignore=NOT_THE_SOURCE, symlinks=True)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    if _has_setuptools():
        command.append("--no-build-isolation")
    subprocess.run([*command, "--wheel-dir", str(top), str(copy)], check=True)
    return next(top.glob("*.whl"))


@pytest.mark.slow
def test_wheel_holds_every_source_file_under_one_name(wheel: Path) -> None:
    expected = {"ctxtop/__init__.py", "ctxtop/__main__.py", "ctxtop/py.typed"}
    for folder, name in FOLDERS.items():
        for path in (ROOT / folder).rglob("*"):
            inside = path.relative_to(ROOT / folder).as_posix()
            if path.suffix in SHIPPED and not inside.startswith("_root/"):
                expected.add(f"{name}/{inside}")
    names = zipfile.ZipFile(wheel).namelist()
    packaged = {name for name in names if ".dist-info/" not in name}
    assert packaged == expected
    assert {name.partition("/")[0] for name in packaged} == {"ctxtop"}
    licences = {name.rpartition("/")[2] for name in names if "/licenses/" in name}
    assert licences == {"LICENSE", "NOTICE"}


@pytest.mark.slow
def test_installed_wheel_runs_its_own_code_in_a_hostile_folder(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(target)
    hostile = tmp_path / "project"
    for name in ("core", "collectors", "tui", "ctxtop", "ctxtop/core", "ctxtop/tui", "store"):
        folder = hostile / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("raise SystemExit('the wrong code ran')\n")
    # A folder of our name without __init__.py is what a checkout of ctxtop's parent looks like;
    # one with it would win over every installed package, whatever that does.
    (hostile / "ctxtop" / "__init__.py").unlink()
    config = tmp_path / "claude" / "projects"
    config.mkdir(parents=True)
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path / "home"),
        "PYTHONPATH": ".",
        "CTXTOP_CONFIG_DIR": str(config.parent),
        "CTXTOP_DB": str(tmp_path / "state" / "store.db"),
    }
    # As installed: site-packages comes after what PYTHONPATH names.
    script = (
        "import sys; target = sys.argv.pop(1); sys.path.append(target)\n"
        "import ctxtop.core.fleet as own; assert own.__file__.startswith(target), own.__file__\n"
        "from ctxtop.tui.cli import main; main()"
    )
    for words in (["--version"], ["scan", "--json"], ["sessions"]):
        done = subprocess.run(
            [sys.executable, "-c", script, str(target), *words],
            cwd=hostile,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "the wrong code" not in done.stdout + done.stderr


def _has_setuptools() -> bool:
    """Say whether a wheel can be built without fetching anything."""
    script = "import setuptools; assert int(setuptools.__version__.split('.')[0]) >= 80"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    return done.returncode == 0
