"""The state of a project's save: a pure function of its files and of what its transcripts say."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

import msgspec

from ..store.config_records import SaveError, SaveFileRecord
from .project_save_files import ProjectSaveFiles, SaveLimits, content_of, written_ms
from .save_noise import SaveNoise, expand_categories


class ConfirmationSource(StrEnum):
    """Who tells it."""

    NOTE = "the plugin's note at a prompt"
    """From the result file itself, which is deleted with it (004-52)."""
    CLOSING_LINE = "the session's closing line"  # the model's or a script's words (R004-17)


class SaveConfirmation(msgspec.Struct, frozen=True):
    """That a save was done."""

    source: ConfirmationSource
    at: int  # milliseconds since 1970
    categories: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()


_NOTE: Final = re.compile(r"Memories saved(?: \(([^)]*)\))?(?:: (.*))?", re.DOTALL)
_ERRORS: Final = re.compile(r"\s*\[errors: .*\]\s*$", re.DOTALL)


def parse_save_note(text: str, at: int | None) -> SaveConfirmation | None:
    """Read a note (004-58); None for one that tells of no save of its own project."""
    found = _NOTE.match(text)
    if found is None or at is None or text.startswith("Memories saved in project:"):
        return None
    titles = _ERRORS.sub("", found[2] or "").strip()
    named = expand_categories((found[1] or "").split(","))
    return SaveConfirmation(ConfirmationSource.NOTE, at, named, (titles,) if titles else ())


def parse_closing_line(noise: SaveNoise) -> SaveConfirmation | None:
    """Read what a save's closing line says; None where there is none."""
    if not noise.said or noise.said_at is None:
        return None
    return SaveConfirmation(
        ConfirmationSource.CLOSING_LINE, noise.said_at, noise.categories, noise.said
    )


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


NEEDS_ATTENTION: Final = frozenset(
    {
        SaveState.PARTIAL,
        SaveState.PENDING,
        SaveState.ORPHANED,
        SaveState.FAILED_UNKNOWN,
        SaveState.CORRUPT,
    }
)
"""A person has to do something, or memories are lost."""

MS_PER_SECOND: Final = 1000

_SAVING_WORD, _SAVED_WORD, _FAILED_WORD, _PENDING_WORD = "saving", "saved", "failed", "pending"
"""The words of `.triage-handled` (R004-03)."""


class SaveStatus(msgspec.Struct, frozen=True):
    """A state, why, and the file that says so."""

    state: SaveState
    reason: str
    source_file: SaveFileRecord | None = None
    since_ms: int | None = None  # since when, in milliseconds since 1970
    categories: tuple[str, ...] = ()
    """What was saved, or what is still to be; empty where nobody knows."""
    saved_categories: tuple[str, ...] = ()  # of a save that went wrong: what was saved nevertheless
    titles: tuple[str, ...] = ()
    errors: tuple[SaveError, ...] = ()
    next_change_ms: int | None = None
    """When time alone will make another state of it, in milliseconds since 1970."""


class TranscriptSigns(msgspec.Struct, frozen=True):
    """What transcripts tell of a project's saves."""

    last_sign_ms: int | None = None  # when a session that is still at a save was last heard of
    confirmation: SaveConfirmation | None = None  # the newest word that one was done


NO_SIGNS: Final = TranscriptSigns()


def find_save_status(
    flow: ProjectSaveFiles, now_ms: int, limits: SaveLimits, signs: TranscriptSigns = NO_SIGNS
) -> SaveStatus:
    """Return the status of a project's save at `now_ms`; its files outrank the transcript's signs.

    Sources: requirements 2.2.3, 004-59 to 004-66, R004-03, R004-06 to R004-09.
    """
    torn = {each.kind.value: each for each in flow.invalid}
    if flow.pending is None and "pending" in torn:
        return _of_corrupt_file(torn["pending"])
    if flow.pending:
        return _new_save_running(flow, now_ms, limits) or _of_pending_file(flow, flow.pending)
    if flow.triage:
        return _after_triage(flow, flow.triage, now_ms, limits, signs)
    if flow.invalid and not _is_outdated(flow, flow.invalid[0]):
        return _of_corrupt_file(flow.invalid[0])
    return _without_triage(flow, now_ms, limits, signs)


def ends_current_save(result: SaveFileRecord, flow: ProjectSaveFiles) -> bool:
    """Whether a result ends the save that the triage data started (R004-08)."""
    triage, handled = flow.triage, flow.handled
    if triage is None:
        return True
    told, begun = content_of(result).session_id, content_of(handled).session_id if handled else None
    if told and begun and told != begun:
        return False
    return written_ms(result) >= written_ms(triage)


def _new_save_running(flow: ProjectSaveFiles, now_ms: int, limits: SaveLimits) -> SaveStatus | None:
    """See a new save that goes on while what an earlier one left is still pending (004-64)."""
    handled, pending = flow.handled, flow.pending
    if handled is None or pending is None or written_ms(handled) <= written_ms(pending):
        return None
    at = written_ms(handled)
    end = at + limits.sentinel_ttl_s * MS_PER_SECOND
    if content_of(handled).state != _SAVING_WORD or now_ms > end:
        return None
    return SaveStatus(
        SaveState.SAVING,
        "a new save is at work; what an earlier one left is still pending",
        handled,
        at,
        expand_categories(content_of(pending).categories or ()),
        next_change_ms=end + 1,
    )


def _of_pending_file(flow: ProjectSaveFiles, file: SaveFileRecord) -> SaveStatus:
    content, at = content_of(file), _named_time_ms(file)
    errors = content.errors or ()
    waiting = expand_categories(content.categories or ())
    saved = expand_categories(content.succeeded or ())
    result = flow.result
    apart = abs(written_ms(result) - written_ms(file)) if result else 0
    if result and apart <= _SAME_SAVE_MS and not content_of(result).errors:
        saved = saved or tuple(
            each
            for each in expand_categories(content_of(result).categories or ())
            if each not in waiting
        )
    why = content.reason or "no reason given"
    if not waiting:
        # R004-07: the plugin counts an empty list, says nothing, and looks no further.
        reason = f"the save failed ({why}) and did not say which categories"
        return SaveStatus(SaveState.FAILED_UNKNOWN, reason, file, at, (), saved, errors=errors)
    if saved or content.reason == "partial_failure":
        reason = f"{len(waiting)} of {len(waiting) + len(saved)} categories still to save ({why})"
        titles = content_of(result).titles or () if result else ()
        return SaveStatus(SaveState.PARTIAL, reason, file, at, waiting, saved, titles, errors)
    reason = f"{_category_count(len(waiting))} still to save ({why})"
    return SaveStatus(SaveState.PENDING, reason, file, at, waiting, errors=errors)


def _after_triage(
    flow: ProjectSaveFiles,
    triage: SaveFileRecord,
    now_ms: int,
    limits: SaveLimits,
    heard: TranscriptSigns,
) -> SaveStatus:
    began = written_ms(triage)
    ended = next(
        (
            each
            for each in (flow.result, *flow.earlier_results)
            if each and ends_current_save(each, flow)
        ),
        None,
    )
    torn = next((each for each in flow.invalid if written_ms(each) >= began), None)
    if torn and not (ended and written_ms(ended) > written_ms(torn)):
        return _of_corrupt_file(torn)
    if ended:
        return _of_result(ended)
    if (
        heard.confirmation
        and heard.confirmation.source is ConfirmationSource.NOTE
        and heard.confirmation.at >= began
    ):
        return _confirmed(heard.confirmation)
    wanted = expand_categories(content_of(triage).categories or ())
    handled = flow.handled
    said = content_of(handled).state if handled and written_ms(handled) >= began else None
    if handled and said == _FAILED_WORD:
        reason = "the sentinel says failed, and nothing says which categories"
        at = written_ms(handled)
        return SaveStatus(SaveState.FAILED_UNKNOWN, reason, handled, at, saved_categories=())
    if handled and said == _SAVED_WORD:
        return SaveStatus(
            SaveState.SAVED, "the sentinel says saved", handled, written_ms(handled), wanted
        )
    # A session that is still heard of has not crashed, however long its save takes (R004-04).
    signs = [began, heard.last_sign_ms or 0]
    if handled and said in {_SAVING_WORD, _PENDING_WORD}:
        signs.append(written_ms(handled))
    last = max(signs)
    orphaned_at = last + limits.orphan_after_s * MS_PER_SECOND
    # R004-09: exactly that old is not yet, and a time in the future is none at all.
    if began <= now_ms and now_ms > orphaned_at:
        reason = (
            f"triaged, and nothing was heard of it for more than {limits.orphan_after_s} s:"
            " neither a result nor what is pending"
        )
        return SaveStatus(SaveState.ORPHANED, reason, triage, began, wanted)
    ahead = max(orphaned_at, began) + 1
    if handled and said == _SAVING_WORD:
        reason = "the sentinel says saving"
        return SaveStatus(
            SaveState.SAVING, reason, handled, written_ms(handled), wanted, next_change_ms=ahead
        )
    if last > began and heard.last_sign_ms == last:
        reason = "its session is at work on it"
        return SaveStatus(SaveState.SAVING, reason, triage, began, wanted, next_change_ms=ahead)
    future = began > now_ms
    reason = "its time lies in the future" if future else "waits for its session to save it"
    return SaveStatus(SaveState.TRIAGED, reason, triage, began, wanted, next_change_ms=ahead)


def _without_triage(
    flow: ProjectSaveFiles, now_ms: int, limits: SaveLimits, heard: TranscriptSigns
) -> SaveStatus:
    """Return the status when there is neither a pending file nor triage data."""
    ended = flow.result or (flow.earlier_results[0] if flow.earlier_results else None)
    handled, told = flow.handled, heard.confirmation
    if told and told.at >= max(written_ms(each) if each else 0 for each in (ended, handled)):
        # A prompt that was told of a result has the result's own numbers behind it.
        return (
            _of_result(ended)
            if ended and told.source is ConfirmationSource.NOTE
            else _confirmed(told)
        )
    if handled is None or (ended and written_ms(ended) >= written_ms(handled)):
        return _of_result(ended) if ended else _without_files(now_ms, limits, heard)
    at, said = written_ms(handled), content_of(handled).state
    expires = at + limits.sentinel_ttl_s * MS_PER_SECOND
    if said == _FAILED_WORD:
        reason = "the sentinel says failed, and nothing says which categories"
        return SaveStatus(SaveState.FAILED_UNKNOWN, reason, handled, at)
    if said == _SAVING_WORD and now_ms <= expires:
        reason = "the sentinel says saving"
        return SaveStatus(SaveState.SAVING, reason, handled, at, next_change_ms=expires + 1)
    if said == _SAVING_WORD:
        reason = (
            f"the sentinel says saving for more than {limits.sentinel_ttl_s} s,"
            " and neither a result nor what is pending is there"
        )
        return SaveStatus(SaveState.FAILED_UNKNOWN, reason, handled, at)
    if ended:
        return _of_result(ended)
    if said == _SAVED_WORD:
        return SaveStatus(SaveState.SAVED, "the sentinel says saved", handled, at)
    if now_ms <= expires:
        reason = "the sentinel says that the triage ran"
        return SaveStatus(SaveState.TRIAGED, reason, handled, at, next_change_ms=expires + 1)
    return SaveStatus(SaveState.NONE, "an old sentinel alone", handled, at)


def _without_files(now_ms: int, limits: SaveLimits, heard: TranscriptSigns) -> SaveStatus:
    """Return the status when no file of a save was ever seen."""
    if heard.last_sign_ms is None:
        return SaveStatus(SaveState.NONE, "no save was seen")
    end = heard.last_sign_ms + limits.orphan_after_s * MS_PER_SECOND
    if now_ms > end:
        return SaveStatus(SaveState.NONE, "a session was asked to save; no file of it was seen")
    return SaveStatus(
        SaveState.SAVING,
        "its session is at work on it",
        since_ms=heard.last_sign_ms,
        next_change_ms=end + 1,
    )


def _confirmed(told: SaveConfirmation) -> SaveStatus:
    reason = f"{told.source.value} says so"
    return SaveStatus(SaveState.SAVED, reason, None, told.at, told.categories, titles=told.titles)


def _of_result(result: SaveFileRecord) -> SaveStatus:
    content = content_of(result)
    at, errors = _named_time_ms(result), content.errors or ()
    saved, titles = expand_categories(content.categories or ()), content.titles or ()
    failed = expand_categories(each.category for each in errors)
    if not errors:
        return SaveStatus(SaveState.SAVED, "the result says so", result, at, saved, titles=titles)
    if saved:
        left = tuple(each for each in failed if each not in saved) or failed
        reason = f"{_category_count(len(failed))} failed, {len(saved)} saved"
        return SaveStatus(SaveState.PARTIAL, reason, result, at, left, saved, titles, errors)
    if failed:
        reason = f"{_category_count(len(failed))} failed, none was saved"
        return SaveStatus(SaveState.PENDING, reason, result, at, failed, errors=errors)
    reason = "the result names errors, and no category"
    return SaveStatus(SaveState.FAILED_UNKNOWN, reason, result, at, errors=errors)


def _named_time_ms(file: SaveFileRecord) -> int:
    """Return the time that a file names, unless it is later than the file's modification time."""
    at, written = content_of(file).at, written_ms(file)
    return at if at is not None and at <= written + MS_PER_SECOND else written


def _of_corrupt_file(file: SaveFileRecord) -> SaveStatus:
    reason = f"the {file.kind.value} file {file.problem}"
    return SaveStatus(SaveState.CORRUPT, reason, file, written_ms(file))


def _is_outdated(flow: ProjectSaveFiles, torn: SaveFileRecord) -> bool:
    """Whether a valid file was written after a torn one."""
    later = (flow.result, flow.handled, *flow.earlier_results)
    return any(each and written_ms(each) > written_ms(torn) for each in later)


def _category_count(categories: int) -> str:
    return "1 category" if categories == 1 else f"{categories} categories"


_SAME_SAVE_MS: Final = 60 * MS_PER_SECOND
"""A partial save writes its result and what is pending within a few seconds (004-57)."""
