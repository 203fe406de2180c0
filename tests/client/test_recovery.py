"""A session that ended in "prompt is too long": mended by `ctxtop recover`, and resumed."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.compaction.recovery.truncate import TRUNCATION_MESSAGE
from ctxtop.tui.cli import main

from .lab import LARGE, SMALL

if TYPE_CHECKING:
    from .lab import Lab

TOO_LONG = "[[error:400 prompt is too long: 210000 tokens > 200000 maximum]]"


@pytest.mark.parametrize(
    ("model", "ending", "step"),
    [
        (SMALL, TOO_LONG, "truncate_largest"),
        (LARGE, "[[think:So.&&&say:ok]]", "truncate_largest"),
        # The newest thoughts, which a change before them unbinds, must stay while a call is open.
        (LARGE, TOO_LONG, "summarize"),
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
    turns = " ".join(["[[think:Hm.&&&bash:cat long.txt]]"] * 12)
    session_id = lab.turn(f"Read. {turns} {ending}", model=model).session_id
    if ending is not TOO_LONG:
        lab.turn(f"And now? {TOO_LONG}", resume=session_id, model=model)
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
