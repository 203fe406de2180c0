"""The plan's limits in words: windows, ages, projections, shares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from ...core.measure.plan_limits import CONTEXT, FIVE_HOURS, WEEK, BindingLimit, PlanLimit
from ...core.transcript.sanitize import one_line
from .formats import NOTHING, duration, local_datetime, long_duration, tokens

if TYPE_CHECKING:
    from ...core.model.transcript_records import ClientReportRecord


_SHORT_NAMES: Final = {FIVE_HOURS: "5h", WEEK: "week"}
_LONG_NAMES: Final = {FIVE_HOURS: "5-hour window", WEEK: "week", CONTEXT: "context"}
OLD_MS: Final = 15 * 60_000  # from which a reading's age is shown in the header

NOTICE_RATIO: Final = 0.70  # from which a window is colored, as a context is
WARNING_RATIO: Final = 0.80
EMERGENCY_RATIO: Final = 0.95


def short_window_name(window: str) -> str:
    return _SHORT_NAMES.get(window) or long_window_name(window)


def long_window_name(window: str) -> str:
    """Name a window; one that is not known here keeps the client's name, in words."""
    return _LONG_NAMES.get(window) or one_line(
        window.replace("_", " ").replace("seven day", "week")
    )


def limit_percent(ratio: float, unit: str = "%") -> str:
    """Write a ratio for a line that is short; halves go up, and only what is full is 100%."""
    rounded = int(ratio * 100 + 0.5)
    return f"{min(rounded, 99) if ratio < 1 else rounded}{unit}"


def clock_time(at_ms: int | None, now_ms: int) -> str:
    """Write a time of day, with the weekday unless it is within half a day."""
    at, now = local_datetime(at_ms), local_datetime(now_ms)
    if at is None or now is None:
        return NOTHING
    if at.date() == now.date() or abs(at - now) < timedelta(hours=12):
        return f"{at:%H:%M}"
    return f"{at:%a %H:%M}" if abs(at - now) < timedelta(days=7) else f"{at:%Y-%m-%d %H:%M}"


def limit_style(limit: PlanLimit, now_ms: int) -> str:
    if limit.is_stale(now_ms):
        return "$quiet"
    if limit.used_ratio >= EMERGENCY_RATIO:
        return "$level-emergency"
    if limit.used_ratio >= WARNING_RATIO:
        return "$level-warning"
    return "$level-notice" if limit.used_ratio >= NOTICE_RATIO else "$foreground"


def header_limits(limits: Sequence[PlanLimit], now_ms: int) -> list[list[tuple[str, str]]]:
    """Write the limits for a header, from long to short; each as texts with their styles."""
    shown = [each for each in limits if not each.is_forgotten(now_ms)]
    if not any(not each.is_stale(now_ms) for each in shown):
        return []
    main = [each for each in shown if each.window in _SHORT_NAMES] or shown[:1]

    def styled(limit: PlanLimit, text: str) -> tuple[str, str]:
        return text, limit_style(limit, now_ms)

    plain = [styled(each, _plain_text(each, now_ms)) for each in shown]
    first = styled(shown[0], _header_text(shown[0], now_ms))
    known = plain[: len(main)]
    return [[first, *plain[1:]], [first, *known[1:]], known, plain[:1]]


def _plain_text(limit: PlanLimit, now_ms: int) -> str:
    name = short_window_name(limit.window)
    if limit.is_stale(now_ms):
        return f"{name} reset {clock_time(limit.resets_at, now_ms)}"
    return f"{name} {limit_percent(limit.used_ratio)}"


def _header_text(limit: PlanLimit, now_ms: int) -> str:
    text = _plain_text(limit, now_ms)
    if limit.is_stale(now_ms):
        return text
    if limit.age_ms(now_ms) >= OLD_MS:
        text += f", {duration(limit.age_ms(now_ms))} ago"
    end = limit.exhaustion.at if limit.exhaustion else None
    if end is not None and end > now_ms:
        return f"{text} full ≈{clock_time(end, now_ms)}"
    return text if limit.resets_at is None else f"{text} ▸ {clock_time(limit.resets_at, now_ms)}"


def reading_text(limit: PlanLimit, now_ms: int) -> str:
    """Write how much is used and how old that is; of a window that was reset, only when."""
    used = limit_percent(limit.used_ratio, " %")
    if limit.is_stale(now_ms):
        return f"stale, window reset at {clock_time(limit.resets_at, now_ms)}; last known {used}"
    return f"{used}, {duration(limit.age_ms(now_ms))} ago"


def resets_text(limit: PlanLimit, now_ms: int) -> str:
    if limit.resets_at is None or limit.is_stale(now_ms):
        return NOTHING
    left = long_duration(limit.resets_at - now_ms)
    return f"{clock_time(limit.resets_at, now_ms)}, in {left}"


def burn_text(limit: PlanLimit) -> str:
    if limit.burn is None:
        return NOTHING
    return f"{limit.burn.ratio_per_hour * 100:.1f} % an hour over {duration(limit.burn.span_ms)}"


def exhaustion_text(limit: PlanLimit, now_ms: int) -> str:
    """Write when a window will be full, with the 80 % interval; empty if nothing is projected."""
    found = limit.exhaustion
    if found is None:
        return ""
    if limit.used_ratio >= 1:
        return "full now"
    if found.low is None:
        return "≈ not before the reset"
    low = clock_time(found.low, now_ms)
    high = "the reset" if found.high is None else clock_time(found.high, now_ms)
    if found.at is None:
        return f"≈ not before the reset, but {low} is possible"
    return f"≈ full at {clock_time(found.at, now_ms)} (80 %: {low} to {high})"


def binding_text(binding: BindingLimit | None, now_ms: int) -> str:
    """Write what a session reaches first; empty if nothing is projected."""
    if binding is None:
        return ""
    if binding.at <= now_ms:
        return f"{long_window_name(binding.what)} is full"
    return f"{long_window_name(binding.what)}, ≈ {clock_time(binding.at, now_ms)}"


def client_facts(report: ClientReportRecord) -> Iterator[tuple[str, str]]:
    """Yield what a client's status line said of its session, by label."""
    model = [f"effort {one_line(report.effort)}"] if report.effort else []
    if report.thinking is not None:
        model.append("thinking" if report.thinking else "no thinking")
    if report.fast_mode:
        model.append("fast mode")
    if report.output_style and report.output_style != "default":
        model.append(f"output style {one_line(report.output_style)}")
    if model:
        yield "model settings", ", ".join(model)
    if report.duration_ms is not None and report.api_duration_ms is not None:
        open_for = duration(report.duration_ms)
        yield "client open", f"{open_for}, of it {duration(report.api_duration_ms)} of API requests"
    if report.lines_added or report.lines_removed:
        yield "lines changed", f"+{report.lines_added or 0:,} −{report.lines_removed or 0:,}"
    if report.pull_request is not None:
        state = f", {one_line(report.pull_request_state)}" if report.pull_request_state else ""
        url = f"  {one_line(report.pull_request_url)}" if report.pull_request_url else ""
        yield "pull request", f"#{report.pull_request}{state}{url}"
    if report.cache_requests:
        yield "cache use", _cache_use_text(report)


def _cache_use_text(report: ClientReportRecord) -> str:
    from msgspec import json

    texts = [] if report.cache_hit_ratio is None else [f"{report.cache_hit_ratio:.0%} read"]
    texts.append(f"{report.cache_misses or 0} misses in {report.cache_requests} requests")
    causes: dict[str, int] = json.decode(report.cache_miss_causes, type=dict[str, int])
    texts += [f"{one_line(name).replace('_', ' ')} {count}" for name, count in causes.items()]
    if last := json.decode(report.cache_last_miss_causes, type=list[str]):
        texts.append(f"the last by {', '.join(one_line(each).replace('_', ' ') for each in last)}")
    if report.cache_rewritten_tokens:
        texts.append(f"{tokens(report.cache_rewritten_tokens)} rewritten")
    return ", ".join(texts)
