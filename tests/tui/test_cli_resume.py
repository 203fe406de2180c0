"""`ctxtop resume`: the command, what a resume rewrites, and the list of what can be resumed."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.demo.demo_transcript import project_slug
from ctxtop.core.transcript.sanitize import sanitize_path

from ..transcripts import PROJECT, SESSION, assistant, usage, user, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .ended import Ended

OTHER = SESSION.replace("1111", "2222")
TEXT = "a resume rewrites ≈225 k, ≈$0.28"


@pytest.fixture
def run(tmp_path: Path, call_ctxtop: Callable[..., Ended]) -> Callable[..., Ended]:
    """Run ctxtop on two sessions that can be resumed, and a third one whose folder is gone."""
    config = tmp_path / ".claude"
    sizes = {SESSION: 225_000, OTHER: 9_000, SESSION.replace("1111", "3333"): 225_000}
    for number, (session_id, tokens) in enumerate(sizes.items()):
        folder = tmp_path if number < 2 else tmp_path / "gone"
        fields: dict[str, Any] = {"cwd": str(folder), "sessionId": session_id}
        counts = usage(tokens, input_tokens=0, cache_creation_input_tokens=10)
        lines = [user(**fields), assistant(f"m{number}", counts=counts, at=9 - number, **fields)]
        write(config / "projects" / PROJECT / f"{session_id}.jsonl", lines)

    def run_here(*words: str) -> Ended:
        places = ("--config-dir", str(config), "--db", str(tmp_path / "state" / "s.db"))
        return call_ctxtop(*places, "resume", *words)

    return run_here


def test_a_resume_says_what_it_rewrites_beside_the_command(run: Callable[..., Ended]) -> None:
    large, small = run(SESSION, "--print"), run(OTHER, "--print")
    assert large.out.endswith(f"claude --resume {SESSION}\n")
    assert large.err == f"ctxtop: cold: {TEXT}\n"
    assert (small.code, small.err) == (0, "")
    record = run(SESSION, "--print", "--json").json
    assert (record["cold_state"], record["cold_rewrite_tokens"]) == ("cold", 225_000)
    assert record["cold_rewrite_usd"] == pytest.approx(0.28125)


def test_without_a_session_it_lists_those_that_can_be_resumed(run: Callable[..., Ended]) -> None:
    listed = run().out.splitlines()
    assert len(listed) == 3
    assert "cold ≈225 k $0.28" in listed[1]
    assert "cold " in listed[2]
    assert [each["session_id"] for each in run("--json").json] == [SESSION, OTHER]
    assert [each["session_id"] for each in run("--json", "--limit", "1").json] == [SESSION]


def test_a_list_is_neither_printed_as_a_command_nor_opened(run: Callable[..., Ended]) -> None:
    for option in (("--print",), ("--tmux", "window")):
        ended = run(*option)
        assert ended.code == 2
        assert "name the session" in ended.err


@pytest.mark.parametrize("name", ["a\nb", "a\u202eb", "a\tb"])
def test_a_folder_with_a_line_end_in_its_name_is_not_another_folder(
    tmp_path: Path, call_ctxtop: Callable[..., Ended], name: str
) -> None:
    config, real = tmp_path / ".claude", tmp_path / name
    for folder in (name, "a b", "ab"):
        (tmp_path / folder).mkdir()
    lines = [user(cwd=str(real)), assistant("m1", 9_000, cwd=str(real))]
    write(config / "projects" / project_slug(str(real)) / f"{SESSION}.jsonl", lines)
    places = ("--config-dir", str(config), "--db", str(tmp_path / "state" / "s.db"))
    ended = call_ctxtop(*places, "resume", SESSION, "--print")
    assert (ended.code, ended.out.count("\n")) == (0, 1)
    shell = shutil.which("bash")
    assert shell is not None
    command = ended.out.partition(" && ")[0] + " && pwd -P"
    there = subprocess.run([shell, "-c", command], capture_output=True, check=True)
    assert there.stdout == os.fsencode(real) + b"\n"
    assert call_ctxtop(*places, "resume", SESSION, "--print", "--json").json["folder"] == (
        sanitize_path(str(real))
    )
