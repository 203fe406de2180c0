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
SHIPPED = {".py", ".tcss", ".html", ".tiktoken", ".json", ".sql", ".toml"}
PLUGIN = ROOT / "collectors" / "plugin" / "shipped"
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
    plugin = {path for path in PLUGIN.rglob("*") if path.is_file()}
    expected |= {f"ctxtop/{path.relative_to(ROOT).as_posix()}" for path in plugin}
    assert {PLUGIN / ".claude-plugin" / "plugin.json", PLUGIN / "hooks" / "register.js"} <= plugin
    names = zipfile.ZipFile(wheel).namelist()
    packaged = {name for name in names if ".dist-info/" not in name}
    assert packaged == expected
    assert {name.partition("/")[0] for name in packaged} == {"ctxtop"}
    licences = {name.rpartition("/")[2] for name in names if "/licenses/" in name}
    assert licences == {"LICENSE", "NOTICE"}


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A project with folders of our names, as people have who run ctxtop inside it."""
    project = tmp_path / "project"
    for name in ("core", "collectors", "tui", "store", "ctxtop/core", "ctxtop/tui"):
        folder = project / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("raise SystemExit('the wrong code ran')\n")
    (tmp_path / "claude" / "projects").mkdir(parents=True)
    return project


def run(command: list[str], hostile: Path) -> None:
    """Run a few commands of ctxtop in the hostile folder, which PYTHONPATH names."""
    top = hostile.parent
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(top / "home"),
        "PYTHONPATH": ".",
        "CTXTOP_CONFIG_DIR": str(top / "claude"),
        "CTXTOP_DB": str(top / "state" / "store.db"),
    }
    for words in (["--version"], ["scan", "--json"], ["sessions"]):
        done = subprocess.run(
            [*command, *words],
            cwd=hostile,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "the wrong code" not in done.stdout + done.stderr


@pytest.mark.slow
def test_the_wheel_runs_its_own_code_in_a_hostile_folder(
    wheel: Path, hostile: Path, tmp_path: Path
) -> None:
    target = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(target)
    # As installed: site-packages comes after what PYTHONPATH names.
    script = (
        "import sys; target = sys.argv.pop(1)\n"
        "sys.path[:] = [place for place in sys.path if '__editable__' not in place] + [target]\n"
        "import ctxtop.core.readers.fleet_reader as own; assert"
        " own.__file__.startswith(target), own.__file__\n"
        "from ctxtop.tui.cli import main; main()"
    )
    run([sys.executable, "-c", script, str(target)], hostile)


@pytest.mark.slow
def test_the_installed_command_runs_its_own_code_in_a_hostile_folder(hostile: Path) -> None:
    command = Path(sys.executable).with_name("ctxtop")
    if not command.exists():
        pytest.skip("ctxtop is not installed beside this python")
    run([str(command)], hostile)


def _has_setuptools() -> bool:
    """Whether a wheel can be built without downloading setuptools."""
    script = "import setuptools; assert int(setuptools.__version__.split('.')[0]) >= 80"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    return done.returncode == 0
