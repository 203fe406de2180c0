"""The lines of one answer as one fact: a block of content a line, the same counts in each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...core.keys import text_key
from ...core.store.facts import PeakFact, ResponseFact, join_tools
from ..clean import clean_title
from ..times import to_ms
from .lines import Usage  # noqa: TC001 -- msgspec reads it
from .usage import hour_writes, is_lowered, last_output, read_usage

if TYPE_CHECKING:
    from .glance import Glance, MessageGlance


class Answer(msgspec.Struct, gc=False):
    """What the lines of one message say, as far as they were read."""

    message_id: str
    offset: int
    last_offset: int
    timestamp: str | None
    model: str | None
    usage: Usage
    output_tokens: int
    sidechain: bool
    tools: str
    request_ref: str | None


class Answers:
    """The answers of one run of lines, in the order in which they begin."""

    def __init__(self) -> None:
        self._by_message: dict[str, Answer] = {}
        self._superseded: list[tuple[str, str | None, bool, Usage]] = []

    def add(
        self, offset: int, line: Glance, message: MessageGlance, *, sidechain: bool, tools: str
    ) -> None:
        """Take one line in; a line without counts tells of no answer."""
        usage = message.usage
        if usage is None:
            return
        message_id = message.id or line.uuid or f"at {offset}"
        output = usage.output_tokens or 0
        answer = self._by_message.get(message_id)
        if answer is None:
            self._by_message[message_id] = Answer(
                message_id,
                offset,
                offset,
                line.timestamp,
                message.model,
                usage,
                output,
                sidechain,
                tools,
                line.request_ref,
            )
            return
        if usage != answer.usage or message.model != answer.model:
            self._superseded.append((message_id, answer.model, answer.sidechain, answer.usage))
        answer.last_offset = offset
        answer.model = message.model
        answer.usage = usage
        answer.request_ref = answer.request_ref or line.request_ref
        # A line that is appended again calls nothing twice.
        if tools and tools not in answer.tools:
            answer.tools = join_tools(answer.tools, tools)
        if output > answer.output_tokens:
            answer.output_tokens = output

    def to_facts(self) -> tuple[ResponseFact, ...]:
        """Hand over one fact an answer."""
        return tuple(map(to_fact, self._by_message.values()))

    def superseded_peaks(self) -> tuple[PeakFact, ...]:
        """Hand over what earlier lines of an answer said and its last line does not."""
        return tuple(
            PeakFact(message_id, clean_title(model or ""), sidechain, read_usage(usage)[1])
            for message_id, model, sidechain, usage in self._superseded
        )


def to_fact(answer: Answer) -> ResponseFact:
    """Take the counts of the last line; its output is the most that any line said."""
    spent, context = read_usage(answer.usage)
    return ResponseFact(
        offset=answer.offset,
        last_offset=answer.last_offset,
        message_id=answer.message_id,
        at=to_ms(answer.timestamp),
        model=clean_title(answer.model or ""),
        input_tokens=spent.input_tokens,
        cache_creation_tokens=spent.cache_creation_tokens,
        cache_read_tokens=spent.cache_read_tokens,
        output_tokens=answer.output_tokens,
        context_tokens=context,
        sidechain=answer.sidechain,
        tools=answer.tools,
        request=text_key(answer.request_ref) if answer.request_ref else None,
        last_output_tokens=last_output(answer.usage),
        cache_1h_tokens=min(hour_writes(answer.usage), spent.cache_creation_tokens),
        lowered=is_lowered(answer.usage),
    )
