"""What is known of one session: what fills it, what its compactions forgot."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

from ctxtop.collectors import composing
from ctxtop.core.store.log_facts import Log
from ctxtop.tui.screens.session import BEING_READ

from ..logs import lines, log_file
from .support import NOW, opened
from .writing import answer, append, boundary, prompt, session_file

if TYPE_CHECKING:
    import pytest

    from .support import Opened, Stage


def section(it: Opened, name: str) -> list[str]:
    """The lines below a heading, to the next empty one; however the terminal wraps them."""
    lines = [line.strip() for line in it.text.split("\n")]
    after = lines[lines.index(name) + 1 :]
    return after[: after.index("")] if "" in after else after


async def test_what_fills_it_adds_up_and_names_the_largest(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.mark("Fix the flaky")
        await it.press("enter")
        await it.reading()
        head, *shares = section(it, "What fills it")
        assert head.startswith("163 k tokens in context (measured), by its transcript, then ≈")
        names = [" ".join(line.split()[:2]) for line in shares if line]
        assert names[0] == "tool results"
        assert {"Bash", "Read"} <= {name.split()[0] for name in names[1:3]}
        assert sum(percents(shares, "tool results", "unexplained", "system tools")) > 85
        largest = section(it, "the largest")
        assert len(largest) == 10
        assert "Bash npm test -- --run" in largest[0]
        assert "same call again" in "\n".join(largest)


def percents(lines: list[str], *names: str) -> list[int]:
    """The shares of the categories of these names."""
    return [int(line.split("%")[0].split()[-1]) for line in lines if line.startswith(tuple(names))]


async def test_what_a_compaction_forgot_stands_below_it(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.mark("Staging cluster")
        await it.press("enter")
        await it.reading()
        told = "\n".join(section(it, "Compactions"))
        assert "auto: 172 k → ≈7.4 k" in told
        assert "manual: 151 k → ≈6.2 k" in told
        assert "forgot files" in told


async def test_the_report_is_there_before_what_fills_it_is_read(
    demo: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, go_on = composing.read_composition, threading.Event()

    def slow(*given: Any) -> Any:  # noqa: ANN401
        assert go_on.wait(10)
        return real(*given)

    monkeypatch.setattr(composing, "read_composition", slow)
    async with opened(demo) as it:
        await it.mark("Fix the flaky")
        await it.press("enter")
        await it.until(lambda: BEING_READ in it.words)
        assert "163,412 tokens, measured" in it.words
        append(demo.titled("Move checkout").transcript, answer(134_000))
        await it.until(lambda: "134 k" in " ".join(it.rows().values()))
        await it.press("escape", "j", "enter")
        await it.until(lambda: BEING_READ in it.words)
        go_on.set()
        await it.reading()
        assert "sessions › Move checkout" in it.lines[0]
        assert section(it, "What fills it")[0].startswith("128 k tokens")


async def test_a_transcript_that_is_gone_is_one_line(stage: Stage) -> None:
    path = session_file(stage.root, 1)
    append(path, prompt("Fill it", 0), answer(100_000, 0))
    async with opened(stage) as it:
        path.unlink()
        await it.press("enter")
        await it.reading()
        words = " ".join(section(it, "What fills it"))
        assert "cannot be read: No such file" in words


async def test_a_fault_is_told_where_the_answer_would_stand(
    demo: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:  # noqa: ANN401
        raise RuntimeError("[/foo] is broken")

    monkeypatch.setattr(composing, "read_composition", broken)
    async with opened(demo) as it:
        await it.press("enter")
        await it.reading()
        words = " ".join(section(it, "What fills it"))
        assert "[/foo] is broken" in words
        assert "please report it" in words
        assert it.app.feed.lookup._worker._thread is not None
        assert it.app.feed.lookup._worker._thread.is_alive()


async def test_a_narrow_terminal_breaks_between_words_and_below_the_value(demo: Stage) -> None:
    async with opened(demo, (80, 24)) as it:
        await it.mark("Fix the flaky")
        await it.press("enter")
        await it.reading()
        lines = it.text.split("\n")
        place = next(number for number, line in enumerate(lines) if "compaction" in line)
        assert lines[place].endswith("98 % of the")
        assert lines[place + 1] == " " * 18 + "way"
        assert max(len(line) for line in lines if "/" not in line) <= 74


async def test_what_a_compaction_was_asked_to_keep_stands_below_it(stage: Stage) -> None:
    path = session_file(stage.root, 1)
    append(path, prompt("You must never push."), answer(150_000, 1))
    asked = {"session_id": path.stem, "kind": "constraint", "text": '"You must never push."'}
    at = int(NOW.timestamp() * 1000) + 5_000
    record = {"v": 1, "at": at, "pid": 7, "event": "steer", "given": asked}
    log_file(stage.places.store, Log.ANSWERS).write_bytes(lines([json.dumps(record).encode()]))
    append(path, boundary(9_000, 6), prompt("Go on", 7), answer(12_000, 8))
    async with opened(stage) as it:
        await it.mark("You must")
        await it.press("enter")
        await it.reading()
        told = "\n".join(section(it, "Compactions"))
        assert "asked to keep 1 thing" in told
