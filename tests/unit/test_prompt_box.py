"""The client's prompt box on a captured screen: only one that is surely empty is empty."""

from __future__ import annotations

import pytest
from ctxtop.collectors.terminal.via_tmux import PromptBox, find_prompt_box

RULE = "\x1b[38;5;244m" + "─" * 60
CURSOR = "\x1b[7m \x1b[0m\x1b[39m\x1b[49m"
SIGN = "\x1b[39m❯\xa0"
FOOT = "\x1b[39m  \x1b[38;5;246m⏸ manual mode on"


def screen(*typed: str, foot: str = FOOT, above: str = "● ok") -> str:
    """What 2.1.329 draws, with its colors."""
    return "\n".join([above, "", RULE, *typed, RULE, "", foot, ""])


def box(*typed: str, cursor: tuple[int, int] = (2, 3), foot: str = FOOT) -> PromptBox:
    found = find_prompt_box(screen(*typed, foot=foot), cursor)
    assert found is not None
    return found


def is_empty(found: PromptBox) -> bool:
    return found == PromptBox("", has_cursor=True, is_busy=False)


@pytest.mark.parametrize("line", [SIGN + CURSOR, SIGN + "\x1b[7m", "\x1b[38;5;246m❯\xa0" + CURSOR])
def test_an_empty_prompt(line: str) -> None:
    assert is_empty(box(line))


def test_a_suggestion_is_not_typed() -> None:
    assert is_empty(box(f'{SIGN}\x1b[7mT\x1b[0m\x1b[2mry "fix it"\x1b[22m'))
    assert is_empty(box(f"{SIGN}\x1b[2mTry it\x1b[0m"))


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ([f"{SIGN}some draft{CURSOR}"], "some draft"),
        ([f"{SIGN}\x1b[7ms\x1b[27mome draft"], "some draft"),
        ([f"{SIGN}\x1b[7ms\x1b[0m"], "s"),
        ([f"{SIGN}\x1b[38;5;153m/compact\x1b[39m keep"], "/compact keep"),
        ([f"{SIGN}/compact keep every", f"  word of it{CURSOR}"], "/compact keep every word of it"),
        # The second number of a color is no dimness.
        ([f"{SIGN}\x1b[38;5;2mgreen\x1b[39m"], "green"),
        ([f"{SIGN}\x1b[48;2;7;2;1mgreen\x1b[49m"], "green"),
    ],
)
def test_what_was_typed(lines: list[str], text: str) -> None:
    found = box(*lines, cursor=(8, 3))
    assert (found.text, is_empty(found)) == (text, False)


@pytest.mark.parametrize("cursor", [(0, 49), (2, 2), (2, 4), (0, 3)])
def test_a_cursor_elsewhere_types_elsewhere(cursor: tuple[int, int]) -> None:
    assert not is_empty(box(SIGN + CURSOR, cursor=cursor))


def test_a_busy_client_has_an_empty_prompt_too() -> None:
    found = box(SIGN + CURSOR, foot=f"{FOOT} · esc to interrupt")
    assert (found.is_busy, is_empty(found)) == (True, False)


@pytest.mark.parametrize(
    "shown",
    [
        "",
        "$ ",
        # Shell mode.
        screen("!\xa0\x1b[39mls" + CURSOR),
        # A dialog, whose choice is marked by the same sign.
        "─" * 60 + "\n  Do you want to proceed?\n  ❯ 1. Yes\n    2. No\n",
        screen("  Select a model", "  ❯ 1. Opus"),
        # The detailed transcript has one rule.
        "text\n" + "─" * 60 + "\n  Showing detailed transcript · ctrl+o to toggle\n",
        # Two rules with nothing between.
        "─" * 60 + "\n" + "─" * 60 + "\n",
        # Too narrow.
        "─────\n❯\xa0\n─────\n",
    ],
)
def test_what_is_no_prompt(shown: str) -> None:
    assert find_prompt_box(shown, (2, 3)) is None


def test_the_last_box_counts() -> None:
    above = f"{RULE}\n❯\xa0an old draft\n{RULE}"
    found = find_prompt_box(screen(SIGN + CURSOR, above=above), (2, 5))
    assert found is not None
    assert is_empty(found)
