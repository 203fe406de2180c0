"""A session that ended in "prompt is too long": mended by `ctxtop recover`, and resumed."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.compaction.recovery.truncate import TRUNCATION_MESSAGE
from ctxtop.tui.cli import main

if TYPE_CHECKING:
    from .lab import Lab

TOO_LONG = "[[error:400 prompt is too long: 210000 tokens > 200000 maximum]]"


@pytest.mark.parametrize("model", ["claude-haiku-4-5"])
def test_the_client_goes_on_after_it(
    lab: Lab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    lab.write_settings({"autoCompactEnabled": False})
    file = lab.project / "long.txt"
    # 26,000 characters a result is what the client lets through; two of them are to go.
    file.write_text("nothing that matters here\n" * 1000, encoding="utf-8")
    turns = " ".join(["[[think:Hm.&&&bash:cat long.txt]]"] * 12)
    session_id = lab.turn(f"Read. {turns} {TOO_LONG}", model=model).session_id
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
    assert said["step"] == "truncate_largest"
    fork = said["receipt"]["new_session_id"]
    turn = lab.turn("Go on. [[say:done]]", resume=fork, model=model)
    sent = json.dumps(turn.exchanges[-1]["body"])
    truncated = [each for each in said["plan"]["operations"] if each["level"] == 3]
    assert turn.code == 0
    assert sent.count(TRUNCATION_MESSAGE) == len(truncated)
