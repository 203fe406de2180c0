"""What a person is shown before they approve: all of it, with nothing hidden."""

from __future__ import annotations

import unicodedata

import pytest
from ctxtop.core.transcript.sanitize import reveal_line, reveal_text, sanitize_text
from ctxtop.tui.text.whole_text import MAX_BLANKS, MAX_EMPTY_LINES, whole_text
from ctxtop.tui.widgets.whole_text_pane import NOTE_STYLE, whole_content

HIDDEN = "ls -la" + "\n" * 35 + "touch pwned"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (HIDDEN, "ls -la\n<34 empty lines>\ntouch pwned"),
        (HIDDEN.replace("\n", " \t\n"), "ls -la  \n<34 empty lines>\ntouch pwned"),
        (HIDDEN.replace("\n", "\r\n"), "ls -la\n<34 empty lines>\ntouch pwned"),
        ("\n" * 5 + "a", "<5 empty lines>\na"),
        ("a" + "\n" * 5, "a\n<4 empty lines>\n"),
        ("a\n" + "\n" * MAX_EMPTY_LINES + "b", "a\n" + "\n" * MAX_EMPTY_LINES + "b"),
        ("\n\n", "\n\n"),
        ("", ""),
        ("ls" + " " * 3000 + "; rm x", "ls<3,000 spaces>; rm x"),
        ("ls" + "\t" * 500 + "; rm x", "ls<500 tabs>; rm x"),
        ("ls" + "\t " * 500 + "; rm x", "ls<1,000 blanks>; rm x"),
        (" " * MAX_BLANKS + "deep", " " * MAX_BLANKS + "deep"),
        ("\tx", "    x"),
    ],
)
def test_what_is_empty_is_counted(text: str, shown: str) -> None:
    assert whole_text(text).rstrip(" ") == shown.rstrip(" ")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u202etxt.exe", "a<U+202E>txt.exe"),
        ("a\u200bb\u2060c\ufeffd", "a<U+200B>b<U+2060>c<U+FEFF>d"),
        ("rm /tmp\u00a0x \u3000y \u2800z", "rm /tmp<U+00A0>x <U+3000>y <U+2800>z"),
        ("a\rb\x1b[31mc\x08", "a<U+000D>b<U+001B>[31mc<U+0008>"),
        ("a\u2028touch b\x85c", "a<U+2028>touch b<U+0085>c"),
        ("a\U000e0041\U000e007f", "a<U+E0041><U+E007F>"),
        ("a\ud800", "a<U+D800>"),
        ("a\u200db", "a<U+200D>b"),
        ("a\u3164b\ufe0f", "a<U+3164>b<U+FE0F>"),
        # What writing systems need is seen.
        ("👨\u200d👩\u200d👧 ⚠\ufe0f", "👨\u200d👩\u200d👧 ⚠\ufe0f"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("日本語 é ü", "日本語 é ü"),
    ],
)
def test_what_is_not_seen_is_written_as_its_code(text: str, shown: str) -> None:
    assert reveal_text(text) == shown
    assert reveal_text(shown) == shown


def test_nothing_that_is_removed_elsewhere_is_removed_here() -> None:
    for code in range(0x110000):
        char = chr(code)
        if char not in "\n\t" and (sanitize_text(f"a{char}b") != f"a{char}b"):
            assert reveal_text(f"a{char}b") == f"a<U+{code:04X}>b"


def test_every_blank_but_the_space_is_written_as_its_code() -> None:
    for code in range(0x110000):
        char = chr(code)
        if unicodedata.category(char)[0] in "ZC" and char not in " \n\t":
            assert reveal_text(f"a{char}b") == f"a<U+{code:04X}>b"


def test_a_line_has_no_line_ends() -> None:
    assert reveal_line("a\nb\tc\r\nd") == "a<U+000A>b<U+0009>c<U+000D><U+000A>d"


def test_what_stands_for_something_else_is_marked() -> None:
    content = whole_content(["ls", ("\u202e" + "\n" * 9 + "rm", "$foreground")])
    marked = {
        content.plain[each.start : each.end] for each in content.spans if each.style == NOTE_STYLE
    }
    assert marked == {"<U+202E>", "<8 empty lines>"}


def test_a_text_alone_is_described_as_one() -> None:
    assert whole_content(HIDDEN).plain == "ls -la\n<34 empty lines>\ntouch pwned"
