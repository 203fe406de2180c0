"""Makes a session of its row in the store: title, project, status and measured context."""

from typing import Final

from ..model.claude_models import LARGE_WINDOW_SUFFIX, has_registry_entry, parse_version
from ..model.context import EXACT_OUTPUT_VERSION, StoredTokenCounts, decode_text_counts
from ..model.session import (
    BRANCH,
    LIVE_STATUSES,
    SILENT_ANSWERS,
    TOO_LONG,
    WORKING_STATUSES,
    PromptTooLong,
    Session,
    SessionStatus,
)
from ..model.session_activity import Activity, ActivityKind
from ..model.stored_rows import SessionRow
from .evidence import ContextEvidence, Evidence, ReportedWindow
from .retention import deletion_time

ACTIVE_MS: Final = 120_000
"""A session whose transcript grew this recently is active, even if no registry lists it
(clients before 2.1.112, other machines' folders)."""


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
