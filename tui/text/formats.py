"""Formats of numbers, times and texts that screens and commands share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Protocol

from ...core.lazy_pattern import lazy_pattern
from ...core.model.levels import ThresholdBase
from ...core.summaries.compaction_quality import ReductionFlag, flag_reduction
from ...core.transcript.sanitize import has_usual_signs, one_line

if TYPE_CHECKING:
    from ...core.model.context import Context
    from ...core.model.levels import LevelWarning
    from ...core.model.outlook import Forecast


NOTHING: Final = "–"  # for a value that is not known


# Times are milliseconds since 1970, written on this machine's clock unless the name says otherwise.

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def iso_time(at_ms: int | None) -> str | None:
    """Write a time as ISO 8601 in UTC."""
    if at_ms is None:
        return None
    second, millisecond = divmod(at_ms, 1_000)
    moment = _iso_second(second)
    return None if moment is None else f"{moment}.{millisecond:03d}Z"


@lru_cache(maxsize=4_096)  # what happened together is listed together
def _iso_second(second: int) -> str | None:
    try:
        return (_EPOCH + timedelta(seconds=second)).isoformat()[:19]
    except OverflowError:
        return None


def utc_time(at_ms: int | None) -> str:
    """Write a time in UTC to the second; for what is compared with other logs."""
    written = iso_time(at_ms)
    return f"{written[:19].replace('T', ' ')}+00:00" if written else NOTHING


def local_datetime(at_ms: int | None) -> datetime | None:
    if at_ms is None:
        return None
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone()
    except (ValueError, OverflowError, OSError):
        return None


def _local(at_ms: int | None, form: str, missing: str) -> str:
    moment = local_datetime(at_ms)
    return format(moment, form) if moment else missing


def date_time(at_ms: int | None) -> str:
    return _local(at_ms, "%Y-%m-%d %H:%M", NOTHING)


def date_time_seconds(at_ms: int | None) -> str:
    return _local(at_ms, "%Y-%m-%d %H:%M:%S", NOTHING)


def month_day_time(at_ms: int | None) -> str:
    """Write a time without its year; empty if it is not known."""
    return _local(at_ms, "%m-%d %H:%M", "")


def time_of_day(at_ms: int | None) -> str:
    """Write the time of day; empty if it is not known."""
    return _local(at_ms, "%H:%M", "")


def date_time_and_age(at_ms: int | None, now_ms: int) -> str:
    if at_ms is None or local_datetime(at_ms) is None:
        return NOTHING
    return f"{date_time_seconds(at_ms)}, {duration(now_ms - at_ms)} ago"


def local_time(at_ms: int | None, now_ms: int) -> str:
    """Write a time, the more exactly the nearer it is: 11:57:40, or 19 Nov 08:12."""
    moment, now = local_datetime(at_ms), local_datetime(now_ms)
    if moment is None or now is None:
        return NOTHING
    if moment.date() == now.date():
        return f"{moment:%H:%M:%S}"
    if moment.year == now.year:
        return f"{moment.day} {moment:%b %H:%M}"
    return f"{moment:%Y-%m-%d}"


def duration(milliseconds: int | None) -> str:
    if milliseconds is None:
        return NOTHING
    seconds = max(0, milliseconds // 1000)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def long_duration(milliseconds: int) -> str:
    """Write a duration of hours or days with the next smaller unit: 1 h 40 min, 2 d 21 h."""
    text = duration(milliseconds)
    for unit, size in ((" d", 86_400_000), (" h", 3_600_000)):
        if text.endswith(unit) and (rest := milliseconds % size) >= 60_000:
            return f"{text} {duration(rest)}"
    return text


def seconds(milliseconds: int) -> str:
    """Write a time that may be shorter than a second: 0.3 s, 12 s, 600 s."""
    return f"{_without_zeros(milliseconds / 1000, 1)} s"


def age(at_ms: int | None, now_ms: int) -> str:
    return duration(None if at_ms is None else now_ms - at_ms)


def tokens(count: int | None) -> str:
    """Round a token count: 950, 9.4 k, 172 k, 1 M, 1.05 M."""
    if count is None:
        return NOTHING
    if count < 1_000:
        return str(count)
    if count < 10_000:
        return f"{_without_zeros(count / 1_000, 1)} k"
    if round(count / 1_000) < 1_000:
        return f"{round(count / 1_000)} k"
    return f"{_without_zeros(count / 1_000_000, 2)} M"


def _without_zeros(number: float, digits: int) -> str:
    return f"{number:.{digits}f}".rstrip("0").rstrip(".")


MESSAGES_ALONE: Final = " of messages"  # not of the whole context


class CompactionSizes(Protocol):
    """The tokens before and after a compaction."""

    @property
    def pre_tokens(self) -> int | None: ...
    @property
    def post_tokens(self) -> int | None: ...
    @property
    def next_tokens(self) -> int | None: ...
    @property
    def estimated_next_tokens(self) -> int | None: ...
    @property
    def counted_messages_alone(self) -> int: ...


def tokens_before(sizes: CompactionSizes) -> str:
    """Round what was in context before a compaction, and say if that is the messages alone."""
    return tokens(sizes.pre_tokens) + MESSAGES_ALONE * bool(sizes.counted_messages_alone)


def tokens_after(sizes: CompactionSizes) -> str:
    """Round what a compaction left: what the next answer held, else the best estimate.

    Without both it is Claude Code's count of the messages, and says so: the system prompt and the
    tools come on top.
    """
    if sizes.next_tokens is not None:
        return tokens(sizes.next_tokens)
    if sizes.estimated_next_tokens is not None:
        return f"≈{tokens(sizes.estimated_next_tokens)}"
    if sizes.post_tokens is not None:
        return f"≈{tokens(sizes.post_tokens)}{MESSAGES_ALONE}"
    return NOTHING


def tokens_before_and_after(sizes: CompactionSizes) -> str:
    return f"{tokens_before(sizes)} → {tokens_after(sizes)}"


def compaction_reduction(sizes: CompactionSizes) -> float | None:
    """Return the share that a compaction freed; None if only its messages were counted.

    Claude Code's count of the messages is no count of the context: it would promise too much.
    """
    after = sizes.next_tokens if sizes.next_tokens is not None else sizes.estimated_next_tokens
    if after is None or not sizes.pre_tokens or sizes.counted_messages_alone:
        return None
    return (sizes.pre_tokens - after) / sizes.pre_tokens


def used_percent(context: Context) -> str:
    """Write how full a context is, with ≈ before an estimate."""
    sign = "" if context.limit_ratio is None else _estimate_sign(context)
    return f"{sign}{percent(context.limit_ratio)}"


def limit_name(tokens: int) -> str:
    return f"the limit of {tokens:,} tokens"


def threshold_text(warning: LevelWarning) -> str:
    """Write where a warning's level begins; a share of the window is not named."""
    placed, limit = warning.placed_threshold, warning.limit_tokens
    if placed.of is ThresholdBase.TOKENS and warning.ratio:
        in_use = warning.point.tokens or 0
        return f"{tokens(round(warning.threshold / warning.ratio * in_use))} tokens"
    if limit is None:
        return percent(warning.threshold)
    return f"{percent(placed.limit_share)} of {limit_name(limit)}"


def fill_text(warning: LevelWarning) -> str:
    """Write how much was in use at a warning; of both if the limit is not the window."""
    of_window = f"{percent(warning.ratio)} of the window"
    if warning.limit_tokens is None:
        return of_window
    return f"{percent(warning.limit_ratio)} of {limit_name(warning.limit_tokens)}, {of_window}"


LIMIT_WORD: Final = " limit"  # after the size of what is not the window


def tokens_of_window(context: Context) -> str:
    """Write tokens of window, or of the policy's limit, with ≈ before an estimate."""
    used = NOTHING if context.tokens is None else _estimate_sign(context) + tokens(context.tokens)
    if context.window.limit == 0:
        return used
    word = LIMIT_WORD if context.window.limit else ""
    return f"{used} of {tokens(context.limit_tokens)}{word}"


def _estimate_sign(context: Context) -> str:
    return "≈" if context.state == "estimated" else ""


def plural(count: int, thing: str) -> str:
    ending = "es" if thing.endswith("s") else "s"
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}{ending}"


def percent(ratio: float | None) -> str:
    """Write a ratio of 1 as a whole percentage, never clamped; halves go up, as the client's do."""
    return NOTHING if ratio is None else f"{int(ratio * 100 + 0.5)} %"


def reduction(share: float | None) -> str:
    """Write by how much a context became smaller, with one decimal (001-38, 001-39)."""
    return NOTHING if share is None else f"{share * 100:.1f} %"


def reduction_text(share: float) -> str:
    """Write how much smaller a context became, of what it had."""
    return f"{reduction(-share)} more" if share < 0 else f"{reduction(share)} less"


def reduction_flag_text(share: float | None, target: tuple[float, float]) -> str:
    """Write where a reduction is, seen from what the settings ask for; empty if it is none."""
    flag, (least, most) = flag_reduction(share, target), target
    if not flag or (share or 0.0) < 0:
        return ""
    return f"{flag} the {least * 100:.0f}–{most * 100:.0f} % of compact.target_reduction"


_FLAG_SIGNS: Final = {ReductionFlag.BELOW: " ↓", ReductionFlag.ABOVE: " ↑"}


def reduction_with_sign(share: float | None, target: tuple[float, float]) -> str:
    """Write a reduction, with an arrow if it is below or above its target."""
    flag = flag_reduction(share, target)
    return f"{reduction(share)}{_FLAG_SIGNS.get(flag, '') if flag else ''}"


def reduction_with_flag(share: float | None, target: tuple[float, float]) -> str:
    """Write a reduction, and where it is in the range that the settings ask for (001-12)."""
    flag = reduction_flag_text(share, target)
    return f"{reduction_text(share or 0.0)}{f', {flag}' if flag else ''}"


def half_cell_bar(ratio: float | None, cells: int) -> str:
    """Draw a ratio of 1 as the filled part of a bar of `cells` cells, exact to half a cell."""
    halves = round(min(max(ratio or 0.0, 0.0), 1.0) * cells * 2)
    if ratio and ratio > 0:
        halves = max(halves, min(1, cells))
    full, rest = divmod(halves, 2)
    return "▄" * full + ("▖" if rest else "")


_EIGHTHS: Final = "░▏▎▍▌▋▊▉"
_ROUNDING_ERROR: Final = 1e-9  # 0.29 × 100 is 28.999…: products this close are the same


def text_bar(ratio: float | None, cells: int) -> str:
    """Draw a ratio of 1 in `cells` cells, to the eighth below: only what is full looks full."""
    eighths = int(min(max(ratio or 0.0, 0.0), 1.0) * cells * 8 + _ROUNDING_ERROR)
    full, rest = divmod(max(eighths, 1) if ratio else 0, 8)
    drawn = "█" * full + (_EIGHTHS[rest] if rest else "")
    return drawn.ljust(cells, "░")


def turns_left(forecast: Forecast | None) -> str:
    """Write a forecast's 80 % interval of turns: ≈2–4, one number, or 40+ far away."""
    if forecast is None:
        return NOTHING
    if forecast.turns.is_open:
        return at_least(forecast.turns.low)
    low, high = _two_digits(forecast.turns.low), _two_digits(forecast.turns.high)
    return f"≈{low}" if low == high else f"≈{low}–{high}"


MANY_TURNS: Final = 10  # from which a forecast is only given as a lower bound
MAX_TURNS: Final = 90  # a larger bound says no more


def turns_to_go(forecast: Forecast) -> str:
    """Write the turns left in one way: `≈ 2 turns`, or `40+ turns` where there are many."""
    turns = forecast.turns.p50
    low = int(forecast.turns.low)
    if turns < 1:
        return "< 1 turn"
    if low >= MANY_TURNS or forecast.turns.is_open:
        return f"{at_least(low)} turns"
    number = int(turns + 0.5)
    return f"≈ {number} turn" if number == 1 else f"≈ {number} turns"


def at_least(turns: float) -> str:
    """Write a lower bound: 40+ for 47."""
    low = int(turns)
    return f"{min(low // MANY_TURNS * MANY_TURNS, MAX_TURNS) if low >= MANY_TURNS else low}+"


def _two_digits(turns: float) -> int:
    """Round to two digits: a forecast is no more exact."""
    step = 1
    while turns >= 100 * step:
        step *= 10
    return int(turns / step + 0.5) * step


_MODEL: Final = lazy_pattern(
    r"(?:.*\.)?claude-(?:(?P<family>[a-z]+)-(?P<version>\d+(?:-\d{1,2}(?!\d))?)"
    r"|(?P<old_version>\d+(?:-\d{1,2}(?!\d))?)-(?P<old_family>[a-z]+))(?P<rest>.*)$"
)


def model_name(name: str | None) -> str:
    """Shorten a model's id to what people call it; an id of another form stays."""
    if not name:
        return NOTHING
    found = _MODEL.match(name)
    if not found:
        return name
    version = (found["version"] or found["old_version"]).replace("-", ".")
    large = " 1M" if "[1m]" in found["rest"] else ""
    return f"{found['family'] or found['old_family']} {version}{large}"


_JOINER: Final = "\u200d"
_MAX_CHARS_PER_CELL: Final = 8
"""A sign with its marks and joiners has no more characters, and a text can have 4,000."""


def text_cells(text: str) -> int:
    """Return the cells that a text takes; what most tables hold is not looked up sign by sign."""
    if has_usual_signs(text):
        return len(text)
    from rich.cells import cell_len  # with tables of all signs

    return cell_len(text)


def fit_left(text: str, cells: int) -> str:
    """Cut or fill a text to exactly `cells` cells, at its left edge."""
    if _is_whole(text, cells):
        return text.ljust(cells)
    cut = shorten(text, cells)
    return cut + " " * (cells - text_cells(cut))


def fit_right(text: str, cells: int) -> str:
    """Cut or fill a text to exactly `cells` cells, at its right edge."""
    if _is_whole(text, cells):
        return text.rjust(cells)
    cut = shorten(text, cells)
    return " " * (cells - text_cells(cut)) + cut


def _is_whole(text: str, cells: int) -> bool:
    """Return whether a text of usual signs fits: most cells of a table do, as they are."""
    return len(text) <= cells and has_usual_signs(text)


def shorten(text: str, cells: int) -> str:
    """Shorten prose at its end, and a path at its beginning: its file name says most.

    A tool's name may stand before the path.
    """
    text = _drawable(text)
    if _fits(text, cells):
        return text
    found = _PATH.fullmatch(text)
    if found is None or len(found["before"]) >= cells // 2:
        return shorten_end(_shorten_paths(text, min(MAX_PATH_CELLS, cells // 3)), cells)
    return found["before"] + shorten_path(found["path"], cells - len(found["before"]))


_PATH: Final = lazy_pattern(
    r"(?P<before> *(?:[A-Za-z]+ )?)(?P<path>(?:[~.:\w@+-]*[/\\])+[^\s/\\]*)"
)


MAX_PATH_CELLS: Final = 48  # of a path in a sentence that is too long
# It begins with its slash, which is far quicker to find than a place that nothing stands before.
_PATH_IN_TEXT: Final = lazy_pattern(r"/(?<![\w./~…]/)(?:[^\s/:;,'\"“”]+/)+[^\s/:;,'\"“”]+")


def _shorten_paths(text: str, cells: int) -> str:
    return _PATH_IN_TEXT.sub(lambda match: shorten_path(match[0], cells), text)


def shorten_end(text: str, cells: int) -> str:
    """Shorten a text to `cells` cells at its end; wide characters stay whole."""
    text = _drawable(text)
    if _fits(text, cells):
        return text
    return f"{_first_cells(text, cells - 1).rstrip(_JOINER)}…" if cells > 0 else ""


def shorten_path(path: str, cells: int) -> str:
    """Shorten a path at its beginning, to its last whole folders; a long name at its end."""
    text = _drawable(path)
    if _fits(text, cells):
        return text
    name = re.split(r"[/\\](?=[^/\\])", text)[-1]
    if text_cells(name) + len("…/") > cells:
        return shorten_end(name, cells)
    end = _last_cells(text, cells - 1).lstrip(_JOINER)
    folder = re.search(r"[/\\]", end)
    return f"…{end[folder.start() :] if folder else end}"


def shorten_middle(text: str, cells: int) -> str:
    """Shorten an id to `cells` cells by taking out its middle; wide characters stay whole."""
    if _is_whole(text, cells):
        return text
    text = _drawable(text)
    if _fits(text, cells):
        return text
    if cells < 1:
        return ""
    head = cells // 2
    tail = cells - 1 - head
    return f"{_first_cells(text, head).rstrip(_JOINER)}…{_last_cells(text, tail).lstrip(_JOINER)}"


def _drawable(text: str) -> str:
    if not text.isprintable():
        # Most texts are; a file's name or path was not sanitized yet.
        text = one_line(text)
    # At an end it would join the text beside it, and take its cell.
    return text.strip(_JOINER)


def _fits(text: str, cells: int) -> bool:
    if text.isascii():
        return len(text) <= cells
    return len(text) <= _MAX_CHARS_PER_CELL * max(1, cells) and text_cells(text) <= cells


def _first_cells(text: str, cells: int) -> str:
    # With the sign that follows: a mark would belong to the last one.
    if cells < 1 or text[:cells].isascii() or has_usual_signs(text[: cells + 1]):
        return text[: max(0, cells)]
    from rich.cells import chop_cells

    taken = next(iter(chop_cells(text[: _MAX_CHARS_PER_CELL * cells], cells)), "")
    return taken if text_cells(taken) <= cells else ""


def _last_cells(text: str, cells: int) -> str:
    if cells < 1:
        return ""
    if text[-cells:].isascii():
        return text[-cells:]
    taken = ""
    for character in reversed(text):
        if text_cells(character + taken) > cells:
            break
        taken = character + taken
    return taken


def sparkline(numbers: Sequence[float | None], cells: int, top: float | None = None) -> str:
    """Draw numbers from 0 to `top`, or to the largest, oldest first, in at most so many cells.

    If there are more of them than cells, a cell shows the largest of its share; a cell without a
    number is empty.
    """
    if not numbers or cells < 1:
        return ""
    shown = _bucket_peaks(numbers, min(cells, len(numbers)))
    most = top or max((each for each in shown if each is not None), default=0) or 1
    return "".join(" " if each is None else _block(each / most) for each in shown)


def _block(share: float) -> str:
    return "▁▂▃▄▅▆▇█"[min(max(int(share * 8), 0), 7)]


def _bucket_peaks(numbers: Sequence[float | None], cells: int) -> list[float | None]:
    edges = [round(place * len(numbers) / cells) for place in range(cells + 1)]
    parts = (numbers[start:end] for start, end in pairwise(edges))
    return [max((each for each in part if each is not None), default=None) for part in parts]


MAX_TOAST_CELLS: Final = 240  # of a toast: four lines


def toast_text(text: str) -> str:
    """Shorten a text for a toast: its paths to their ends, and each path named once."""
    seen: set[str] = set()

    def name_once(match: re.Match[str]) -> str:
        path = match[0]
        if path in seen:
            return "it"
        seen.add(path)
        return shorten_path(path, MAX_PATH_CELLS)

    return shorten(_PATH_IN_TEXT.sub(name_once, one_line(text)), MAX_TOAST_CELLS)


def format_bytes(count: int) -> str:
    """Round a number of bytes: 950 B, 21 kB, 3.4 MB."""
    if count < 1_000:
        return f"{count} B"
    return f"{count / 1e3:.0f} kB" if count < 1_000_000 else f"{count / 1e6:.1f} MB"
