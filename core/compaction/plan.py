"""A plan: what to change in a transcript, why, what it frees, and what was refused.

A plan is data and touches nothing. Source: requirement 2.2 and compaction 7.1 to 7.3.
"""

from __future__ import annotations

import hashlib
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

ID_CHARS: Final = 12
"""Of a hash in hex: enough to tell the plans of one machine apart, short enough to type."""


class Harm(IntEnum):
    """How much a change takes from the model, least first (compaction 7.4)."""

    FILE_ONLY = 0
    """Bytes that the model never sees."""
    LOSSLESS = 1
    """What the model can read elsewhere in the same context."""
    SUPERSEDED = 2
    """What something newer says in its place."""
    MASKED = 3
    """Old results, of which a digest stays."""
    INPUTS = 4
    """What tools were called with."""
    REASONING = 5
    """Thinking."""
    PROSE = 6
    """The model's words, and long pastes."""
    SUMMARY = 7
    """A summary stands in the place of what was."""
    CUT = 8
    """Turns are gone."""


class Replace(msgspec.Struct, frozen=True, tag="replace", tag_field="do"):
    """Give one JSON value of a line another text; every other byte of the line stays."""

    line: int
    """Counted from 1, in the file that `Plan.base_sha256` is of."""
    offset: int
    """Byte at which the line begins."""
    sha256: str
    """Of the line's bytes without the line end, in hex."""
    pointer: str
    """JSON pointer (RFC 6901) of the value; "" is the whole line."""
    value: str
    """The new value as JSON text, without a line end."""


class Remove(msgspec.Struct, frozen=True, tag="remove", tag_field="do"):
    """Leave out a line with its line end; its children are hung elsewhere by `Replace`."""

    line: int
    """Counted from 1."""
    offset: int
    """Byte at which the line begins."""
    sha256: str
    """Of the line's bytes without the line end, in hex."""


class Append(msgspec.Struct, frozen=True, tag="append", tag_field="do"):
    """Add one line at the end of the file."""

    text: str
    """A JSON object without a line end."""


Edit = Replace | Remove | Append


class Operation(msgspec.Struct, frozen=True):
    """One change that is carried out and taken back as a whole."""

    strategy: str
    level: Harm
    line: int | None
    """The line that it is about, counted from 1; None where it is about no single one."""
    kind: str
    """Of what is changed: a `PieceKind`, or a line's type."""
    what: str
    """For a person: the tool and its path or command, clean text of one line."""
    why: str
    """For a person: the reason, one line."""
    tokens_saved: int
    """Of the context; 0 for what the model never sees. Estimated as `core.piece_count` does."""
    bytes_saved: int
    """Of the file; below 0 where it grows."""
    edits: tuple[Edit, ...]


class Refusal(msgspec.Struct, frozen=True):
    """A check that says no."""

    check: str
    """Its code, the same for ever: `live`, `futile`, `V7`."""
    why: str
    """What was found, one line."""
    what_to_do: str
    """One line."""


class Protected(msgspec.Struct, frozen=True):
    """What no strategy touches, by the reason."""

    why: str
    tokens: int
    """Estimated."""


class Plan(msgspec.Struct, frozen=True):
    """What would be done to one transcript; with `refused` it must not be done."""

    plan_id: str
    session_id: str
    base_sha256: str
    """Of the file's first `base_bytes` bytes, in hex."""
    base_bytes: int
    before_tokens: int
    """Of the context as it is projected now."""
    after_tokens: int
    bytes_before: int
    bytes_after: int
    harm: Harm
    """The highest level of its operations."""
    break_even_requests: float | None
    """Requests after which a warm cache has paid for it (compaction 1.6); None where never."""
    operations: tuple[Operation, ...]
    refused: tuple[Refusal, ...] = ()
    break_even_requests_1h: float | None = None
    """The same for a cache that is kept for an hour: what is written to it costs more."""
    protected: tuple[Protected, ...] = ()
    """The largest first."""

    @property
    def only_appends(self) -> bool:
        """Nothing of the file is rewritten."""
        return all(isinstance(edit, Append) for each in self.operations for edit in each.edits)


def make_plan(
    session_id: str,
    base_sha256: str,
    base_bytes: int,
    operations: Iterable[Operation],
    *,
    before_tokens: int,
    break_even_requests: float | None = None,
    break_even_requests_1h: float | None = None,
    refused: Iterable[Refusal] = (),
    protected: Iterable[Protected] = (),
) -> Plan:
    """Put operations together; sums, harm and id follow from them."""
    done = tuple(operations)
    return Plan(
        plan_id=plan_id_of(base_sha256, done),
        session_id=session_id,
        base_sha256=base_sha256,
        base_bytes=base_bytes,
        before_tokens=before_tokens,
        after_tokens=before_tokens - sum(each.tokens_saved for each in done),
        bytes_before=base_bytes,
        bytes_after=base_bytes - sum(each.bytes_saved for each in done),
        harm=max((each.level for each in done), default=Harm.FILE_ONLY),
        break_even_requests=break_even_requests,
        operations=done,
        refused=tuple(refused),
        break_even_requests_1h=break_even_requests_1h,
        protected=tuple(protected),
    )


def plan_id_of(base_sha256: str, operations: tuple[Operation, ...]) -> str:
    """Name a plan by the file and by what it does: the same plan has the same id."""
    digest = hashlib.sha256(base_sha256.encode())
    digest.update(msgspec.json.encode(operations))
    return digest.hexdigest()[:ID_CHARS]


def as_record(plan: Plan) -> dict[str, Any]:
    """Say a plan for programs (commands.md, `ctxtop compact`); edits stay inside."""
    record: dict[str, Any] = msgspec.to_builtins(plan)
    record["operations"] = [
        {"op": number} | {key: value for key, value in each.items() if key != "edits"}
        for number, each in enumerate(record["operations"], 1)
    ]
    return record | {name: list(record[name]) for name in ("refused", "protected")}
