"""One question at a time; of those that come up meanwhile only the newest is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Latest(Generic[Question, Answer]):
    """Keeps a person who types from waiting for answers to what they typed before."""

    def __init__(
        self,
        ask: Callable[[Question, Callable[[Answer], None]], None],
        take: Callable[[Answer], None],
    ) -> None:
        self._ask: Final = ask
        self._take: Final = take
        self._busy = False
        self._next: list[Question] = []

    def request(self, question: Question) -> None:
        """Ask, now or once the question that is being answered is answered."""
        if self._busy:
            self._next = [question]
            return
        self._busy = True
        self._ask(question, self._on_result)

    def _on_result(self, answer: Answer) -> None:
        self._busy = False
        waiting, self._next = self._next, []
        self._take(answer)
        for question in waiting:
            self.request(question)
