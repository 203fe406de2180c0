"""A session: its title, its status and its measured context."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from ..measure.activity import (
    UNKNOWN_CACHE,
    Activity,
    ActivityKind,
    PromptCache,
    SessionCost,
    WaitingFor,
)
from ..measure.cold_prompt import (
    DEFAULT_LIMITS,
    ColdLimits,
    ColdPrompt,
    RewriteCost,
    find_cold_prompt,
)
from ..measure.evidence import ContextEvidence, Evidence, ReportedWindow
from ..measure.forecast import NO_OUTLOOK, Outlook
from ..measure.models import LARGE_WINDOW_SUFFIX, has_registry_entry, parse_version
from ..measure.retention import deletion_time
from ..measure.window import UNKNOWN_WINDOW
from ..store.queries.query_rows import SessionRow, UsageRow
from ..store.transcript_records import ClientReportRecord
from .context import (
    EXACT_OUTPUT_VERSION,
    Context,
    ContextState,
    StoredTokenCounts,
    decode_text_counts,
)
from .problem import Problem

ACTIVE_MS: Final = 120_000
"""A session whose transcript grew this recently is active, even if no registry lists it
(clients before 2.1.112, other machines' folders)."""

UNSAVED_MS: Final = 10 * 60_000  # the longest that a prompt or a compaction takes to be written
UNSAVED_DAYS_MS: Final = 2 * 24 * 3_600_000  # nothing takes so long

TOO_LONG: Final = "too_long"


class SessionStatus(StrEnum):
    WAITING = "waiting"
    BUSY = "busy"
    IDLE = "idle"
    BACKGROUND = "background"  # idle, and an agent or a shell that it started runs
    ACTIVE = "active"
    TOO_LONG = "too_long"
    UNREAD = "not_read"  # not, or not to its end: what is known of it may be out of date
    ENDED = "ended"
    GONE = "gone"
    ARCHIVED = "archived"  # its file is gone, and ctxtop's archive has it


LIVE_STATUSES: Final = frozenset(
    {
        *(SessionStatus.WAITING, SessionStatus.BUSY, SessionStatus.IDLE),
        *(SessionStatus.BACKGROUND, SessionStatus.ACTIVE),
    }
)


WORKING_STATUSES: Final = frozenset({SessionStatus.BUSY, SessionStatus.ACTIVE})
SILENT_ANSWERS: Final = 3
"""Answers in a row without text or tool call: the compaction before them went wrong (R002-09)."""


BRANCH: Final = "branch"  # a fork that Claude Code made


class PromptTooLong(msgspec.Struct, frozen=True):
    """The API refused the last prompt: its size and the limit in tokens, if it named them."""

    prompt_tokens: int | None
    limit_tokens: int | None


class Session(msgspec.Struct, frozen=True):
    """One session; times are milliseconds since 1970 (UTC)."""

    session_id: str
    title: str
    project: str
    cwd: str | None  # where it is now; it may be a folder that nobody trusts
    model: str | None
    client_version: str | None
    status: SessionStatus
    live: bool
    tmux: str | None
    context: Context
    too_long: PromptTooLong | None
    refusal: str | None  # the API's message, if the last answer was one and was not recovered
    compactions: int
    last_compaction_at: int | None
    agents: int
    started_at: int | None
    last_activity_at: int | None
    path: str  # below the projects folder; empty before the first prompt
    outlook: Outlook = NO_OUTLOOK
    agents_noncompliant: int | None = None  # did not compress their results; None if not checked
    agents_copied: int = 0  # of a fork: its parent's, which count for that
    noncompliant_copied: int = 0  # of those
    forked_from: str | None = None  # the session that it was made from, by the client or by ctxtop
    activity: Activity | None = None  # None if nothing is in flight, or it is unknown
    waiting_for: WaitingFor | None = None  # None if it waits for nobody
    cache: PromptCache = UNKNOWN_CACHE
    rewrite_cost: RewriteCost | None = None  # of what the cache holds; None if it has no price
    percent_dollars: Mapping[str, float] = {}
    """What one percent of each of the plan's windows has been for its model; empty if no limits
    are reported, or too little is known."""
    cold_limits: ColdLimits = DEFAULT_LIMITS  # by its policy
    cost: SessionCost | None = None  # None if no answer has a price
    usage: UsageRow | None = None  # with its agents'; None if it has no answers
    project_root: str | None = None  # where it began, or was moved to: its policy is read there
    git_branch: str | None = None  # at the last prompt
    last_prompt: str | None = None
    recent_contexts: tuple[int, ...] = ()  # tokens, oldest first; includes what compactions left
    client: ClientReportRecord | None = None  # what its status line said; None if it has none
    is_silent: bool = False  # SILENT_ANSWERS in a row after its last compaction, and it is idle
    deleted_at: int | None = None  # Claude Code deletes its file then; None if it is gone already
    archived: str = ""  # how much the archive has of a file that is gone: all, summaries
    recovered_in: str | None = None
    """The fork that ctxtop made after the last answer was refused: it continues there. It is
    None again if that fork is undone or gone, or if the session itself was continued."""
    problem: str = ""  # why it is not read, or not to its end
    live_at: int | None = None  # when its client last told its status; None unless it is open
    fork_kind: str | None = None
    """How ctxtop made it of `forked_from`: a strategy, or `levels`; BRANCH if the client did."""
    is_fork_undone: bool = False  # what ctxtop made of it was undone: it is as its parent was

    def is_unsaved(self, now_ms: int) -> bool:
        """Whether its client is at work and writes no transcript: all of it will be lost.

        The client is busy since long after the last line, with no call in flight that explains
        it. A compaction writes nothing for minutes.
        """
        in_flight = self.activity is not None and self.activity.kind is not ActivityKind.MODEL
        if self.status is not SessionStatus.BUSY or in_flight or self.live_at is None:
            return False
        silent_ms = self.live_at - (self.last_activity_at or 0)
        if self.path and silent_ms >= UNSAVED_DAYS_MS:
            return True
        return silent_ms >= UNSAVED_MS and now_ms - self.live_at >= UNSAVED_MS

    @property
    def spent_tokens(self) -> int | None:
        """The tokens of all answers, each request whole; None unless the policy shows them."""
        if self.usage is None or not self.context.counting.shows_spent:
            return None
        spent = self.usage
        inputs = spent.input_tokens + spent.cache_creation_tokens + spent.cache_read_tokens
        return inputs + spent.output_tokens

    @property
    def is_working(self) -> bool:
        return self.status in WORKING_STATUSES

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for a person."""
        if self.status is SessionStatus.WAITING:
            return True
        # Clients that keep no registry do not record the status, but a pending question shows it.
        activity = self.activity
        return self.live and activity is not None and activity.kind is ActivityKind.PERSON

    def cold_prompt(self, now_ms: int) -> ColdPrompt:
        """Return what its next prompt writes to the prompt cache again, now and later."""
        return find_cold_prompt(self.cache, self.rewrite_cost, now_ms, self.cold_limits.notice_ms)

    @property
    def cold_notice_at(self) -> int | None:
        """When to notify that its cache is about to expire (ms since 1970); None for never.

        Only while it waits for a person: what it does itself keeps the cache warm.
        """
        cache, limits = self.cache, self.cold_limits
        # What runs in the background uses no cache of its.
        is_idle = self.status in {SessionStatus.IDLE, SessionStatus.BACKGROUND}
        waits = self.live and (is_idle or self.is_waiting)
        is_large = 0 < limits.notify_tokens <= (cache.tokens or 0)
        if not (waits and is_large and cache.is_for_next_model) or cache.expires_at is None:
            return None
        return cache.expires_at - limits.notice_ms if limits.notice_ms else None

    @property
    def fill_ratio(self) -> float:
        """Share of the limit that is in use, or of the window that a refused prompt would use."""
        if self.too_long is None:
            return self.context.limit_ratio or 0.0
        if self.too_long.prompt_tokens and self.too_long.limit_tokens:
            return self.too_long.prompt_tokens / self.too_long.limit_tokens
        return 1.0


def make_session(row: SessionRow, evidence: Evidence, now_ms: int) -> Session:
    seen = context_evidence(row)
    status, first_answers = _status(row, now_ms), row.first_answers or ""
    return Session(
        session_id=row.session_id,
        title=session_title(row),
        project=session_project(row),
        cwd=row.cwd,
        model=seen.model,
        client_version=row.client_version,
        status=status,
        live=row.live_status is not None or status in LIVE_STATUSES,
        tmux=row.tmux,
        context=evidence.measure(seen, stored_token_counts(row)),
        too_long=PromptTooLong(row.error_prompt_tokens, row.error_limit_tokens)
        if _is_stuck(row)
        else None,
        refusal=None if row.recovered_in else row.error_detail,
        compactions=row.boundaries,
        last_compaction_at=row.boundary_at,
        agents=row.agents,
        started_at=row.started_at,
        last_activity_at=_last_activity(row),
        path=row.path,
        forked_from=row.forked_from,
        project_root=row.project_root,
        git_branch=row.git_branch,
        last_prompt=row.last_prompt,
        # While it works, the text of its newest answer may still follow.
        is_silent=status not in WORKING_STATUSES and "0" * SILENT_ANSWERS in first_answers,
        deleted_at=_deletion_time(row, evidence),
        archived=row.archived,
        recovered_in=row.recovered_in,
        problem=row.problem or "",
        live_at=row.live_at,
        fork_kind=row.fork_kind or (BRANCH if row.forked_from else None),
        is_fork_undone=bool(row.is_fork_undone),
    )


def unread_session(session_id: str, problem: Problem) -> Session:
    """Make a session that could not be measured: all that is known of it is its id."""
    return Session(
        session_id=session_id,
        title=f"session {session_id[:8]}",
        project="",
        cwd=None,
        model=None,
        client_version=None,
        status=SessionStatus.UNREAD,
        live=False,
        tmux=None,
        context=Context(None, ContextState.UNKNOWN, UNKNOWN_WINDOW),
        too_long=None,
        refusal=None,
        compactions=0,
        last_compaction_at=None,
        agents=0,
        started_at=None,
        last_activity_at=None,
        path="",
        problem=problem.what,
    )


def _is_stuck(row: SessionRow) -> bool:
    return row.error_kind == TOO_LONG and row.recovered_in is None


def _deletion_time(row: SessionRow, evidence: Evidence) -> int | None:
    if row.gone or row.archived or not row.mtime_ns:
        return None
    return deletion_time(row.mtime_ns, evidence.cleanup_days)


def stored_token_counts(row: SessionRow) -> StoredTokenCounts:
    if row.status_tokens is not None and row.status_tokens != row.answer_tokens:
        # The client went back to an earlier answer: everything after that one is gone.
        return StoredTokenCounts(
            answer=row.status_tokens,
            output=row.status_output_tokens or 0,
            report=row.report_tokens,
            input=row.status_input or 0,
            cache_creation=row.status_cache_creation or 0,
            cache_read=row.status_cache_read or 0,
            # Its text is counted again with the next answer.
            texts=decode_text_counts(row.text_counts),
        )
    version = parse_version(row.client_version)
    return StoredTokenCounts(
        answer=row.answer_tokens,
        output=row.answer_output or 0,
        # Before that version the recorded output may be a placeholder.
        answer_text=row.answer_text_tokens if version and version < EXACT_OUTPUT_VERSION else 0,
        after_answer=row.after_answer_tokens,
        boundary_estimate=row.post_tokens,
        next_request=row.estimated_next_tokens,
        is_answer_estimated=bool(row.is_answer_estimated),
        cleared=row.cleared_tokens,
        also_counted=row.also_counted_tokens or 0,
        report=row.report_tokens,
        input=row.answer_input or 0,
        cache_creation=row.answer_cache_creation or 0,
        cache_read=row.answer_cache_read or 0,
        texts=decode_text_counts(row.text_counts),
    )


def context_evidence(row: SessionRow) -> ContextEvidence:
    asked, model = _models(row)
    return ContextEvidence(
        session_id=row.session_id,
        cwd=row.cwd,
        project_root=row.project_root,
        model=model,
        asked_model=asked,
        client_version=row.client_version,
        # What another model saw says nothing about this one's window.
        peak_tokens=(row.peak_tokens or 0) if model == row.last_model else 0,
        limit_tokens=row.limit_tokens,
        report=_window_report(row, model),
        answer_tokens=(row.answer_tokens if row.status_tokens is None else row.status_tokens) or 0,
        # The client went back to an earlier answer if its status line has another one's.
        passed_tokens=(row.passed_tokens or 0)
        if row.status_tokens in {None, row.answer_tokens}
        else 0,
    )


def _models(row: SessionRow) -> tuple[str | None, str | None]:
    """Return the model's name as it was requested, and as in the API.

    A model that was chosen after the last answer is the next request's.
    """
    if row.next_model:
        return row.next_model, row.next_model.removesuffix(LARGE_WINDOW_SUFFIX)
    answered = row.answer_model or row.last_model
    if answered is None and row.asked_model:
        return row.asked_model, row.asked_model.removesuffix(LARGE_WINDOW_SUFFIX)
    return row.asked_model, answered


def _window_report(row: SessionRow, model: str | None) -> ReportedWindow | None:
    """Return the window that `/context` reported for the current model."""
    named = (row.report_model or "").removesuffix(LARGE_WINDOW_SUFFIX)
    if row.report_window is None or named != model:
        return None
    buffer = row.report_buffer
    return ReportedWindow(row.report_window, None if buffer is None else row.report_window - buffer)


def session_title(row: SessionRow) -> str:
    """Choose a session's title: the person's, the client's, or what its first prompt is about.

    What says nothing is skipped, but a name that was given is better than none. The last prompt
    comes last: it is any prompt, not the task (claude-code-formats 2.9).
    """
    from ..transcript.titles import first_telling, recorded_title  # compiles long patterns

    names = (row.live_name, row.custom_title, row.ai_title, row.summary_title)
    prompts = (row.prompt_title, row.first_prompt, row.last_prompt, row.message_title)
    title = first_telling((*map(recorded_title, names), *prompts))
    fallback = f"{'session' if row.path else 'new session'} {row.session_id[:8]}"
    return title or next(filter(None, names), fallback)


_WORKTREE_FOLDERS: Final = frozenset({"worktrees", ".worktrees"})


def session_project(row: SessionRow) -> str:
    """Name a session's project so that worktrees and folders of one project differ.

    `shop`, `shop/frontend` below the folder where it began, and `shop/fix-login` for the worktree
    `shop/.claude/worktrees/fix-login`, and for any other git worktree of that name.
    """
    if not row.cwd:
        return project_name(row.project_root, row.project)
    if row.worktree:
        path, _, owner = row.worktree.partition("\n")
        below = row.cwd.removeprefix(path).rstrip("/")
        return f"{project_name(owner, '')}/{project_name(path, '')}{below}"
    parts = row.cwd.replace("\\", "/").rstrip("/").split("/")
    for place in range(len(parts) - 2, 0, -1):
        if parts[place] in _WORKTREE_FOLDERS:
            owner = parts[place - 2] if parts[place - 1] == ".claude" else parts[place - 1]
            return f"{owner}/{'/'.join(parts[place + 1 :])}" if owner else parts[-1]
    root = (row.project_root or "").replace("\\", "/").rstrip("/").split("/")
    if len(root) > 1 and len(parts) > len(root) and parts[: len(root)] == root:
        return "/".join(parts[len(root) - 1 :])
    return project_name(row.cwd, row.project)


def project_name(cwd: str | None, slug: str) -> str:
    """Name a project by its folder; the slug is lossy and only a fallback (formats 1.2)."""
    if cwd:
        name = cwd.replace("\\", "/").rstrip("/").rpartition("/")[2]
        return name or cwd
    return slug.strip("-") or slug


def _status(row: SessionRow, now_ms: int) -> SessionStatus:
    # These matter more than that an earlier prompt was too long.
    if row.live_status in {SessionStatus.WAITING, SessionStatus.BUSY}:
        return SessionStatus(row.live_status)
    if row.problem:
        return SessionStatus.UNREAD
    if row.archived:
        # Nothing but to restore it can be done, whatever its last prompt was.
        return SessionStatus.ARCHIVED
    if _is_stuck(row):
        return SessionStatus.TOO_LONG
    if row.live_status is not None:
        # Besides those above, the registry has only this word (claude-code-formats 1.4).
        return SessionStatus.IDLE
    if row.gone:
        return SessionStatus.GONE
    last = _last_activity(row)
    has_ended = row.is_unregistered and has_registry_entry(row.client_version)
    if last is not None and 0 <= now_ms - last < ACTIVE_MS and not has_ended:
        return SessionStatus.ACTIVE
    return SessionStatus.ENDED


def status_while_doing(status: SessionStatus, activity: Activity | None) -> SessionStatus:
    """Return the status of a session that does this: an idle one may wait for its own work."""
    is_background = activity is not None and activity.kind is ActivityKind.BACKGROUND
    return SessionStatus.BACKGROUND if status is SessionStatus.IDLE and is_background else status


def _last_activity(row: SessionRow) -> int | None:
    """Return the time of the last line: the file's own time changes when its folder is copied."""
    return row.last_at or (row.mtime_ns // 1_000_000 if row.mtime_ns else None)
