"""What fills a session's context, and the sources of its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from textual.content import Content

from ....core.measure.composition import CategoryShare, Composition, ContextCategory, ContextItem
from ....core.measure.evidence import AssessedClaim, ClaimStatus, ClaimSubject
from ....core.measure.window import Certainty, Trigger
from ....core.model.context import Context, ContextState
from ....core.transcript.sanitize import one_line
from ...text.formats import (
    NOTHING,
    fit_left,
    fit_right,
    half_cell_bar,
    percent,
    shorten_middle,
    tokens,
)
from ...text.session_text import composition_total_text, largest_parts, share_tokens_text
from ...text.text_lines import heading, join_lines, quiet
from ...widgets.row_list import Listing, Row

CATEGORY_MEANINGS: Final[dict[str, str]] = {
    ContextCategory.SYSTEM_PROMPT: "What the client tells the model before anything else.",
    ContextCategory.SYSTEM_TOOLS: "The descriptions of the client's own tools.",
    ContextCategory.MCP_TOOLS: (
        "The descriptions of MCP servers' tools: a server that is not needed"
        " costs"
        " its tokens with every request."
    ),
    ContextCategory.OVERHEAD: (
        "What stands before the conversation; the transcript tells no more of it than its size."
    ),
    ContextCategory.MCP_INSTRUCTIONS: "What MCP servers say of themselves.",
    ContextCategory.MEMORY: "CLAUDE.md and what it includes: read again after each compaction.",
    ContextCategory.SKILLS: "The list of skills, and those that were called.",
    ContextCategory.AGENT_LISTINGS: "The list of agents that can be started.",
    ContextCategory.ATTACHMENTS: "What the client put in by itself: files, diagnostics, reminders.",
    ContextCategory.HOOKS: "What hooks added.",
    ContextCategory.SUMMARIES: "What compactions kept.",
    ContextCategory.USER_TEXT: "Your words, and what the client said in your place.",
    ContextCategory.ASSISTANT_TEXT: "The model's words.",
    ContextCategory.THINKING: "The model's thinking, as far as it is sent again.",
    ContextCategory.TOOL_INPUTS: (
        "What the model asked of its tools: commands, edits, whole files that it wrote."
    ),
    ContextCategory.TOOL_RESULTS: (
        "What the tools gave back. The old ones can mostly go: c compacts."
    ),
    ContextCategory.AGENT_RETURNS: (
        "What agents gave back: small where they compress their results."
    ),
    ContextCategory.UNEXPLAINED: "Measured by the API, and of nothing that the transcript holds.",
}
"""By the category's name."""


NAME_CELLS: Final = 26
PERCENT_CELLS: Final = 6
TOKEN_CELLS: Final = 9
MAX_BAR_CELLS: Final = 100
MIN_BAR_CELLS: Final = 8
ITEM_BAR_CELLS: Final = 8
KIND_CELLS: Final = 14
LINE_CELLS: Final = 11
WIDE_CELLS: Final = 76  # cells from which an item's category stands beside it
ITEMS_PER_CATEGORY: Final = 12  # the largest items of a category that are named beside it
SUPERSEDED_SIGN: Final = "✂"  # something later says the same: it can go without loss


def categories_listing(found: Composition, width: int) -> Listing:
    """List the categories, each with its larger parts."""
    rows = []
    for share in found.categories:
        rows.append(Row(share.name, _share(share, share.name, "$foreground", "$accent", width)))
        for part in largest_parts(share):
            drawn = _share(part, f"  {part.name}", "$quiet", "$bar-mark", width)
            rows.append(Row(f"{share.name}\n{part.name}", drawn))
    return Listing(
        tuple(rows),
        quiet(shorten_middle(composition_total_text(found), width)),
        "nothing is in context yet",
    )


def row_category(key: str) -> str:
    """Name the category that a row is of."""
    return key.partition("\n")[0]


def category_detail(found: Composition, key: str, width: int) -> Content:
    """Describe a category and its largest items; empty if `key` is unknown."""
    name = row_category(key)
    share = next((each for each in found.categories if each.name == name), None)
    if share is None:
        return Content("")
    largest = [item for item in found.largest if item.kind == name][:ITEMS_PER_CATEGORY]
    parts = [
        heading(name),
        Content(f"{share_tokens_text(share)} tokens, {percent(share.share)} of the context"),
        quiet(CATEGORY_MEANINGS.get(name, "")),
    ]
    if largest:
        parts += [
            Content(""),
            heading("The largest of it"),
            *(_short_item(item, width) for item in largest),
        ]
        overtaken = [item for item in found.largest if item.kind == name and item.superseded]
        if overtaken:
            size = tokens(sum(item.tokens for item in overtaken))
            parts += [
                Content(""),
                quiet(
                    f"{SUPERSEDED_SIGN} {len(overtaken)} overtaken by something later: ≈{size}"
                    " tokens"
                ),
            ]
    return join_lines(*parts)


def items_listing(found: Composition, width: int) -> Listing:
    rows = tuple(
        Row(key, _item(item, found.largest[0].tokens, width)) for key, item in _keyed(found)
    )
    size = tokens(sum(item.tokens for item in found.largest if item.superseded))
    overtaken = sum(1 for item in found.largest if item.superseded)
    words = f"the {len(rows)} largest"
    if overtaken:
        words += f"; {SUPERSEDED_SIGN} {overtaken} overtaken by something later: ≈{size} tokens"
    return Listing(rows, quiet(shorten_middle(words, width)), "nothing is in context yet")


def find_item(found: Composition, key: str) -> ContextItem | None:
    return next((item for known, item in _keyed(found) if known == key), None)


def first_item_key(found: Composition, category: str) -> str | None:
    """Name the row of a category's largest item; None where none is among the largest."""
    return next((key for key, item in _keyed(found) if item.kind == category), None)


def _keyed(found: Composition) -> Iterator[tuple[str, ContextItem]]:
    """Pair each item with a key that is stable when items are added; names may repeat."""
    met: Counter[str] = Counter()
    for item in found.largest:
        name = f"{item.line} {item.name}"
        yield f"{name} {met[name]}", item
        met[name] += 1


def item_detail(item: ContextItem, text: str) -> Content:
    """Describe an item and show its beginning; `text` is empty while it is looked up."""
    where = "stands in no line of the transcript" if item.line is None else f"line {item.line}"
    parts = [
        heading(one_line(item.name)),
        Content(f"≈{tokens(item.tokens)} tokens · {item.kind} · {where}"),
    ]
    if item.superseded:
        parts.append(
            Content.styled(f"{SUPERSEDED_SIGN} {one_line(item.superseded)}", "$level-notice")
        )
    return join_lines(*parts, Content(""), Content(text))


def _share(share: CategoryShare, name: str, style: str, bar_style: str, width: int) -> Content:
    names = min(NAME_CELLS, max(12, width - MIN_BAR_CELLS - PERCENT_CELLS - TOKEN_CELLS - 1))
    room = min(MAX_BAR_CELLS, max(1, width - names - PERCENT_CELLS - TOKEN_CELLS - 1))
    drawn = half_cell_bar(share.share, room)
    return Content.assemble(
        (fit_left(name, names - 1), style),
        " ",
        (drawn, bar_style),
        ("▁" * (room - len(drawn)), "$bar-track"),
        (fit_right(percent(share.share), PERCENT_CELLS), style),
        (fit_right(share_tokens_text(share), TOKEN_CELLS), style),
    )


def _item(item: ContextItem, largest: int, width: int) -> Content:
    size = fit_right(f"≈{tokens(item.tokens)}", TOKEN_CELLS - 1)
    drawn = half_cell_bar(item.tokens / largest if largest else 0.0, ITEM_BAR_CELLS)
    kind = f" {fit_left(item.kind, KIND_CELLS)}" if width >= WIDE_CELLS else ""
    line = fit_right("" if item.line is None else f"line {item.line}", LINE_CELLS)
    sign = f"{SUPERSEDED_SIGN} " if item.superseded else "  "
    room = max(1, width - len(size) - ITEM_BAR_CELLS - len(kind) - len(line) - 4)
    return Content.assemble(
        (size, "$foreground"),
        " ",
        (drawn, "$accent"),
        ("▁" * (ITEM_BAR_CELLS - len(drawn)), "$bar-track"),
        (kind, "$quiet"),
        " ",
        (sign, "$level-notice"),
        (fit_left(item.name, room), "$quiet" if item.superseded else "$foreground"),
        (line, "$quiet"),
    )


def _short_item(item: ContextItem, width: int) -> Content:
    size = fit_right(f"≈{tokens(item.tokens)}", TOKEN_CELLS - 1)
    sign = f" {SUPERSEDED_SIGN} " if item.superseded else "   "
    return Content.assemble(
        (size, "$quiet"),
        (sign, "$level-notice"),
        shorten_middle(item.name, max(1, width - TOKEN_CELLS - 2)),
    )


SOURCE_CELLS: Final = 16
VALUE_CELLS: Final = 11
CERTAINTY_CELLS: Final = 10
SIGN_CELLS: Final = 2
CERTAINTY_MIN_WIDTH: Final = 70  # cells from which a column says how sure a source is
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
    meaning: str  # what it is, for who sees it the first time


def standing_sign(standing: ClaimStatus) -> tuple[str, str]:
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
            quiet(_CERTAINTY_TEXT[reason.claim.source.certainty]),
        ]
        against = [each for each in others if each.status is ClaimStatus.CONTRADICTS]
        if reason.status is ClaimStatus.BELIEVED and against:
            parts += [Content(""), heading("What contradicts it")]
            parts += [
                Content.styled(
                    f"✗ {_size(each)}: {each.claim.source.description}", "$level-warning"
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
            reason.claim.source.certainty.value,
            reason.status,
            _CLAIM_MEANINGS[reason.subject],
        )


def _key(reason: AssessedClaim) -> str:
    return f"{reason.subject} {reason.claim.source}"


def _size(reason: AssessedClaim) -> str:
    return "never" if reason.claim.tokens is None else f"{reason.claim.tokens:,}"


def _claim_text(reason: AssessedClaim) -> str:
    claim = reason.claim
    return Trigger(None, claim.source).why if claim.tokens is None else claim.source.description


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
    room = max(1, width - SIGN_CELLS - SOURCE_CELLS - VALUE_CELLS - sure_cells - 2)
    return Content.assemble(
        (fit_left(sign, SIGN_CELLS), sign_style),
        (fit_left(name, SOURCE_CELLS), style),
        (fit_right(value, VALUE_CELLS), style),
        "  ",
        (fit_left(sure, sure_cells), "$quiet"),
        (fit_left(how, room), style),
    )
