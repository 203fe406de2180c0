"""The proof of an edit: the client goes on with what we say is sent, and takes it back whole.

`prove` takes a session and what edits its transcript, and asks the real client four times: before
the edit, after it, after it was taken back, and each time the API validates what came.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ctxtop.core.compaction.compaction_target import CompactionTarget, WaitTimes
from ctxtop.core.measure.tokens import estimate_tokens
from ctxtop.core.model.conversation import PartKind, is_from_other_model
from ctxtop.core.transcript.entry_decoder import read_entries
from ctxtop.core.transcript.line_decoder import SYNTHETIC_MODEL
from ctxtop.core.transcript.visible_messages import visible_entries

from .counting import FACTOR, MEDIA_TOKENS, count_request
from .edits import write_edited
from .lab import SMALL
from .ledger import is_main
from .talks import path_of
from .wire import blocks_sent, lines_received, lines_told, received, told

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ctxtop.core.model.conversation import Entry, MessagePart

    from .lab import Lab

Json = dict[str, Any]

_ID: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")

NEXT: Final = "Next. [[say:ok]]"

NEAR: Final = 0.10
"""How far a predicted size may be from the request's real one (compaction 7.8)."""


@dataclass(frozen=True, slots=True)
class Edited:
    """What became of a session."""

    session_id: str
    """Of the session to go on with: the same one, or a fork."""
    saved: int | None
    """Tokens that the edit says it frees; None where the two lists say it."""
    undo: Callable[[], object]
    announced: int = 0
    """Tokens of what the client will put in anew."""


@dataclass(frozen=True, slots=True)
class Proved:
    """Tokens of the requests before and after, and of the one that was predicted."""

    before: int
    after: int
    predicted: int


class ApiCounter:
    """Counts a piece as the scripted API does."""

    def tokens(self, part: MessagePart) -> int:
        """Count one piece."""
        text = f"{part.name}\n{part.text}" if part.kind is PartKind.TOOL_INPUT else part.text
        return round(FACTOR * estimate_tokens(text)) + part.media * MEDIA_TOKENS


def subject_of(lab: Lab, path: Path) -> CompactionTarget:
    """Return a target without wait times or session holder: nobody else writes in a lab."""
    return CompactionTarget(
        session_id=path.stem,
        transcript=path,
        cwd=str(lab.project),
        state_folder=lab.root / "ours",
        read_entries=read_entries,
        find_holder=lambda _session: None,
        wait_times=WaitTimes(idle_s=0.0, quiet_s=0.0, max_wait_s=0.0),
    )


def resume(
    lab: Lab, session_id: str, what: str, prompt: str = NEXT, more: tuple[str, ...] = ()
) -> Json:
    """Resume, compare the first request with the file before and until it, and give it."""
    path = path_of(lab, session_id)
    size = path.stat().st_size
    entries = read_entries(path)
    model = _model_of(entries)
    before = _sent_to(model, entries)
    turn = lab.turn(prompt, resume=session_id, model=model, more=more)
    assert turn.code == 0, (what, turn.out)
    asked: Json = next(one for one in turn.exchanges if is_main(one, session_id))
    entries = read_entries(path)
    answer = min(
        entry.offset
        for entry in entries
        if entry.offset >= size and entry.type == "assistant" and entry.model != SYNTHETIC_MODEL
    )
    # Which line is its newest the client may write down again only after the answer.
    stale = {entry.offset for entry in entries if entry.leaf_uuid and entry.offset < size}
    known = [each for each in entries if each.offset < answer and each.offset not in stale]
    sent = _sent_to(model, known)
    messages = asked["body"]["messages"]
    if any(message["role"] == "system" for message in messages):
        assert lines_told(sent) == lines_received(messages), what
    else:
        assert told(sent) == received(messages), what
    held = [entry.uuid for entry in sent if entry.offset < size]
    assert [entry.uuid for entry in before] == held, what
    return asked


def prove(lab: Lab, session_id: str, edit: Callable[[Path], Edited], what: str) -> Proved:
    """Edit a session, go on with it, take the edit back, and go on again.

    A copy of it is gone on with first: it says what the client sent without the edit.
    """
    path = path_of(lab, session_id)
    unedited = path.read_bytes()
    before = resume(lab, write_edited(path, lambda lines: lines), f"{what}: before")
    listed = visible_entries(read_entries(path))
    edited = edit(path)
    left = visible_entries(read_entries(path_of(lab, edited.session_id)))
    saved = tokens_of(listed) - tokens_of(left) if edited.saved is None else edited.saved
    after = resume(lab, edited.session_id, f"{what}: after")
    edited.undo()
    if edited.session_id != session_id:
        assert path.read_bytes() == unedited, f"{what}: the session itself was changed"
    again = resume(lab, session_id, f"{what}: taken back")
    first = _answers(before)
    assert _answers(again)[: len(first)] == first, f"{what}: not what it was"
    predicted = count_request(before["body"]) - saved + edited.announced
    real = count_request(after["body"])
    assert abs(predicted - real) <= NEAR * real, f"{what}: {predicted} predicted, {real} sent"
    return Proved(count_request(before["body"]), real, predicted)


def _sent_to(model: str, entries: list[Entry]) -> list[Entry]:
    """Project for a model; each line of the lab's transcripts holds one block."""
    return [
        entry
        for entry in visible_entries(entries)
        if not is_from_other_model(entry, model)
        or any(piece.kind is not PartKind.THINKING for piece in entry.parts)
    ]


def _answers(asked: Json) -> list[str]:
    """List all that was said but for the last prompt, to which more may have come."""
    return [nameless(block) for block in blocks_sent(asked["body"])[:-1]]


def nameless(block: str) -> str:
    """Leave out ids: a client's summary and a large output's word name their session's files."""
    return _ID.sub("ID", block)


def tokens_of(entries: list[Entry]) -> int:
    """Count entries as the scripted API does."""
    counter = ApiCounter()
    return sum(counter.tokens(piece) for entry in entries for piece in entry.parts)


def _model_of(entries: list[Entry]) -> str:
    """Name the model that answered last: another one is not sent its thinking."""
    models = (
        entry.model for entry in reversed(entries) if entry.model not in {None, SYNTHETIC_MODEL}
    )
    return next(models, None) or SMALL
