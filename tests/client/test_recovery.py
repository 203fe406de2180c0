"""Sessions that ended in a refusal: each step of a recovery, proved against the client.

What the client (2.1.329) leaves where the API refuses is an answer of its own making, with the
API's words in it. An empty answer it leaves out itself, or it says "(no content)" for it, and for
the newest "No response requested."; an empty prompt it sends as it is to the newer models, and
each request from then on is refused. To older ones it is filled with the client's own reminders.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

import pytest
from ctxtop.core.actions.session_recovery import Recovery, RecoveryOptions, recover
from ctxtop.core.compaction.apply import apply_plan
from ctxtop.core.compaction.receipts import ApplyMode
from ctxtop.core.compaction.recovery.recovery_run import (
    RecoveryRetry,
    RecoverySettings,
    RecoveryStep,
)
from ctxtop.core.compaction.recovery.recovery_steps import EMPTY_MESSAGE_TEXT, TRUNCATION_MESSAGE
from ctxtop.core.compaction.undo import undo
from ctxtop.core.store.writer import Writer
from ctxtop.core.summaries.summary_building import SummarySettings
from ctxtop.core.transcript.entry_decoder import read_entries
from ctxtop.core.transcript.visible_messages import visible_entries
from ctxtop.tui.cli import main

from ..trusting import accept_trust_dialog
from .compacting import ApiCounter, Edited, prove, resume, subject_of
from .counting import count_request
from .edits import answers, compacted, spoken, write_edited
from .lab import LARGE, SMALL
from .script import counted
from .talks import path_of
from .trusting import trust
from .wire import blocks_sent, told

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .conftest import Table
    from .lab import Lab

Json = dict[str, Any]
Lines = list[Json]

TOO_LONG: Final = "[[error:400 prompt is too long: 60000 tokens > 50000 maximum]]"
EMPTY: Final = "[[error:400 messages.5: all messages must have non-empty content]]"

TITLE: Final = "recovery in the client: step, session, model, operations, tokens"

STEPS: Final = (
    RecoveryStep.TRUNCATE,
    RecoveryStep.AGGRESSIVE,
    RecoveryStep.SUMMARIZE,
    RecoveryStep.REVERT,
)


def _side_by_side(lab: Lab, model: str) -> str:
    first = "Begin. [[think:p&&&bash:seq 1 9&&&bash:seq 2 9]] [[think:q&&&say:ok]]"
    session_id = lab.turn(counted(first), model=model).session_id
    more = counted("More. [[bash:false]] [[say:on]]")
    lab.turn(more, resume=session_id, model=model)
    return session_id


def _edits(lab: Lab, model: str) -> str:
    file = lab.project / "b.py"
    script = (
        f"Edit. [[think:p&&&write:{file}|x = 1;{'y = 2;' * 40}]] [[edit:{file}|x = 1|x = 2]]"
        f" [[read:{file}]] [[think:q&&&say:ok]]"
    )
    session_id = lab.turn(counted(script), model=model).session_id
    lab.turn(counted("More. [[bash:false]] [[say:on]]"), resume=session_id, model=model)
    return session_id


def _compacted(lab: Lab, model: str) -> str:
    """A boundary that keeps a tail."""

    def edit(lines: Lines) -> Lines:
        return compacted(lines, spoken(lines)[-2:])

    session_id = write_edited(path_of(lab, _side_by_side(lab, model)), edit)
    lab.turn(counted("And on. [[bash:seq 5 9]] [[say:ok]]"), resume=session_id, model=model)
    return session_id


KINDS: Final[dict[str, Callable[[Lab, str], str]]] = {
    "side by side": _side_by_side,
    "edits": _edits,
    "compacted": _compacted,
}

PAIRS: Final = tuple((kind, model) for kind in KINDS for model in (SMALL, LARGE))
FIRST: Final = (("side by side", LARGE), ("edits", SMALL), ("compacted", LARGE))
"""Without --all-pairs: each kind, each model and each step."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    everything = metafunc.config.getoption("--all-pairs")
    if "resume" in metafunc.fixturenames:
        metafunc.parametrize("resume", ["continue", "last_prompt"] if everything else ["continue"])
    if "pair" in metafunc.fixturenames:
        pairs = PAIRS if everything else FIRST
        ids = [f"{kind}-{model}" for kind, model in pairs]
        if "steps" in metafunc.fixturenames:
            steps = [STEPS if everything else STEPS[number::3] for number in range(len(pairs))]
            both = list(zip(pairs, steps, strict=True))
            metafunc.parametrize(("pair", "steps"), both, ids=ids)
        else:
            metafunc.parametrize("pair", pairs, ids=ids)


def test_each_step_in_the_client(
    lab: Lab, table: Table, pair: tuple[str, str], steps: tuple[RecoveryStep, ...]
) -> None:
    kind, model = pair
    lab.write_settings({"autoCompactEnabled": False})
    talk = KINDS[kind](lab, model)
    ended = path_of(lab, too_long(lab, talk, model))
    for step in steps:
        session_id = write_edited(ended, lambda lines: lines)
        found: list[Recovery] = []

        def mend(path: Path, step: RecoveryStep = step, found: list[Recovery] = found) -> Edited:
            taken_back_at_once(lab, path, step)
            found.append(mended(lab, path, step))
            return edited(lab, path, found[0])

        proved = prove(lab, session_id, mend, f"{kind}, {step}")
        plan = found[0].choice.plan
        assert plan
        sizes = f"{proved.before:6} → {proved.after:6}, predicted {proved.predicted:6}"
        table.add(TITLE, f"{step:16} {kind:12} {model:16} {len(plan.operations):2}", sizes)


@pytest.mark.invalid_requests
def test_an_empty_message_in_the_client(lab: Lab, table: Table, pair: tuple[str, str]) -> None:
    kind, model = pair
    session_id = emptied(lab, KINDS[kind](lab, model), model)
    path = path_of(lab, session_id)
    # Scripted for those sessions that the client mends by itself.
    ended = lab.turn(f"Last. {EMPTY}", resume=session_id, model=model)
    before = ended.exchanges[0]
    assert "non-empty content" in ended.said["result"]
    if pair == FIRST[0]:
        assert any("non-empty" in why for why in before["refused"])
    unedited = path.read_bytes()
    recovery = mended(lab, path, RecoveryStep.FIX_EMPTY)
    mend = edited(lab, path, recovery)
    after = resume(lab, mend.session_id, kind)
    assert after["refused"] == []
    assert EMPTY_MESSAGE_TEXT in json.dumps(after["body"]["messages"])
    mend.undo()
    assert path.read_bytes() == unedited
    again = lab.turn("Next. [[say:ok]]", resume=session_id, model=model).exchanges[0]
    was = words_before(before["body"], "Last.")
    assert was
    assert words_before(again["body"], "Last.") == was
    plan = recovery.choice.plan
    assert plan
    sizes = f"{count_request(before['body']):6} → {count_request(after['body']):6}"
    table.add(
        TITLE, f"{RecoveryStep.FIX_EMPTY:16} {kind:12} {model:16} {len(plan.operations):2}", sizes
    )


def words_before(body: Json, words: str) -> list[str]:
    """List what was sent before these; where it joins texts the client adds a line's end."""
    sent = (block.replace("\\n", "") for block in blocks_sent(body))
    return [*takewhile(lambda block: words not in block, sent)]


def test_a_summary_at_the_session_s_own_end(lab: Lab) -> None:
    """Nothing is rewritten: taken back it is the same file, byte for byte."""
    lab.write_settings({"autoCompactEnabled": False})
    path = path_of(lab, too_long(lab, _side_by_side(lab, LARGE), LARGE))
    before = path.read_bytes()
    plan = mended(lab, path, RecoveryStep.SUMMARIZE).choice.plan
    assert plan
    assert plan.only_appends

    def append(path: Path) -> Edited:
        subject = subject_of(lab, path)
        receipt = apply_plan(plan, ApplyMode.APPEND, subject)
        undo(receipt.receipt_id, None, subject)
        assert path.read_bytes() == before
        receipt = apply_plan(plan, ApplyMode.APPEND, subject)
        assert path.read_bytes().startswith(before)
        saved = plan.before_tokens - plan.after_tokens
        return Edited(path.stem, saved, lambda: undo(receipt.receipt_id, None, subject))

    prove(lab, path.stem, append, "appended summary")


def too_long(lab: Lab, talk: str, model: str) -> str:
    """Write a copy of a session that ends in a "prompt is too long" error.

    Its last turn adds results of 26,000 characters each. Returns the copy's session ID.
    """
    (lab.project / "long.txt").write_text("nothing that matters here\n" * 1000, encoding="utf-8")
    session_id = write_edited(path_of(lab, talk), lambda lines: lines)
    turns = counted(" ".join(["[[bash:cat long.txt]]"] * 6))
    lab.turn(f"Last. {turns} {TOO_LONG}", resume=session_id, model=model)
    return session_id


def emptied(lab: Lab, talk: str, model: str) -> str:
    """Write a copy that the API refuses because of an empty message.

    The text of its last prompt and answer is empty. Returns the copy's session ID.
    """

    def empty(lines: Lines) -> Lines:
        prompts = [line for line in spoken(lines) if isinstance(line["message"]["content"], str)]
        prompts[-1]["message"]["content"] = ""
        answers(lines, "text")[-1]["message"]["content"] = [{"type": "text", "text": ""}]
        return lines

    return write_edited(path_of(lab, talk), empty)


def mended(lab: Lab, path: Path, step: RecoveryStep) -> Recovery:
    """Mend a session by one step alone, in a fork."""
    at_once = RecoveryRetry(initial_ms=0)
    settings = RecoverySettings(step_order=(step,), aggressive=True, cooldown_ms=0, retry=at_once)
    wanted = RecoveryOptions(
        target=subject_of(lab, path),
        settings=settings,
        counter_of=lambda _model: ApiCounter(),
        window_tokens=None,
        reserve_tokens=0,
        confirmed=frozenset({RecoveryStep.REVERT}),
        summary=SummarySettings(keep_messages=4),
    )
    with closing(Writer(lab.root / "recovery" / f"{path.stem}-{step}.db")) as writer:
        return recover(wanted, writer.connection)


def edited(lab: Lab, path: Path, recovery: Recovery) -> Edited:
    """Return the forked session after a recovery.

    Checks that the fork contains the placeholder text of the chosen step and of no other.
    """
    plan, receipt, chosen = recovery.choice.plan, recovery.receipt, recovery.choice.chosen
    assert plan
    assert chosen
    assert receipt
    assert receipt.new_session_id
    fork = receipt.new_session_id
    sent = visible_entries(read_entries(path_of(lab, fork)))
    words = json.dumps([piece.text for entry in sent for piece in entry.parts])
    assert (TRUNCATION_MESSAGE in words) == (
        chosen.step in {RecoveryStep.TRUNCATE, RecoveryStep.AGGRESSIVE}
    )
    assert (EMPTY_MESSAGE_TEXT in words) == (chosen.step is RecoveryStep.FIX_EMPTY)

    def take_back() -> None:
        undo(receipt.receipt_id, None, subject_of(lab, path_of(lab, fork)))

    saved = plan.before_tokens - plan.after_tokens
    return Edited(fork, saved, take_back)


def taken_back_at_once(lab: Lab, path: Path, step: RecoveryStep) -> None:
    """Mend, and take it back before anybody went on: the fork says what the session said."""
    fork = edited(lab, path, mended(lab, path, step))
    fork.undo()
    was = told(visible_entries(read_entries(path)))
    assert told(visible_entries(read_entries(path_of(lab, fork.session_id)))) == was


LONGER: Final = "[[error:400 prompt is too long: 210000 tokens > 200000 maximum]]"


@pytest.mark.parametrize(
    ("model", "ending", "step"),
    [
        (SMALL, LONGER, "truncate_largest"),
        (LARGE, counted("[[think:So.&&&say:ok]]"), "truncate_largest"),
        # The newest thoughts, which a change before them unbinds, must stay while a call is open.
        (LARGE, LONGER, "summarize"),
    ],
    ids=["no thoughts bound", "the turn is over", "a call is open"],
)
def test_the_client_goes_on_after_it(
    lab: Lab,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    ending: str,
    step: str,
) -> None:
    lab.write_settings({"autoCompactEnabled": False})
    file = lab.project / "long.txt"
    # 26,000 characters a result is what the client lets through; two of them are to go.
    file.write_text("nothing that matters here\n" * 1000, encoding="utf-8")
    turns = counted(" ".join(["[[think:Hm.&&&bash:cat long.txt]]"] * 12))
    session_id = lab.turn(f"Read. {turns} {ending}", model=model).session_id
    if ending is not LONGER:
        lab.turn(f"And now? {LONGER}", resume=session_id, model=model)
    monkeypatch.setattr(
        sys,
        "argv",
        [
            "ctxtop",
            "recover",
            session_id,
            "--apply",
            "--json",
            "--config-dir",
            str(lab.config),
            "--db",
            str(lab.root / "recovery.db"),
        ],
    )
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr()
    assert ended.value.code == 0, printed.err
    said = json.loads(printed.out)
    assert said["step"] == step
    fork = said["receipt"]["new_session_id"]
    turn = lab.turn("Go on. [[say:done]]", resume=fork, model=model)
    sent = json.dumps(turn.exchanges[-1]["body"])
    truncated = [each for each in said["plan"]["operations"] if each["level"] == 3]
    assert turn.code == 0
    assert sent.count(TRUNCATION_MESSAGE) == len(truncated)
    assert bool(truncated) is (step == "truncate_largest")
    assert [exchange["unbound"] for exchange in turn.exchanges if "unbound" in exchange] == [[]]


def test_going_on_in_the_fork_where_a_policy_says_so(lab: Lab, resume: str) -> None:
    """T-11: by the client without a screen; what counts is a new answer in the fork."""
    lab.write_settings({"autoCompactEnabled": False})
    policy = f'[recovery]\nresume = "{resume}"\nretry.initial_ms = 0\n'
    (lab.project / ".ctxtop.toml").write_text(policy, encoding="utf-8")
    trust(lab)
    (lab.project / "long.txt").write_text("nothing that matters here\n" * 1000, encoding="utf-8")
    calls = counted(" ".join(["[[bash:cat long.txt]]"] * 8))
    once = "[[once:400 prompt is too long: 210000 tokens > 200000 maximum&&&say:went on]]"
    ended = lab.turn(f"Read it all, {resume}. {calls} {once}")
    assert ended.code != 0
    argv = [sys.executable, "-m", "ctxtop", "recover", ended.session_id, "--apply", "--json"]
    argv += ["--config-dir", str(lab.config), "--db", str(lab.store)]
    tools = lab.root / "bin"
    tools.mkdir()
    (tools / "claude").symlink_to(lab.client)
    accept_trust_dialog(lab.config / ".claude.json", lab.project)
    env = lab.env | {"PATH": f"{tools}:{lab.env['PATH']}"}
    mended = lab.namespace.run(argv, lab.root, env, 120.0)
    assert mended.code == 0, mended.err
    said = json.loads(mended.out)
    assert said["resumed"]["answered"], said["resumed"]
    asked = lab.new_exchanges()[0]["body"]["messages"][-1]
    wanted = "Continue" if resume == "continue" else "Read it all, "
    assert wanted in json.dumps(asked)
    assert "went on" in json.dumps(lab.transcript(said["receipt"]["new_session_id"])[-12:])
