"""How a session hangs together with others: forks, continuations, what was cleared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...core.store.facts import FileKind, LinkFact, LinkKind
from ..clean import clean_title
from ..times import to_ms
from .lines import DerivedFrom, decode_blocks, decode_list, decode_word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...core.store.facts import SourceFile
    from .lines import Line

_CLEARED: Final = "<command-name>/clear</command-name>"

_FORKS: Final = frozenset({"branch", "fork", "background"})
"""How client 2.1.329 names a copy of a session in `derived-from`; the other is an import."""


def read_links(offset: int, line: Line, source: SourceFile) -> list[LinkFact]:
    """Read what any line of a session's file says of other sessions."""
    return [
        LinkFact(offset, kind, clean_title(other).lower(), to_ms(line.timestamp), detail)
        for kind, other, detail in (*_of_type(line), *_of_envelope(line, source))
    ]


def fork_parent(links: list[LinkFact]) -> str | None:
    """Name the session that this one copied its history from, where a line says it."""
    for link in links:
        if link.kind is LinkKind.FORKED_FROM and link.session_id:
            return link.session_id
    return None


def _of_type(line: Line) -> Iterator[tuple[LinkKind, str, str]]:
    if line.type == "continued-in":
        yield LinkKind.CONTINUED_IN, line.continued_in_session_id or "", ""
    elif line.type == "history-suppression":
        yield LinkKind.HISTORY_SUPPRESSED, "", clean_title(decode_word(line.cause))
    elif line.type == "fork-context-ref":
        yield LinkKind.FORK_CONTEXT, line.parent_session_id or "", ""
    elif line.type == "relocated":
        yield LinkKind.RELOCATED, "", clean_title(line.relocated_cwd or "")
    elif line.type == "conversation_reset":
        yield LinkKind.RESET, line.new_conversation_id or "", clean_title(decode_word(line.trigger))
    elif line.type == "derived-from":
        for other in decode_list(line.sessions, DerivedFrom):
            via = clean_title(other.via or "")
            kind = LinkKind.FORKED_FROM if via in _FORKS else LinkKind.IMPORTED_FROM
            yield kind, other.id or "", via


def _of_envelope(line: Line, source: SourceFile) -> Iterator[tuple[LinkKind, str, str]]:
    if line.forked_from and line.forked_from.session_id:
        yield LinkKind.FORKED_FROM, line.forked_from.session_id, ""
    if source.kind is not FileKind.SESSION:
        return
    own = source.session_id
    if line.uuid and line.session_id and line.session_id.lower() != own:
        # Clients that made a new file at a resume copied the lines as they were.
        yield LinkKind.COPIED_FROM, line.session_id, ""
    if line.session_lineage and line.session_lineage.lower() not in {
        own,
        (line.session_id or own).lower(),
    }:
        yield LinkKind.LINEAGE, line.session_lineage, ""
    if line.type == "user" and _is_clear(line):
        yield LinkKind.CLEARED, "", ""


def _is_clear(line: Line) -> bool:
    blocks = decode_blocks(line.message.content) if line.message else []
    return any((block.text or "").lstrip().startswith(_CLEARED) for block in blocks)
