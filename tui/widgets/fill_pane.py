"""What fills the marked session: asked when the mark has rested, never while it moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from textual.content import Content
from textual.message import Message

from ..fill_rows import fill_lines
from ..formats import middle, one_line
from .row_list import Row, RowList

if TYPE_CHECKING:
    from textual.timer import Timer

    from ...collectors.folder import Trouble
    from ...core.composition import Composition
    from ...core.sessions import Session

REST_S: Final = 0.3
"""How long the mark stays before its session is taken apart: a person only passes others."""

AGAIN_S: Final = 5.0
"""Between two looks at a session that grows: each reads its transcript."""

KEPT: Final = 32
"""Sessions whose answers are kept."""

TITLE_FRAME: Final = 22
"""Cells of the border's title beside the session's own."""

State = tuple[str, int | None, int | None]
"""A session as it was taken apart: its id, its tokens, when it last did anything."""


class FillPane(RowList):
    """Pane 4."""

    @dataclass
    class CompositionRequested(Message):
        """The marked session is to be taken apart."""

        session: Session

    def __init__(self, *, id: str, number: str, name: str) -> None:  # noqa: A002 -- Textual's
        super().__init__(id=id, number=number, name=name)
        self._found: dict[str, tuple[State, Composition | str]] = {}
        self._session: Session | None = None
        self._asked: State | None = None
        self._timer: Timer | None = None
        self._drawn: tuple[object, ...] = ()

    def show(self, session: Session | None) -> None:
        """Show what is known of a session, and ask for more where that is older."""
        moved = self._id_of(session) != self._id_of(self._session)
        self._session = session
        if moved and self._timer is not None:
            self._timer.stop()
            self._timer = None
        self._draw()
        if session is None or not self.region.height or self._is_known(session):
            return
        if self._timer is None:
            first = session.session_id not in self._found
            self._timer = self.set_timer(REST_S if first or moved else AGAIN_S, self._ask)

    def show_composition(self, session: Session, found: Composition | Trouble) -> None:
        """Show how a session was taken apart, or why it cannot be."""
        from ...collectors.folder import Trouble

        told = one_line(found.what) if isinstance(found, Trouble) else found
        self._found.pop(session.session_id, None)
        self._found[session.session_id] = (_state(session), told)
        while len(self._found) > KEPT:
            self._found.pop(next(iter(self._found)))
        self._draw()

    def _ask(self) -> None:
        self._timer = None
        session = self._session
        if session is not None and self._asked != _state(session):
            self._asked = _state(session)
            self.post_message(self.CompositionRequested(session))

    def _is_known(self, session: Session) -> bool:
        known = self._found.get(session.session_id)
        return known is not None and known[0] == _state(session)

    def _id_of(self, session: Session | None) -> str:
        return session.session_id if session else ""

    def _draw(self) -> None:
        session = self._session
        found = self._found.get(session.session_id, (None, ""))[1] if session else ""
        look = session and session.title, found, self.row_width
        if look == self._drawn:
            return
        self._drawn = look
        self.show_header(Content(""))
        title = middle(session.title, max(0, self.row_width - TITLE_FRAME)) if session else ""
        self.set_titles(Content(f'⁴ What fills "{title}"' if session else "⁴ What fills it"))
        if isinstance(found, str):
            waiting = "looking into its transcript …" if session else "no session is marked"
            self.empty = found or waiting
            self.show_rows([])
            return
        lines = enumerate(fill_lines(found, self.row_width))
        self.show_rows([Row(str(number), line) for number, line in lines])


def _state(session: Session) -> State:
    return session.session_id, session.context.tokens, session.last_activity_at
