"""`ctxtop hook` and `ctxtop statusline`, for a person's own settings."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

from ctxtop.core.model.transcript_records import LogKind

from ..logs import log_file

if TYPE_CHECKING:
    from pathlib import Path

GIVEN = b'{"session_id":"s1","hook_event_name":"SubagentStop"}'


def run(
    env: dict[str, str], store: Path, *words: str, given: bytes = GIVEN
) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "ctxtop", *words[:1], "--db", str(store), *words[1:]]
    return subprocess.run(command, input=given, capture_output=True, env=env, check=False)


def test_a_hook_of_a_person_s_own(store: Path, tmp_path: Path, child_env: dict[str, str]) -> None:
    env = child_env | {"CTXTOP_CONFIG_DIR": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    for words in (["SubagentStop"], ["SubagentStop", "nowhere"], ["SubagentStop", "--odd"]):
        ended = run(env, store, "hook", *words)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")

    found = [json.loads(line) for line in log_file(store, LogKind.HOOKS).read_bytes().split()]
    assert [each["event"] for each in found] == ["SubagentStop"] * 3


def test_a_hook_without_an_event_holds_nothing_up(
    store: Path, tmp_path: Path, child_env: dict[str, str]
) -> None:
    ended = run(child_env | {"CTXTOP_CONFIG_DIR": str(tmp_path)}, store, "hook")

    assert ended.returncode == 1, "2 would hold up what the client does"
    assert b"ctxtop hook SubagentStop" in ended.stderr
