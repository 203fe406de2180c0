"""Where a project's save stands (requirements 2.2.3): a pure function over its files."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from .categories import expand
from .flow import says, written_ms
from .told import Teller

if TYPE_CHECKING:
    from ..store.surroundings_facts import SaveError, SaveFileFact
    from .flow import Flow
    from .limits import Limits
    from .told import Told


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


NEEDS_SOMEONE: Final = frozenset(
    {
        SaveState.PARTIAL,
        SaveState.PENDING,
        SaveState.ORPHANED,
        SaveState.FAILED_UNKNOWN,
        SaveState.CORRUPT,
    }
)
"""A person has to do something, or memories are lost."""

SECOND_MS: Final = 1000

_SAVING, _SAVED, _FAILED, _WAITING = "saving", "saved", "failed", "pending"
"""The words of `.triage-handled` (R004-03)."""


class Standing(msgspec.Struct, frozen=True):
    """A state, why, and the file that says so."""

    state: SaveState
    reason: str
    source_file: SaveFileFact | None = None
    since_ms: int | None = None
    """Since when, in milliseconds since 1970."""
    categories: tuple[str, ...] = ()
    """What was saved, or what is still to be; empty where nobody knows."""
    saved_categories: tuple[str, ...] = ()
    """Of a save that went wrong: what was saved nevertheless."""
    titles: tuple[str, ...] = ()
    errors: tuple[SaveError, ...] = ()
    next_change_ms: int | None = None
    """When time alone will make another state of it, in milliseconds since 1970."""


class Heard(msgspec.Struct, frozen=True):
    """What transcripts tell of a project's saves."""

    last_sign_ms: int | None = None
    """When a session that is still at a save was last heard of."""
    confirmation: Told | None = None
    """The newest word that one was done."""


NOTHING_HEARD: Final = Heard()


def stands(flow: Flow, now_ms: int, limits: Limits, signs: Heard = NOTHING_HEARD) -> Standing:
    """Say where a project's save stands at `now_ms`; its files come before what was heard.

    Sources: requirements 2.2.3, 004-59 to 004-66, R004-03, R004-06 to R004-09.
    """
    torn = {each.kind.value: each for each in flow.invalid}
    if flow.pending is None and "pending" in torn:
        return _corrupt(torn["pending"])
    if flow.pending:
        return _again(flow, now_ms, limits) or _pending(flow, flow.pending)
    if flow.triage:
        return _after_triage(flow, flow.triage, now_ms, limits, signs)
    if flow.invalid and not _outdone(flow, flow.invalid[0]):
        return _corrupt(flow.invalid[0])
    return _at_rest(flow, now_ms, limits, signs)


def belongs(result: SaveFileFact, flow: Flow) -> bool:
    """Say whether a result is the end of the save that the triage data began (R004-08)."""
    triage, handled = flow.triage, flow.handled
    if triage is None:
        return True
    told, begun = says(result).session_id, says(handled).session_id if handled else None
    if told and begun and told != begun:
        return False
    return written_ms(result) >= written_ms(triage)


def _again(flow: Flow, now_ms: int, limits: Limits) -> Standing | None:
    """See a new save that goes on while what an earlier one left is still pending (004-64)."""
    handled, pending = flow.handled, flow.pending
    if handled is None or pending is None or written_ms(handled) <= written_ms(pending):
        return None
    at = written_ms(handled)
    end = at + limits.sentinel_ttl_s * SECOND_MS
    if says(handled).state != _SAVING or now_ms > end:
        return None
    return Standing(
        SaveState.SAVING,
        "a new save is at work; what an earlier one left is still pending",
        handled,
        at,
        expand(says(pending).categories or ()),
        next_change_ms=end + 1,
    )


def _pending(flow: Flow, file: SaveFileFact) -> Standing:
    content, at = says(file), _said_ms(file)
    errors = content.errors or ()
    waiting = expand(content.categories or ())
    saved = expand(content.succeeded or ())
    result = flow.result
    apart = abs(written_ms(result) - written_ms(file)) if result else 0
    if result and apart <= _SAME_SAVE_MS and not says(result).errors:
        saved = saved or tuple(
            each for each in expand(says(result).categories or ()) if each not in waiting
        )
    why = content.reason or "no reason given"
    if not waiting:
        # R004-07: the plugin counts an empty list, says nothing, and looks no further.
        reason = f"the save failed ({why}) and did not say which categories"
        return Standing(SaveState.FAILED_UNKNOWN, reason, file, at, (), saved, errors=errors)
    if saved or content.reason == "partial_failure":
        reason = f"{len(waiting)} of {len(waiting) + len(saved)} categories still to save ({why})"
        titles = says(result).titles or () if result else ()
        return Standing(SaveState.PARTIAL, reason, file, at, waiting, saved, titles, errors)
    reason = f"{_count(len(waiting))} still to save ({why})"
    return Standing(SaveState.PENDING, reason, file, at, waiting, errors=errors)


def _after_triage(
    flow: Flow, triage: SaveFileFact, now_ms: int, limits: Limits, heard: Heard
) -> Standing:
    began = written_ms(triage)
    ended = next(
        (each for each in (flow.result, *flow.earlier_results) if each and belongs(each, flow)),
        None,
    )
    torn = next((each for each in flow.invalid if written_ms(each) >= began), None)
    if torn and not (ended and written_ms(ended) > written_ms(torn)):
        return _corrupt(torn)
    if ended:
        return _ended(ended)
    if (
        heard.confirmation
        and heard.confirmation.source is Teller.NOTE
        and heard.confirmation.at >= began
    ):
        return _told(heard.confirmation)
    wanted = expand(says(triage).categories or ())
    handled = flow.handled
    said = says(handled).state if handled and written_ms(handled) >= began else None
    if handled and said == _FAILED:
        reason = "the sentinel says failed, and nothing says which categories"
        at = written_ms(handled)
        return Standing(SaveState.FAILED_UNKNOWN, reason, handled, at, saved_categories=())
    if handled and said == _SAVED:
        return Standing(
            SaveState.SAVED, "the sentinel says saved", handled, written_ms(handled), wanted
        )
    # A session that is still heard of has not crashed, however long its save takes (R004-04).
    signs = [began, heard.last_sign_ms or 0]
    if handled and said in {_SAVING, _WAITING}:
        signs.append(written_ms(handled))
    last = max(signs)
    orphaned_at = last + limits.orphan_after_s * SECOND_MS
    # R004-09: exactly that old is not yet, and a time in the future is none at all.
    if began <= now_ms and now_ms > orphaned_at:
        reason = (
            f"triaged, and nothing was heard of it for more than {limits.orphan_after_s} s:"
            " neither a result nor what is pending"
        )
        return Standing(SaveState.ORPHANED, reason, triage, began, wanted)
    ahead = max(orphaned_at, began) + 1
    if handled and said == _SAVING:
        reason = "the sentinel says saving"
        return Standing(
            SaveState.SAVING, reason, handled, written_ms(handled), wanted, next_change_ms=ahead
        )
    if last > began and heard.last_sign_ms == last:
        reason = "its session is at work on it"
        return Standing(SaveState.SAVING, reason, triage, began, wanted, next_change_ms=ahead)
    future = began > now_ms
    reason = "its time lies in the future" if future else "waits for its session to save it"
    return Standing(SaveState.TRIAGED, reason, triage, began, wanted, next_change_ms=ahead)


def _at_rest(flow: Flow, now_ms: int, limits: Limits, heard: Heard) -> Standing:
    """Say what is known where no save is under way."""
    ended = flow.result or (flow.earlier_results[0] if flow.earlier_results else None)
    handled, told = flow.handled, heard.confirmation
    if told and told.at >= max(written_ms(each) if each else 0 for each in (ended, handled)):
        # A prompt that was told of a result has the result's own numbers behind it.
        return _ended(ended) if ended and told.source is Teller.NOTE else _told(told)
    if handled is None or (ended and written_ms(ended) >= written_ms(handled)):
        return _ended(ended) if ended else _unheard(now_ms, limits, heard)
    at, said = written_ms(handled), says(handled).state
    expires = at + limits.sentinel_ttl_s * SECOND_MS
    if said == _FAILED:
        reason = "the sentinel says failed, and nothing says which categories"
        return Standing(SaveState.FAILED_UNKNOWN, reason, handled, at)
    if said == _SAVING and now_ms <= expires:
        reason = "the sentinel says saving"
        return Standing(SaveState.SAVING, reason, handled, at, next_change_ms=expires + 1)
    if said == _SAVING:
        reason = (
            f"the sentinel says saving for more than {limits.sentinel_ttl_s} s,"
            " and neither a result nor what is pending is there"
        )
        return Standing(SaveState.FAILED_UNKNOWN, reason, handled, at)
    if ended:
        return _ended(ended)
    if said == _SAVED:
        return Standing(SaveState.SAVED, "the sentinel says saved", handled, at)
    if now_ms <= expires:
        reason = "the sentinel says that the triage ran"
        return Standing(SaveState.TRIAGED, reason, handled, at, next_change_ms=expires + 1)
    return Standing(SaveState.NONE, "an old sentinel alone", handled, at)


def _unheard(now_ms: int, limits: Limits, heard: Heard) -> Standing:
    """Say what is known where no file of a save was ever seen."""
    if heard.last_sign_ms is None:
        return Standing(SaveState.NONE, "no save was seen")
    end = heard.last_sign_ms + limits.orphan_after_s * SECOND_MS
    if now_ms > end:
        return Standing(SaveState.NONE, "a session was asked to save; no file of it was seen")
    return Standing(
        SaveState.SAVING,
        "its session is at work on it",
        since_ms=heard.last_sign_ms,
        next_change_ms=end + 1,
    )


def _told(told: Told) -> Standing:
    reason = f"{told.source.value} says so"
    return Standing(SaveState.SAVED, reason, None, told.at, told.categories, titles=told.titles)


def _ended(result: SaveFileFact) -> Standing:
    content = says(result)
    at, errors = _said_ms(result), content.errors or ()
    saved, titles = expand(content.categories or ()), content.titles or ()
    failed = expand(each.category for each in errors)
    if not errors:
        return Standing(SaveState.SAVED, "the result says so", result, at, saved, titles=titles)
    if saved:
        left = tuple(each for each in failed if each not in saved) or failed
        reason = f"{_count(len(failed))} failed, {len(saved)} saved"
        return Standing(SaveState.PARTIAL, reason, result, at, left, saved, titles, errors)
    if failed:
        reason = f"{_count(len(failed))} failed, none was saved"
        return Standing(SaveState.PENDING, reason, result, at, failed, errors=errors)
    reason = "the result names errors, and no category"
    return Standing(SaveState.FAILED_UNKNOWN, reason, result, at, errors=errors)


def _said_ms(file: SaveFileFact) -> int:
    """Take the time that a file names; one after it was written is not believed."""
    at, written = says(file).at, written_ms(file)
    return at if at is not None and at <= written + SECOND_MS else written


def _corrupt(file: SaveFileFact) -> Standing:
    reason = f"the {file.kind.value} file {file.problem}"
    return Standing(SaveState.CORRUPT, reason, file, written_ms(file))


def _outdone(flow: Flow, torn: SaveFileFact) -> bool:
    """Say whether something valid was written after a torn file."""
    later = (flow.result, flow.handled, *flow.earlier_results)
    return any(each and written_ms(each) > written_ms(torn) for each in later)


def _count(categories: int) -> str:
    return "1 category" if categories == 1 else f"{categories} categories"


_SAME_SAVE_MS: Final = 60 * SECOND_MS
"""A partial save writes its result and what is pending within a few seconds (004-57)."""
