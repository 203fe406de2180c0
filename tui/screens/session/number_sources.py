"""Where a session's numbers come from, how certain each is, and what contradicts it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from textual.content import Content

from ....core.measure.evidence import AssessedClaim, Certainty, ClaimStatus, ClaimSubject
from ....core.measure.trigger import Trigger
from ....core.measure.window import SOURCE_DESCRIPTIONS
from ....core.model.context import Context, ContextState
from ...text.formats import NOTHING, fit_left, fit_right, percent
from ...text.text_lines import heading, join_lines, quiet
from ...widgets.row_list import Listing, Row

NAME_CELLS: Final = 16
VALUE_CELLS: Final = 11
CERTAINTY_CELLS: Final = 10
SIGN_CELLS: Final = 2
CERTAINTY_MIN_WIDTH: Final = 70
"""Cells from which a column says how sure a source is."""

_SIGNS: Final = {
    ClaimStatus.BELIEVED: ("✓", "$level-calm"),
    ClaimStatus.AGREES: ("=", "$quiet"),
    ClaimStatus.CONTRADICTS: ("✗", "$level-warning"),
    ClaimStatus.REPLACED: ("·", "$quiet"),
}
_STANDING_TEXT: Final = {
    ClaimStatus.BELIEVED: "This is what ctxtop believes: of all that is known it is the strongest.",
    ClaimStatus.AGREES: "It says the same as what is believed.",
    ClaimStatus.CONTRADICTS: "It says something else than what is believed, which is stronger.",
    ClaimStatus.REPLACED: "It says something else, and is used only where nothing was seen.",
}
_CERTAINTY_TEXT: Final = {
    Certainty.CERTAIN: "Certain: the client itself says so, or a person decides it.",
    Certainty.SEEN: "Seen: what happened in this session shows it.",
    Certainty.LIKELY: "Likely: it held wherever it was looked at, not in this session.",
    Certainty.ASSUMED: "Assumed: nothing tells, so it is the usual value.",
}
_CONTEXT_SOURCES: Final = {
    ContextState.MEASURED: "the last answer's input: fresh, written to and read from the cache",
    ContextState.ESTIMATED: "estimated since a compaction or an edit; the next answer measures it",
    ContextState.UNKNOWN: "no answer yet",
}


@dataclass(frozen=True, slots=True)
class NumberSource:
    """A line of the table."""

    key: str
    name: str
    value: str
    source: str
    certainty: str
    standing: ClaimStatus
    meaning: str
    """What it is, for who sees it the first time."""


def standing_sign(standing: ClaimStatus) -> tuple[str, str]:
    """Return the sign and the style of the status of a claim."""
    return _SIGNS[standing]


def number_sources(context: Context, reasons: Sequence[AssessedClaim]) -> tuple[NumberSource, ...]:
    """Put the four numbers of a context, then every claim of its window and trigger, in a row."""
    return (*_numbers(context), *_claims(reasons))


def sources_listing(context: Context, reasons: Sequence[AssessedClaim], width: int) -> Listing:
    """List them as a table."""
    facts = number_sources(context, reasons)
    head = _columns("", "what", "tokens", "sure", "how ctxtop knows", width, "$quiet", "$quiet")
    rows = tuple(Row(fact.key, _row(fact, width)) for fact in facts)
    return Listing(rows, head, "nothing is known yet")


def source_detail(context: Context, reasons: Sequence[AssessedClaim], key: str) -> Content:
    """Explain a line, and name what contradicts it."""
    facts = number_sources(context, reasons)
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
            Content.styled(f"{sign} {_STANDING_TEXT[fact.standing]}", style),
            quiet(_CERTAINTY_TEXT[reason.certainty]),
        ]
        against = [each for each in others if each.status is ClaimStatus.CONTRADICTS]
        if reason.status is ClaimStatus.BELIEVED and against:
            parts += [Content(""), heading("What contradicts it")]
            parts += [
                Content.styled(
                    f"✗ {_size(each)}: {SOURCE_DESCRIPTIONS[each.claim.source]}", "$level-warning"
                )
                for each in against
            ]
    return join_lines(*parts)


def _reason(
    reasons: Sequence[AssessedClaim], key: str
) -> tuple[AssessedClaim, list[AssessedClaim]] | None:
    for reason in reasons:
        if _key(reason) == key:
            return reason, [
                each for each in reasons if each.subject is reason.subject and each != reason
            ]
    return None


def _numbers(context: Context) -> Iterator[NumberSource]:
    numbers = context.token_counts
    counted = "certain" if context.state is ContextState.MEASURED else "likely"
    yield _number(
        "fill",
        "in context",
        context.tokens,
        _CONTEXT_SOURCES[context.state],
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


def _number(
    key: str, name: str, size: int | None, how: str, sure: str, meaning: str
) -> NumberSource:
    value = NOTHING if size is None else f"{size:,}"
    shown = ClaimStatus.BELIEVED if size is not None else ClaimStatus.REPLACED
    return NumberSource(key, name, value, how, sure if size is not None else "", shown, meaning)


_CLAIM_MEANINGS: Final = {
    ClaimSubject.WINDOW: (
        "The window is what the model can take at most: the gauge is drawn against it."
    ),
    ClaimSubject.TRIGGER: "The trigger is where the client compacts by itself, by its own counter.",
}


def _claims(reasons: Iterable[AssessedClaim]) -> Iterator[NumberSource]:
    for reason in reasons:
        yield NumberSource(
            _key(reason),
            "compacts at" if reason.subject is ClaimSubject.TRIGGER else "window",
            _size(reason),
            _claim_text(reason),
            reason.certainty.value,
            reason.status,
            _CLAIM_MEANINGS[reason.subject],
        )


def _key(reason: AssessedClaim) -> str:
    return f"{reason.subject} {reason.claim.source}"


def _size(reason: AssessedClaim) -> str:
    return "never" if reason.claim.tokens is None else f"{reason.claim.tokens:,}"


def _claim_text(reason: AssessedClaim) -> str:
    claim = reason.claim
    return (
        Trigger(None, claim.source).why
        if claim.tokens is None
        else SOURCE_DESCRIPTIONS[claim.source]
    )


def _row(fact: NumberSource, width: int) -> Content:
    sign, style = _SIGNS[fact.standing]
    loud = fact.standing in {ClaimStatus.BELIEVED, ClaimStatus.CONTRADICTS}
    words = style if fact.standing is ClaimStatus.CONTRADICTS else "$foreground"
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
    sure_cells = CERTAINTY_CELLS if width >= CERTAINTY_MIN_WIDTH else 0
    room = max(1, width - SIGN_CELLS - NAME_CELLS - VALUE_CELLS - sure_cells - 2)
    return Content.assemble(
        (fit_left(sign, SIGN_CELLS), sign_style),
        (fit_left(name, NAME_CELLS), style),
        (fit_right(value, VALUE_CELLS), style),
        "  ",
        (fit_left(sure, sure_cells), "$quiet"),
        (fit_left(how, room), style),
    )
