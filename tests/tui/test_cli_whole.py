"""`ctxtop compact --strategy summarize, cut, revert, rollover`: asked for, shown, carried out."""

from __future__ import annotations

import json
import stat
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.transcript.entry_decoder import read_entries
from ctxtop.core.transcript.visible_messages import visible_entries

from tests import transcripts as made
from tests.sessions_on_disk import rest
from tests.worked import WORDS, Session, numbered

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .ended import Ended

SUMMARIZE = ("--strategy", "summarize", "--keep", "4")


@pytest.fixture
def transcript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session of three prompts, long ago; nobody has a key."""
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    session = Session()
    session.ask("Mend the decoder. Never push.")
    for number in range(20):
        session.use("Bash", numbered(40, words=WORDS), command=f"make {number}")
    session.use("Edit", "done", file_path="/src/decoder.py", old_string="a", new_string="b")
    session.ask("And the encoder.")
    for number in range(6):
        session.use("Bash", numbered(40, words=WORDS), command=f"make again {number}")
    session.ask("Now test both.")
    session.use("Bash", "ok", command="make test")
    session.say("Both are mended.")
    path = session.write(tmp_path / ".claude" / "projects" / made.PROJECT / f"{made.SESSION}.jsonl")
    rest(path)
    return path


@pytest.fixture
def run(transcript: Path, call_ctxtop: Callable[..., Ended]) -> Callable[..., Ended]:
    assert transcript.exists()
    return partial(call_ctxtop, "compact", made.SESSION[:8])


def sent(path: Path) -> list[str]:
    return [piece.text for entry in visible_entries(read_entries(path)) for piece in entry.parts]


def test_a_summary_is_read_before_it_is_used(run: Callable[..., Ended], transcript: Path) -> None:
    before = transcript.read_bytes()
    shown = run(*SUMMARIZE)
    assert shown.code == 0, shown.err
    assert "  [Previous conversation summary]" in shown.out
    assert "/src/decoder.py (edited 1×)" in shown.out
    assert "--strategy summarize --keep 4 --apply" in shown.out
    (change, summary) = run(*SUMMARIZE, "--explain", "1", "--json").json["changes"]
    assert (change["do"], summary["do"]) == ("append", "append")
    assert "Never push." in summary["after"]
    assert transcript.read_bytes() == before
    for template, title in (("4", "## Task Overview"), ("8", "## Final Goal"), ("11", "## Files")):
        assert title in run(*SUMMARIZE, "--template", template, "--explain", "1").out
    short = run(*SUMMARIZE, "--budget", "150", "--json").json
    assert short["after_tokens"] < run(*SUMMARIZE, "--json").json["after_tokens"]


def test_a_summary_is_appended_to_a_fork_or_to_the_session(
    run: Callable[..., Ended], transcript: Path, call_ctxtop: Callable[..., Ended]
) -> None:
    before = transcript.read_bytes()
    fork = run(*SUMMARIZE, "--apply", "--json").json
    assert fork["mode"] == "fork"
    assert transcript.read_bytes() == before
    told = sent(transcript.with_name(f"{fork['new_session_id']}.jsonl"))
    assert told[0].startswith("[Previous conversation summary]")
    appended = run(*SUMMARIZE, "--apply", "--in-place", "--json").json
    assert appended["mode"] == "append"
    assert transcript.read_bytes().startswith(before)
    assert sent(transcript) == told
    # It is dated now, and no client is at work for that.
    statuses = {each["status"] for each in call_ctxtop("sessions", "--json").json}
    assert statuses == {"ended"}
    assert call_ctxtop("undo", appended["receipt_id"]).code == 0
    assert transcript.read_bytes() == before


def test_summaries_are_undone_one_after_the_other_without_a_wait(
    run: Callable[..., Ended], transcript: Path, call_ctxtop: Callable[..., Ended]
) -> None:
    """The newest write is ctxtop's own, whatever the client wrote between the summaries."""
    done: list[str] = []
    before: list[bytes] = []
    for keep in (24, 14, 4):
        if done:
            talk_on(transcript, f"Go on {keep}.")
        before.append(transcript.read_bytes())
        words = ("--strategy", "summarize", "--keep", str(keep), "--apply", "--in-place", "--json")
        done.append(run(*words).json["receipt_id"])
    assert call_ctxtop("undo", done[2]).code == 0
    assert transcript.read_bytes() == before[2]
    second = call_ctxtop("undo", done[1])
    assert second.code == 0, second.err
    # The line that came after the second summary is now a child of the line before it.
    *unchanged, asked = transcript.read_bytes().splitlines(keepends=True)
    assert b"".join(unchanged) == before[1]
    assert json.loads(asked)["message"]["content"] == "Go on 4."
    assert call_ctxtop("undo", done[0]).code == 0
    assert transcript.read_bytes().startswith(before[0])
    assert sent(transcript)[-2:] == ["Go on 14.", "Go on 4."]


def test_an_undo_waits_for_a_client_that_wrote_since(
    run: Callable[..., Ended], transcript: Path, call_ctxtop: Callable[..., Ended]
) -> None:
    done = []
    for keep in ("14", "4"):
        words = ("--strategy", "summarize", "--keep", keep, "--apply", "--in-place", "--json")
        done.append(run(*words).json["receipt_id"])
    assert call_ctxtop("undo", done[1]).code == 0
    talk_on(transcript, "Wait!", is_now=True)
    content = transcript.read_bytes()
    refused = call_ctxtop("undo", done[0])
    assert refused.code == 3
    assert "its transcript was written" in refused.err
    assert transcript.read_bytes() == content


def talk_on(transcript: Path, words: str, *, is_now: bool = False) -> None:
    """Add a prompt to a session, as its client does."""
    *_, last = (json.loads(line) for line in transcript.read_bytes().splitlines())
    line = made.user(words) | {"parentUuid": last["uuid"]}
    with transcript.open("a") as file:
        file.write(json.dumps(line) + "\n")
    if not is_now:
        rest(transcript)


def test_a_policy_says_what_a_summary_is(run: Callable[..., Ended]) -> None:
    words = ("--set", "summary.template=eight_section", "--set", "summary.max_tokens=150")
    said = run(*SUMMARIZE, *words, "--explain", "1").out
    assert "## User Requests (Verbatim)" in said
    plan = run(*SUMMARIZE, *words, "--json").json
    assert plan["after_tokens"] == run(*SUMMARIZE, "--template", "8", "--budget", "150",
                                       "--json").json["after_tokens"]  # fmt: skip
    kept = run("--strategy", "summarize", "--set", "compact.preserve_recent=4", "--json").json
    assert kept["plan_id"] == run(*SUMMARIZE, "--json").json["plan_id"]


NOT_AGENT = ("--preset", "not-agent")


def test_the_options_of_a_strategy_go_with_the_policys_own(run: Callable[..., Ended]) -> None:
    """001: the preset's strategy is `summary`, so its options need no --strategy."""
    asked = run(*NOT_AGENT, "--provider", "anthropic", "--model", "some-model")
    assert "--strategy" not in asked.err
    assert "ANTHROPIC_API_KEY" in asked.err
    named = run(*NOT_AGENT, "--strategy", "summarize", "--keep", "4", "--budget", "300", "--json")
    assert run(*NOT_AGENT, "--budget", "300", "--json").json["plan_id"] == named.json["plan_id"]
    assert "\nlimit     " in run(*NOT_AGENT).out
    assert "\nlimit     " not in run(*SUMMARIZE).out
    for words in (("--provider", "claude"), (*NOT_AGENT, "--level", "2", "--provider", "claude")):
        refused = run(*words)
        assert refused.code == 2
        assert "--provider needs --strategy summarize" in refused.err


def test_a_number_of_turns_goes_with_a_policy_that_cuts(run: Callable[..., Ended]) -> None:
    named = run("--strategy", "cut", "--keep-turns", "1", "--json").json["plan_id"]
    words = ("--set", "compact.strategy=window")
    assert run(*words, "--keep-turns", "1", "--json").json["plan_id"] == named
    assert run(*words, "--json").json["plan_id"] != named


def test_all_levels_of_a_summary_are_kept_with_its_receipt(
    run: Callable[..., Ended], call_ctxtop: Callable[..., Ended]
) -> None:
    """003-20: one text for each level, the longest first; 001-12 and 001-14 beside them."""
    words = ("--set", "summary.levels=3", "--set", "summary.max_tokens=500")
    planned = run(*SUMMARIZE, *words, "--json").json
    first, second = planned["longer_summaries"]
    (used,) = (
        each["after"]
        for each in run(*SUMMARIZE, *words, "--explain", "1", "--json").json["changes"]
        if each["after"].startswith("[Previous conversation summary]")
    )
    assert len(first) > len(second) > len(used)
    assert second.startswith("[Previous conversation summary]")
    done = run(*SUMMARIZE, *words, "--apply", "--json").json["receipt_id"]
    receipt = call_ctxtop("history", done, "--json").json
    for key in ("longer_summaries", "reduction", "reduction_flag", "kept_shares"):
        assert receipt[key] == planned[key]
    assert receipt["reduction_flag"] == "above"
    assert receipt["kept_shares"]["files"] == 0.0
    shown = call_ctxtop("history", done).out
    assert "above the 50–70 % of compact.target_reduction" in shown
    assert "0 % of 1 file" in shown
    assert "3; --json has the longer ones" in shown
    assert run(*SUMMARIZE, "--json").json["longer_summaries"] == []


def test_a_cut_keeps_turns(run: Callable[..., Ended], transcript: Path) -> None:
    ended = run("--strategy", "cut", "--keep-turns", "1", "--apply", "--json")
    assert ended.code == 0, ended.err
    cut = ended.json
    told = sent(transcript.with_name(f"{cut['new_session_id']}.jsonl"))
    assert "Mend the decoder. Never push." in told
    assert "Now test both." in told
    assert "And the encoder." not in told
    nothing = run("--strategy", "cut", "--keep-turns", "9")
    assert (nothing.code, nothing.out) == (2, "")


def test_a_way_back_is_to_a_prompt(run: Callable[..., Ended], transcript: Path) -> None:
    asked = run("--strategy", "revert")
    assert asked.code == 2
    assert "use --to LINE: " in asked.err
    assert "“Now test both.”" in asked.err
    (line,) = (
        number
        for number, each in enumerate(transcript.read_text(encoding="utf-8").split("\n"), 1)
        if "Now test both." in each
    )
    uuid = json.loads(transcript.read_text(encoding="utf-8").split("\n")[line - 1])["uuid"]
    plans = [run("--strategy", "revert", "--to", to, "--json").json["plan_id"]
             for to in (str(line), "last", uuid)]  # fmt: skip
    assert len(set(plans)) == 1
    back = run("--strategy", "revert", "--to", "last", "--apply", "--json").json
    told = sent(transcript.with_name(f"{back['new_session_id']}.jsonl"))
    assert "And the encoder." in told
    assert "Now test both." not in told
    assert run("--strategy", "revert", "--to", "nothing-like-it").code == 2
    assert run("--strategy", "revert", "--to", "2").code == 2


def test_a_rollover_is_a_session_of_its_own(run: Callable[..., Ended], transcript: Path) -> None:
    before = transcript.read_bytes()
    rolled = run("--strategy", "rollover", "--apply", "--json").json
    (told,) = sent(transcript.with_name(f"{rolled['new_session_id']}.jsonl"))
    assert told.startswith(f"[Hand-off from session {made.SESSION}]")
    assert transcript.read_bytes() == before


@pytest.mark.parametrize(
    "words",
    [
        ("--level", "7"),
        ("--level", "8", "--apply"),
        ("--strategy", "summarize", "--strategy", "cut"),
        ("--strategy", "summarize", "--level", "7"),
        ("--strategy", "cut"),
        ("--strategy", "cut", "--keep-turns", "1", "--to", "last"),
        ("--strategy", "rollover", "--apply", "--in-place"),
        ("--strategy", "rollover", "--keep", "3"),
        ("--keep-turns", "3"),
        ("--provider", "claude"),
        ("--strategy", "summarize", "--model", "m"),
        ("--strategy", "summarize", "--model", "m", "--provider", "none"),
        ("--strategy", "summarize", "--provider", "openai"),
        ("--strategy", "summarize", "--template", "6"),
    ],
)
def test_what_does_not_go_together_is_said(
    run: Callable[..., Ended], transcript: Path, words: tuple[str, ...]
) -> None:
    before = transcript.read_bytes()
    ended = run(*words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("ctxtop: ")
    assert ended.err.count("\n") == 1
    assert transcript.read_bytes() == before


CLIENT = """#!{python}
import json, sys
from pathlib import Path
Path({calls!r}).open("a").write("\\n".join(sys.argv[1:]) + "\\n\\n")
if {answer!r}:
    print(json.dumps({{"result": {answer!r}, "is_error": False}}))
else:
    print(json.dumps({{"result": "Credit balance is too low", "is_error": True}}))
    sys.exit(1)
"""


def client(folder: Path, monkeypatch: pytest.MonkeyPatch, answer: str) -> Path:
    """Put a `claude` on the PATH that answers so; gives the file in which it counts its calls."""
    calls = folder / "calls"
    folder.mkdir()
    program = folder / "claude"
    program.write_text(CLIENT.format(python=sys.executable, calls=str(calls), answer=answer))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder))
    return calls


SAID = "<summary>/src/decoder.py was edited, both are mended. Never push.</summary>"


def test_a_model_is_asked_once_where_it_was_named(
    run: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = client(tmp_path / "bin", monkeypatch, SAID)
    assert run(*SUMMARIZE).code == 0
    assert not calls.exists()
    words = (*SUMMARIZE, "--provider", "claude", "--model", "my-model")
    shown = run(*words)
    assert shown.code == 0, shown.err
    assert "both are mended" in shown.out
    assert run(*words, "--apply").code == 0
    said = calls.read_text(encoding="utf-8")
    assert said.count("my-model") == 1, "the same is asked for once"
    folder = tmp_path / "state"
    kept = [each for each in folder.rglob("summaries/*") if each.is_file()]
    assert [stat.S_IMODE(each.stat().st_mode) for each in kept] == [0o600]
    assert run(*words, "--set", "summary.cache=false").code == 0
    assert calls.read_text(encoding="utf-8").count("my-model") == 2


@pytest.mark.parametrize(
    ("provider", "why"),
    [
        ("claude", "claude -p: Claude Code returned no summary: Credit balance is too low"),
        ("anthropic", "ANTHROPIC_API_KEY is not set: set it, or choose another provider"),
    ],
)
def test_a_model_that_fails_changes_nothing(
    run: Callable[..., Ended],
    transcript: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    provider: str,
    why: str,
) -> None:
    """R001-03."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    client(tmp_path / "bin", monkeypatch, "")
    before = transcript.read_bytes()
    ended = run(*SUMMARIZE, "--provider", provider, "--apply")
    assert (ended.code, ended.out) == (1, "")
    assert why in ended.err
    assert "nothing was changed; try again, or omit --provider" in ended.err
    assert ended.err.count("\n") == 1
    assert transcript.read_bytes() == before
    assert list(transcript.parent.iterdir()) == [transcript]
    assert run("--json").code in {0, 2}


def test_a_key_is_nowhere_kept_nor_shown(
    run: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "sk-ant-api03-nobody-may-see-this"
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    ended = run(*SUMMARIZE, "--provider", "anthropic", "--set", "compact.timeout_s=1", "--json")
    assert ended.code == 1
    assert key not in ended.out + ended.err
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or key.encode() not in path.read_bytes()
