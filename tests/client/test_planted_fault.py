"""A fault of ours in one session's file leaves what the client wrote for the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.claude_code.transcripts import line_indexer
from ctxtop.core.store.bulkhead import take_faults

from ..transcripts import attachment, encode

if TYPE_CHECKING:
    from .lab import Lab
    from .ledger import Judge

OK = "[[say:ok&&&usage:22000]]"


def test_a_planted_fault_leaves_the_other_sessions(
    lab: Lab, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = lab.turn(f"Fix it. [[bash:seq 1 20&&&usage:21000]] {OK}")
    sound = lab.turn(f"Look at it. [[bash:seq 1 20&&&usage:21000]] {OK}")
    judge.turn(sound)
    real = line_indexer._index_line

    def index_or_fail(builder: Any, *rest: Any) -> None:  # noqa: ANN401 -- as _index_line
        if builder.source.session_id == broken.session_id:
            raise LookupError("planted")
        real(builder, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(line_indexer, "_index_line", index_or_fail)
        lab.turn(f"Go on. {OK}", resume=broken.session_id)
        lab.turn("Go on. [[say:ok&&&usage:23500]]", resume=sound.session_id)
        view = lab.ctxtop()
    assert view.sessions[broken.session_id].status == "not_read"
    assert "LookupError: planted" in view.sessions[broken.session_id].problem
    assert view.sessions[sound.session_id].context.tokens == 23_500
    assert [broken.session_id in trouble for trouble in view.troubles] == [True]
    assert list(take_faults()) == []

    # Once nothing is planted any more, all that was written meanwhile is read.
    lab.turn("And now? [[say:ok&&&usage:24500]]", resume=broken.session_id)
    read = lab.ctxtop()
    session = read.sessions[broken.session_id]
    assert (session.problem, session.context.tokens) == ("", 24_500)
    assert read.troubles == []


def test_odd_lines_in_a_transcript_of_the_client_are_bad_lines(lab: Lab) -> None:
    odd = lab.turn(f"Fix it. {OK}")
    sound = lab.turn(f"Look at it. {OK}")
    (path,) = lab.config.rglob(f"{odd.session_id}.jsonl")
    line = encode([attachment("file", content="@")]).replace(b'"@"', b"1e999")
    with path.open("ab") as file:
        file.write(line + b"{}")
    view = lab.ctxtop()
    assert [bad[3] for bad in view.bad_lines] == [
        "unexpected shape: Number out of range - at `$[...]`",
        "unexpected shape: an object without fields",
    ]
    assert view.troubles == []
    assert view.sessions[odd.session_id].context.tokens == 22_000
    lab.turn("Go on. [[say:ok&&&usage:23500]]", resume=sound.session_id)
    lab.turn("And now? [[say:ok&&&usage:24500]]", resume=odd.session_id)
    sessions = lab.ctxtop().sessions
    assert sessions[sound.session_id].context.tokens == 23_500
    assert sessions[odd.session_id].context.tokens == 24_500
