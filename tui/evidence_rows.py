"""Why ctxtop believes its numbers: each with its source, how sure it is, and what says no."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from textual.content import Content

from ..core.claims import WORDS
from ..core.context import ContextState
from ..core.reasons import Standing, Subject, Sureness
from ..core.trigger import Trigger
from .formats import NOTHING, fit, fit_right, percent
from .sections import Listing, heading, lines, quiet
from .widgets.row_list import Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..core.context import Context
    from ..core.reasons import Reason

NAME_CELLS: Final = 16
VALUE_CELLS: Final = 11
SURE_CELLS: Final = 10
SIGN_CELLS: Final = 2
SURE_FROM: Final = 70
"""Cells from which a column says how sure a source is."""

_SIGNS: Final = {
    Standing.BELIEVED: ("✓", "$level-calm"),
    Standing.AGREES: ("=", "$quiet"),
    Standing.CONTRADICTS: ("✗", "$level-warning"),
    Standing.REPLACED: ("·", "$quiet"),
}
_STANDS: Final = {
    Standing.BELIEVED: "This is what ctxtop believes: of all that is known it is the strongest.",
    Standing.AGREES: "It says the same as what is believed.",
    Standing.CONTRADICTS: "It says something else than what is believed, which is stronger.",
    Standing.REPLACED: "It says something else, and is used only where nothing was seen.",
}
_SURE: Final = {
    Sureness.CERTAIN: "Certain: the client itself says so, or a person decides it.",
    Sureness.SEEN: "Seen: what happened in this session shows it.",
    Sureness.LIKELY: "Likely: it held wherever it was looked at, not in this session.",
    Sureness.ASSUMED: "Assumed: nothing tells, so it is the usual value.",
}
_FILL: Final = {
    ContextState.MEASURED: "the last answer's input: fresh, written to and read from the cache",
    ContextState.ESTIMATED: "estimated since a compaction or an edit; the next answer measures it",
    ContextState.UNKNOWN: "no answer yet",
}


@dataclass(frozen=True, slots=True)
class Fact:
    """A line of the table."""

    key: str
    name: str
    value: str
    source: str
    certainty: str
    standing: Standing
    meaning: str
    """What it is, for who sees it the first time."""


def sign_of(standing: Standing) -> tuple[str, str]:
    """Give the sign of how a claim stands, and its style."""
    return _SIGNS[standing]


def facts_of(context: Context, reasons: Sequence[Reason]) -> tuple[Fact, ...]:
    """Put the four numbers of a context, then every claim of its window and trigger, in a row."""
    return (*_numbers(context), *_claims(reasons))


def evidence_listing(context: Context, reasons: Sequence[Reason], width: int) -> Listing:
    """List them as a table."""
    facts = facts_of(context, reasons)
    head = _columns("", "what", "tokens", "sure", "how ctxtop knows", width, "$quiet", "$quiet")
    rows = tuple(Row(fact.key, _row(fact, width)) for fact in facts)
    return Listing(rows, head, "nothing is known yet")


def evidence_detail(context: Context, reasons: Sequence[Reason], key: str) -> Content:
    """Explain a line, and name what contradicts it."""
    facts = facts_of(context, reasons)
    fact = next((each for each in facts if each.key == key), None)
    if fact is None:
        return Content("")
    sign, style = _SIGNS[fact.standing]
    parts = [
        heading(f"{fact.name}: {fact.value}"),
        Content(fact.source[:1].upper() + fact.source[1:] + "."),
        Content(""),
        Content(fact.meaning),
    ]
    if isinstance(found := _reason(reasons, key), tuple):
        reason, others = found
        parts += [
            Content(""),
            Content.styled(f"{sign} {_STANDS[fact.standing]}", style),
            quiet(_SURE[reason.certainty]),
        ]
        against = [each for each in others if each.status is Standing.CONTRADICTS]
        if reason.status is Standing.BELIEVED and against:
            parts += [Content(""), heading("What contradicts it")]
            parts += [
                Content.styled(f"✗ {_size(each)}: {WORDS[each.claim.source]}", "$level-warning")
                for each in against
            ]
    return lines(*parts)


def _reason(reasons: Sequence[Reason], key: str) -> tuple[Reason, list[Reason]] | None:
    for reason in reasons:
        if _key(reason) == key:
            return reason, [
                each for each in reasons if each.subject is reason.subject and each != reason
            ]
    return None


def _numbers(context: Context) -> Iterator[Fact]:
    numbers = context.token_counts
    counted = "certain" if context.state is ContextState.MEASURED else "likely"
    yield _number(
        "fill",
        "in context",
        context.tokens,
        _FILL[context.state],
        counted,
        "What the model saw with the last request: the number that is set against the window, as"
        f" the client's status line does. Now it is {percent(context.ratio)} of it.",
    )
    yield _number(
        "counter",
        "counter",
        numbers.counter,
        "the last answer with its output, and an estimate of what follows it",
        "likely",
        "What the client compares with its trigger before each request. It runs ahead of what is"
        f" in context. Now it is {percent(context.trigger_ratio)} of the way.",
    )
    yield _number(
        "hook",
        "hooks are told",
        numbers.hook,
        "the last answer with its output",
        "likely",
        "What a hook gets as context_tokens when the session is resumed.",
    )
    yield _number(
        "report",
        "/context said",
        numbers.report,
        "the total of the last /context" if numbers.report else "/context was not asked for",
        "seen",
        "The client's own report counts each category by itself, so it differs a little.",
    )


def _number(key: str, name: str, size: int | None, how: str, sure: str, meaning: str) -> Fact:
    value = NOTHING if size is None else f"{size:,}"
    shown = Standing.BELIEVED if size is not None else Standing.REPLACED
    return Fact(key, name, value, how, sure if size is not None else "", shown, meaning)


_MEANS: Final = {
    Subject.WINDOW: "The window is what the model can take at most: the gauge is drawn against it.",
    Subject.TRIGGER: "The trigger is where the client compacts by itself, by its own counter.",
}


def _claims(reasons: Iterable[Reason]) -> Iterator[Fact]:
    for reason in reasons:
        yield Fact(
            _key(reason),
            "compacts at" if reason.subject is Subject.TRIGGER else "window",
            _size(reason),
            _how(reason),
            reason.certainty.value,
            reason.status,
            _MEANS[reason.subject],
        )


def _key(reason: Reason) -> str:
    return f"{reason.subject} {reason.claim.source}"


def _size(reason: Reason) -> str:
    return "never" if reason.claim.tokens is None else f"{reason.claim.tokens:,}"


def _how(reason: Reason) -> str:
    claim = reason.claim
    return Trigger(None, claim.source).why if claim.tokens is None else WORDS[claim.source]


def _row(fact: Fact, width: int) -> Content:
    sign, style = _SIGNS[fact.standing]
    loud = fact.standing in {Standing.BELIEVED, Standing.CONTRADICTS}
    words = style if fact.standing is Standing.CONTRADICTS else "$foreground"
    return _columns(
        sign,
        fact.name,
        fact.value,
        fact.certainty,
        fact.source,
        width,
        style,
        words if loud else "$quiet",
    )


def _columns(
    sign: str, name: str, value: str, sure: str, how: str, width: int, sign_style: str, style: str
) -> Content:
    sure_cells = SURE_CELLS if width >= SURE_FROM else 0
    room = max(1, width - SIGN_CELLS - NAME_CELLS - VALUE_CELLS - sure_cells - 2)
    return Content.assemble(
        (fit(sign, SIGN_CELLS), sign_style),
        (fit(name, NAME_CELLS), style),
        (fit_right(value, VALUE_CELLS), style),
        "  ",
        (fit(sure, sure_cells), "$quiet"),
        (fit(how, room), style),
    )
