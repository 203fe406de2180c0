"""From a transcript to a plan, read as a stream: its texts are never held together."""

from __future__ import annotations

from functools import cached_property
from sys import intern
from typing import TYPE_CHECKING, Final, Protocol

import msgspec
from msgspec.structs import replace

from ..conversation import Entry, Piece, PieceKind, Role
from ..material import read_thoughts
from ..thinking import drops_thinking, is_of_another
from . import plan as plans
from .advice import advice
from .break_even import break_even
from .chain import kept_by
from .limits import LARGEST_BYTES, file_refusal, line_refusal
from .line_file import open_lines
from .overhead import opening, overhead_of
from .plan import Harm, Plan, Refusal
from .project import is_call, project
from .protect import DEFAULT, Protection, kept_lines, kept_of, protect
from .select import GROW, Aim, Selection, bind, choose, futile
from .strategies.usage import with_usage
from .view import Slot, View, digest, slim

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from .line_file import LineFile, Scan
    from .view import PieceCounter

    CounterOf = Callable[[str | None], PieceCounter]


class Read(Protocol):
    """Who reads the entries of a transcript."""

    def __call__(self, path: Path, start: int = 0, /) -> Iterable[Entry]:
        """Give entries in the file's order from a line's byte offset on: that is line 1."""
        ...


class RewrittenError(OSError):
    """The transcript was rewritten or replaced while it was read; to try again can help."""

    def __init__(self, path: Path) -> None:
        super().__init__(0, "it was rewritten while it was read: try again", str(path))


class Measure(msgspec.Struct, frozen=True):
    """What is kept of a piece whose text is not."""

    tokens: int
    chars: int
    digest: str


def plan_transcript(
    session_id: str,
    path: Path,
    read: Read,
    counter_of: CounterOf,
    *,
    aim: Aim | None = None,
    protection: Protection = DEFAULT,
    live: str | None = None,
    largest: int = LARGEST_BYTES,
) -> Plan:
    """Plan how to make a transcript smaller; nothing is written, and a refusal is part of it.

    `read` is called twice, for all entries and for those that are sent; `counter_of` gives who
    counts for a model; `live` says who has the session open; a transcript of more than `largest`
    bytes is planned for, and refused. Raises OSError where the file cannot be read.
    """
    with open_lines(path) as file:
        made = draft(
            session_id,
            path,
            file,
            read,
            counter_of,
            aim=aim,
            protection=protection,
            live=live,
            largest=largest,
        )
        return made.plan()


class Draft:
    """A plan that can be asked for again without some of its operations.

    It reads its file as long as it is asked, and belongs to the thread that made it.
    """

    def __init__(
        self,
        session_id: str,
        file: LineFile,
        scan: Scan,
        view: View,
        aim: Aim,
        refused: Iterable[Refusal],
        largest: int,
        protection: Protection = DEFAULT,
    ) -> None:
        self._session_id: Final = session_id
        self._file: Final = file
        self._scan: Final = scan
        self._view: Final = view
        self._aim: Final = aim
        self._refused: Final = tuple(refused)
        self._largest: Final = largest
        self._protection: Final = protection
        chosen = [] if self._refused else choose(view, aim)
        self.offered: Final = tuple(sorted(chosen, key=lambda each: each.line or 0))
        """What may be left out, one by one, in the order of the lines. What follows from it,
        as bound thoughts and the recorded usage, is not among them."""

    def plan(self, left_out: Collection[int] = ()) -> Plan:
        """Plan all that is offered but some, numbered from 0; what follows is worked out anew.

        Raises OSError where the file cannot be read.
        """
        view, refused = self._view, list(self._refused)
        selection = Selection((), view.tokens)
        if not refused:
            kept = [each for n, each in enumerate(self.offered) if n not in left_out]
            selection = bind(view, kept)
            refused += [*selection.refused, *self._too_little(selection, left_out)]
        operations = with_usage(view, selection.operations)
        refused += late_refusals(self._file, self._scan, self._largest)
        saved = sum(each.tokens_saved for each in selection.operations)
        even = break_even(view.tokens, selection.position, saved, view.model)
        return plans.make_plan(
            self._session_id,
            self._scan.sha256,
            self._scan.size,
            operations,
            before_tokens=view.tokens,
            break_even_requests=even.five_minutes,
            break_even_requests_1h=even.one_hour,
            refused=refused,
            protected=kept_of(view.slots),
        )

    def _too_little(self, selection: Selection, left_out: Collection[int]) -> Iterator[Refusal]:
        for each in _too_little(self._view, selection, self._aim):
            if each.check == "target":
                yield each
            elif left_out:
                yield replace(each, what_to_do="leave less of it out")
            else:
                yield replace(each, what_to_do=self._advice)

    @cached_property
    def _advice(self) -> str:
        return advice(self._view, self._aim, self._protection)


def draft(
    session_id: str,
    path: Path,
    file: LineFile,
    read: Read,
    counter_of: CounterOf,
    *,
    aim: Aim | None = None,
    protection: Protection = DEFAULT,
    live: str | None = None,
    largest: int = LARGEST_BYTES,
) -> Draft:
    """Begin a plan as `plan_transcript` does, of a file that stays open. Raises OSError."""
    scan = file.scan()
    view = read_view(path, file, scan, read, counter_of, protection)
    refused = refusals(view, scan, live)
    return Draft(session_id, file, scan, view, aim or Aim(), refused, largest, protection)


def read_view(
    path: Path,
    file: LineFile,
    scan: Scan,
    read: Read,
    counter_of: CounterOf,
    protection: Protection = DEFAULT,
) -> View:
    """Make the view of a transcript: all of it is read, then what is sent, to count it.

    It is of the moment of the scan, whoever writes meanwhile. Raises OSError, RewrittenError.
    """
    read = as_scanned(read, file, scan)
    entries = list(_slim_entries(read(path)))
    sent = project(entries)
    model = next((each.model for each in reversed(sent) if each.output_tokens is not None), None)
    counter = counter_of(model)
    measured = _measure(path, read, [*opening(entries, sent), *sent], counter)
    types = {entry.line: entry.type for entry in entries}
    lines = tuple(
        line if line.type else replace(line, type=types.get(line.number, "")) for line in scan.lines
    )
    slots = protect(
        _slots(sent, measured, counter, _thoughts(sent, measured, counter), model),
        kept_by(entries),
        protection,
    )
    return View(
        slots,
        lines,
        file,
        counter,
        model=model,
        kept=kept_lines(entries, ((line.number, line.type) for line in lines)),
        entries=entries,
        overhead=overhead_of(slots, entries, _Counted(path, read, entries, measured, counter)),
        torn=scan.torn,
    )


def as_scanned(read: Read, file: LineFile, scan: Scan) -> Read:
    """Read a transcript again as a scan found it: not a line that was written since.

    The reading raises RewrittenError where those lines are other ones by now.
    """
    lengths = {line.offset: line.length for line in scan.lines}
    # Of a line that is too long others may see more; nothing is planned there.
    is_read = line_refusal(scan) is None

    def entries(path: Path, start: int = 0, /) -> Iterator[Entry]:
        for entry in read(path, start):
            if entry.offset >= scan.end:
                break
            if is_read and lengths.get(entry.offset) != entry.length:
                raise RewrittenError(path)
            yield entry
            del entry
        if not file.is_still(path, scan):
            raise RewrittenError(path)

    return entries


class _Counted:
    """Counts lines that were measured, and the session's first ones when they are asked for."""

    def __init__(
        self,
        path: Path,
        read: Read,
        entries: Sequence[Entry],
        measured: dict[tuple[int, Piece], Measure],
        counter: PieceCounter,
    ) -> None:
        self._file: Final = path, read, counter
        self._entries: Final = entries
        self._measured = measured

    def __call__(self, entry: Entry) -> int:
        """Estimate the tokens of a line; raises OSError."""
        if any((entry.line, piece) not in self._measured for piece in entry.pieces):
            path, read, counter = self._file
            self._measured |= _measure(path, read, opening(self._entries, ()), counter)
        return sum(self._measured[entry.line, piece].tokens for piece in entry.pieces)


def _slim_entries(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Leave long texts out, and hold a name once that two lines say one after the other."""
    before: Entry | None = None
    for entry in entries:
        if before is None:
            before = _slim_entry(entry)
        else:
            before = replace(
                _slim_entry(entry),
                type=intern(entry.type),
                parent=_held_once(entry.parent, before.uuid),
                message_id=_held_once(entry.message_id, before.message_id),
            )
        # The next line is read while this one's texts are not held any more.
        del entry
        yield before


def _held_once(name: str | None, before: str | None) -> str | None:
    return before if name == before else name


def _slim_entry(entry: Entry) -> Entry:
    return replace(entry, pieces=tuple(map(slim, entry.pieces)), snapshot=None)


def _measure(
    path: Path, read: Read, sent: Sequence[Entry], counter: PieceCounter
) -> dict[tuple[int, Piece], Measure]:
    """Count what is sent: no line before its first one is read, and none behind its last."""
    if not sent:
        return {}
    wanted = {entry.offset: entry.line for entry in sent}
    start, end = min(wanted), max(wanted)
    measured = {}
    for entry in read(path, start):
        if entry.offset in wanted:
            for piece in entry.pieces:
                known = Measure(counter.tokens(piece), len(piece.text), digest(piece.text))
                measured[wanted[entry.offset], slim(piece)] = known
        if entry.offset >= end:
            break
        del entry
    return measured


class _Known:
    """Counts pieces that were measured already by what is left of them."""

    def __init__(self, measured: dict[tuple[int, Piece], Measure], counter: PieceCounter) -> None:
        self._tokens: Final = {piece: each.tokens for (_, piece), each in measured.items()}
        self._counter: Final = counter

    def tokens(self, piece: Piece) -> int:
        """Give what was counted, or count."""
        known = self._tokens.get(piece)
        return self._counter.tokens(piece) if known is None else known


def _thoughts(
    sent: Sequence[Entry], measured: dict[tuple[int, Piece], Measure], counter: PieceCounter
) -> dict[str | None, int]:
    found = read_thoughts(sent, _Known(measured, counter))
    return {answer: thought.tokens for answer, thought in found.items()}


def _slots(
    sent: Sequence[Entry],
    measured: dict[tuple[int, Piece], Measure],
    counter: PieceCounter,
    thoughts: dict[str | None, int],
    model: str | None,
) -> list[Slot]:
    seen_from = _seen_from(sent) if drops_thinking(model) else 0
    slots: list[Slot] = []
    position = 0
    for number, entry in enumerate(sent):
        for piece in entry.pieces:
            measure = measured.get((entry.line, piece))
            replaced = measure is None
            if measure is None:
                measure = Measure(counter.tokens(piece), len(piece.text), digest(piece.text))
            tokens = measure.tokens
            if piece.kind is PieceKind.THINKING:
                is_seen = number >= seen_from and not is_of_another(entry, model)
                tokens = thoughts.get(entry.message_id, tokens) if is_seen else 0
            slots.append(
                Slot(
                    place=len(slots),
                    entry=entry,
                    piece=piece,
                    position=position,
                    tokens=tokens,
                    chars=measure.chars,
                    digest=measure.digest,
                    replaced=replaced,
                )
            )
            position += tokens
    return slots


def _seen_from(sent: Sequence[Entry]) -> int:
    """Give the entry from which on thoughts are seen by a model that sees no earlier turn's.

    A turn that is over is an earlier one to whatever is sent next.
    """
    said = [each for each in sent if each.type in {"user", "assistant"}]
    if said and said[-1].role is Role.ASSISTANT and not any(map(is_call, said[-1].pieces)):
        return len(sent)
    return max((n for n, each in enumerate(sent) if _is_prompt(each)), default=0)


def _is_prompt(entry: Entry) -> bool:
    return any(piece.kind is PieceKind.PROMPT for piece in entry.pieces)


CHANGED: Final = Refusal(
    "changed",
    "somebody wrote to the transcript while it was read",
    "wait until the session is idle, and plan again",
)


def late_refusals(file: LineFile, scan: Scan, largest: int) -> Iterator[Refusal]:
    """Say why a plan that was made is not to be carried out."""
    too_large = file_refusal(scan, largest)
    if too_large:
        yield too_large
    if file.has_changed(scan):
        yield CHANGED


def refusals(view: View, scan: Scan, live: str | None) -> Iterator[Refusal]:
    """Say why nothing is planned for a transcript at all; `live` says who has it open."""
    too_long = line_refusal(scan)
    if too_long:
        yield too_long
    if live:
        yield Refusal("live", live, "close the session, or use `ctxtop trigger`")
    if not view.slots:
        yield Refusal(
            "shape", "no message of it would be sent", "check that it is a session's transcript"
        )
    elif view.slots[0].entry.role is not Role.USER:
        yield Refusal(
            "shape",
            "the first message that would be sent is not a user's",
            "resume the session once in the client, which mends it, and plan again",
        )


def _too_little(view: View, selection: Selection, aim: Aim) -> Iterator[Refusal]:
    if aim.target_tokens is not None and view.tokens <= aim.target_tokens:
        yield Refusal(
            "target",
            f"the context has {view.tokens:,} tokens, and {aim.target_tokens:,} were to be reached",
            "name a smaller --target, or a --level to take all that it allows",
        )
    elif not selection.operations:
        yield Refusal("nothing", "nothing was found that may go", GROW)
    elif any(each.level is not Harm.FILE_ONLY for each in selection.operations):
        too_little = futile(view.tokens, selection.operations, aim.window_tokens)
        if too_little:
            yield too_little
