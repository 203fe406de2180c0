"""`ctxtop pause` on six real clients: which it compacts, which it leaves, and only once."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import pytest

from .lab import LARGE
from .test_registry import ctxtop
from .test_trigger_ways import with_module

if TYPE_CHECKING:
    from pathlib import Path

    from .lab import Json, Lab
    from .screen import Screen

pytestmark = pytest.mark.usefixtures("terminal")

FETCH: Final = 'tool:WebFetch|{"url": "http://127.0.0.1:1/x", "prompt": "?"}'
FILL: Final = "Hi. [[bash:seq 1 3&&&usage:21000]] [[say:ok&&&usage:150000]]"
FILL_FOR_AN_HOUR: Final = (
    "Hi. [[bash:seq 1 3&&&usage:21000&&&hour:]] [[say:ok&&&usage:250000&&&hour:]]"
)
SMALL_FILL: Final = "Hi. [[bash:seq 1 3&&&usage:15000]] [[say:ok&&&usage:21000]]"

_TIME: Final = re.compile(rb'"timestamp":"(20[0-9T:.-]+Z)"')


def path_of(lab: Lab, session_id: str) -> Path:
    (path,) = lab.config.glob(f"projects/*/{session_id}.jsonl")
    return path


def make_older(path: Path, hours: int) -> None:
    """Date all lines of a transcript so many hours earlier."""

    def earlier(found: re.Match[bytes]) -> bytes:
        at = datetime.fromisoformat(found[1].decode()) - timedelta(hours=hours)
        text = at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return b'"timestamp":"' + text.encode() + b'"'

    path.write_bytes(_TIME.sub(earlier, path.read_bytes()))


def open_cold(lab: Lab) -> Screen:
    """Open a session whose last answer was two hours ago."""
    first = lab.turn(FILL)
    make_older(path_of(lab, first.session_id), 2)
    return lab.interactive("--resume", first.session_id, name="cold")


def open_fleet(lab: Lab) -> dict[str, Screen]:
    fleet = {"cold": open_cold(lab)}
    for name, fill in (
        ("warm", FILL),
        ("small", SMALL_FILL),
        ("itself", FILL_FOR_AN_HOUR),
        ("waiting", FILL),
        ("busy", FILL),
    ):
        model = {"model": LARGE} if name == "itself" else {}
        fleet[name] = lab.interactive(name=name, **model)
        fleet[name].ask(fill)
    fleet["waiting"].type(f"Fetch. [[{FETCH}&&&usage:151000]] [[say:ok]]")
    fleet["waiting"].until_status("waiting")
    fleet["busy"].type(f"Think. [[held:{lab.go}&&&say:ok&&&usage:151000]]")
    fleet["busy"].until_status("busy")
    # What the client writes of a turn comes after its registry says that there is one.
    fleet["waiting"].until(lambda: lab.has_called("WebFetch"), "the call")
    busy = fleet["busy"].session_id
    fleet["busy"].until(lambda: lab.transcript(busy)[-1]["type"] == "api-request", "the request")
    return fleet


def hashes(lab: Lab, fleet: dict[str, Screen]) -> dict[str, str]:
    return {
        name: sha256(path_of(lab, screen.session_id).read_bytes()).hexdigest()
        for name, screen in fleet.items()
    }


def boundaries(lab: Lab, screen: Screen) -> list[Json]:
    lines = lab.transcript(screen.session_id)
    return [line for line in lines if line.get("subtype") == "compact_boundary"]


def by_name(record: Json, fleet: dict[str, Screen]) -> dict[str, Json]:
    names = {screen.session_id: name for name, screen in fleet.items()}
    return {names[each["session_id"]]: each for each in record["sessions"]}


def test_of_six_sessions_the_one_that_should_is_compacted_once(lab: Lab) -> None:
    fleet = open_fleet(lab)
    before = hashes(lab, fleet)
    previewed = ctxtop(lab, "pause", "--all", "--dry-run")
    assert previewed.code == 0, previewed.err
    checks = {
        name: each["check"] for name, each in by_name(json.loads(previewed.out), fleet).items()
    }
    assert checks == {
        "warm": None,
        "cold": "cold",
        "small": "small",
        "itself": "idle-compaction",
        "waiting": "waiting",
        "busy": "busy",
    }
    assert hashes(lab, fleet) == before

    ended = ctxtop(lab, "pause", "--all", "--yes")
    assert ended.code == 0, ended.err
    record = json.loads(ended.out)
    assert record["paused"] == 1
    warm = by_name(record, fleet)["warm"]
    (boundary,) = boundaries(lab, fleet["warm"])
    assert (warm["way"], warm["via"]) == ("client", "tmux")
    assert warm["result"]["receipt_id"] == boundary["uuid"]
    # With the system prompt and the tools, which the boundary leaves out.
    assert warm["result"]["tokens_left"] > boundary["compactMetadata"]["postTokens"]
    after = hashes(lab, fleet)
    assert {name for name in fleet if after[name] != before[name]} == {"warm"}

    fleet["warm"].settle()
    before = hashes(lab, fleet)
    again = ctxtop(lab, "pause", "--all", "--yes")
    assert again.code == 2, again.err
    assert json.loads(again.out)["paused"] == 0
    assert hashes(lab, fleet) == before

    listed = json.loads(ctxtop(lab, "history", "--all").out)
    assert [(each["session_id"], each["by"], each["state"]) for each in listed] == [
        (fleet["warm"].session_id, "you, before a break", "done")
    ]


def test_a_session_is_compacted_where_its_client_does_not_do_so_itself(lab: Lab) -> None:
    screen = lab.interactive(model=LARGE)
    screen.ask(FILL_FOR_AN_HOUR)
    left = ctxtop(lab, "pause", screen.session_id, "--yes")
    assert left.code == 2, left.err
    (session,) = json.loads(left.out)["sessions"]
    assert session["check"] == "idle-compaction"
    assert session["idle_compaction_at"] < session["cache_expires_at"]
    lab.write_settings({"idleCompaction": False})
    paused = ctxtop(lab, "pause", screen.session_id, "--yes")
    assert paused.code == 0, paused.err
    assert len(boundaries(lab, screen)) == 1


def test_several_sessions_are_compacted_at_the_same_time(lab: Lab) -> None:
    """One through the plugin, one through tmux; each takes six seconds."""
    own = json.loads((lab.config / "settings.json").read_text(encoding="utf-8"))["hooks"]
    # What this hook prints is added to what the summary is asked for.
    own["PreCompact"].append({"hooks": [{"type": "command", "command": "echo SUMMARY TAKES 6 S"}]})
    lab.write_settings({"hooks": own})
    fleet = {"plugin": with_module(lab), "tmux": lab.interactive(name="second")}
    for screen in fleet.values():
        screen.ask(FILL)
    ended = ctxtop(lab, "pause", "--all", "--yes")
    assert ended.code == 0, ended.err
    record = json.loads(ended.out)
    assert record["paused"] == 2
    assert {name: each["via"] for name, each in by_name(record, fleet).items()} == {
        "plugin": "plugin",
        "tmux": "tmux",
    }
    found = [each for screen in fleet.values() for each in boundaries(lab, screen)]
    assert len(found) == 2
    assert all(each["compactMetadata"]["durationMs"] >= 6_000 for each in found)
    first, second = (datetime.fromisoformat(each["timestamp"]) for each in found)
    assert abs(second - first) < timedelta(seconds=6)


def test_a_note_starts_a_session_that_the_client_resumes(lab: Lab) -> None:
    screen = lab.interactive()
    screen.ask(FILL)
    for _ in range(4):
        screen.ask("More. [[bash:seq 1 3&&&usage:150100]] [[say:ok&&&usage:150200]]")
    path = path_of(lab, screen.session_id)
    before = path.read_bytes()
    words = ("pause", screen.session_id, "--yes", "--set", "pause.ways=hand-off")
    ended = ctxtop(lab, *words)
    assert ended.code == 0, ended.err
    (session,) = json.loads(ended.out)["sessions"]
    assert path.read_bytes() == before
    assert ctxtop(lab, *words).code == 2
    new = session["result"]["resume_command"].split()[-1]
    lab.new_exchanges()
    turn = lab.turn("Go on. [[say:ok]]", resume=new)
    assert turn.code == 0, turn.err
    sent = json.dumps(turn.exchanges[-1]["body"]["messages"])
    assert f"[Hand-off from session {screen.session_id}]" in sent
