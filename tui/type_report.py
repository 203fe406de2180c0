"""The history of a type of agent: its score over time, its sizes, its findings, its drift."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from ..core.compliance.codes import SENTENCES, Code, Format, Verdict
from .cli.times import time_of
from .compliance_words import SIGNS, WORDS
from .formats import NOTHING, fit_right, percent, tokens
from .report_lines import LABEL, hung, line, section
from .type_rows import by_day, complied, failures, last_verdicts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..core.compliance_summary import Day, Part

DAYS: Final = 14
"""Shown one by one; `ctxtop compliance --json` has them all."""

SPARK_CELLS: Final = 40
BAR_CELLS: Final = 16


def type_report(part: Part, least: int, width: int) -> Content:
    """Write the history; `least` results there must be before a share is told."""
    return Content("\n").join(
        [
            *_head(part, least, width),
            *_sizes(part, width),
            *_verdicts(part),
            *_codes(part, width),
            *_days(part),
        ]
    )


def _head(part: Part, least: int, width: int) -> Iterator[Content]:
    yield Content.styled(part.name, "bold $foreground")
    score = part.score
    running = f", {part.running} running" if part.running else ""
    yield from line("runs", f"{part.runs}{running}", width)
    formats = ", ".join(each.value for each in part.formats if each is not Format.NONE)
    yield from line("expected", formats or "nothing: nobody asks for a compressed result", width)
    if part.drift is not None:
        drifts = f"the policy's rules say {part.drift.value}, its definition does not"
        yield from line("but", drifts, width, "$level-warning")
    if not score.judged_count:
        return
    yield from line(
        "complied", complied(score), width, "$level-warning" if failures(score) else "$foreground"
    )
    if score.passed_share is None:
        yield from line("", f"a share is told of {least} results or more", width, "$quiet")
    if score.first_pass_share is not None:
        first, forced = percent(score.first_pass_share), percent(score.forced_share)
        yield from line("", f"{first} at once, {forced} after a block", width)
    yield from line("by day", by_day(part.days, SPARK_CELLS), width, "$accent")
    yield from line("last", f"{last_verdicts(part)}  the newest last", width)
    grep = f"{score.grep_passed} of {score.judged_count} would pass, {score.grep_wrong} of them wrongly"
    yield from line("a grep", grep, width)


def _sizes(part: Part, width: int) -> Iterator[Content]:
    sizes, cost = part.sizes, part.cost
    if not sizes.results:
        return
    yield from section("What it puts into its parents")
    yield from line("results", str(sizes.results), width)
    yield from line(
        "lines", f"half have at most {sizes.median_lines}, nine in ten {sizes.p90_lines}", width
    )
    half, large = tokens(sizes.median_tokens), tokens(sizes.p90_tokens)
    yield from line("tokens", f"half have at most ≈{half}, nine in ten ≈{large}", width)
    yield from line("in all", f"≈{tokens(cost.result_tokens)} tokens", width)
    if cost.excess_tokens:
        saved = f"≈{tokens(cost.excess_tokens)} tokens would not have been there had all complied"
        yield from line("too many", saved, width, "$level-warning")
    if cost.retry_tokens:
        yield from line(
            "blocks", f"{tokens(cost.retry_tokens)} tokens were spent after a block", width
        )


def _verdicts(part: Part) -> Iterator[Content]:
    counted = [(each, part.score.verdicts[each]) for each in Verdict if part.score.verdicts[each]]
    most = max((count for _, count in counted), default=0)
    if not most:
        return
    yield from section("Verdicts")
    for each, count in counted:
        cells = max(1, round(BAR_CELLS * count / most))
        bad = SIGNS[each] == "✗"
        yield Content.assemble(
            (f"  {WORDS[each]:<{LABEL}}", "$quiet"),
            ("▄" * cells, "$level-warning" if bad else "$accent"),
            ("▁" * (BAR_CELLS - cells), "$bar-track"),
            (fit_right(str(count), 5), "$foreground"),
        )


def _codes(part: Part, width: int) -> Iterator[Content]:
    if not part.score.codes:
        return
    yield from section("What was wrong, in how many results")
    for label, count in part.score.codes.items():
        code = Code(label.partition(":")[0])
        style = "$level-warning" if code.is_violation else "$level-notice"
        head = Content.assemble((f"{count:>5}  ", "$foreground"), (f"{label:<9}", style))
        yield from hung(head, Content.styled(SENTENCES[code], "$quiet"), width)


def _days(part: Part) -> Iterator[Content]:
    if not part.days:
        return
    yield from section("Day by day (UTC)")
    for each in reversed(part.days[-DAYS:]):
        yield _day(each)


def _day(each: Day) -> Content:
    failed = failures(each.score)
    passed = each.score.judged_count - failed
    cells = round(BAR_CELLS * passed / each.score.judged_count) if each.score.judged_count else 0
    return Content.assemble(
        (f"  {(time_of(each.at) or NOTHING)[:10]:<{LABEL}}", "$quiet"),
        ("▄" * cells, "$accent"),
        ("▁" * (BAR_CELLS - cells), "$bar-track"),
        (f"  {passed} of {each.score.judged_count}", "$foreground"),
        (
            f"  ≈{tokens(each.cost.excess_tokens)} too many" if each.cost.excess_tokens else "",
            "$level-warning",
        ),
    )
