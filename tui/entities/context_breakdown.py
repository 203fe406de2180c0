"""What fills a session's context, and the sources of its numbers."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from textual.content import Content

from ...core.measure.composition import CategoryShare, Composition, ContextCategory, ContextItem
from ...core.measure.evidence import AssessedClaim, ClaimStatus, ClaimSubject
from ...core.model.context import Context, ContextState
from ...core.model.context_window import Certainty, claim_reason
from ...core.model.counting_rule import NO_USAGE
from ...core.transcript.sanitize import one_line
from ..text import formats
from ..text.formats import NOTHING, fit_left, fit_right, percent, plural, shorten, tokens
from ..text.listing import Listing, Row
from ..text.session_text import (
    composition_total_text,
    largest_parts,
    oversized_text,
    share_tokens_text,
    window_percent,
)
from ..text.text_lines import heading, join_lines, quiet

CATEGORY_MEANINGS: Final[dict[str, str]] = {
    ContextCategory.SYSTEM_PROMPT: "The system prompt of Claude Code.",
    ContextCategory.SYSTEM_TOOLS: "The descriptions of the built-in tools.",
    ContextCategory.MCP_TOOLS: (
        "MCP tool descriptions. An unneeded server costs tokens with every request."
    ),
    ContextCategory.OVERHEAD: ("Everything before the conversation; only its size is recorded."),
    ContextCategory.MCP_INSTRUCTIONS: "The instructions of MCP servers.",
    ContextCategory.MEMORY: "CLAUDE.md and its imports; re-read after each compaction.",
    ContextCategory.SKILLS: "The list of skills, and the skills that were used.",
    ContextCategory.AGENT_LISTINGS: "The list of available agents.",
    ContextCategory.ATTACHMENTS: "Added by Claude Code: files, diagnostics, reminders.",
    ContextCategory.HOOKS: "Added by hooks.",
    ContextCategory.SUMMARIES: "Compaction summaries.",
    ContextCategory.INHERITED: "The session's conversation, from which the agent was forked.",
    ContextCategory.USER_TEXT: "Your prompts, and messages that Claude Code wrote for you.",
    ContextCategory.ASSISTANT_TEXT: "The model's answers.",
    ContextCategory.THINKING: "The model's thinking that is sent again.",
    ContextCategory.TOOL_INPUTS: ("Tool inputs: commands, edits, files that were written."),
    ContextCategory.TOOL_RESULTS: ("Tool results. Old ones can usually be removed: c compacts."),
    ContextCategory.AGENT_RETURNS: ("Agent results. Compressed results keep this small."),
    ContextCategory.UNEXPLAINED: "Measured by the API, but not in the transcript.",
}  # by the category's name


NAME_CELLS: Final = 26
PERCENT_CELLS: Final = 6
TOKEN_CELLS: Final = 9
MAX_BAR_CELLS: Final = 100
MIN_BAR_CELLS: Final = 8
ITEM_BAR_CELLS: Final = 8
KIND_CELLS: Final = 14
LINE_CELLS: Final = 11
WIDE_CELLS: Final = 76  # cells from which an item's category is shown
ITEMS_PER_CATEGORY: Final = 12  # the largest items of a category that are listed beside it
SUPERSEDED_SIGN: Final = "✂"  # a later item repeats this one, so it can go without loss
OVERSIZED_SIGN: Final = "!"  # a tool's result longer than `tools.warn_result_chars` (001-05)
NOTHING_IN_CONTEXT: Final = "the context is empty"


def bar_with_track(ratio: float | None, cells: int, style: str) -> tuple[tuple[str, str], ...]:
    """Draw a ratio of 1 as a bar on a track, with their styles."""
    bar = formats.half_cell_bar(ratio, cells)
    return (bar, style), ("▁" * (cells - len(bar)), "$bar-track")


class _BarScale(NamedTuple):
    largest: int  # tokens of the longest bar
    window: int  # tokens that the percentages are of


def categories_listing(composition: Composition, window_tokens: int, width: int) -> Listing:
    rows = []
    largest = max((share.tokens for share in composition.categories), default=0)
    scale = _BarScale(largest, window_tokens)
    for share in composition.categories:
        line = _share_line(share, scale, share.name, ("$foreground", "$accent"), width)
        rows.append(Row(share.name, line, share))
        for part in largest_parts(share):
            line = _share_line(part, scale, f"  {part.name}", ("$quiet", "$bar-mark"), width)
            rows.append(Row(f"{share.name}\n{part.name}", line, share))
    head = quiet(shorten(composition_total_text(composition), width))
    return Listing(tuple(rows), head, NOTHING_IN_CONTEXT)


def category_detail(
    composition: Composition, share: CategoryShare, window_tokens: int, width: int
) -> Content:
    """Describe a category and its largest items."""
    name, of_window = share.name, window_percent(share.tokens, window_tokens)
    items = [item for item in composition.largest if item.kind == name]
    parts = [
        heading(name),
        Content(f"{share_tokens_text(share)} tokens, {of_window} of the window"),
        quiet(CATEGORY_MEANINGS.get(name, "")),
    ]
    if items:
        parts += [Content(""), heading("Largest items")]
        parts += [_short_item_line(item, width) for item in items[:ITEMS_PER_CATEGORY]]
    if notes := _item_notes(items):
        parts += [Content(""), *map(quiet, notes)]
    return join_lines(*parts)


def _item_notes(items: Sequence[ContextItem]) -> list[str]:
    """Return a legend for the signs that these items have, with their counts."""
    oversized = sum(item.oversized for item in items)
    large = f"{OVERSIZED_SIGN} {plural(oversized, 'oversized result')}" if oversized else ""
    return [each for each in (_superseded_text(items), large) if each]


def _superseded_text(items: Sequence[ContextItem]) -> str:
    superseded = [item.tokens for item in items if item.superseded]
    if not superseded:
        return ""
    size = tokens(sum(superseded))
    return f"{SUPERSEDED_SIGN} {len(superseded)} superseded later: ≈{size} tokens"


def items_listing(composition: Composition, width: int) -> Listing:
    items = composition.largest
    rows = []
    seen: Counter[str] = Counter()
    for item in items:
        # The key is stable when items are added, and unique although names may repeat.
        name = f"{item.line} {item.name}"
        rows.append(Row(f"{name} {seen[name]}", _item_line(item, items[0].tokens, width), item))
        seen[name] += 1
    words = "; ".join([f"the {len(rows)} largest", *_item_notes(items)])
    return Listing(tuple(rows), quiet(shorten(words, width)), NOTHING_IN_CONTEXT)


def item_detail(item: ContextItem, text: str) -> Content:
    where = "not in the transcript" if item.line is None else f"line {item.line}"
    parts = [
        heading(one_line(item.name)),
        Content(f"≈{tokens(item.tokens)} tokens · {item.kind} · {where}"),
    ]
    if item.superseded:
        words = f"{SUPERSEDED_SIGN} {one_line(item.superseded)}"
        parts.append(Content.styled(words, "$level-notice"))
    if item.oversized:
        words = f"{OVERSIZED_SIGN} oversized result: {oversized_text(item)}"
        parts.append(Content.styled(f"{words} (tools.warn_result_chars)", "$level-warning"))
    return join_lines(*parts, Content(""), Content(text))


def _share_line(
    share: CategoryShare, scale: _BarScale, name: str, styles: tuple[str, str], width: int
) -> Content:
    """Draw a part of the context in the styles of its text and its bar."""
    style, bar_style = styles
    name_cells = min(NAME_CELLS, max(12, width - MIN_BAR_CELLS - PERCENT_CELLS - TOKEN_CELLS - 1))
    bar_cells = min(MAX_BAR_CELLS, max(1, width - name_cells - PERCENT_CELLS - TOKEN_CELLS - 1))
    return Content.assemble(
        (fit_left(name, name_cells - 1), style),
        " ",
        *bar_with_track(share.tokens / (scale.largest or 1), bar_cells, bar_style),
        (fit_right(window_percent(share.tokens, scale.window), PERCENT_CELLS), style),
        (fit_right(share_tokens_text(share), TOKEN_CELLS), style),
    )


def _item_line(item: ContextItem, largest: int, width: int) -> Content:
    size = fit_right(f"≈{tokens(item.tokens)}", TOKEN_CELLS - 1)
    kind = f" {fit_left(item.kind, KIND_CELLS)}" if width >= WIDE_CELLS else ""
    line = fit_right("" if item.line is None else f"line {item.line}", LINE_CELLS)
    room = max(1, width - len(size) - ITEM_BAR_CELLS - len(kind) - len(line) - 4)
    return Content.assemble(
        (size, "$foreground"),
        (OVERSIZED_SIGN if item.oversized else " ", "$level-warning"),
        *bar_with_track(item.tokens / largest if largest else 0.0, ITEM_BAR_CELLS, "$accent"),
        (kind, "$quiet"),
        " ",
        (f"{SUPERSEDED_SIGN} " if item.superseded else "  ", "$level-notice"),
        (fit_left(item.name, room), "$quiet" if item.superseded else "$foreground"),
        (line, "$quiet"),
    )


def _short_item_line(item: ContextItem, width: int) -> Content:
    return Content.assemble(
        (fit_right(f"≈{tokens(item.tokens)}", TOKEN_CELLS - 1), "$quiet"),
        (OVERSIZED_SIGN if item.oversized else " ", "$level-warning"),
        (f"{SUPERSEDED_SIGN} " if item.superseded else "  ", "$level-notice"),
        shorten(item.name, max(1, width - TOKEN_CELLS - 2)),
    )


SOURCE_CELLS: Final = 16
VALUE_CELLS: Final = 11
CERTAINTY_CELLS: Final = 10
SIGN_CELLS: Final = 2
CERTAINTY_MIN_WIDTH: Final = 70  # cells from which the certainty is shown
_SIGNS: Final = {
    ClaimStatus.BELIEVED: ("✓", "$level-calm"),
    ClaimStatus.AGREES: ("=", "$quiet"),
    ClaimStatus.CONTRADICTS: ("✗", "$level-warning"),
    ClaimStatus.REPLACED: ("·", "$quiet"),
}
_STATUS_TEXTS: Final = {
    ClaimStatus.BELIEVED: "ctxtop uses this value: it is the strongest evidence.",
    ClaimStatus.AGREES: "It confirms the value used.",
    ClaimStatus.CONTRADICTS: "It contradicts the value used, which has stronger evidence.",
    ClaimStatus.REPLACED: "It differs, and is used only if there is no evidence.",
}
_CERTAINTY_TEXTS: Final = {
    Certainty.CERTAIN: "Certain: reported by Claude Code, or set by you.",
    Certainty.SEEN: "Observed: derived from what happened in this session.",
    Certainty.LIKELY: "Likely: true in other sessions; not observed in this one.",
    Certainty.ASSUMED: "Assumed: the usual value, without evidence.",
}
_CONTEXT_SOURCES: Final = {
    ContextState.MEASURED: "the last answer's input: fresh, written to and read from the cache",
    ContextState.ESTIMATED: "estimated since a compaction or an edit; the next answer measures it",
    ContextState.UNKNOWN: "no answer yet",
}


_CLAIM_TEXTS: Final = {
    ClaimSubject.WINDOW: (
        "window",
        "The window is the most that the model can take; the bar shows a share of it.",
    ),
    ClaimSubject.TRIGGER: (
        "compacts at",
        "Claude Code auto-compacts when its own counter reaches this value.",
    ),
}


@dataclass(frozen=True, slots=True)
class NumberSource:
    key: str
    name: str
    value: str
    source: str
    certainty: str
    status: ClaimStatus
    meaning: str  # explains the number to a new user


def status_sign(status: ClaimStatus) -> tuple[str, str]:
    """Return the sign and the style of the status of a claim."""
    return _SIGNS[status]


def number_sources(
    context: Context, reasons: Sequence[AssessedClaim], spent: int | None = None
) -> tuple[NumberSource, ...]:
    """Return the four numbers of a context, then every claim of its window and trigger.

    `spent` is the sum of the tokens of all answers, if it is shown beside the context.
    """
    beside = () if spent is None else (_spent_source(spent),)
    return (*_numbers(context), *beside, *map(_claim_source, reasons))


def sources_listing(
    context: Context, reasons: Sequence[AssessedClaim], width: int, spent: int | None = None
) -> Listing:
    header = ("", "what", "tokens", "certainty", "how ctxtop knows")
    rows = tuple(
        Row(each.key, _source_row(each, width), each)
        for each in number_sources(context, reasons, spent)
    )
    return Listing(rows, _source_line(header, width, "$quiet", "$quiet"), "nothing is known yet")


def source_detail(number: NumberSource, reasons: Sequence[AssessedClaim]) -> Content:
    """Explain a number, and list what contradicts it."""
    parts = [
        heading(f"{number.name}: {number.value}"),
        Content(number.source[:1].upper() + number.source[1:] + "."),
        Content(""),
        Content(number.meaning),
    ]
    if reason := next((each for each in reasons if _claim_key(each) == number.key), None):
        sign, style = _SIGNS[number.status]
        parts += [
            Content(""),
            Content.styled(f"{sign} {_STATUS_TEXTS[number.status]}", style),
            quiet(_CERTAINTY_TEXTS[reason.claim.source.certainty]),
        ]
        against = [
            each
            for each in reasons
            if each.subject is reason.subject and each.status is ClaimStatus.CONTRADICTS
        ]
        if reason.status is ClaimStatus.BELIEVED and against:
            parts += [Content(""), heading("What contradicts it")]
            texts = (f"✗ {_size(each)}: {claim_reason(each.claim)}" for each in against)
            parts += [Content.styled(text, "$level-warning") for text in texts]
    return join_lines(*parts)


_ANSWER_COUNTS: Final = (
    "the last answer with its output, and an estimate of what follows it",
    "the last answer with its output",
)
_MESSAGE_COUNTS: Final = (
    "the messages alone, without system prompt and tools, until the next answer",
) * 2
"""Claude Code's own numbers between a compaction and the next answer (formats 3.1)."""
_TEXT_MEANING: Final = (
    "The text of the conversation, which your policy counts instead of what the API reported. The"
    " system prompt and the tools are not in it:"
)
_UNREPORTED_MEANING: Final = (
    "The text of the conversation: the API, or a gateway before it, reported no tokens, so nothing"
    " was measured. The system prompt and the tools are not in it:"
)
_LAST_REQUEST: Final = "What the model saw with the last request, as in Claude Code's status line:"
_NEXT_REQUEST: Final = "An estimate of what the model will see with the next request:"


def _numbers(context: Context) -> Iterator[NumberSource]:
    counts = context.token_counts
    measured = context.state is ContextState.MEASURED
    is_of_messages = counts.fill is None and counts.counter is not None
    counter, hook = _MESSAGE_COUNTS if is_of_messages else _ANSWER_COUNTS
    if counts.also_counted:
        counter += f", and {counts.also_counted:,} that was cleared from its request"
    yield _number(
        "fill",
        "in context",
        context.tokens,
        _context_source(context),
        "certain" if measured else "likely",
        f"{_context_meaning(context)} {percent(context.ratio)} of the window.",
    )
    yield _number(
        "counter",
        "counter",
        counts.counter,
        counter,
        "likely",
        "What Claude Code compares with its auto-compaction threshold before each request. It is"
        f" ahead of the context{_until_trigger(context)}.",
    )
    yield _number(
        "hook",
        "hooks notified",
        counts.hook,
        hook,
        "likely",
        "The value of context_tokens in hooks when the session is resumed.",
    )
    yield _number(
        "report",
        "/context says",
        counts.report,
        "the total of the last /context" if counts.report else "/context was not used",
        "seen",
        "The report of /context counts each category separately, so it differs slightly.",
    )


def _until_trigger(context: Context) -> str:
    if not context.trigger_tokens or context.trigger_left is None:
        return ""
    share = percent(context.trigger_tokens / context.window.tokens)
    return f": {tokens(context.trigger_left)} until auto-compaction, at {share} of the window"


def _context_source(context: Context) -> str:
    counting = context.counting
    if counting.is_substitute:
        return counting.description if counting.counts_text else NO_USAGE
    asked = f"(usage.source = {counting.asked_source})"
    if counting.counts_text:
        return f"{counting.description} {asked}"
    if not counting.has_text:
        return f"{_own_context_source(context)}; not counted from text {asked}"
    return _own_context_source(context)


def _own_context_source(context: Context) -> str:
    if context.token_counts.fill is None or context.counting.is_input_side:
        return _CONTEXT_SOURCES[context.state]
    shares = "" if context.state is ContextState.MEASURED else "estimated from "
    return f"{shares}the last answer: {context.counting.description} (usage.components)"


def _context_meaning(context: Context) -> str:
    if context.counting.is_substitute:
        return _UNREPORTED_MEANING
    if context.counting.counts_text:
        return _TEXT_MEANING
    if context.token_counts.fill is not None and not context.counting.is_input_side:
        return "What your policy counts of the last answer, not what the model saw:"
    return _NEXT_REQUEST if context.state is ContextState.ESTIMATED else _LAST_REQUEST


def _spent_source(spent: int) -> NumberSource:
    return _number(
        "spent",
        "spent in all",
        spent,
        "the sum of all answers, agents included (usage.source)",
        "certain",
        "Each request counts in full, including what it repeats from the one before: this is what"
        " the session has used, not how full its context is.",
    )


def _number(
    key: str, name: str, size: int | None, source: str, certainty: str, meaning: str
) -> NumberSource:
    if size is None:
        return NumberSource(key, name, NOTHING, source, "", ClaimStatus.REPLACED, meaning)
    return NumberSource(key, name, f"{size:,}", source, certainty, ClaimStatus.BELIEVED, meaning)


def _claim_source(reason: AssessedClaim) -> NumberSource:
    name, meaning = _CLAIM_TEXTS[reason.subject]
    claim = reason.claim
    source = claim_reason(claim)
    certainty = claim.source.certainty.value
    key, size = _claim_key(reason), _size(reason)
    return NumberSource(key, name, size, source, certainty, reason.status, meaning)


def _claim_key(reason: AssessedClaim) -> str:
    return f"{reason.subject} {reason.claim.source}"


def _size(reason: AssessedClaim) -> str:
    return "never" if reason.claim.tokens is None else f"{reason.claim.tokens:,}"


def _source_row(number: NumberSource, width: int) -> Content:
    sign, sign_style = _SIGNS[number.status]
    styles = {ClaimStatus.BELIEVED: "$foreground", ClaimStatus.CONTRADICTS: sign_style}
    style = styles.get(number.status, "$quiet")
    cells = (sign, number.name, number.value, number.certainty, number.source)
    return _source_line(cells, width, sign_style, style)


def _source_line(
    cells: tuple[str, str, str, str, str], width: int, sign_style: str, style: str
) -> Content:
    sign, name, value, certainty, source = cells
    certainty_cells = CERTAINTY_CELLS if width >= CERTAINTY_MIN_WIDTH else 0
    room = max(1, width - SIGN_CELLS - SOURCE_CELLS - VALUE_CELLS - certainty_cells - 2)
    return Content.assemble(
        (fit_left(sign, SIGN_CELLS), sign_style),
        (fit_left(name, SOURCE_CELLS), style),
        (fit_right(value, VALUE_CELLS), style),
        "  ",
        (fit_left(certainty, certainty_cells), "$quiet"),
        (fit_left(source, room), style),
    )
