"""`ctxtop log`, `ctxtop settings set` and `unset`, and `ctxtop notify`."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.demo import make_demo, make_demo_history

from ..transcripts import SESSION
from .support import NOW
from .test_cli_recover import too_long, transcript  # noqa: F401 -- a fixture

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .ended import Ended


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call_ctxtop: Callable[..., Ended]
) -> Callable[..., Ended]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("COLUMNS", "160")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    root, store = tmp_path / ".claude", tmp_path / "state" / "store.db"
    monkeypatch.setenv("CTXTOP_DB", str(store))
    make_demo_history(make_demo(root, NOW), store, NOW)
    return call_ctxtop


def test_the_log_is_sorted_and_says_all_in_json(run: Callable[..., Ended]) -> None:
    ended = run("log", "--json")
    assert (ended.code, ended.err) == (0, "")
    assert {"bad line", "unknown", "level", "compaction", "automatic", "hook", "store"} <= {
        each["source"] for each in ended.json
    }
    times = [each["at"] or "" for each in ended.json]
    assert times == sorted(times, reverse=True)
    bad = next(each for each in ended.json if each["source"] == "bad line")
    assert set(bad) == {"at", "level", "source", "where", "what", "detail", "session_id"}
    assert bad["level"] == "warning"
    assert bad["session_id"] in bad["detail"]
    assert "offset" in bad["detail"]


def test_the_log_has_receipts_recoveries_and_refusals(
    call_ctxtop: Callable[..., Ended],
    transcript: Path,  # noqa: F811 -- the fixture
) -> None:
    too_long(transcript)
    done = call_ctxtop("recover", SESSION, "--apply", "--json").json["receipt"]
    found = {each["source"]: each for each in call_ctxtop("log", "--json").json}
    assert found["receipt"]["session_id"] == SESSION
    assert done["receipt_id"] in found["receipt"]["detail"]
    assert "tokens freed" in found["receipt"]["what"]
    assert found["recovery"]["what"] == "recovery succeeded: 1 attempt"
    refusals = [e for e in call_ctxtop("log", "--json").json if e["source"] == "refusal"]
    # The fork has copied the line, and it happened once.
    assert [each["session_id"] for each in refusals] == [SESSION]
    assert "210,000 tokens, the limit 200,000" in refusals[0]["detail"]
    assert refusals[0]["level"] == "warning"


def test_the_log_s_table_is_chosen_by_level_and_words(run: Callable[..., Ended]) -> None:
    ended = run("log", "--level", "trouble")
    assert ended.code == 0
    assert all("trouble" in line for line in ended.out.splitlines()[1:])
    found = run("log", "--search", "weather !hook", "--no-scan").out.splitlines()
    assert len(found) == 2
    assert "weather-report" in found[1]
    assert "no matching events" in run("log", "--search", "qqqq", "--no-scan").out
    assert "\x1b" not in run("log", "--no-scan").out


def test_a_value_is_set_shown_and_unset(run: Callable[..., Ended], tmp_path: Path) -> None:
    file = tmp_path / "xdg" / "ctxtop" / "config.toml"
    dry = run("settings", "set", "notify.bell", "on", "--dry-run", "--json")
    assert dry.json == {
        "file": str(file),
        "key": "notify.bell",
        "written": False,
        "difference": ["+[notify]", "+bell = true"],
    }
    assert not file.exists()
    assert run("settings", "set", "notify.bell", "on").out.splitlines() == [
        str(file),
        "+[notify]",
        "+bell = true",
    ]
    assert file.read_text() == "[notify]\nbell = true\n"
    assert "already has this value" in run("settings", "set", "notify.bell", "true").out
    assert "notify.bell" in run("settings").out
    assert run("settings", "unset", "notify.bell").code == 0
    assert file.read_text() == "[notify]\n"


def test_two_levels_are_set_and_the_others_stay(run: Callable[..., Ended], tmp_path: Path) -> None:
    file = tmp_path / "xdg" / "ctxtop" / "config.toml"
    assert run("settings", "set", "threshold", "60%, 75%").code == 0
    assert run("settings", "set", "threshold", "0.72").code == 0
    assert tomllib.loads(file.read_text())["policy"]["threshold"] == [
        "0.6:notice:reassure",
        "0.72:warning:suggest",
        "0.85:high:offer_compact",
        "0.95:emergency:alert",
        "1:overflow:recover",
    ]
    ended = run("settings", "set", "threshold", "0.9")
    assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert "rising shares: warning at 90% is not below high at 85%" in ended.err


def test_a_project_s_levels_are_set_above_the_person_s(
    run: Callable[..., Ended], tmp_path: Path
) -> None:
    assert run("settings", "set", "threshold", "50%, 55%").code == 0
    assert run("settings", "set", "--project", "threshold", "65%").code == 0
    written = (tmp_path / "here" / ".ctxtop.toml").read_text()
    assert "0.5:notice" in written
    assert "0.65:warning" in written


@pytest.mark.parametrize(
    ("old", "new"), [("policy", "settings"), ("receipts", "history")], ids=lambda name: name
)
def test_an_old_name_of_a_command_does_the_same_and_is_not_listed(
    run: Callable[..., Ended], old: str, new: str
) -> None:
    for words in ((), ("--json",), ("ffff",), ("--help",)):
        one, other = run(old, *words), run(new, *words)
        assert one.code == other.code
        # Click keeps the help option of whoever asked a command first.
        out, expected = (each.out.replace("-h, --help", "--help    ") for each in (one, other))
        assert out.replace(f"ctxtop {old}", f"ctxtop {new}") == expected
        assert one.err.replace(f"ctxtop {old}", f"ctxtop {new}") == other.err
    listed = [line.split()[0] for line in run("--help").out.splitlines() if line[:2] == "  "]
    assert new in listed
    assert old not in listed


def test_the_old_name_sets_and_unsets(run: Callable[..., Ended], tmp_path: Path) -> None:
    file = tmp_path / "xdg" / "ctxtop" / "config.toml"
    assert run("policy", "set", "notify.bell", "on").code == 0
    assert file.read_text() == "[notify]\nbell = true\n"
    assert run("policy", "unset", "notify.bell").code == 0
    assert file.read_text() == "[notify]\n"


def test_a_project_s_file_is_the_one_here(run: Callable[..., Ended], tmp_path: Path) -> None:
    assert run("settings", "set", "--project", "compact.min_tokens", "7").code == 0
    assert (tmp_path / "here" / ".ctxtop.toml").read_text() == "[compact]\nmin_tokens = 7\n"
    found = run("settings", "--json").json["policy"]
    said = next(each for each in found if each["key"] == "compact.min_tokens")
    assert (said["value"], said["origin"]) == (7, "project_file")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("no.such", "1"), "unknown key 'no.such': `ctxtop settings` lists the keys"),
        (("compact.min_token", "1"), "did you mean compact.min_tokens?"),
        (("disabled_hooks", "x"), "'disabled_hooks': here it is called disabled_modules"),
        (("experimental.auto_resume", "true"), "here it is called recovery.resume"),
        (("experimental.other", "1"), "here it is called recovery.aggressive, recovery.dcp"),
        (("compact.pair_safe", "true"), "a tool call is always kept with its result"),
        (("mode", "sometimes"), "mode: 'sometimes' is not valid: use one of observe"),
    ],
)
def test_what_is_not_taken_is_one_line(
    run: Callable[..., Ended], words: tuple[str, str], said: str
) -> None:
    ended = run("settings", "set", *words)
    assert ended.code == 1
    assert said in ended.err
    assert ended.err.count("\n") == 1


def test_notify_says_how_it_tells(run: Callable[..., Ended]) -> None:
    assert run("notify").out == "notified by toast\n"
    assert run("settings", "set", "notify.quiet", "22:00-7:00").code == 0
    assert run("notify", "--test", "--json").json == {
        "toast": True,
        "bell": False,
        "desktop": "off",
        "condition": None,
        "quiet": "22:00-07:00",
        "tested": True,
    }
