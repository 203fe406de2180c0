"""The status line that Claude Code runs: record its snapshot, and print one line.

Run through run.py: `… statusline STORE [-- COMMAND]`. COMMAND is a shell command, the status line
that was configured before: it gets the same stdin, and its output is printed above our line.

The budget is 60 ms, and importing the forecast alone takes longer: the reader works it out after
each update and writes one small file per session, which the status line only reads.
"""

from __future__ import annotations

import sys
import time

from ..plugin_files import plugin_log
from ..plugin_files.plugin_log import (
    MAX_PERCENT,
    MAX_TOKENS,
    STATUS_FILE_VERSION,
    is_time_in_seconds,
    plausible_window,
    status_path,
)
from .fresh_compaction import INPUT_FIELDS, FreshCompaction, find_fresh_compaction

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Final


MAX_STATUS_FILE_BYTES: Final = 16 * 1024  # ours have about 500


def read_status_file(store: str, session_id: str) -> dict[str, Any]:
    """Read what the reader saved for a session; empty if there is nothing usable."""
    path = status_path(store, session_id)
    if path is None:
        return {}
    try:
        with plugin_log.open_safely(path, "rb") as file:
            text = file.read(MAX_STATUS_FILE_BYTES) or b""
    except OSError:
        return {}
    saved = plugin_log.decode_object(text.decode("utf-8", "replace").strip())
    return saved if saved and saved.get("v") == STATUS_FILE_VERSION else {}


_TEXT_SOURCES: Final = ("chars4", "tiktoken")  # of UsageSource, whose import would take too long
_LARGE_WINDOW_SUFFIX: Final = "[1m]"


def render_status_line(
    snapshot: Mapping[str, Any],
    saved: Mapping[str, Any],
    now_s: float | None = None,
    compacted: FreshCompaction | None = None,
) -> str:
    """Render the status line from the client's `snapshot` and what the reader `saved`.

    The client's own numbers are the newest, so they win, unless the policy counts the text, or no
    answer followed a compaction: until then the client reports none, or what was before it. The
    saved trigger and forecast apply only to the model and context window they were computed for,
    and the forecast is reduced by the tokens added since. `now_s` (since 1970) is for tests.
    """
    context = _fields(snapshot, "context_window")
    size = context.get("context_window_size")
    window = _tokens(size)
    if saved.get("window_source") == "policy" or window is None:
        window = _tokens(saved.get("window_tokens")) or window
    usage = _fields(context, "current_usage")
    counts = [usage.get(name) for name in INPUT_FIELDS]
    used = sum(_tokens(count) or 0 for count in counts) or None
    sign = ""
    counts_text = saved.get("context_source") in _TEXT_SOURCES
    is_estimated = saved.get("context_state") == "estimated"
    if compacted is not None and used in {None, compacted.before_tokens}:
        is_saved = is_estimated and saved.get("compacted_at") == compacted.timestamp
        used, sign = compacted.tokens, "≈"
        if is_saved or counts_text:
            used = _tokens(saved.get("context_tokens")) or used
    elif counts_text or (used is None and is_estimated):
        # After a compaction the client reports nothing until the next answer.
        used, sign = _tokens(saved.get("context_tokens")), "≈"
    if sign == "" and any(map(_is_too_large, counts)):
        used, parts = None, ["context unreadable"]
    elif window is None and _is_too_large(size):
        parts = [f"{_context_text(used, None, sign) or 'context'}, window unreadable"]
    else:
        parts = [_context_text(used, window, sign)]
    model = _fields(snapshot, "model").get("id")
    is_same_model = isinstance(model, str) and saved.get("model") == model.removesuffix(
        _LARGE_WINDOW_SUFFIX
    )
    if is_same_model and window is not None and saved.get("window_tokens") == window:
        parts.append(_trigger_text(used, saved))
    prices = saved if is_same_model else {}
    now = time.time() if now_s is None else now_s
    if cache := _find_cache(_fields(snapshot, "prompt_cache"), used, saved):
        parts.append(_cache_text(*cache, prices, now))
    if noncompliant := _tokens(saved.get("agents_noncompliant")):
        parts.append(f"{noncompliant} noncompliant agent{'' if noncompliant == 1 else 's'}")
    parts.append(_limits_text(snapshot, now))
    return " · ".join(part for part in parts if part)


def format_tokens(tokens: int) -> str:
    """Format a number of tokens in at most five characters: 950, 12k, 168k, 1M, 1.2M."""
    if tokens < 1_000:
        return str(tokens)
    if tokens < 999_500:
        return f"{round(tokens / 1_000)}k"
    millions = tokens / 1_000_000
    shown = f"{millions:.1f}" if millions < 10 else f"{millions:.0f}"
    return f"{shown.removesuffix('.0')}M"


def _context_text(used: int | None, window: int | None, sign: str) -> str:
    if used is None:
        return f"context –/{format_tokens(window)}" if window else ""
    if not window:
        return f"context {sign}{format_tokens(used)}"
    if plausible_window(window, used) is None:
        return f"context {sign}{format_tokens(used)}, window unreadable"
    share = f"{round(100 * used / window)}%"
    return f"context {sign}{share} {sign}{format_tokens(used)}/{format_tokens(window)}"


def _trigger_text(used: int | None, saved: Mapping[str, Any]) -> str:
    trigger = _tokens(saved.get("trigger_tokens"))
    if not trigger:
        return ""
    turns = _turns_text(used, trigger, saved)
    return f"compacts at {format_tokens(trigger)}" + (f", {turns}" if turns else "")


def _turns_text(used: int | None, trigger: int, saved: Mapping[str, Any]) -> str:
    """Update the forecast: the turns shrink in proportion to the tokens left to the trigger."""
    turns = _fields(saved, "turns_left")
    bounds = [_tokens(turns.get(name)) for name in ("p50", "p80", "low")]
    counter, then = _tokens(saved.get("counter_tokens")), _tokens(saved.get("context_tokens"))
    if used is None or counter is None or then is None:
        return ""
    added = used - then
    left = trigger - counter
    if added < 0:
        # Compacted since: there is no new forecast yet.
        return ""
    rest = max(0, left - added) / left if added and left > 0 else 1.0
    p50, p80, low = (None if each is None else round(each * rest) for each in bounds)
    if p50 is None or p80 is None:
        return "" if low is None else f"{low // 10 * 10 or low}+ turns"
    return f"≈{p50} turns" if p50 == p80 else f"≈{p50}-{p80} turns"


_LONGEST_CACHE_S: Final = 24 * 3600  # none lasts longer than an hour: it is no such time
_MAX_COLD_USD: Final = 1_000  # of writing a million tokens to the cache: ten dollars
_MIN_COLD_TOKENS: Final = 20_000  # of `cold.min_tokens`, until the reader has saved the policy's


def _find_cache(
    cache: Mapping[str, Any], used: int | None, saved: Mapping[str, Any]
) -> tuple[int, int, str] | None:
    """Return when the cache expires (seconds since 1970), what it holds, and ≈ for an estimate.

    None if that is unknown, or so little that nothing is said. A client that reports nothing
    (before 2.1.251) has the cache that the reader saved of the same answer.
    """
    is_warm, sign = cache.get("warm"), ""
    cold = cache.get("recache_tokens_if_cold")
    expires, tokens = _time(cache.get("expires_at")), _tokens(cold)
    if is_warm is False and expires is None:
        expires = 0
    elif is_warm is None and used is not None and saved.get("context_tokens") == used:
        expires, tokens = _time(saved.get("cache_expires_at")), _tokens(saved.get("cold_tokens"))
        sign = "≈"
    if _is_too_large(cold):
        return None
    tokens = tokens or used
    least = _tokens(saved.get("cold_min_tokens"))
    if expires is None or not tokens or tokens < (_MIN_COLD_TOKENS if least is None else least):
        return None
    return expires, tokens, sign


def _cache_text(
    expires: int, tokens: int, sign: str, prices: Mapping[str, Any], now_s: float
) -> str:
    """Return what the next prompt writes to the cache again.

    The client draws the line after an answer and when the cache expires, and not in between
    (2.1.329): until when the cache lasts stays true, and how long it still lasts would not.
    """
    usd, priced = prices.get("cold_usd"), _tokens(prices.get("cold_tokens"))
    size = format_tokens(tokens)
    if type(usd) is float and priced and 0 <= usd <= _MAX_COLD_USD:
        size += f" ≈${usd * tokens / priced:,.2f}"
    if expires > now_s + _LONGEST_CACHE_S:
        return ""
    if expires <= now_s:
        return f"{sign}cold: next prompt rewrites {size}"
    until = time.strftime("%H:%M", time.localtime(expires))
    return f"cached until {sign}{until}, then rewrites {size}"


_LIMIT_NAMES: Final = {"five_hour": "5h", "seven_day": "week", "spend_limit": "spend limit"}
HALF_DAY_S: Final = 12 * 3600  # a time further away is written with its weekday
SECOND_LIMIT_PERCENT: Final = 70  # from which another window than the first is shown, too


def _limits_text(snapshot: Mapping[str, Any], now_s: float) -> str:
    """Write the plan's limits, which only subscribers' clients report: `5h 62%, resets 17:40`."""
    limits = _fields(snapshot, "rate_limits")
    texts: list[str] = []
    for name, label in _LIMIT_NAMES.items():
        limit = _fields(limits, name)
        used, resets = limit.get("used_percentage"), limit.get("resets_at")
        if not isinstance(used, (int, float)) or isinstance(used, bool) or used < 0:
            continue
        if is_time_in_seconds(used):
            # Before the first answer some clients put the reset's time here: nothing is known.
            continue
        if not used <= MAX_PERCENT:  # NaN, too
            texts.append(f"{label} unreadable")
            continue
        resets_at = _time(resets)
        is_over = resets_at is not None and resets_at <= now_s
        if is_over or (texts and used < SECOND_LIMIT_PERCENT):
            continue
        rounded = int(used + 0.5)
        shown = f"{label} {min(rounded, 99) if used < 100 else rounded}%"
        if resets_at is not None:
            shown += f", resets {_clock_time(resets_at, now_s)}"
        elif resets is not None:
            shown += ", reset unreadable"
        texts.append(shown)
    return " · ".join(texts)


def _clock_time(seconds: int, now_s: float) -> str:
    form = "%H:%M" if seconds - now_s < HALF_DAY_S else "%a %H:%M"
    try:
        return time.strftime(form, time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return "never"


def _tokens(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else None


def _time(value: object) -> int | None:
    """Return seconds since 1970; None for what is no such time."""
    return value if type(value) is int and is_time_in_seconds(value) else None


def _is_too_large(value: object) -> bool:
    """Whether a number of tokens cannot be right: neither it nor what follows from it is shown."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return not value <= MAX_TOKENS  # NaN, too


def _fields(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    fields = value.get(name)
    return fields if isinstance(fields, dict) else {}


WRAP_SEPARATOR: Final = "--"


def main(words: Sequence[str]) -> None:
    """Record the snapshot on stdin, and print the line. Never raises."""
    if not words:
        return
    store = words[0]
    try:
        plugin_log.reserve_standard_streams()
        given = plugin_log.read_stdin()
        plugin_log.append_record(
            plugin_log.log_path(store, plugin_log.STATUS_LINE_LOG), "StatusLine", given
        )
        wrapped = b""
        if len(words) == 3 and words[1] == WRAP_SEPARATOR:
            from .wrapped_status_line import run_wrapped_command

            wrapped = run_wrapped_command(words[2], given)
        parts = (wrapped.rstrip(b"\n"), own_line(store, given))
        plugin_log.write_stdout(b"\n".join(part for part in parts if part))
    except Exception as error:  # noqa: BLE001 -- whatever it is, the client must not fail by it
        plugin_log.note_fault(
            plugin_log.log_path(store, plugin_log.ANSWER_FAULTS),
            f"status line: {type(error).__name__}: {error}",
        )


def own_line(store: str, given: bytes) -> bytes:
    snapshot = plugin_log.decode_object(given.decode("utf-8", "replace").strip())
    if snapshot is None:
        return b""
    session_id = snapshot.get("session_id")
    saved = read_status_file(store, session_id) if isinstance(session_id, str) else {}
    compacted = _find_compaction(snapshot.get("transcript_path"))
    return render_status_line(snapshot, saved, None, compacted).encode("utf-8", "replace")


def _find_compaction(transcript: object) -> FreshCompaction | None:
    if not isinstance(transcript, str):
        return None
    try:
        return find_fresh_compaction(transcript)
    except (OSError, ValueError):
        # Not written yet, or no path: the client's numbers are all that is known.
        return None


if __name__ == "__main__":
    main(sys.argv[1:])
