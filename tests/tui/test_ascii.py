"""`--ascii`: every screen in ASCII's signs, and each sign still tells one thing from another."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ctxtop.collectors.locations.places import PolicySources
from ctxtop.tui.text.ascii_signs import ASCII_TABLE, to_ascii
from ctxtop.tui.text.formats import shorten_middle
from msgspec.structs import replace as with_fields
from rich.cells import cell_len

from .support import opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from .ended import Ended
    from .support import Opened, Stage


def plainly(stage: Stage) -> Stage:
    sources = PolicySources((("ui.ascii", "true"),))
    return replace(stage, places=with_fields(stage.places, policy=sources))


def check(it: Opened) -> None:
    """Every cell is ASCII, but for what a transcript's own words have."""
    said = {sign for one in it.stage.sessions for sign in one.title}
    said |= {sign for one in it.app.fleet.shown for sign in one.last_prompt or ""}
    odd = {sign for line in it.lines for sign in line if not sign.isascii()} - said
    assert odd == set()


def test_each_sign_is_as_wide_as_what_stands_for_it() -> None:
    assert all(
        cell_len(chr(sign)) == len(str(words)) and str(words).isascii()
        for sign, words in ASCII_TABLE.items()
    )


def test_what_stands_in_one_column_stays_apart() -> None:
    for signs in ("●○▲✗†", "✓✗≈–", "█▁▃▏", "┌─│"):
        assert len(set(to_ascii(signs))) == len(signs), signs


def test_a_cut_is_seen_and_its_width_stays() -> None:
    path = shorten_middle("/home/dev/project/src/module/file.py", 20)
    assert to_ascii(path) == "/home/dev/~e/file.py"
    assert to_ascii("…") != to_ascii("▂")
    assert to_ascii("✂ 3 superseded later") == "X 3 superseded later"


def test_letters_of_a_language_stay() -> None:
    assert to_ascii("Größe 汉字 שלום") == "Größe 汉字 שלום"


async def test_every_screen_is_in_ascii(demo: Stage) -> None:
    async with opened(plainly(demo)) as it:
        await it.mark("Ship the wishlist")
        for size in ((60, 20), (80, 24), (120, 40), (200, 60)):
            await it.resize(size)
            check(it)
            assert "####" in it.words
            for key in ("2", "3", "z", "z", "slash", "escape", "question_mark", "escape", "M"):
                await it.press(key)
                check(it)
            await it.press("escape", "1", "enter")
            await it.reading()
            check(it)
            await it.press("escape", "colon")
            await it.until(lambda: "A command, or" in it.words)
            check(it)
            await it.press("escape")


async def test_the_keys_are_named_where_there_is_no_sign_for_them(demo: Stage) -> None:
    async with opened(plainly(demo)) as it:
        assert "enter Open" in it.lines[-1]


async def test_the_environment_asks_for_it_too(demo: Stage) -> None:
    sources = PolicySources(environ={"CTXTOP_ASCII": "1"})
    stage = replace(demo, places=with_fields(demo.places, policy=sources))
    async with opened(stage) as it:
        check(it)


def test_a_table_of_a_command(call_ctxtop: Callable[..., Ended], demo: Stage) -> None:
    where = ("--config-dir", str(demo.root))
    assert not call_ctxtop("sessions", *where).out.isascii()
    said = {sign for one in demo.sessions for sign in one.title}
    for words in (("--ascii", "sessions", *where), ("sessions", *where, "--ascii")):
        out = call_ctxtop(*words).out
        assert {sign for sign in out if not sign.isascii()} <= said
        assert "####" in out
