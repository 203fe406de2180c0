"""The pinned packages: all that pyproject.toml names, each with the hashes of its files."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[2]
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())
GROUPS: Final = PROJECT["dependency-groups"]
NAMED: Final[dict[str, list[str]]] = {
    "build": ["pip", *PROJECT["build-system"]["requires"]],
    "run": PROJECT["project"]["dependencies"],
    "test": GROUPS["test"],
    "check": [*GROUPS["check"], *GROUPS["screenshots"]],
    "docs": GROUPS["docs"],
    "client": GROUPS["client"],
    "lock": ["uv"],
}
"""What each file of requirements/ pins, with all that it needs."""

_ENTRY: Final = re.compile(
    r"^([A-Za-z0-9._-]+)==([^\s;]+)(?: ; [^\\\n]+)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$",
    re.M,
)


def pinned(name: str) -> dict[str, str]:
    """The versions in a file, by package; every line of it belongs to an entry with hashes."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    assert _ENTRY.sub("", text).strip() == ""
    return {canonicalize_name(match[1]): match[2] for match in _ENTRY.finditer(text)}


def test_each_file_belongs_to_a_group() -> None:
    assert {path.stem for path in (ROOT / "requirements").iterdir()} == NAMED.keys()
    assert NAMED.keys() >= GROUPS.keys() - {"screenshots"}


@pytest.mark.parametrize("name", NAMED)
def test_what_is_named_is_pinned_as_it_is_asked_for(name: str) -> None:
    versions = pinned(name)
    for text in NAMED[name]:
        wanted = Requirement(text)
        assert wanted.specifier.contains(versions[canonicalize_name(wanted.name)]), text


def test_a_package_has_one_version_in_all_files() -> None:
    versions: dict[str, set[str]] = {}
    for name in NAMED:
        for package, version in pinned(name).items():
            versions.setdefault(package, set()).add(version)
    assert {package: each for package, each in versions.items() if len(each) > 1} == {}


def test_make_installs_nothing_without_hashes() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (locked,) = re.findall(r"^LOCKED := (.*)$", makefile, re.M)
    installs = re.findall(r"^.*\$\(PIP\) install.*$", makefile, re.M)
    own = [line for line in installs if not line.startswith("LOCKED := ")]

    assert locked == "$(PIP) install --require-hashes -r"
    assert len(re.findall(r"\$\(LOCKED\) requirements/", makefile)) == len(NAMED)
    assert makefile.count("pip install") == 0
    # ctxtop itself: nothing is downloaded for it.
    assert len(own) == 1
    assert "--no-deps --no-index --no-build-isolation" in own[0]


def _wheel(folder: Path, content: str) -> Path:
    path = folder / "made_up-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("made_up.py", content)
        file.writestr(
            "made_up-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: made-up\nVersion: 1.0\n"
        )
        file.writestr(
            "made_up-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        file.writestr("made_up-1.0.dist-info/RECORD", "")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("is_tampered", [False, True], ids=["as it was", "tampered"])
def test_a_tampered_package_is_refused(tmp_path: Path, *, is_tampered: bool) -> None:
    digest = hashlib.sha256(_wheel(tmp_path, "value = 1").read_bytes()).hexdigest()
    if is_tampered:
        _wheel(tmp_path, "value = 2")
    pins = tmp_path / "pins.txt"
    pins.write_text(f"made-up==1.0 \\\n    --hash=sha256:{digest}\n")
    command = [sys.executable, "-m", "pip", "install", "--require-hashes", "-r", str(pins)]
    away = ["--no-index", "--find-links", str(tmp_path), "--target", str(tmp_path / "installed")]
    done = subprocess.run(
        [*command, *away],
        env={"PATH": "", "HOME": str(tmp_path), "PIP_CONFIG_FILE": "/dev/null"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode == 0) is not is_tampered, done.stderr
    assert ("DO NOT MATCH THE HASHES" in done.stderr) is is_tampered
    assert (tmp_path / "installed" / "made_up.py").exists() is not is_tampered
