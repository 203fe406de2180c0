"""What shells ask for completions, and the scripts that make them ask."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).with_name("ctxtop")

TYPE_IN_BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 ))
compopt() { :; }
_ctxtop_completion ctxtop
printf "%s\\n" "${COMPREPLY[@]}"
"""


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}")


def asked(request: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(PROGRAM), *words],
        env={**os.environ, "_CTXTOP_COMPLETE": request, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def completed(shell: str, typed: str, count: int, **variables: str) -> list[str]:
    """Return the lines with which a shell is answered at the word with this number."""
    fields = {"COMP_WORDS": typed, "COMP_CWORD": str(count)} | variables
    ended = asked(f"{shell}_complete", **fields)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.split("\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_printed_for_every_shell_that_is_known(shell: str) -> None:
    ended = asked(f"{shell}_source")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert f"_CTXTOP_COMPLETE={shell}_complete" in ended.stdout
    assert "ctxtop" in ended.stdout


@pytest.mark.parametrize("what", ["tcsh_source", "bash_nothing", "1"])
def test_an_unknown_request_is_one_line(what: str) -> None:
    for words in ((), ("sessions",)):
        ended = asked(what, *words)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr == (
            f"ctxtop: _CTXTOP_COMPLETE={what} is unknown: use one of bash_source, zsh_source,"
            " fish_source\n"
        )


def test_commands_and_their_options_are_completed() -> None:
    assert completed("bash", "ctxtop se", 1) == [
        *("plain,search", "plain,serve", "plain,sessions", "plain,settings", ""),
    ]
    assert "plain,--preset" in completed("bash", "ctxtop sessions --p", 2)
    assert "plain,runs" in completed("bash", "ctxtop hooks r", 2)
    assert "plain,policy" not in completed("bash", "ctxtop p", 1), "an earlier name"


def test_zsh_and_fish_get_what_each_command_does() -> None:
    zsh = completed("zsh", "ctxtop tot", 1)
    assert zsh[:3] == ["plain", "totals", "Add up all tokens in the store."]
    fish = completed("fish", "ctxtop tot", 1, COMP_CWORD="tot")
    assert "totals" in "\n".join(fish)
    assert "Add up all tokens in the store." in "\n".join(fish)


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_itself_completes(tmp_path: Path) -> None:
    script = tmp_path / "completion.bash"
    script.write_text(asked("bash_source").stdout, encoding="utf-8")
    words = ["bash", "-c", TYPE_IN_BASH, "bash", str(script)]
    for typed, found in ((["comp"], "compact"), (["hooks", "inst"], "install")):
        ended = subprocess.run(
            [*words, "ctxtop", *typed], capture_output=True, text=True, check=True, timeout=60
        )
        assert found in ended.stdout.split()


def test_a_variable_that_is_empty_asks_for_nothing() -> None:
    ended = asked("", "--version")
    assert ended.stdout.startswith("ctxtop ")
