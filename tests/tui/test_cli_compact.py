"""`ctxtop compact`: the plan for people and programs, what it refuses, and its fork."""

from __future__ import annotations

import json
import re
import shlex
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.compaction import plan as compaction_plan
from ctxtop.core.compaction import transcript_view
from ctxtop.core.compaction.verify import PASSED_CHECKS
from ctxtop.tui.base.command_errors import UNSAFE
from ctxtop.tui.entities import receipt_history

from tests import transcripts as made
from tests.sessions_on_disk import rest
from tests.worked import WORDS, Session, numbered

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .ended import Ended

KEYS = [
    "plan_id",
    "session_id",
    "base_sha256",
    "base_bytes",
    "before_tokens",
    "after_tokens",
    "bytes_before",
    "bytes_after",
    "harm",
    "break_even_requests",
    "operations",
    "refused",
    "break_even_requests_1h",
    "protected",
    "target_reduction",
    "steps",
    "unmoved_tokens",
    "target",
    "reduction",
    "reduction_flag",
    "kept_shares",
    "longer_summaries",
    "anchors",
    "compression",
    "costs",
]


@pytest.fixture
def transcript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session that read many files, long ago."""
    for name in ("CLAUDE_CONFIG_DIR", "CTXTOP_CONFIG_DIR", "CTXTOP_DB", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "120")
    session = Session()
    session.ask("mend the decoder")
    for number in range(20):
        words = f"{WORDS} part {number}"
        session.use("Read", numbered(70, words=words), file_path=f"/src/{number}.py")
    session.say(f"{WORDS}\n" * 600)
    session.rest(20, lines=50)
    folder = tmp_path / ".claude" / "projects" / made.PROJECT
    path = session.write(folder / f"{made.SESSION}.jsonl")
    rest(path)
    return path


@pytest.fixture
def run(transcript: Path, call_ctxtop: Callable[..., Ended]) -> Callable[..., Ended]:
    assert transcript.exists()
    return partial(call_ctxtop, "compact", made.SESSION[:8])


def test_json_is_the_plan_and_writes_nothing(run: Callable[..., Ended], transcript: Path) -> None:
    before = transcript.read_bytes()
    ended = run("--level", "3", "--json")
    assert ended.code == 0
    plan = ended.json
    assert list(plan) == KEYS
    assert plan["harm"] == 3
    saved = sum(each["tokens_saved"] for each in plan["operations"])
    assert plan["before_tokens"] - plan["after_tokens"] == saved > 20_000
    assert plan["refused"] == []
    assert [each["op"] for each in plan["operations"]] == [
        number + 1 for number in range(len(plan["operations"]))
    ]
    assert 0 < plan["break_even_requests"] < plan["break_even_requests_1h"]
    assert plan["protected"][0]["why"] == "newest turns"
    assert transcript.read_bytes() == before
    assert [each.name for each in transcript.parent.iterdir()] == [transcript.name]


CLIENT = """\
import json, pathlib, sys
sys.stdin.read()
with pathlib.Path(__file__).with_name("asked").open("a") as file:
    print(sys.argv[sys.argv.index("--model") + 1], file=file)
print(json.dumps({"result": "<summary>## Task Overview\\nIt reads files.</summary>"}))
"""


@pytest.mark.parametrize(
    ("words", "model", "is_told"),
    [
        (("--preset", "hybrid-buffer"), "claude-haiku-4-5", True),
        ((), "claude-haiku-4-5", False),
        (("--preset", "not-agent"), "claude-haiku-4-5-20251001", False),
        (("--preset", "hybrid-buffer", "--model", "my-model"), "my-model", False),
        # A gateway or a cloud may have a model of this name: a person knows.
        (("--set", "summary.model=gemini-2.5-flash-lite"), "gemini-2.5-flash-lite", False),
    ],
    ids=str,
)
def test_claude_is_asked_for_a_model_of_its_own(
    run: Callable[..., Ended],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    model: str,
    is_told: bool,
) -> None:
    """003-29: the preset's model is Gemini's; the cheap one of the provider takes its place."""
    client = tmp_path / "claude"
    client.write_text(f"#!{sys.executable} -I\n{CLIENT}", encoding="utf-8")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    ended = run("--strategy", "summarize", "--provider", "claude", *words)
    assert (tmp_path / "asked").read_text().split() == [model]
    told = "gemini-2.5-flash-lite, which the preset names, is not one of Claude's models:"
    assert ended.err.count(told) == is_told
    assert ended.err.count("claude-haiku-4-5 is asked") == is_told


@pytest.mark.parametrize("address", ["", "http://gateway.example"])
def test_openai_s_own_server_is_not_asked_for_a_preset_s_model(
    run: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    words = ("--strategy", "summarize", "--provider", "openai")
    ended = run(*words, "--preset", "hybrid-buffer")
    why = "the address of the API is not https" if address else "openai needs --model NAME"
    assert why in ended.err


def test_the_preview_says_what_goes_what_it_frees_and_what_to_type(
    run: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    for width in (80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        out = run("--level", "3").out
        lines = out.split("\n")
        assert all(len(line) <= width for line in lines), max(lines, key=len)
        assert "Read /src/1.py" in out
        assert re.search(r"  3  masked +old-results +\d+ +[\d,]+ +[\d,]+$", out, re.MULTILINE)
        assert re.search(r"^context +now +█+▏*", out, re.MULTILINE)
        assert re.search(r"^file +[\d,]+ → [\d,]+ bytes, [\d,]+ less$", out, re.MULTILINE)
        assert "breaks even after" in " ".join(out.split())
        assert re.search(r"^protected +≈ .*newest turns", out, re.MULTILINE)
        assert f"ctxtop compact {made.SESSION[:8]} --level 3 --apply\n" in out
    assert "an old result" in out


def test_a_terminals_last_lines_hold_the_conclusion(
    run: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    last = "\n".join(run("--level", "3").out.split("\n")[-23:])
    for label in ("STRATEGY", "context", "file", "cost", "protected", "next"):
        assert label in last


def test_one_operation_is_shown_with_what_takes_its_place(run: Callable[..., Ended]) -> None:
    lines = run("--level", "3", "--explain", "1").out.split("\n")
    assert lines[0].startswith("1 of ")
    assert "changed line 3 /message/content/0/content, before:" in lines
    after = lines[lines.index("after:") + 1]
    assert after.startswith("  + [ctxtop ")
    assert any(re.fullmatch(r"  - … [\d,]+ more of [\d,]+ characters", line) for line in lines)
    refused = run("--level", "3", "--explain", "99")
    assert refused.code == 2
    assert re.search(r"the plan has \d+ operations: use 1 to \d+", refused.err)


def test_one_operation_as_json_has_all_of_its_words(
    run: Callable[..., Ended], transcript: Path
) -> None:
    explained = run("--level", "3", "--explain", "2", "--json").json
    plan = run("--level", "3", "--json").json
    (change,) = explained.pop("changes")
    assert explained == {"plan_id": plan["plan_id"]} | plan["operations"][1]
    line = json.loads(transcript.read_text(encoding="utf-8").split("\n")[change["line"] - 1])
    assert change["before"] == line["message"]["content"][0]["content"]
    assert change["after"].startswith("[ctxtop ")
    assert change["do"] == "replace"


def test_what_a_transcript_says_stays_data(
    transcript: Path, call_ctxtop: Callable[..., Ended]
) -> None:
    said = transcript.read_text(encoding="utf-8").replace("/src/0.py", "/src/\\u001b[31m[b]0.py")
    transcript.write_text(said.replace("part 0", "part\\u001b]0;x\\u0007 [b]0"), encoding="utf-8")
    for words in ((), ("--explain", "1")):
        out = call_ctxtop("compact", made.SESSION, "--level", "3", *words).out
        assert "[b]" in out
        assert "\x1b" not in out
        assert "\x07" not in out


def test_nothing_superseded_is_nothing_to_do(run: Callable[..., Ended]) -> None:
    for words in ((), ("--apply",)):
        ended = run("--level", "2", *words)
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.startswith("ctxtop: nothing to do: ")
        assert ended.err.count("\n") == 1
    refused = run("--level", "2", "--json").json["refused"]
    assert [each["check"] for each in refused] == ["nothing"]


def test_the_tail_that_is_asked_for_stays(run: Callable[..., Ended]) -> None:
    assert run("--level", "3", "--keep", "100").code == 2


@pytest.mark.parametrize(
    ("words", "strategies"),
    [
        (["--set", "compact.strategy=summary"], {"summarize"}),
        (["--set", "preset=not-agent"], {"summarize"}),
        (["--set", "preset=not-agent", "--keep", "3"], {"summarize"}),
        # A person's own choice comes first, and neither of these values names another plan.
        (["--set", "preset=not-agent", "--level", "3"], {"old-results"}),
        (["--set", "compact.strategy=native", "--level", "3"], {"old-results"}),
        (["--set", "compact.strategy=ladder", "--level", "3"], {"old-results"}),
    ],
)
def test_a_policy_s_strategy_is_the_default(
    run: Callable[..., Ended], words: list[str], strategies: set[str]
) -> None:
    ended = run(*words, "--json")
    assert strategies <= {each["strategy"] for each in ended.json["operations"]}
    assert ("summarize" in strategies) == (len(ended.json["operations"]) == 1)


def test_a_cut_by_policy_keeps_turns_and_not_the_number_of_a_plan_by_levels(
    run: Callable[..., Ended],
) -> None:
    """Its one turn cannot be cut; with --keep the plan is one by levels."""
    cut = run("--set", "compact.strategy=head_tail", "--json")
    assert [each["check"] for each in cut.json["refused"]] == ["too_few"]
    by_level = run("--set", "compact.strategy=head_tail", "--keep", "2", "--json")
    assert "too_few" not in {each["check"] for each in by_level.json["refused"]}


def test_a_fork_is_made_where_it_was_asked_for(run: Callable[..., Ended], transcript: Path) -> None:
    before = transcript.read_bytes()
    ended = run("--level", "3", "--apply", "--json")
    assert ended.code == 0, ended.err
    receipt = ended.json
    fork = transcript.with_name(f"{receipt['new_session_id']}.jsonl")
    assert fork.stat().st_size < len(before)
    assert transcript.read_bytes() == before
    assert receipt["new_session_id"] in receipt["resume_command"]
    assert receipt["mode"] == "fork"


def test_after_it_was_applied_the_ways_on_are_said(
    run: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = run("--level", "3", "--apply").out
    ways_on = ("resume", "undo")
    assert all(len(line) <= 80 for line in out.split("\n") if not line.startswith(ways_on))
    assert "✓ V7  every call has its result" in out
    assert re.search(r"^resume +cd /home/dev/proj && claude --resume [-0-9a-f]{36}$", out, re.M)
    assert re.search(r"^undo +ctxtop undo [0-9a-f]{8}  \(--op N: only that operation\)$", out, re.M)


def test_every_check_has_words_that_fit_beside_each_other() -> None:
    assert set(PASSED_CHECKS) <= set(receipt_history.CHECK_TEXTS)
    assert all(len(each) <= 29 for each in receipt_history.CHECK_TEXTS.values())


def test_in_place_has_to_be_applied(run: Callable[..., Ended]) -> None:
    assert run("--in-place").code == 2


def test_a_plan_for_the_file_alone_says_what_it_frees_of_it(
    transcript: Path, call_ctxtop: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    session = Session()
    session.ask("mend the decoder")
    for number in range(3):
        details = {"stdout": "x" * 60_000, "interrupted": False}
        session.use("Bash", "done", details=details, command=f"make {number}")
    session.rest(12)
    session.write(transcript)
    out = call_ctxtop("compact", made.SESSION, "--level", "0").out
    assert re.search(r"^OP +LINE +HARM +WHAT +BYTES$", out, re.MULTILINE), out
    assert re.search(r" 1 +3 +file only +\S.* 5\d,\d{3}$", out, re.MULTILINE), out
    assert "cost      the context and its cache stay the same" in out
    assert re.search(r"^ +then .* 0.0 % less$", out, re.MULTILINE)


def test_the_next_command_is_the_same_with_something_more(
    transcript: Path, call_ctxtop: Callable[..., Ended], tmp_path: Path
) -> None:
    folder = tmp_path / "with a space"
    (tmp_path / ".claude").rename(folder)
    words = ("compact", made.SESSION[:8], "--level", "3", "--keep", "4", "--set", "mode=observe")
    out = call_ctxtop("--config-dir", str(folder), *words).out
    (line,) = (each for each in out.split("\n") if each.endswith(" --apply"))
    typed = shlex.split(line)
    assert typed[:3] == ["ctxtop", "--config-dir", str(folder)]
    assert call_ctxtop(*typed[1:]).code == 0
    assert not transcript.exists()


def test_the_policys_caps_apply_to_the_plan(run: Callable[..., Ended]) -> None:
    words = ("--level", "3", "--json")
    assert "oversized-results" not in strategies(run(*words))
    assert "oversized-results" in strategies(run(*words, "--set", "tools.cap_tokens=500"))


def strategies(ended: Ended) -> set[str]:
    return {each["strategy"] for each in ended.json["operations"]}


def test_a_large_transcript_needs_force(
    run: Callable[..., Ended], transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction_plan, "MAX_TRANSCRIPT_BYTES", 50_000)
    monkeypatch.setattr(transcript_view, "LARGE_TRANSCRIPT_BYTES", 50_000)
    megabytes = f"{transcript.stat().st_size / 1_000_000:.0f} MB"
    refused = run("--apply")
    assert refused.code == UNSAFE
    note, why = refused.err.splitlines()
    assert note == f"ctxtop: the transcript is {megabytes}: planning and applying take a while"
    assert "more than the limit of 0 MB" in why
    assert "pass --force" in why
    assert run("--force", "--apply").code == 0


def test_a_transcript_that_is_too_large_is_refused_before_it_is_read(
    run: Callable[..., Ended], transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = transcript.stat().st_size
    monkeypatch.setattr(compaction_plan, "MAX_TRANSCRIPT_BYTES", size - 1)
    monkeypatch.setattr("ctxtop.core.compaction.transcript_view.OpenTranscript.scan", None)
    refused = run("--json")
    assert refused.code == UNSAFE
    plan = json.loads(refused.out)
    assert list(plan) == KEYS
    assert [each["check"] for each in plan["refused"]] == ["file-size"]
    assert (plan["base_bytes"], plan["base_sha256"], plan["operations"]) == (size, "", [])
