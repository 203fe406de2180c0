"""A session that worked long: every kind of call that a strategy looks for, as often as wanted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ctxtop.core.measure.token_estimate import Estimator
from ctxtop.core.model.conversation import drops_thinking
from ctxtop.core.transcript.entry_decoder import decode_entry

from . import transcripts as made

if TYPE_CHECKING:
    from pathlib import Path

    from .transcripts import JsonLine

WORDS = (
    "def parse_header(self, raw_packet): return self.frame_decoder.decode_bytes(raw_packet)"
    "  # src/network/frame_decoder.py"
)
OLDER = "claude-haiku-4-5-20251001"
NEWER = "claude-opus-5-5"
CALL_OUTPUT: Final = 400  # tokens of an answer that calls a tool: what its call leaves is thinking


def numbered(lines: int = 60, start: int = 1, words: str = WORDS) -> str:
    """A file's text as a Read gives it."""
    return "\n".join(f"{n:6}\t{words} {n}" for n in range(start, start + lines))


class Session:
    """Lines that hang one on the other, as the client writes them.

    Each answer's usage is what its request held, for an API that counts as our estimates do.
    """

    def __init__(self, model: str = OLDER) -> None:
        self.lines: list[JsonLine] = []
        self.model = model
        self.calls = 0
        self.context = 12_000  # what the newest answer saw
        self._counter = Estimator({}).for_model(model)
        self._names: dict[str, Any] = {}
        self._unseen = self._thoughts = 0
        self._answer_id: str | None = None

    def add(self, line: JsonLine) -> int:
        """Hang a line behind the last one; gives its number."""
        before = next((each["uuid"] for each in reversed(self.lines) if each.get("uuid")), None)
        if line.get("uuid"):
            line = line | {"parentUuid": before}
        self.lines.append(line)
        self._unseen += self._size(line)
        return len(self.lines)

    def ask(self, words: str = "go on with the decoder") -> int:
        """A person's words."""
        if drops_thinking(self.model):
            self._unseen -= self._thoughts
        self._thoughts = 0
        return self.add(made.user(words))

    def say(self, words: str = "Done.") -> int:
        """The model's answers."""
        return self.add(self._answer([made.text(words)]))

    def think(self, message_id: str) -> int:
        """A thought, on a line of its own."""
        block = {"type": "thinking", "thinking": "", "signature": "c2lnbmF0dXJl"}
        return self.add(self._answer([block], message_id, output=CALL_OUTPUT))

    def use(
        self,
        tool: str,
        words: str | list[JsonLine] = "done",
        *,
        thinking: bool = False,
        failed: bool = False,
        details: object = None,
        **asked: Any,  # noqa: ANN401 -- whatever a tool takes
    ) -> tuple[int, int]:
        """A call and its result; gives the numbers of their lines."""
        self.calls += 1
        call, message = f"toolu_{self.calls:04}", f"msg_call_{self.calls:04}"
        if thinking:
            self.think(message)
        answer = self._answer([made.tool(tool, call, **asked)], message, output=CALL_OUTPUT)
        asking = self.add(answer)
        if thinking:
            thought = max(0, CALL_OUTPUT - self._size(answer))
            self._thoughts += thought
            self._unseen += thought
        block: JsonLine = {"type": "tool_result", "tool_use_id": call, "content": words}
        if failed:
            block["is_error"] = True
        line = made.user([block])
        return asking, self.add(line if details is None else line | {"toolUseResult": details})

    def read(self, path: str, lines: int = 60, **asked: Any) -> tuple[int, int]:  # noqa: ANN401
        """A Read of a file."""
        text = numbered(lines, int(asked.get("offset", 1)))
        return self.use("Read", text, file_path=path, **asked)

    def rest(self, turns: int = 12, lines: int = 120) -> None:
        """Turns that the tail protects, and the last prompt in front of them."""
        self.ask("and now the rest")
        for number in range(turns):
            self.use(
                "Read", numbered(lines, words=f"{WORDS} rest {number}"), file_path=f"/r/{number}.py"
            )
        self.say("That was the rest.")

    def write(self, path: Path) -> Path:
        """Write it as a transcript."""
        return made.write(path, self.lines)

    def _answer(
        self, content: list[JsonLine], message_id: str | None = None, output: int = 50
    ) -> JsonLine:
        message_id = message_id or made.uuid()
        if message_id != self._answer_id:
            self.context += self._unseen
            self._unseen, self._answer_id = 0, message_id
        return made.assistant(message_id, self.context, output, content, model=self.model)

    def _size(self, line: JsonLine) -> int:
        entry = decode_entry(0, json.dumps(line).encode(), self._names)
        return sum(map(self._counter.tokens, entry.parts)) if entry and not entry.hidden else 0
