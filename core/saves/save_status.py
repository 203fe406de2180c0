"""The state of a project's save: a pure function of its files and of its transcripts' signs."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from ..model.config_records import SaveError, SaveFileContent, SaveFileKind, SaveFileRecord
from .save_noise import SaveNoise, expand_categories
from .selected_files import ProjectSaveFiles, SaveLimits, content_of, written_ms

MS_PER_SECOND: Final = 1000


class ConfirmationSource(StrEnum):
    NOTE = "the plugin's note at a prompt"
    """From the result file itself, which is deleted with it (004-52)."""
    CLOSING_LINE = "the session's closing line"  # the model's or a script's words (R004-17)


class SaveConfirmation(msgspec.Struct, frozen=True):
    source: ConfirmationSource
    at: int  # milliseconds since 1970
    categories: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()


_NOTE: Final = re.compile(r"Memories saved(?: \(([^)]*)\))?(?:: (.*))?", re.DOTALL)
_ERRORS: Final = re.compile(r"\s*\[errors: .*\]\s*$", re.DOTALL)


def parse_save_note(text: str, at: int | None) -> SaveConfirmation | None:
    """Parse a note (004-58); None if it reports no save of its own project."""
    found = _NOTE.match(text)
    if found is None or at is None or text.startswith("Memories saved in project:"):
        return None
    titles = _ERRORS.sub("", found[2] or "").strip()
    categories = expand_categories((found[1] or "").split(","))
    return SaveConfirmation(ConfirmationSource.NOTE, at, categories, (titles,) if titles else ())


def parse_closing_line(noise: SaveNoise) -> SaveConfirmation | None:
    """Return what a save's closing line reports; None if it has none."""
    if not noise.said or noise.said_at is None:
        return None
    source = ConfirmationSource.CLOSING_LINE
    return SaveConfirmation(source, noise.said_at, noise.categories, noise.said)


class SaveState(StrEnum):
    """The states of requirements 2.2.3."""

    NONE = "none"
    TRIAGED = "triaged"
    SAVING = "saving"
    SAVED = "saved"
    PARTIAL = "partial"
    PENDING = "pending"
    ORPHANED = "orphaned"
    FAILED_UNKNOWN = "failed_unknown"
    CORRUPT = "corrupt"


NEEDS_ATTENTION: Final = frozenset(SaveState) - {
    SaveState.NONE,
    SaveState.TRIAGED,
    SaveState.SAVING,
    SaveState.SAVED,
}
"""A person has to do something, or memories are lost."""

SAVE_AGAIN: Final = "run /memory:save in that project to save again"
LOST_SAVE_FIXES: Final = {
    SaveState.ORPHANED: SAVE_AGAIN,
    SaveState.FAILED_UNKNOWN: f"{SAVE_AGAIN}; M shows more",
    SaveState.CORRUPT: "check that file; ctxtop does not change it",
}
"""States that the plugin may not report, and what a person can do."""


class SaveStatus(msgspec.Struct, frozen=True):
    """A state, why, and the file that says so; times in milliseconds since 1970."""

    state: SaveState
    reason: str
    source_file: SaveFileRecord | None = None
    since_ms: int | None = None
    categories: tuple[str, ...] = ()  # saved, or still to be saved; empty if unknown
    saved_categories: tuple[str, ...] = ()  # of a save that failed in part
    titles: tuple[str, ...] = ()
    errors: tuple[SaveError, ...] = ()
    next_change_ms: int | None = None  # when time alone will change the state
    is_logged: bool = False  # only the plugin's log says so

    @property
    def state_text(self) -> str:
        return self.state.value.replace("_", " ")


class LoggedEnd(msgspec.Struct, frozen=True):
    """The end of a save in the plugin's log (R004-10)."""

    at: int  # milliseconds since 1970
    error: str | None = None


class LostRequest(msgspec.Struct, frozen=True):
    """A session was asked to save, by triage data that was never there, and did not try."""

    at: int  # milliseconds since 1970
    last_at: int  # of the session's lines about it
    data_file: str
    categories: tuple[str, ...]


class SaveSigns(msgspec.Struct, frozen=True):
    """What transcripts and the plugin's log tell of a save."""

    last_sign_ms: int | None = None  # of a session that is still saving
    confirmation: SaveConfirmation | None = None  # the newest report of a save
    logged: LoggedEnd | None = None  # the newest one
    lost: LostRequest | None = None


# The states in `.triage-handled` (R004-03), the sentinel.
_SAVING_WORD, _SAVED_WORD, _FAILED_WORD, _PENDING_WORD = "saving", "saved", "failed", "pending"
_SENTINEL_SAVING: Final = "the sentinel says saving"
_SENTINEL_SAVED: Final = "the sentinel says saved"
_SENTINEL_FAILED: Final = "the sentinel says failed, and nothing says which categories"
_WAITING: Final = "waiting for its session to save it"
_AT_WORK: Final = "its session is working on it"
_DEFERRED: Final = "triage.save_mode is deferred: nothing is saved before /memory:save"


def find_save_status(
    flow: ProjectSaveFiles,
    now_ms: int,
    limits: SaveLimits,
    signs: SaveSigns = SaveSigns(),  # noqa: B008 -- immutable
) -> SaveStatus:
    """Return the status of a project's save at `now_ms`; its files outrank the transcript's signs.

    Sources: requirements 2.2.3, 004-59 to 004-66, R004-03, R004-06 to R004-09.
    """
    torn = next((file for file in flow.invalid if file.kind is SaveFileKind.PENDING), None)
    if flow.pending is None and torn:
        return _of_corrupt_file(torn)
    if flow.pending:
        running = _new_save_running(flow.handled, flow.pending, now_ms, limits)
        return running or _of_pending_file(flow, flow.pending, signs.logged)
    if flow.triage:
        return _after_triage(flow, flow.triage, now_ms, limits, signs)
    valid = [file for file in (*flow.results, flow.handled) if file]
    if flow.invalid and not any(written_ms(file) > written_ms(flow.invalid[0]) for file in valid):
        return _of_corrupt_file(flow.invalid[0])
    return _finish(flow, _without_triage(flow, now_ms, limits, signs))


def ends_current_save(result: SaveFileRecord, flow: ProjectSaveFiles) -> bool:
    """Whether a result ends the save that the triage data started (R004-08)."""
    if flow.triage is None:
        return True
    session = content_of(result).session_id
    handled_by = content_of(flow.handled).session_id if flow.handled else None
    if session and handled_by and session != handled_by:
        return False
    return written_ms(result) >= written_ms(flow.triage)


def _new_save_running(
    handled: SaveFileRecord | None, pending: SaveFileRecord, now_ms: int, limits: SaveLimits
) -> SaveStatus | None:
    """Detect a new save while an earlier one is still pending (004-64)."""
    if handled is None or written_ms(handled) <= written_ms(pending):
        return None
    at = written_ms(handled)
    end = at + limits.sentinel_ttl_s * MS_PER_SECOND
    if content_of(handled).state != _SAVING_WORD or now_ms > end:
        return None
    reason = "a new save is running; an earlier one is still pending"
    waiting = expand_categories(content_of(pending).categories or ())
    return SaveStatus(SaveState.SAVING, reason, handled, at, waiting, next_change_ms=end + 1)


SAME_SAVE_MS: Final = 60 * MS_PER_SECOND
"""A partial save writes its result and what is pending within a few seconds (004-57)."""


def is_same_save(result: SaveFileRecord, pending: SaveFileRecord) -> bool:
    return abs(written_ms(result) - written_ms(pending)) <= SAME_SAVE_MS


def _all_of_save(*files: SaveFileRecord) -> tuple[str, ...]:
    """Return the categories of a save, by its pending files, the newest first.

    A save that is repeated leaves only what still fails (004-62): an older file belongs to the
    same save as long as it names all that the newer ones name.
    """
    named: tuple[str, ...] = ()
    for file in files:
        content = content_of(file)
        older = expand_categories((*(content.categories or ()), *(content.succeeded or ())))
        if not set(named) <= set(older):
            break
        named = older
    return named


def _finish(flow: ProjectSaveFiles, status: SaveStatus) -> SaveStatus:
    """Return the status, marked as finished if nothing of an earlier save is pending any more.

    The plugin deletes a pending file only after everything in it was saved (004-62).
    """
    if not flow.earlier_pending or status.state not in {SaveState.SAVED, SaveState.NONE}:
        return status
    last, named = flow.earlier_pending[0], _all_of_save(*flow.earlier_pending)
    later = [file for file in flow.results if written_ms(file) >= written_ms(last)]
    waiting = expand_categories(content_of(last).categories or ())
    ended = status.source_file
    if not named or (later and (ended != later[-1] or not set(waiting) <= set(status.categories))):
        return status
    count = len(named)
    return msgspec.structs.replace(
        status,
        state=SaveState.SAVED,
        reason=f"finished: {count} of {count} saved, nothing is pending any more",
        since_ms=max(status.since_ms or 0, written_ms(last)),
        categories=named,
        saved_categories=named,
    )


def _of_pending_file(
    flow: ProjectSaveFiles, file: SaveFileRecord, logged: LoggedEnd | None
) -> SaveStatus:
    content, at = content_of(file), named_time_ms(file)
    # The plugin writes an error into the result, and only its category into what is pending.
    # The result is deleted once a prompt has confirmed it (004-52).
    same = (each for each in flow.results if is_same_save(each, file))
    told = next(map(content_of, same), SaveFileContent())
    errors = tuple(dict.fromkeys((*(content.errors or ()), *(told.errors or ()))))
    if not errors and logged and abs(logged.at - written_ms(file)) <= SAME_SAVE_MS:
        errors = _logged_errors(logged)
    waiting = expand_categories(content.categories or ())
    named = (*_all_of_save(file, *flow.earlier_pending), *(told.categories or ()))
    saved = tuple(name for name in expand_categories(named) if name not in waiting)
    why = content.reason or "no reason given"
    if not waiting:
        # R004-07: the plugin counts an empty list, says nothing, and looks no further.
        reason = f"the save failed ({why}) and did not say which categories"
        return SaveStatus(SaveState.FAILED_UNKNOWN, reason, file, at, (), saved, errors=errors)
    if saved or content.reason == "partial_failure":
        reason = _partial_reason(saved, waiting, errors, why)
        titles = told.titles or ()
        return SaveStatus(SaveState.PARTIAL, reason, file, at, waiting, saved, titles, errors)
    reason = f"{_category_count(len(waiting))} still to save ({_cause(waiting, errors, why)})"
    return SaveStatus(SaveState.PENDING, reason, file, at, waiting, errors=errors)


def _after_triage(
    flow: ProjectSaveFiles,
    triage: SaveFileRecord,
    now_ms: int,
    limits: SaveLimits,
    signs: SaveSigns,
) -> SaveStatus:
    began = written_ms(triage)
    ended = next((file for file in flow.results if ends_current_save(file, flow)), None)
    torn = next((file for file in flow.invalid if written_ms(file) >= began), None)
    if torn and not (ended and written_ms(ended) > written_ms(torn)):
        return _of_corrupt_file(torn)
    if ended:
        return _of_result(ended)
    note = signs.confirmation
    if note and note.source is ConfirmationSource.NOTE and note.at >= began:
        return _of_confirmation(note)
    wanted = expand_categories(content_of(triage).categories or ())
    if signs.logged and signs.logged.at >= began:
        return _of_logged_end(signs.logged, wanted)
    handled = flow.handled if flow.handled and written_ms(flow.handled) >= began else None
    word = content_of(handled).state if handled else None
    if handled and word == _FAILED_WORD:
        return SaveStatus(SaveState.FAILED_UNKNOWN, _SENTINEL_FAILED, handled, written_ms(handled))
    if handled and word == _SAVED_WORD:
        return SaveStatus(SaveState.SAVED, _SENTINEL_SAVED, handled, written_ms(handled), wanted)
    # A session that still gives signs has not crashed, however long its save takes (R004-04).
    last = max(began, signs.last_sign_ms or 0)
    if handled and word in {_SAVING_WORD, _PENDING_WORD}:
        last = max(last, written_ms(handled))
    orphaned_at = last + limits.orphan_after_s * MS_PER_SECOND
    # R004-09: orphaned once it is older than that; a time in the future does not count.
    is_late = began <= now_ms and now_ms > orphaned_at
    if is_late and flow.is_deferred:
        return SaveStatus(SaveState.PENDING, _DEFERRED, triage, began, wanted)
    if is_late:
        reason = (
            f"triaged, and no sign of a save for more than {limits.orphan_after_s} s:"
            " neither a result nor anything pending"
        )
        return SaveStatus(SaveState.ORPHANED, reason, triage, began, wanted)
    state, reason, file = SaveState.TRIAGED, _WAITING, triage
    if handled and word == _SAVING_WORD:
        state, reason, file = SaveState.SAVING, _SENTINEL_SAVING, handled
    elif last > began and signs.last_sign_ms == last:
        state, reason = SaveState.SAVING, _AT_WORK
    elif began > now_ms:
        reason = "its time is in the future"
    change = max(orphaned_at, began) + 1
    return SaveStatus(state, reason, file, written_ms(file), wanted, next_change_ms=change)


def _without_triage(
    flow: ProjectSaveFiles, now_ms: int, limits: SaveLimits, signs: SaveSigns
) -> SaveStatus:
    """Return the status when there is neither a pending file nor triage data."""
    ended = next(iter(flow.results), None)
    handled, report = flow.handled, signs.confirmation
    newest_ms = max(written_ms(file) if file else 0 for file in (ended, handled))
    if signs.lost and signs.lost.at > max(newest_ms, report.at if report else 0):
        return _of_lost_request(signs.lost, now_ms, limits)
    if signs.logged and _is_logged_last(signs.logged, ended, handled, report):
        return _of_logged_end(signs.logged)
    if report and report.at >= newest_ms:
        # A note at a prompt repeats a result, which has the numbers.
        is_note = report.source is ConfirmationSource.NOTE
        return _of_result(ended) if ended and is_note else _of_confirmation(report)
    if handled is None or (ended and written_ms(ended) >= written_ms(handled)):
        return _of_result(ended) if ended else _without_files(now_ms, limits, signs)
    at, word = written_ms(handled), content_of(handled).state
    expires = at + limits.sentinel_ttl_s * MS_PER_SECOND
    if word == _FAILED_WORD:
        return SaveStatus(SaveState.FAILED_UNKNOWN, _SENTINEL_FAILED, handled, at)
    if word == _SAVING_WORD and now_ms > expires:
        reason = (
            f"the sentinel has said saving for more than {limits.sentinel_ttl_s} s,"
            " with neither a result nor anything pending"
        )
        return SaveStatus(SaveState.FAILED_UNKNOWN, reason, handled, at)
    change = expires + 1
    if word == _SAVING_WORD:
        return SaveStatus(SaveState.SAVING, _SENTINEL_SAVING, handled, at, next_change_ms=change)
    if ended:
        return _of_result(ended)
    if word == _SAVED_WORD:
        return SaveStatus(SaveState.SAVED, _SENTINEL_SAVED, handled, at)
    if now_ms <= expires:
        reason = "the sentinel says that the triage ran"
        return SaveStatus(SaveState.TRIAGED, reason, handled, at, next_change_ms=change)
    return SaveStatus(SaveState.NONE, "only an old sentinel", handled, at)


def _is_logged_last(
    logged: LoggedEnd,
    ended: SaveFileRecord | None,
    handled: SaveFileRecord | None,
    report: SaveConfirmation | None,
) -> bool:
    """Whether the log alone tells of the last save: its files and notes tell more of theirs."""
    told_ms = max(written_ms(ended) if ended else 0, report.at if report else 0)
    if logged.at <= told_ms + SAME_SAVE_MS:
        return False
    # The sentinel is written at the same time; only a later one is of another save.
    return handled is None or logged.at >= written_ms(handled) - SAME_SAVE_MS


def _of_logged_end(logged: LoggedEnd, wanted: tuple[str, ...] = ()) -> SaveStatus:
    if logged.error is None:
        reason = "the log says so"
        return SaveStatus(SaveState.SAVED, reason, None, logged.at, wanted, is_logged=True)
    return SaveStatus(
        SaveState.FAILED_UNKNOWN,
        f"the log says that the save failed: {logged.error}",
        since_ms=logged.at,
        categories=wanted,
        errors=_logged_errors(logged),
        is_logged=True,
    )


def _logged_errors(logged: LoggedEnd) -> tuple[SaveError, ...]:
    return () if logged.error is None else (SaveError("", logged.error),)


def _of_lost_request(lost: LostRequest, now_ms: int, limits: SaveLimits) -> SaveStatus:
    end = lost.last_at + limits.orphan_after_s * MS_PER_SECOND
    if now_ms <= end:
        return SaveStatus(
            SaveState.TRIAGED, _WAITING, None, lost.at, lost.categories, next_change_ms=end + 1
        )
    reason = "a session was asked to save, and the triage data that it was named is missing"
    return SaveStatus(SaveState.ORPHANED, reason, None, lost.at, lost.categories)


def _without_files(now_ms: int, limits: SaveLimits, signs: SaveSigns) -> SaveStatus:
    """Return the status when no file of a save was ever seen."""
    if signs.last_sign_ms is None:
        return SaveStatus(SaveState.NONE, "no save was seen")
    end = signs.last_sign_ms + limits.orphan_after_s * MS_PER_SECOND
    if now_ms > end:
        return SaveStatus(SaveState.NONE, "a session was asked to save; no file from it was seen")
    since = signs.last_sign_ms
    return SaveStatus(SaveState.SAVING, _AT_WORK, since_ms=since, next_change_ms=end + 1)


def _of_confirmation(report: SaveConfirmation) -> SaveStatus:
    reason = f"{report.source.value} says so"
    categories, titles = report.categories, report.titles
    return SaveStatus(SaveState.SAVED, reason, None, report.at, categories, titles=titles)


def _of_result(result: SaveFileRecord) -> SaveStatus:
    content = content_of(result)
    at, errors = named_time_ms(result), content.errors or ()
    saved, titles = expand_categories(content.categories or ()), content.titles or ()
    failed = expand_categories(error.category for error in errors)
    if not errors:
        return SaveStatus(SaveState.SAVED, "the result says so", result, at, saved, titles=titles)
    if saved:
        left = tuple(name for name in failed if name not in saved) or failed
        reason = _partial_reason(saved, left, errors, errors[0].error)
        return SaveStatus(SaveState.PARTIAL, reason, result, at, left, saved, titles, errors)
    if failed:
        reason = f"{_category_count(len(failed))} failed, none was saved"
        return SaveStatus(SaveState.PENDING, reason, result, at, failed, errors=errors)
    reason = "the result names errors, and no category"
    return SaveStatus(SaveState.FAILED_UNKNOWN, reason, result, at, errors=errors)


def _partial_reason(
    saved: Collection[str], failed: Collection[str], errors: Sequence[SaveError], why: str
) -> str:
    """Count what was saved and what failed, and say why."""
    cause = _cause(failed, errors, why)
    return f"{len(saved)} of {len(saved) + len(failed)} saved, {len(failed)} failed: {cause}"


def _cause(failed: Collection[str], errors: Sequence[SaveError], why: str) -> str:
    """Return the error of what failed; `why`, the plugin's word for it, if none is given."""
    of_failed = [each for each in errors if each.category.strip().lower() in failed]
    return next((each.error for each in (*of_failed, *errors) if each.error), why)


def named_time_ms(file: SaveFileRecord) -> int:
    """Return the time that a file names, unless it is later than the file's modification time."""
    at, written = content_of(file).at, written_ms(file)
    return at if at is not None and at <= written + MS_PER_SECOND else written


def _of_corrupt_file(file: SaveFileRecord) -> SaveStatus:
    reason = f"the {file.kind.value} file {file.problem}"
    return SaveStatus(SaveState.CORRUPT, reason, file, written_ms(file))


def _category_count(categories: int) -> str:
    return "1 category" if categories == 1 else f"{categories} categories"
