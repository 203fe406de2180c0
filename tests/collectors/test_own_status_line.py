"""Our status line: its words, what the reader keeps for it, and the line that it wraps."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.plugin import hook, statusline, wrapped_status_line
from ctxtop.collectors.plugin.fresh_compaction import find_fresh_compaction
from ctxtop.collectors.plugin.statusline import format_tokens, own_line, render_status_line
from ctxtop.collectors.plugin.wrapped_status_line import run_wrapped_command
from ctxtop.collectors.plugin_files.plugin_log import status_folder, status_path
from ctxtop.core.model.cold_prompt import DEFAULT_MIN_TOKENS
from ctxtop.core.model.transcript_records import LogKind
from ctxtop.tui.cli.commands import run as run_command

from ..logs import log_file
from ..transcripts import (
    PROJECT,
    SESSION,
    assistant,
    boundary,
    refusal,
    summary,
    tool_result,
    user,
    write,
)
from ..transcripts import time as time_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctxtop.collectors.locations.discover import ClaudeFolder

    from ..transcripts import JsonLine

RUN = str(Path(hook.__file__).with_name("run.py"))

KEPT: dict[str, Any] = {
    "v": 1,
    "model": "claude-opus-5-5",
    "context_tokens": 100_000,
    "context_state": "measured",
    "counter_tokens": 110_000,
    "window_tokens": 200_000,
    "window_source": "status_line",
    "trigger_tokens": 160_000,
    "turns_left": {"p50": 10, "p80": 30},
    "agents_noncompliant": None,
}


def status(tokens: int | None, window: int | None = 200_000, **more: Any) -> dict[str, Any]:  # noqa: ANN401 -- any JSON
    usage = None if tokens is None else {"input_tokens": 10, "cache_read_input_tokens": tokens - 10}
    told = {"context_window_size": window, "current_usage": usage}
    model = {"id": "claude-opus-5-5[1m]"}
    return {"session_id": SESSION, "model": model, "context_window": told} | more


@pytest.mark.parametrize(
    ("tokens", "kept", "said"),
    [
        (100_000, {}, "context 50% 100k/200k"),
        (100_000, KEPT, "context 50% 100k/200k · compacts at 160k, ≈10-30 turns"),
        # Half of what was left is used up.
        (125_000, KEPT, "context 62% 125k/200k · compacts at 160k, ≈5-15 turns"),
        (199_000, KEPT, "context 100% 199k/200k · compacts at 160k, ≈0 turns"),
        # Far away only a lower bound is known.
        (
            100_000,
            KEPT | {"turns_left": {"low": 47}},
            "context 50% 100k/200k · compacts at 160k, 40+ turns",
        ),
        (
            125_000,
            KEPT | {"turns_left": {"low": 47}},
            "context 62% 125k/200k · compacts at 160k, 20+ turns",
        ),
        # Compacted since.
        (20_000, KEPT, "context 10% 20k/200k · compacts at 160k"),
        (None, KEPT, "context –/200k · compacts at 160k"),
        (
            None,
            KEPT | {"context_state": "estimated"},
            "context ≈50% ≈100k/200k · compacts at 160k, ≈10-30 turns",
        ),
        (
            150_000,
            KEPT | {"context_source": "chars4"},
            "context ≈50% ≈100k/200k · compacts at 160k, ≈10-30 turns",
        ),
        (100_000, KEPT | {"trigger_tokens": None}, "context 50% 100k/200k"),
        (100_000, KEPT | {"turns_left": None}, "context 50% 100k/200k · compacts at 160k"),
        # Of another model, or another window.
        (100_000, KEPT | {"model": "claude-haiku-4-5"}, "context 50% 100k/200k"),
        (100_000, KEPT | {"window_tokens": 1_000_000}, "context 50% 100k/200k"),
        (100_000, {"agents_noncompliant": 1}, "context 50% 100k/200k · 1 noncompliant agent"),
        (100_000, {"agents_noncompliant": 2}, "context 50% 100k/200k · 2 noncompliant agents"),
        (
            100_000,
            KEPT | {"window_source": "policy", "window_tokens": 400_000},
            "context 25% 100k/400k · compacts at 160k, ≈10-30 turns",
        ),
    ],
)
def test_the_words(tokens: int | None, kept: dict[str, Any], said: str) -> None:
    assert render_status_line(status(tokens), kept) == said


@pytest.mark.parametrize(
    ("used", "lines", "kept", "said"),
    [
        # What 2.1.329 reports after a compaction, and what older clients do.
        (None, [], {}, "context ≈8% ≈15k/200k"),
        (144_000, [], {}, "context ≈8% ≈15k/200k"),
        # What the reader estimated of the same compaction is nearer; of another it is not.
        (None, [], {"compacted_at": time_of(5)}, "context ≈12% ≈24k/200k"),
        (None, [], {"compacted_at": time_of(1)}, "context ≈8% ≈15k/200k"),
        # An answer followed: the transcript may lack it yet.
        (31_000, [], {}, "context 16% 31k/200k"),
        (31_000, [assistant("msg_2", 31_000, at=9)], {}, "context 16% 31k/200k"),
        # A side line or a refusal is no answer, and a tool may have printed a boundary.
        (None, [assistant("aside", 9_000, at=9, isSidechain=True)], {}, "context ≈8% ≈15k/200k"),
        (None, [refusal("API Error", at=9)], {}, "context ≈8% ≈15k/200k"),
        (
            31_000,
            [
                assistant("msg_2", 31_000, at=9),
                tool_result("toolu_1", "x", boundary(at=9)),
                user(json.dumps(boundary())),
            ],
            {},
            "context 16% 31k/200k",
        ),
    ],
)
def test_after_a_compaction_the_transcript_knows_better_than_the_client(
    tmp_path: Path, used: int | None, lines: list[JsonLine], kept: dict[str, Any], said: str
) -> None:
    path = write(
        tmp_path / f"{SESSION}.jsonl",
        [
            user(),
            assistant("msg_1", 144_000),
            boundary(at=5, trigger="manual", preTokens=144_500, postTokens=15_000),
            summary(at=6),
            *lines,
        ],
    )
    saved = {"v": 1, "context_state": "estimated", "context_tokens": 24_000} | kept
    given = status(used, transcript_path=str(path))
    compacted = find_fresh_compaction(str(path))
    assert render_status_line(given, saved if kept else {}, None, compacted) == said


def test_without_the_clients_estimate_nothing_old_is_shown(tmp_path: Path) -> None:
    lines = [assistant("msg_1", 144_000), boundary(at=5), summary(at=6)]
    compacted = find_fresh_compaction(str(write(tmp_path / "s.jsonl", lines)))
    assert render_status_line(status(144_000), {}, None, compacted) == "context –/200k"


def test_what_a_rewind_wrote_is_no_compaction(tmp_path: Path) -> None:
    mark = boundary(at=5, durationMs=0)
    mark["compactMetadata"]["preservedMessages"] = {"anchorUuid": mark["uuid"]}
    lines = [assistant("msg_1", 144_000), mark]
    assert find_fresh_compaction(str(write(tmp_path / "s.jsonl", lines))) is None


def test_a_link_or_a_missing_transcript_leaves_the_clients_numbers(tmp_path: Path) -> None:
    real = write(tmp_path / "s.jsonl", [boundary(at=5, postTokens=15_000)])
    (tmp_path / "link.jsonl").symlink_to(real)
    for name in ("link.jsonl", "none.jsonl", "x\0y"):
        given = status(144_000, transcript_path=str(tmp_path / name))
        assert own_line(str(tmp_path / "db"), json.dumps(given).encode()) == (
            b"context 72% 144k/200k"
        )


HOUR_S = 3600


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"five_hour": (62.4, HOUR_S)}, "5h 62%, resets {0}"),
        ({"five_hour": (99.9, HOUR_S), "seven_day": (41.2, HOUR_S)}, "5h 99%, resets {0}"),
        (
            {"five_hour": (100, HOUR_S), "seven_day": (70, HOUR_S)},
            "5h 100%, resets {0} · week 70%, resets {0}",
        ),
        ({"seven_day": (3, HOUR_S)}, "week 3%, resets {0}"),
        ({"five_hour": (62, -1)}, ""),
        ({"five_hour": (62, None)}, "5h 62%"),
        ({"five_hour": ("62", HOUR_S)}, ""),
        ({"new_window": (62, HOUR_S)}, ""),
        # Before the first answer some clients put the reset's time there.
        ({"five_hour": (1_795_822_069, HOUR_S), "seven_day": (37, HOUR_S)}, "week 37%, resets {0}"),
    ],
)
def test_the_plans_limits(limits: dict[str, Any], said: str) -> None:
    now = time.time()
    reported = {
        name: {"used_percentage": used, "resets_at": None if after is None else int(now + after)}
        for name, (used, after) in limits.items()
    }
    shown = render_status_line(status(1000, rate_limits=reported), {})
    resets = time.strftime("%H:%M", time.localtime(int(now + HOUR_S)))
    assert shown == " · ".join(filter(None, ("context 0% 1k/200k", said.format(resets))))


EPOCH = 1_795_822_069
ODD_NUMBERS = (EPOCH, 1e308, float("inf"), float("nan"), 10**30, 10**400, 1_001)


@pytest.mark.parametrize("used", [number for number in ODD_NUMBERS if number != EPOCH])
def test_a_share_that_no_limit_can_have_is_not_shown_as_one(used: float) -> None:
    limits = {
        "five_hour": {"used_percentage": used, "resets_at": EPOCH},
        "seven_day": {"used_percentage": 80, "resets_at": EPOCH},
    }
    line = render_status_line(status(1000, rate_limits=limits), {}, EPOCH - 60)
    week = time.strftime("%H:%M", time.localtime(EPOCH))
    assert line == f"context 0% 1k/200k · 5h unreadable · week 80%, resets {week}"


@pytest.mark.parametrize("resets", [18_000, EPOCH * 1000, 10**30, 1e308, float("nan"), "17:40"])
def test_a_reset_that_is_no_time_is_not_shown_as_one(resets: object) -> None:
    limits = {"five_hour": {"used_percentage": 62, "resets_at": resets}}
    line = render_status_line(status(None, None, rate_limits=limits), {}, EPOCH)
    assert line == "5h 62%, reset unreadable"


@pytest.mark.parametrize("odd", [number for number in ODD_NUMBERS if number != 1_001])
def test_a_number_of_tokens_that_cannot_be_is_not_shown_as_one(odd: float) -> None:
    assert render_status_line(status(1000, odd), KEPT) == (  # type: ignore[arg-type]
        "context 0% 1k/200k · compacts at 160k"
    )
    assert render_status_line(status(1000, odd), {}) == (  # type: ignore[arg-type]
        "context 1k, window unreadable"
    )
    assert render_status_line(status(52_000, 1), {}) == "context 52k, window unreadable"
    usage = {"input_tokens": 5, "cache_read_input_tokens": odd}
    window = {"context_window_size": 200_000, "current_usage": usage}
    assert render_status_line({"context_window": window}, {}) == "context unreadable"
    cold = CACHE | {"recache_tokens_if_cold": odd}
    assert "cached" not in render_status_line(status(100_000, prompt_cache=cold), {}, SOON_S)
    saved = COLD | {"cold_usd": float(odd) if odd < 10**300 else float("inf")}
    assert "$" not in render_status_line(status(100_000, prompt_cache=CACHE), saved, SOON_S)


def test_a_reset_in_days_is_written_with_its_weekday() -> None:
    resets_at = int(time.time()) + 40 * HOUR_S
    limits = {"seven_day": {"used_percentage": 50, "resets_at": resets_at}}
    expected = time.strftime("week 50%, resets %a %H:%M", time.localtime(resets_at))
    assert render_status_line(status(None, None, rate_limits=limits), {}) == expected


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, ""),
        ({"context_window": 7}, ""),
        ({"context_window": {"context_window_size": "x", "current_usage": [1]}}, ""),
        (status(1000, None), "context 1k"),
        (status(1000, -5), "context 1k"),
        (status(None, 200_000, model="x"), "context –/200k"),
    ],
)
def test_what_the_client_may_never_say(given: dict[str, Any], said: str) -> None:
    assert render_status_line(given, {}) == said


def at(seconds: int) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%H:%M")


CACHE = {"warm": True, "expires_at": 1_800_000_300, "recache_tokens_if_cold": 225_000}
COLD = {
    "model": KEPT["model"],
    "context_tokens": 100_000,
    "cold_tokens": 100_000,
    "cold_usd": 1.0,
    "cold_min_tokens": 20_000,
}
SOON_S = 1_800_000_000
UNTIL = f"cached until {at(SOON_S + 300)}, then rewrites 225k"


@pytest.mark.parametrize(
    ("cache", "kept", "said"),
    [
        (CACHE, {}, UNTIL),
        (CACHE, COLD, f"{UNTIL} ≈$2.25"),
        (CACHE | {"expires_at": SOON_S}, COLD, "cold: next prompt rewrites 225k ≈$2.25"),
        ({"warm": False, "expires_at": None}, COLD, "cold: next prompt rewrites 100k ≈$1.00"),
        # Another model's price is not its price.
        (CACHE, COLD | {"model": "claude-haiku-4-5"}, UNTIL),
        (CACHE, COLD | {"cold_min_tokens": 225_001}, ""),
        (CACHE | {"recache_tokens_if_cold": 19_999}, {}, ""),
        (CACHE | {"expires_at": 10**15}, COLD, ""),
        # An older client reports no cache: the reader's is of the same answer.
        (
            {},
            COLD | {"cache_expires_at": SOON_S + 60},
            f"cached until ≈{at(SOON_S + 60)}, then rewrites 100k ≈$1.00",
        ),
        ({}, COLD | {"cache_expires_at": SOON_S}, "≈cold: next prompt rewrites 100k ≈$1.00"),
        ({}, COLD | {"cache_expires_at": SOON_S, "context_tokens": 99_000}, ""),
        ({}, COLD, ""),
        ({"warm": "yes", "expires_at": [1], "recache_tokens_if_cold": -1}, COLD, ""),
    ],
)
def test_what_a_cold_prompt_rewrites(
    cache: dict[str, Any], kept: dict[str, Any], said: str
) -> None:
    line = render_status_line(status(100_000, prompt_cache=cache), kept, SOON_S)
    assert line.split(" · ")[1:] == ([said] if said else [])


def test_without_the_reader_the_built_in_policy_says_what_is_little() -> None:
    least = {**CACHE, "recache_tokens_if_cold": DEFAULT_MIN_TOKENS}
    less = {**CACHE, "recache_tokens_if_cold": DEFAULT_MIN_TOKENS - 1}
    lines = [
        render_status_line(status(100_000, prompt_cache=each), {}, SOON_S) for each in (least, less)
    ]
    assert ["cached until" in line for line in lines] == [True, False]


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1k"),
        (167_499, "167k"),
        (999_499, "999k"),
        (999_500, "1M"),
        (1_000_000, "1M"),
        (1_250_000, "1.2M"),
        (12_300_000, "12M"),
    ],
)
def test_sizes(tokens: int, said: str) -> None:
    assert format_tokens(tokens) == said


@pytest.mark.parametrize("name", ["../x", "", "a/b", "a\0b", "a.b"])
def test_no_file_outside_the_folder_is_read(tmp_path: Path, name: str) -> None:
    assert status_path(str(tmp_path / "s.db"), name) is None
    assert statusline.read_status_file(str(tmp_path / "s.db"), name) == {}


@pytest.mark.parametrize("kept", [b"", b"[1]", b'{"v":2}', b"\xff", b'{"v":1,'])
def test_a_file_that_cannot_be_used_says_nothing(tmp_path: Path, kept: bytes) -> None:
    path = Path(status_path(str(tmp_path / "s.db"), SESSION) or "")
    path.parent.mkdir()
    path.write_bytes(kept)
    assert statusline.read_status_file(str(tmp_path / "s.db"), SESSION) == {}
    path.unlink()
    path.symlink_to("/dev/zero")
    assert statusline.read_status_file(str(tmp_path / "s.db"), SESSION) == {}


def show(store: Path, given: bytes, *words: str) -> str:
    """Run the status line as the client does."""
    command = [sys.executable, "-I", "-S", RUN, "statusline", str(store), *words]
    ended = subprocess.run(command, input=given, capture_output=True, timeout=30, check=True)
    assert ended.stderr == b""
    return ended.stdout.decode()


def test_without_a_store_it_says_what_the_client_says(tmp_path: Path) -> None:
    store = tmp_path / "state" / "s.db"
    given = json.dumps(status(100_000)).encode()

    assert show(store, given) == "context 50% 100k/200k"
    assert show(store, b"garbage") == ""
    assert len(log_file(store, LogKind.STATUS_LINE).read_bytes().split()) == 2
    assert not store.exists()


MODEL = "claude-opus-5-5"
TURNS = 12
LAST = 700_000


def history(claude: ClaudeFolder, turns: int = TURNS) -> None:
    """A session that grows by 50,000 a turn, to LAST with all its turns."""
    lines = [user("Go on.", 0)]
    for number in range(turns):
        tokens = LAST - 50_000 * (TURNS - 1 - number)
        lines.append(assistant(f"m{number}", tokens, at=number + 1, model=MODEL, version="2.1.329"))
    write(claude.projects / PROJECT / f"{SESSION}.jsonl", lines)


@pytest.fixture
def sessions(
    claude: ClaudeFolder, store: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[[], dict[str, Any]]:
    """Run `ctxtop sessions --json` and give the one session."""

    def run() -> dict[str, Any]:
        words = ["sessions", "--json", "--config-dir", str(claude.root)]
        assert run_command([*words, "--db", str(store)]) == 0
        (found,) = json.loads(capsys.readouterr().out)
        return dict(found)

    return run


def asked(tokens: int) -> bytes:
    return json.dumps(status(tokens, 1_000_000, model={"id": MODEL})).encode()


def test_its_numbers_are_those_of_the_sessions_command(
    claude: ClaudeFolder, store: Path, sessions: Callable[[], dict[str, Any]]
) -> None:
    history(claude)
    assert show(store, asked(LAST)) == "context 70% 700k/1M"
    found = sessions()

    turns = found["turns_left"]
    assert found["context_tokens"] == LAST
    assert found["trigger_tokens"]
    assert turns["p50"] > 0
    assert show(store, asked(LAST)) == (
        f"context {round(100 * found['used_ratio'])}% {format_tokens(found['context_tokens'])}"
        f"/{format_tokens(found['window_tokens'])} · compacts at"
        f" {format_tokens(found['trigger_tokens'])},"
        f" ≈{turns['p50']}-{turns['p80']} turns"
    ).replace(f"{turns['p50']}-{turns['p50']}", str(turns["p50"])) + (
        f" · ≈cold: next prompt rewrites {format_tokens(found['cold_rewrite_tokens'])}"
        f" ≈${found['cold_rewrite_usd']:.2f}"
    )


def test_what_is_kept_is_private_and_follows_the_transcript(
    claude: ClaudeFolder, store: Path, sessions: Callable[[], dict[str, Any]]
) -> None:
    history(claude, TURNS - 2)
    show(store, asked(LAST - 100_000))
    sessions()
    path = Path(status_path(str(store), SESSION) or "")
    before = statusline.read_status_file(str(store), SESSION)
    history(claude)
    sessions()
    after = statusline.read_status_file(str(store), SESSION)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert (before["context_tokens"], after["context_tokens"]) == (LAST - 100_000, LAST)


def test_nothing_is_kept_of_a_session_whose_line_nobody_sees(
    claude: ClaudeFolder, store: Path, sessions: Callable[[], dict[str, Any]]
) -> None:
    history(claude)
    sessions()
    folder = Path(status_folder(str(store)))
    assert not folder.exists()

    folder.mkdir()
    (folder / "old.json").write_text("{}")
    sessions()
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_a_trouble_and_no_more(
    claude: ClaudeFolder, store: Path, sessions: Callable[[], dict[str, Any]]
) -> None:
    history(claude)
    show(store, asked(LAST))
    Path(status_folder(str(store))).write_text("mine")
    assert sessions()["context_tokens"] == LAST


def test_a_command_of_its_own_stands_above(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    given = json.dumps(status(100_000)).encode()
    theirs = "cat >/dev/null; echo one; echo two >&2; echo; exit 3"

    assert show(store, given, "--", "wc -c") == f"{len(given)}\ncontext 50% 100k/200k"
    command = [sys.executable, "-I", "-S", RUN, "statusline", str(store), "--", theirs]
    ended = subprocess.run(command, input=given, capture_output=True, timeout=30, check=True)
    assert ended.stdout.decode() == "one\ncontext 50% 100k/200k"


def test_one_that_reads_nothing_of_a_large_stdin() -> None:
    assert run_wrapped_command("echo hi", b"x" * 10_000_000) == b"hi\n"


def test_one_that_takes_all_of_a_large_stdin() -> None:
    assert run_wrapped_command("wc -c", b"x" * 10_000_000).strip() == b"10000000"


def test_one_that_hangs_is_ended_and_costs_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrapped_status_line, "WRAPPED_TIMEOUT_S", 0.3)
    mark = tmp_path / "pid"
    assert (
        run_wrapped_command(f"echo $$ > '{mark}'; echo early; sleep 60 & wait", b"") == b"early\n"
    )

    group = int(mark.read_text())
    for _ in range(100):
        if not alive(group):
            break
        time.sleep(0.05)
    assert not alive(group)


def alive(group: int) -> bool:
    """Whether a process group has members other than its exited shell."""
    try:
        os.killpg(group, 0)
        ended = os.waitpid(group, os.WNOHANG)[0] == group
    except (ProcessLookupError, ChildProcessError):
        return False
    return not ended


def test_what_one_leaves_to_work_on_is_not_waited_for_nor_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long a busy machine takes to start the command.
    monkeypatch.setattr(wrapped_status_line, "WRAPPED_TIMEOUT_S", 30.0)
    mark = tmp_path / "pid"
    began = time.monotonic()
    assert run_wrapped_command(f"sleep 60 & echo $! > '{mark}'; echo hi", b"") == b"hi\n"

    assert time.monotonic() - began < wrapped_status_line.WRAPPED_TIMEOUT_S
    left = int(mark.read_text())
    os.kill(left, signal.SIGKILL)


def test_one_that_says_too_much() -> None:
    assert len(run_wrapped_command("yes", b"")) == wrapped_status_line.MAX_OUTPUT_BYTES


def test_the_line_of_a_person_s_own_settings(
    claude: ClaudeFolder, store: Path, child_env: dict[str, str]
) -> None:
    words = [sys.executable, "-m", "ctxtop", "statusline", "--db", str(store)]
    words += ["--config-dir", str(claude.root), "--", "printf", "%s", "a  b"]
    given = json.dumps(status(100_000)).encode()
    ended = subprocess.run(words, input=given, capture_output=True, env=child_env, check=True)

    assert ended.stdout.decode() == "a  b\ncontext 50% 100k/200k"
