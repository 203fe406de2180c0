"""All that is known of a project's saves, as a text to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from ..core.saves.compat import Fit
from ..core.saves.states import NEEDS_SOMEONE, SaveState
from .formats import NOTHING, age, bar, fit, middle, one_line, percent, plural, tokens
from .log_rows import clock
from .noise_meter import meter, most_of, of_most, sign
from .saves_rows import MARKS, state_words
from .saves_words import band_words, noise_words, plugin_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..core.saves.metrics import Amount
    from ..core.saves.report import ProjectSave, SavesReport

_LABEL: Final = 13
_NAME: Final = 22
_STATE: Final = 16
_INDENT: Final = 4

_METER: Final = 24

MOST_SAVES: Final = 20
"""Of the history; the command lists all."""

BEING_READ: Final = "claude-memory's files are being read …"

NO_SAVES: Final = (
    "No save of claude-memory was seen yet: neither its files nor its Stop hook in a transcript."
)


def project_report(found: ProjectSave, width: int, now_ms: int) -> Content:
    """Write all that is known of a project's saves for lines of `width` cells."""
    lines = [*_project(found, width, now_ms)]
    if found.saves:
        lines += [Content(""), *_history(found, width, now_ms)]
        lines += [Content(""), *_shares(found, width)]
    lines += [each for part in (_rates(found), _phases(found)) if part for each in part]
    return Content("\n").join(lines)


def plugin_report(report: SavesReport, width: int) -> list[Content]:
    """Write a line or more for each installation of the plugin."""
    lines: list[Content] = []
    for plugin in report.plugins:
        style = "bold $level-emergency" if plugin.fit is Fit.BROKEN else "$quiet"
        version = plugin.plugin.version or NOTHING
        words = f"{plugin.plugin.plugin_id} {version}: {plugin.reason}"
        lines += _wrapped(one_line(words), style, 0, width)
    return lines


def _history(found: ProjectSave, width: int, now_ms: int) -> Iterator[Content]:
    yield Content.styled("its saves, the newest first", "bold $accent")
    cells = min(_METER, max(10, width // 4))
    for save in list(reversed(found.saves))[:MOST_SAVES]:
        noise = save.noise
        mark, style = sign(save)
        yield Content.assemble(
            (f"  {mark} ", style),
            (f"{clock(noise.at, now_ms):>12}  ", "$quiet"),
            meter(noise.tokens, most_of(save, "tokens"), cells),
            (f" {of_most(save, 16)}  ", "$foreground"),
            (f"{plural(noise.lines, 'line')}, {plural(noise.items, 'item')}", "$quiet"),
        )
    if len(found.saves) > MOST_SAVES:
        yield Content.styled(f"    and {len(found.saves) - MOST_SAVES:,} before", "$quiet")


def _shares(found: ProjectSave, width: int) -> Iterator[Content]:
    """Say what the last save's noise was made of."""
    noise = found.saves[-1].noise
    yield Content.styled("what the last one put in", "bold $accent")
    shares = sorted(noise.classes.items(), key=lambda each: -each[1].estimated_tokens)
    in_all = sum(share.estimated_tokens for _, share in shares) or 1
    cells = min(_METER, max(10, width // 4))
    for name, share in shares:
        ratio = share.estimated_tokens / in_all
        yield Content.assemble(
            (f"  {name.value.replace('_', ' '):<13} ", "$foreground"),
            (f"{bar(ratio, cells):<{cells}}", "$accent"),
            (f" {percent(ratio):>6}  ≈{tokens(share.estimated_tokens)} tokens, ", "$foreground"),
            (f"{plural(share.lines, 'line')}, {plural(share.items, 'item')}", "$quiet"),
        )


def _rates(found: ProjectSave) -> list[Content]:
    if not found.trigger_rates:
        return []
    lines = [Content(""), Content.styled("what triage wanted to be saved", "bold $accent")]
    for name, rate in found.trigger_rates.items():
        share = "" if rate.share is None else f"  {percent(rate.share)}"
        lines.append(
            Content.assemble(
                (f"  {name:<20}", ""), (f"{rate.hits} of {rate.total}{share}", "$quiet")
            )
        )
    return lines


def _phases(found: ProjectSave) -> list[Content]:
    if not found.phases_ms:
        return []
    lines = [Content(""), Content.styled("how long each phase takes, in the mean", "bold $accent")]
    for name, took in found.phases_ms.items():
        lines.append(
            Content.assemble((f"  {one_line(name):<20}", ""), (age(round(took)), "$quiet"))
        )
    return lines


def _project(found: ProjectSave, width: int, now_ms: int) -> Iterator[Content]:
    standing = found.status
    mark, style = MARKS[standing.state]
    seconds = found.age_s(now_ms)
    ago = NOTHING if seconds is None else f"{age(seconds * 1000)} ago"
    stale = "" if found.is_fresh or seconds is None else ", no longer fresh"
    yield Content.assemble(
        (f"{mark} ", style),
        (fit(middle(one_line(found.name), _NAME), _NAME), "bold"),
        (" ", ""),
        (f"{state_words(found):<{_STATE}}", style),
        (f"{ago}{stale}", "$quiet"),
    )
    for label, words, how in _facts(found):
        text = one_line(words)
        first, *rest = _wrapped(text, how, 0, max(1, width - _INDENT - _LABEL))
        yield Content.assemble((f"{'':<{_INDENT}}{label:<{_LABEL}}", "$quiet"), first)
        for line in rest:
            yield Content(" " * (_INDENT + _LABEL)) + line


def _facts(found: ProjectSave) -> Iterator[tuple[str, str, str]]:
    standing = found.status
    yield "why", standing.reason, "$foreground"
    if standing.titles:
        yield "saved", ", ".join(standing.titles), "$foreground"
    elif standing.saved_categories:
        yield "saved", ", ".join(standing.saved_categories), "$foreground"
    if standing.state is not SaveState.SAVED and standing.categories:
        yield "to save", ", ".join(standing.categories), "$foreground"
    for error in standing.errors:
        yield "error", f"{error.category or NOTHING}: {error.error}", "$level-warning"
    if found.plugin_message.blind_spots:
        yield "but", plugin_words(found.plugin_message), "$level-warning"
    elif found.plugin_message.text and standing.state in NEEDS_SOMEONE:
        yield "plugin says", found.plugin_message.text, "$quiet"
    if found.was_confirmed is not None:
        yield "confirmed", "yes, a prompt was told" if found.was_confirmed else "not yet", "$quiet"
    if found.has_leftovers:
        yield "left behind", f"{len(found.staged_files)} staged files", "$level-warning"
    if found.saves:
        yield from _noise(found)
    for each in found.crossings:
        how = "$level-warning" if each.would_cross else "$quiet"
        ends = "the next save crosses it" if each.would_cross else "a save fits"
        left = f"{tokens(each.tokens_to_trigger)} to the compaction, a save takes ≈"
        yield "ahead", f"{left}{tokens(each.cost.tokens)}: {ends}", how
    if standing.source_file:
        inside = f"{found.project}/"
        where = standing.source_file.path.removeprefix(inside)
        yield "from", f"{where} ({standing.source_file.generation.value})", "$quiet"


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
    change = found.before_after
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
