"""All that is known of saves, project by project, as a text to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from ..core.saves.compat import Fit
from ..core.saves.states import NEEDS_SOMEONE, SaveState
from .formats import NOTHING, age, fit, middle, one_line, percent, tokens
from .saves_words import band_words, noise_words, plugin_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..core.saves.metrics import Amount
    from ..core.saves.report import ProjectSave, SavesReport

_LABEL: Final = 13
_NAME: Final = 22
_STATE: Final = 16
_INDENT: Final = 4

_MARKS: Final = {
    SaveState.NONE: ("–", "$quiet"),
    SaveState.TRIAGED: ("○", "$foreground"),
    SaveState.SAVING: ("●", "$level-calm"),
    SaveState.SAVED: ("✓", "$level-calm"),
    SaveState.PARTIAL: ("▲", "bold $level-warning"),
    SaveState.PENDING: ("▲", "bold $level-warning"),
    SaveState.ORPHANED: ("✗", "bold $level-emergency"),
    SaveState.FAILED_UNKNOWN: ("✗", "bold $level-emergency"),
    SaveState.CORRUPT: ("✗", "bold $level-emergency"),
}
"""State is never told by colour alone."""

BEING_READ: Final = "claude-memory's files are being read …"

NO_SAVES: Final = (
    "No save of claude-memory was seen yet: neither its files nor its Stop hook in a transcript."
)


def saves_report(report: SavesReport | None, width: int, now_ms: int) -> Content:
    """Write the report for lines of `width` cells; None is one that was not read yet."""
    if report is None:
        return Content.styled(BEING_READ, "$quiet")
    lines: list[Content] = []
    for plugin in report.plugins:
        style = "bold $level-emergency" if plugin.fit is Fit.BROKEN else "$quiet"
        version = plugin.plugin.version or NOTHING
        words = f"{plugin.plugin.plugin_id} {version}: {plugin.why}"
        lines += _wrapped(one_line(words), style, 0, width)
    if lines:
        lines.append(Content(""))
    if not report.projects:
        return Content("\n").join([*lines, *_wrapped(NO_SAVES, "$quiet", 0, width)])
    # Who needs somebody comes first, each group the newest first.
    for found in sorted(report.projects, key=lambda each: not _needs_someone(each)):
        lines += [*_project(found, width, now_ms), Content("")]
    return Content("\n").join(lines[:-1])


def _needs_someone(found: ProjectSave) -> bool:
    return found.standing.state in NEEDS_SOMEONE


def _project(found: ProjectSave, width: int, now_ms: int) -> Iterator[Content]:
    standing = found.standing
    mark, style = _MARKS[standing.state]
    seconds = found.age_s(now_ms)
    ago = NOTHING if seconds is None else f"{age(seconds * 1000)} ago"
    stale = "" if found.is_fresh or seconds is None else ", no longer fresh"
    yield Content.assemble(
        (f"{mark} ", style),
        (fit(middle(one_line(found.name), _NAME), _NAME), "bold"),
        (" ", ""),
        (f"{standing.state.value.replace('_', ' '):<{_STATE}}", style),
        (f"{ago}{stale}", "$quiet"),
    )
    for label, words, how in _facts(found):
        text = one_line(words)
        first, *rest = _wrapped(text, how, 0, max(1, width - _INDENT - _LABEL))
        yield Content.assemble((f"{'':<{_INDENT}}{label:<{_LABEL}}", "$quiet"), first)
        for line in rest:
            yield Content(" " * (_INDENT + _LABEL)) + line


def _facts(found: ProjectSave) -> Iterator[tuple[str, str, str]]:
    standing = found.standing
    yield "why", standing.reason, "$foreground"
    if standing.titles:
        yield "saved", ", ".join(standing.titles), "$foreground"
    elif standing.saved:
        yield "saved", ", ".join(standing.saved), "$foreground"
    if standing.state is not SaveState.SAVED and standing.categories:
        yield "to save", ", ".join(standing.categories), "$foreground"
    for error in standing.errors:
        yield "error", f"{error.category or NOTHING}: {error.error}", "$level-warning"
    if found.says.blind_spots:
        yield "but", plugin_words(found.says), "$level-warning"
    elif found.says.words and standing.state in NEEDS_SOMEONE:
        yield "plugin says", found.says.words, "$quiet"
    if found.confirmed is not None:
        yield "confirmed", "yes, a prompt was told" if found.confirmed else "not yet", "$quiet"
    if found.leftovers:
        yield "left behind", f"{len(found.staged)} staged files", "$level-warning"
    if found.saves:
        yield from _noise(found)
    for each in found.crossings:
        how = "$level-warning" if each.would_cross else "$quiet"
        ends = "the next save crosses it" if each.would_cross else "a save fits"
        left = f"{tokens(each.left_tokens)} to the compaction, a save takes ≈"
        yield "ahead", f"{left}{tokens(each.cost.tokens)}: {ends}", how
    if standing.file:
        inside = f"{found.project}/"
        where = standing.file.path.removeprefix(inside)
        yield "from", f"{where} ({standing.file.generation.value})", "$quiet"


def _noise(found: ProjectSave) -> Iterator[tuple[str, str, str]]:
    last = found.saves[-1]
    judged = band_words(last.bands)
    how = "$level-warning" if judged.startswith("✗") else "$foreground"
    yield "noise", f"{noise_words(last.noise)} in the last save · {judged}", how
    if last.noise.leaked_calls:
        calls = f"{last.noise.leaked_calls} calls, {last.noise.leaked_lines} lines"
        yield "leak", f"{calls} of the save agent in the main transcript", "$level-warning"
    if last.noise.agents_in_background:
        words = "the save agent runs by itself: the session does not wait for it"
        yield "background", words, "$quiet"
    if found.is_degraded:
        yield "degraded", "the triage's data came inline", "$level-warning"
    if found.refires:
        yield "fired again", f"{found.refires} times for the same save", "$level-warning"
    change = found.change
    if change.before and change.after and change.reduction is not None:
        words = f"{_amount(change.before)} → {_amount(change.after)} ({percent(change.reduction)})"
        yield "change", words, "$foreground"
    if found.durations:
        took = found.durations
        words = (
            f"{age(round(took.p50_ms))} in the median, {age(round(took.p95_ms))} at most of 95 %"
        )
        yield "took", f"{words}, {took.count} saves", "$quiet"


def _amount(found: Amount) -> str:
    return f"{found.lines:.0f} lines, {found.items:.0f} items, {tokens(round(found.tokens))} tokens"


def _wrapped(text: str, style: str, indent: int, width: int) -> list[Content]:
    """Break a line between words, or anywhere in what has none."""
    lines = Content(text).wrap(max(1, width - indent)) if text else [Content("")]
    return [Content.styled(each.plain.rstrip(), style) for each in lines]
