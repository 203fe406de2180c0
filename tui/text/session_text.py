"""A session in words: what it does, what fills its context, the turns left, its cost.

Several functions return the same text from long to short: a cell takes the longest that fits.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ...core.measure.limit_use import limit_ratios
from ...core.measure.retention import SOON_DAYS, days_left
from ...core.model.claude_models import HOUR_MS
from ...core.model.cold_prompt import CacheState, ColdPrompt
from ...core.model.levels import Level
from ...core.model.session import BRANCH, Session, SessionStatus
from ...core.model.session_activity import (
    Activity,
    ActivityKind,
    SessionCost,
    WaitingFor,
    WaitingKind,
)
from ...core.transcript.sanitize import one_line
from .amounts import amount_texts, dollars
from .formats import (
    age,
    duration,
    percent,
    shorten,
    shorten_end,
    sparkline,
    text_cells,
    tokens,
    turns_to_go,
)

if TYPE_CHECKING:
    from ...core.measure.composition import CategoryShare, Composition, ContextItem
    from ...core.model.problem import Problem


_STATUS_TEXTS: Final = {
    SessionStatus.WAITING: ("waits for you", "waits"),
    SessionStatus.BUSY: ("working",),
    SessionStatus.ACTIVE: ("working",),
    SessionStatus.IDLE: ("idle",),
    SessionStatus.BACKGROUND: ("background work", "background"),
    SessionStatus.TOO_LONG: ("stuck",),
    SessionStatus.UNREAD: ("not read",),
    SessionStatus.ENDED: ("ended",),
    SessionStatus.GONE: ("file is gone", "gone"),
    SessionStatus.ARCHIVED: ("archived",),
}


def agent_count(agents: int, failed: int | None) -> str:
    """Count a session's agents, and those that did not comply: `4 ✗1`."""
    if not agents:
        return ""
    return f"{agents} ✗{failed}" if failed else str(agents)


def longest_fitting(choices: Sequence[str], cells: int) -> str:
    """Choose the first text that fits; if none does, the last one is cut."""
    fitting = next((each for each in choices if text_cells(each) <= cells), "")
    return fitting or (shorten_end(choices[-1], cells) if choices else "")


def doing_text(session: Session, cells: int) -> str:
    """Describe what a session does or waits for, in at most `cells` cells."""
    activity = session.activity if session.live else None
    if activity is None:
        return longest_fitting((*recovered_texts(session), *_STATUS_TEXTS[session.status]), cells)
    if activity.kind is ActivityKind.MODEL:
        return longest_fitting(("thinking", "thinks"), cells)
    if activity.kind is ActivityKind.BACKGROUND:
        named = f"background: {one_line(activity.what)}"
        return longest_fitting((named, *_STATUS_TEXTS[SessionStatus.BACKGROUND]), cells)
    if activity.kind is ActivityKind.PERSON:
        text = waits_text(session)
        is_said = text_cells(text) <= cells or cells >= len("waits: ") + MIN_REQUEST_CELLS
        if waiting_text(session) and is_said:
            return shorten_end(text, cells)
        return _waiting_text(activity, cells)
    detail = relative_path(activity.detail, session.project_root, session.cwd)
    return _with_detail(replace(activity, detail=detail), cells)


FORK_SIGN: Final = "⑂"
_FORK_WORDS: Final = {
    BRANCH: "branch",
    "levels": "compacted",
    "condense": "condensed",
    "summarize": "summarized",
    "cut": "cut",
    "revert": "reverted",
    "rollover": "hand-off",
}


def fork_text(session: Session) -> str:
    """Return what kind of fork a session is, with its sign; empty if it is none."""
    if session.fork_kind is None:
        return ""
    word = _FORK_WORDS.get(session.fork_kind, session.fork_kind)
    return f"{FORK_SIGN} {'undone, was ' if session.is_fork_undone else ''}{word}"


def marked_title(session: Session) -> str:
    """Return a session's title; a fork has its mark before it, or it would be its parent's twin."""
    mark = fork_text(session)
    return f"{mark}: {session.title}" if mark else session.title


def recovered_texts(session: Session) -> tuple[str, ...]:
    """Write that a refused session continues in a fork, longest first; empty for others."""
    if session.recovered_in is None:
        return ()
    return (f"recovered in {session.recovered_in[:8]}", "recovered")


def relative_path(path: str, *folders: str | None) -> str:
    """Write a path relative to the first of the folders that it is in."""
    for folder in folders:
        if (
            folder
            and path.startswith(folder)
            and path[len(folder) : len(folder) + 1] in {"/", "\\"}
        ):
            return path[len(folder) + 1 :]
    return path


def waits_text(session: Session) -> str:
    """Write that a session waits for a person, and for what; empty if it does not wait."""
    if session.live and (text := waiting_text(session)):
        return text if text.startswith("asks: ") else f"waits: {text}"
    return "waits for you" if session.status is SessionStatus.WAITING else ""


PLAN_TEXT: Final = "plan approval"
QUESTION_TEXT: Final = "a question"
PERMISSION_TEXT: Final = "permission"
UNKNOWN_TEXT: Final = "an answer"


def waiting_text(session: Session) -> str:
    """Describe what a session waits for in one line, as `Bash: rm -rf build`; "" for nothing.

    The text comes from a transcript: it is sanitized, and never parsed as markup.
    """
    return one_line(_describe(session.waiting_for)) if session.waiting_for else ""


def _describe(waiting: WaitingFor) -> str:
    match waiting.kind:
        case WaitingKind.PLAN:
            return PLAN_TEXT
        case WaitingKind.QUESTION:
            return f"asks: {waiting.text}" if waiting.text else QUESTION_TEXT
        case WaitingKind.PERMISSION:
            return ": ".join(filter(None, (waiting.tool, waiting.text))) or PERMISSION_TEXT
        case _:
            return waiting.text or UNKNOWN_TEXT


def deletion_text(session: Session, now_ms: int) -> str:
    """Write when Claude Code deletes a session, if that is soon; else empty."""
    days = days_left(session.deleted_at, now_ms)
    if days is None or days > SOON_DAYS:
        return ""
    return f"deleted in {days} d" if days else "deleted today"


def state_text(session: Session, cells: int, now_ms: int) -> str:
    """Write what a session does; if it has ended, when it will be deleted if that is soon.

    Of an idle one also that its prompt cache is cold, or soon will be.
    """
    if unsaved := unsaved_texts(session, now_ms):
        return longest_fitting(unsaved[1:], cells)
    soon = deletion_text(session, now_ms)
    if soon and session.status is SessionStatus.ENDED:
        return longest_fitting((soon, *_STATUS_TEXTS[SessionStatus.ENDED]), cells)
    return _idle_text(session, now_ms, cells)


def session_facts(session: Session, now_ms: int) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield what the line under the list says besides the title: texts, longest first; a style."""
    yield (waits_text(session),), "bold $waiting"
    yield unsaved_texts(session, now_ms), "bold $level-high"
    yield passed_trigger_texts(session), "$level-warning"
    yield cold_texts(session, now_ms), "$level-notice" if session.live else "$quiet"
    yield (session.project,), "$quiet"
    yield (session.git_branch or "",), "$quiet"
    yield (f"“{session.last_prompt}”" if session.last_prompt else "",), "$foreground"


def unsaved_texts(session: Session, now_ms: int) -> tuple[str, ...]:
    """Write that a session at work writes no transcript, longest first; else empty."""
    if not session.is_unsaved(now_ms):
        return ()
    last = f": the last line is {age(session.last_activity_at, now_ms)} old" if session.path else ""
    return (f"its transcript is not being saved{last}", "not being saved", "not saved")


def passed_trigger_texts(session: Session) -> tuple[str, ...]:
    """Write that an open session passed its trigger uncompacted, longest first; else empty."""
    trigger = session.context.trigger
    if not session.live or trigger is None or not trigger.is_passed:
        return ()
    short = "auto-compact did not run"
    return (f"{short}: {one_line(trigger.detail)}", short) if trigger.detail else (short,)


MIN_REQUEST_CELLS: Final = 10  # less of what the user is asked for says less than that they are


def _waiting_text(activity: Activity, cells: int) -> str:
    start = "waits: "
    room = cells - len(start)
    if activity.what and room >= MIN_REQUEST_CELLS:
        return start + _with_detail(activity, room)
    return longest_fitting(_STATUS_TEXTS[SessionStatus.WAITING], cells)


MIN_DETAIL_CELLS: Final = 6  # less of a command or a file is not understood


def _with_detail(activity: Activity, cells: int) -> str:
    room = cells - text_cells(activity.what) - 1
    if activity.detail and room >= MIN_DETAIL_CELLS:
        return f"{activity.what} {shorten(activity.detail, room)}"
    return shorten(activity.what, cells)


def doing_age(session: Session, now_ms: int) -> str:
    since = session.activity.since if session.activity and session.live else None
    return age(session.last_activity_at if since is None else since, now_ms)


def turns_left_text(session: Session) -> str:
    """Write the turns left until auto-compact, or until the window is full; empty if unknown.

    A session that has ended has none: its next turn may never come.
    """
    end = session.outlook.end if session.live else None
    return turns_to_go(end) if end else ""


def cache_texts(session: Session, now_ms: int) -> tuple[str, ...]:
    """Format whether the next request still hits the cache, and for how long; longest first.

    Where that is much, also what a prompt after it has expired writes again, and what it costs.
    """
    cache, prompt = session.cache, session.cold_prompt(now_ms)
    if prompt.seconds_left is None or cache.expires_at is None:
        return ()
    # No cache lives longer than an hour after its estimated end.
    is_certain = now_ms > cache.expires_at + HOUR_MS or not cache.is_for_next_model
    sign = "≈" * (cache.estimated and not is_certain)
    texts = [f"{sign}cold"]
    if prompt.state is not CacheState.COLD:
        texts = [f"{sign}warm {duration(prompt.seconds_left * 1000)}", f"{sign}warm"]
    if not is_rewrite_shown(session, prompt):
        return tuple(texts)
    size, amounts = rewrite_size(prompt), rewrite_amounts(session, prompt)
    who = "your next prompt" if session.live else "a resume"
    both = ", ".join((size, *amounts[:1]))
    if prompt.state is CacheState.COLD:
        shorter = [*(f"{sign}cold {size} {each}" for each in amounts[-1:]), f"{sign}cold {size}"]
        texts = [*map(_mark_once, shorter), *texts]
        return (f"{sign}cold: {who} rewrites {both}", *texts)
    if prompt.state is CacheState.GOING_COLD:
        return (f"{texts[0]}, then {who} rewrites {both}", *texts)
    return tuple(texts)


def cold_texts(session: Session, now_ms: int) -> tuple[str, ...]:
    """Format what the next prompt rewrites, longest first; empty while that is little or cached."""
    prompt = session.cold_prompt(now_ms)
    if prompt.state is CacheState.WARM or not is_rewrite_shown(session, prompt):
        return ()
    return cache_texts(session, now_ms)[:2]


def _idle_text(session: Session, now_ms: int, cells: int) -> str:
    cold = cold_texts(session, now_ms)
    if session.status is not SessionStatus.IDLE or session.activity is not None or not cold:
        return doing_text(session, cells)
    prompt, idle = session.cold_prompt(now_ms), _STATUS_TEXTS[SessionStatus.IDLE]
    if prompt.state is CacheState.GOING_COLD:
        left = duration((prompt.seconds_left or 0) * 1000)
        return longest_fitting((f"idle · cold in {left}", f"cold in {left}", *idle), cells)
    amounts = rewrite_amounts(session, prompt)[-1:]
    texts = [f"{words} {each}" for each in amounts for words in ("idle · cold", "cold")]
    return longest_fitting((*(texts or ["idle · cold"]), "cold"), cells)


def resume_cost_text(session: Session, now_ms: int) -> str:
    """Format what the first prompt after a resume rewrites; empty if it is little or unknown."""
    prompt = session.cold_prompt(now_ms)
    if not is_rewrite_shown(session, prompt):
        return ""
    (first, *_) = cache_texts(session, now_ms)
    if prompt.state is CacheState.WARM:
        return f"{first}: until then a resume reads {rewrite_size(prompt)} from the cache"
    return first


CACHE_CELLS: Final = 18  # ≈cold 225 k 3% 5h


def short_cache_text(session: Session, now_ms: int) -> str:
    return longest_fitting(cache_texts(session, now_ms), CACHE_CELLS)


def is_rewrite_shown(session: Session, prompt: ColdPrompt) -> bool:
    """Return whether a prompt would write much again; what works uses its cache by itself."""
    return not session.is_working and prompt.matters(session.cold_limits.min_tokens)


def _mark_once(text: str) -> str:
    """Keep the first ≈ of a short text: it is for all that follows."""
    before, mark, after = text.partition("≈")
    return before + mark + after.replace("≈", "")


def rewrite_size(prompt: ColdPrompt) -> str:
    """Format what a cold prompt writes again."""
    return f"{'≈' * prompt.tokens_estimated}{tokens(prompt.tokens)}"


def rewrite_amounts(session: Session, prompt: ColdPrompt) -> tuple[str, ...]:
    """Format what that costs, longest first; empty if it has no price."""
    if prompt.usd is None:
        return ()
    ratios = limit_ratios(prompt.usd, session.percent_dollars)
    return tuple(f"≈{each}" for each in amount_texts(prompt.usd, ratios))


def cost_texts(cost: SessionCost | None) -> tuple[str, ...]:
    """Format what a session has cost, with + if some answers have no price; longest first."""
    if cost is None:
        return ()
    sign, more = "≈" * cost.estimated, "+" * cost.partial
    whole = f"${cost.usd:,.0f}"
    exact = dollars(cost.usd)
    return (f"{sign} {exact}{more}".lstrip(), f"{sign}{exact}{more}", f"{sign}{whole}{more}")


def counting_texts(session: Session) -> list[str]:
    """Describe how a policy counts differently from Claude Code, and the total it shows."""
    counting, spent = session.context.counting, session.spent_tokens
    texts = [] if counting.is_input_side else [f"counts {counting.description}"]
    return texts if spent is None else [*texts, f"{tokens(spent)} spent in all"]


MIN_HISTORY: Final = 3  # contexts: fewer show no course


def history_sparkline(session: Session, cells: int) -> str:
    """Draw the newest contexts from 0 to the window, as the bar is; empty if they are too few."""
    context = session.context
    history = list(session.recent_contexts)
    if context.tokens is not None and history[-1:] != [context.tokens]:
        history.append(context.tokens)
    if len(history) < MIN_HISTORY or cells < 1:
        return ""
    return sparkline(history[-cells:], cells, context.window.tokens)


def read_context_composition(
    db: sqlite3.Connection, projects: Path, session: Session
) -> Composition | Problem:
    """Break down a session's context into categories; reads the transcript."""
    from ...collectors.claude_code.transcript_details import (
        TranscriptUnavailableError,
        read_composition,
    )
    from ...core.model.problem import Problem

    try:
        return read_composition(db, projects, session.session_id, counting=session.context.counting)
    except TranscriptUnavailableError as error:
        return Problem(session.session_id, str(error), "")


SHARE_CELLS: Final = 24  # a share's bar: a cell is four percent


def composition_total_text(found: Composition) -> str:
    from ...core.measure.composition import CompositionSource  # after the first paint
    from ...core.model.counting_rule import CHARACTER_UNITS, NO_USAGE

    text = f"{'≈' * found.estimated}{tokens(found.total_tokens)} tokens in context"
    why = NO_USAGE if found.is_unreported else "not measured yet"
    text += f" (estimated: {why})" if found.estimated else " (measured)"
    is_sent = found.source is CompositionSource.REQUESTS
    text += ", from recorded requests" if is_sent else ", from the transcript"
    if found.later_tokens:
        text += f", plus ≈{tokens(found.later_tokens)} since"
    if found.read_bytes is not None:
        megabytes = f"{found.read_bytes / 1e6:,.0f} MB"
        text += f"; of the large transcript only the last {megabytes} were read"
    if unit := CHARACTER_UNITS.get(found.estimator):
        text += f"; texts counted as {unit}"
    return text


MIN_SHARE: Final = 0.01  # of the whole; smaller parts are only in `--json`
_LEAST_PERCENT: Final = 0.005  # rounds up to 1 %
MAX_PARTS: Final = 5  # lines below a category


def oversized_text(item: ContextItem) -> str:
    """Return the length of a result that is longer than `tools.warn_result_chars`, else nothing."""
    return f"{item.result_chars:,} characters" if item.oversized else ""


def largest_parts(share: CategoryShare) -> list[CategoryShare]:
    return [part for part in share.parts if part.share >= MIN_SHARE][:MAX_PARTS]


def window_percent(count: int, window_tokens: int) -> str:
    """Write what a part of a context takes of the window, as Claude Code's /context does."""
    ratio = count / window_tokens
    return "<1 %" if 0 < ratio < _LEAST_PERCENT else percent(ratio)


def share_tokens_text(share: CategoryShare) -> str:
    return f"{'≈' * share.estimated}{tokens(share.tokens)}"


RESET_HINT: Final = (
    "compact it, or start over with /clear, which forgets everything: save it first with"
    " `ctxtop export`"
)

LEVEL_PURPOSES: Final = {
    Level.NOTICE: "An early sign: there is still room, and no need to hurry.",
    Level.WARNING: "Time for a summary: the model is advised to save space.",
    Level.HIGH: "Compact it before Claude Code does.",
    Level.EMERGENCY: "Claude Code may compact it with the next answer.",
    Level.OVERFLOW: f"It is above the limit: {RESET_HINT}.",
}
"""Why each level is reported (002-23), by its severity."""


SELECTED_SIGN: Final = "◆"
PINNED_SIGN: Final = "↑"

SESSION_SIGNS: Final = {
    SessionStatus.BUSY: ("●", "$level-calm"),
    SessionStatus.ACTIVE: ("●", "$level-calm"),
    SessionStatus.WAITING: ("▲", "bold $waiting"),
    SessionStatus.IDLE: ("○", "$foreground"),
    SessionStatus.BACKGROUND: ("◐", "$level-calm"),
    SessionStatus.TOO_LONG: ("✗", "bold $level-emergency"),
    SessionStatus.UNREAD: ("!", "bold $level-emergency"),
    SessionStatus.ENDED: (" ", "$quiet"),
    SessionStatus.GONE: ("†", "$quiet"),
    SessionStatus.ARCHIVED: ("▪", "$quiet"),
}  # each has a sign, because color alone is not enough
