"""The module in the real client: what it pushes is what the API counted, and it does no harm."""

from __future__ import annotations

import json
import shutil
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.core.measure.evidence import compare_measurements
from ctxtop.core.model.context_window import ClaimSource
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import log_queries

from tests.log_rows import log_rows

from .lab import LARGE, SMALL
from .ledger import is_main
from .plugin import install_module
from .script import SUMMED

if TYPE_CHECKING:
    from pathlib import Path

    from .lab import Json, Lab
    from .ledger import Judge

pytestmark = pytest.mark.usefixtures("terminal")

INPUT = SUMMED[:3]


def pushed(lab: Lab, session_id: str) -> list[Any]:
    with closing(open_reader(lab.store)) as db:
        assert log_queries.bad_log_lines(db) == []
        return log_rows(db, "measurement", session_id)


def counted(lab: Lab, session_id: str) -> list[Json]:
    """What the API counted for each request of the conversation, oldest first."""
    lab.new_exchanges()
    return [
        one["usage"]
        for one in lab.exchanges
        if is_main(one, session_id) and one["body"].get("stream") and one["what"] == "answer"
    ]


@pytest.mark.parametrize("model", [SMALL, LARGE])
def test_what_is_pushed_is_what_the_api_counted(lab: Lab, judge: Judge, model: str) -> None:
    screen = lab.interactive("--plugin-dir", str(install_module(lab)), model=model)
    session_id = screen.session_id
    for usage in (29_000, 57_499, 145_000):
        status = screen.ask(f"Next. [[bash:echo hi&&&usage:20000]] [[say:ok&&&usage:{usage}/12]]")
        context = judge.status(status).context
        rows = [row for row in pushed(lab, session_id) if row.kind == "session.measure"]
        turns = [row for row in pushed(lab, session_id) if row.kind == "turn.complete"]
        last = counted(lab, session_id)[-1]
        assert rows[-1].context_tokens == sum(last[name] for name in INPUT) == usage
        assert context.tokens == usage
        assert rows[-1].window_tokens == status["context_window"]["context_window_size"]
        assert (context.window.tokens, context.window.source) == (
            rows[-1].window_tokens,
            ClaimSource.PLUGIN,
        )
    assert (len(rows), len(turns)) == (3, 3)
    with closing(open_reader(lab.store)) as db:
        found = compare_measurements(log_queries.measurement_comparisons(db))
    assert (found.equal, found.not_comparable, found.different) == (1, 0, ())


def test_a_run_without_a_screen_pushes_too(lab: Lab, judge: Judge) -> None:
    plugin = install_module(lab)
    turn = lab.turn("Hi. [[say:ok&&&usage:31000]]", more=("--plugin-dir", str(plugin)))
    judge.turn(turn)
    found = {row.kind: row for row in pushed(lab, turn.session_id)}
    assert set(found) == {"turn.complete", "session.measure"}
    assert found["session.measure"].context_tokens == 31_000


def test_an_agent_s_turn_is_told_as_its_own(lab: Lab) -> None:
    lab.define_agent("worker")
    screen = lab.interactive("--plugin-dir", str(install_module(lab)))
    screen.ask("Delegate. [[agent:worker|Build it <<say:Built.+++usage:9000/40>>&&&usage:30000]]")
    screen.settle()
    view = lab.ctxtop()
    (agent,) = [each for each in view.agents if each.session_id == screen.session_id]
    rows = pushed(lab, screen.session_id)
    (own,) = [row for row in rows if row.agent_id == agent.agent_id]
    assert own.kind == "turn.complete"
    assert {row.agent_id for row in rows if row.kind == "session.measure"} == {None}


def test_an_installed_plugin_s_module_is_loaded(lab: Lab, judge: Judge) -> None:
    shutil.move(install_module(lab), lab.config / "skills" / "ctxtop")
    turn = lab.turn("Hi. [[say:ok&&&usage:31000]]")
    judge.turn(turn)
    assert {row.kind for row in pushed(lab, turn.session_id)} == {
        "turn.complete",
        "session.measure",
    }


def test_the_plugin_is_valid(lab: Lab) -> None:
    argv = [str(lab.client), "plugin", "validate", str(install_module(lab))]
    ended = lab.namespace.run(argv, lab.project, lab.env)
    assert ended.code == 0, ended.out


@pytest.mark.parametrize("how", ["no settings", "garbage", "no program", "it hangs", "it fails"])
def test_a_client_whose_ctxtop_is_gone_notices_nothing(lab: Lab, how: str) -> None:
    plain = _timed(lab)
    plugin = install_module(lab)
    settings = plugin / "hooks" / "register.json"
    command = {
        "no program": ["/nowhere/python"],
        "it hangs": ["sleep", "60"],
        "it fails": ["false"],
    }
    if how == "no settings":
        settings.unlink()
    elif how == "garbage":
        settings.write_text('{"command": [', encoding="utf-8")
    else:
        about = {"command": command[how], "folder": "/nowhere/asking"}
        settings.write_text(json.dumps(about), encoding="utf-8")
    took = _timed(lab, "--plugin-dir", str(plugin))
    print(f"{how}: {took:.2f} s, without a module {plain:.2f} s")
    # At the end of a run it waits for one command at the most; what else a run takes varies with
    # what the machine does besides.
    assert took < 2 * plain + 3.0


def _timed(lab: Lab, *more: str) -> float:
    began = time.monotonic()
    turn = lab.turn("Hi. [[bash:echo hi&&&usage:20000]] [[say:fine&&&usage:31000]]", more=more)
    assert (turn.code, turn.said.get("result"), turn.err) == (0, "fine", "")
    return time.monotonic() - began


def test_an_idle_client_is_hardly_busier(lab: Lab) -> None:
    import psutil

    screen = lab.interactive("--plugin-dir", str(install_module(lab)))
    screen.ask("Hi. [[say:ok&&&usage:31000]]")
    client = psutil.Process(screen.entry()["pid"])
    time.sleep(2)
    before = client.cpu_times()
    time.sleep(10)
    after = client.cpu_times()
    used = after.user + after.system - before.user - before.system
    print(f"an idle client with the module: {used / 10:.1%} of a core")
    assert used < 1.0


def test_the_log_is_for_its_owner_alone(lab: Lab) -> None:
    plugin = install_module(lab)
    lab.turn("Hi. [[say:ok&&&usage:31000]]", more=("--plugin-dir", str(plugin)))
    logs: Path = lab.store.parent / f"{lab.store.name}.logs"
    assert logs.stat().st_mode & 0o777 == 0o700
    assert (logs / "plugin.jsonl").stat().st_mode & 0o777 == 0o600
