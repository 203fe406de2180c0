"""Recognize the client's permission prompt on a screen, and compare it with the pending call.

The prompt as 2.1.329 draws it (seen), at the bottom of its pane:

    ─────────────────────────
     Bash command                        the tool; for an agent's call "· from the X agent"
     Run it                              the description
    ╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌
     mkdir one                           two and more rows each begin with │
    ╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌
     This command requires approval      notes of the client, then an empty row; often none
     Do you want to proceed?
     ❯ 1. Yes                            the cursor is on the sign
       2. Yes, and don't ask again for … in most prompts
       3. No

     Esc to cancel · Tab to amend

Both kinds of rules fill the pane's width from its first column, where no text of a call is drawn:
a command cannot draw one. A prompt without a body, as of an MCP tool that takes nothing, has no
dashed rules, and its subject is one row. A prompt higher than the pane loses its beginning and says
"↑ 9 more lines". What is typed into "Yes" or "No" (Tab) changes that option's text.
"""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from .tmux_panes import PaneScreen, strip_escapes

SOLID_RULE, DASHED_RULE = "─", "╌"
MIN_PANE_CELLS: Final = 20  # a narrower pane shows no prompt that can be trusted
GUTTER: Final = " │"
CURSOR_SIGN: Final = "❯"
CURSOR_COLUMN: Final = 1
YES: Final = "Yes"
NO_TEXTS: Final = frozenset({"No", "No, and tell Claude what to do differently (esc)"})
AMEND_START: Final = ", and tell Claude what to do"

_AGENT: Final = re.compile(r"(?P<title>.+?) · from the (?P<agent>.+) agent")
_OPTION: Final = re.compile(r" (?P<sign>❯| ) (?P<number>\d)\. (?P<text>\S.*)")
_CONTINUED: Final = re.compile(r" {6}\S")
_MORE_LINES: Final = re.compile(r" ↑ \d+ more lines?")
_FOOTER: Final = re.compile(r" (?:One-time Yes only: places not shown · )?Esc to cancel.*")
# Rows of the client's own in the first column of a difference: lines or places that are not shown.
_UNSHOWN: Final = re.compile(
    r"\.\.\.|The diff doesn't show all of .*|(?:\d+ )?places in the file\."
)


class PromptRefusedError(Exception):
    """It is not proved what a key would answer, or no key may be sent; one line says why."""


class PermissionPrompt(msgspec.Struct, frozen=True):
    """What a permission prompt shows; the rows of a text keep their line ends."""

    title: str  # as "Bash command"
    agent: str  # the type of the agent that asks; empty for the session itself
    subject: str  # below the title: a description, a file
    body: str  # between the dashed rules: the command, the content
    notes: str  # of the client about the call; mostly empty
    question: str
    options: tuple[str, ...]

    @property
    def yes_key(self) -> str:
        return "1"

    @property
    def no_key(self) -> str:
        return str(len(self.options))


def read_permission_prompt(screen: PaneScreen) -> PermissionPrompt:
    """Read the prompt at the bottom of a screen; raises PromptRefusedError for anything else."""
    rows = [strip_escapes(row).replace("\xa0", " ").rstrip() for row in screen.text.split("\n")]
    top = _find_top(rows)
    dashed = [place for place in range(top, len(rows)) if _is_rule(rows[place], DASHED_RULE)]
    if len(dashed) not in {0, 2}:
        raise PromptRefusedError(NO_PROMPT)
    # Without a body there are no dashed rules: the question follows the subject's one row.
    first, second = dashed or (top + 3, top + 2)
    if first < top + 2:
        raise PromptRefusedError(NO_PROMPT)
    start = _find_options(rows, second)
    options = _read_options(rows, start, screen.cursor)
    notes, question = _read_question(rows[second + 1 : start])
    title, agent = _read_title(rows[top + 1])
    body = [f" {row}" if _UNSHOWN.fullmatch(row) else row for row in rows[first + 1 : second]]
    return PermissionPrompt(
        title=title,
        agent=agent,
        subject=_read_text(rows[top + 2 : first]),
        body=_read_text(body),
        notes=notes,
        question=question,
        options=options,
    )


NO_PROMPT: Final = "its pane shows something other than a Claude Code permission prompt"
CUT_OFF: Final = "the prompt does not fit in its pane: make the pane taller, or answer there"


def _find_top(rows: Sequence[str]) -> int:
    """Return the row of the last solid rule, below which the prompt is."""
    rules = [place for place, row in enumerate(rows) if _is_rule(row, SOLID_RULE)]
    is_cut = any(_MORE_LINES.fullmatch(row) for row in rows[rules[-1] if rules else 0 :])
    if is_cut:
        raise PromptRefusedError(CUT_OFF)
    if not rules:
        raise PromptRefusedError(NO_PROMPT)
    return rules[-1]


def _is_rule(row: str, sign: str) -> bool:
    return len(row) >= MIN_PANE_CELLS and set(row) == {sign}


def _read_title(row: str) -> tuple[str, str]:
    title = row.removeprefix(" ")
    if not title or title == row or title.startswith(" "):
        raise PromptRefusedError(NO_PROMPT)
    found = _AGENT.fullmatch(title)
    return (found["title"], found["agent"]) if found else (title, "")


def _read_text(rows: Sequence[str]) -> str:
    """Join the rows of a text; several ones have a gutter, or none of them has."""
    if any(row and not row.startswith(" ") for row in rows):
        raise PromptRefusedError(NO_PROMPT)
    has_gutter = len(rows) > 1 and all(row.startswith(GUTTER) for row in rows)
    cut = len(GUTTER) + 1 if has_gutter else 1
    return "\n".join(row[cut:] for row in rows)


def _find_options(rows: Sequence[str], after: int) -> int:
    for place in range(after + 1, len(rows)):
        found = _OPTION.fullmatch(rows[place])
        if found and found["number"] == "1":
            return place
    raise PromptRefusedError(NO_PROMPT)


def _read_question(rows: Sequence[str]) -> tuple[str, str]:
    """Split the notes and the question, between which a row is empty."""
    *notes, question = rows or [""]
    if any(row and not row.startswith(" ") for row in rows) or not question.strip():
        raise PromptRefusedError(NO_PROMPT)
    if not notes:
        return "", question.strip()
    # A long question is wrapped into the row above.
    gap = max((place for place, row in enumerate(notes) if not row), default=-1)
    wrapped = [*notes[gap + 1 :], question]
    note = _read_text(notes[: max(gap, 0)]).strip().removeprefix(GUTTER.strip()).strip()
    return note, " ".join(row.strip() for row in wrapped)


def _read_options(rows: Sequence[str], start: int, cursor: tuple[int, int]) -> tuple[str, ...]:
    """Read the options and all that follows them, down to the last row."""
    options: list[str] = []
    selected: list[int] = []
    place = start
    while place < len(rows) and rows[place]:
        found = _OPTION.fullmatch(rows[place])
        if found and found["number"] == str(len(options) + 1):
            options.append(found["text"])
            if found["sign"] == CURSOR_SIGN:
                selected.append(place)
        elif options and _CONTINUED.match(rows[place]):
            options[-1] += f" {rows[place].strip()}"
        else:
            raise PromptRefusedError(NO_PROMPT)
        place += 1
    rest = [row for row in rows[place:] if row]
    if len(rest) > 1 or not all(map(_FOOTER.fullmatch, rest)):
        raise PromptRefusedError(NO_PROMPT)
    if any(AMEND_START in option for option in options if option not in NO_TEXTS):
        raise PromptRefusedError("someone is typing an answer into its prompt")
    is_complete = len(options) in {2, 3} and options[0] == YES and options[-1] in NO_TEXTS
    if not is_complete or [(CURSOR_COLUMN, each) for each in selected] != [cursor]:
        raise PromptRefusedError(NO_PROMPT)
    return tuple(options)
