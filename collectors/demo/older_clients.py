"""Write sessions as older clients did: 2.1.217, and 2.1.45 with its progress lines."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce

from .conversation_writer import (
    AnswerUsage,
    agent_lines,
    split_usage,
    stop_reason,
    text_block,
    thinking_block,
    tool_result_block,
)
from .demo_data import (
    CLIENT,
    SUMMARIES,
    TASKS,
    TEXTS,
    AgentTask,
    DemoJson,
    DemoModel,
    DemoToolCall,
    client_text,
    make_tool_call,
    shape,
)
from .demo_transcript import (
    DemoClock,
    DemoSession,
    FileBuffer,
    SessionBuilder,
    TranscriptChain,
    format_time,
)


def _direct_call(tool_use_id: str, call: DemoToolCall) -> DemoJson:
    return call.block(tool_use_id) | {"caller": {"type": "direct"}}


def _open_agent(builder: SessionBuilder, sink: FileBuffer, agent_id: str) -> TranscriptChain:
    clock = builder.chain.clock
    clock = DemoClock(clock.at, clock.pace / 6, clock.end)
    builder.agent_files.append(sink)
    return builder.chain.for_agent(agent_id, sink, clock)


def _agent_calls(builder: SessionBuilder, task: AgentTask, size: int) -> Iterator[DemoToolCall]:
    for number in range(task.calls):
        yield make_tool_call(builder.rng, builder.story.project, number, size)


NEWER_FIRST_TOKENS = 24_300  # what the first request of a session held then
NEWER_AGENT_TOKENS = 12_600  # and that of an agent
NEWER_CALL_TOKENS = 5_200
SEARCH_TOKENS = 11_400  # what a search on the API's side added between the two rounds of one answer


class NewerConversation:
    """Writes a transcript as 2.1.217 did."""

    def __init__(self, chain: TranscriptChain, model: DemoModel) -> None:
        self.chain = chain
        self.model = model
        self.tokens = 0
        self.prompt_id = chain.ids.uuid()
        self.last_prompt = ""
        self._is_first = True

    def prompt(self, text: str) -> None:
        """Write a person's prompt, with the listings before the first one's answer."""
        self.prompt_id = self.chain.ids.uuid()
        self.last_prompt = text
        fields: DemoJson = {}
        if self.chain.agent_id is None:
            self.chain.queue(text)
            fields = {"permissionMode": "auto", "origin": {"kind": "human"}, "promptSource": "sdk"}
        self.add_user(text, fields)
        if self._is_first:
            self._add_listings()
        self._is_first = False

    def write_titles(self, given: str | None, generated: str) -> None:
        """Write the session's titles; the one that a person gave wins."""
        self.chain.add_note("last-prompt", lastPrompt=self.last_prompt, leafUuid=self.chain.parent)
        self.chain.add_note("ai-title", aiTitle=generated)
        if given is not None:
            self.chain.add_note("custom-title", customTitle=given)
        self.chain.add_note("mode", mode="normal")

    def answer(self, blocks: list[DemoJson], *rounds: AnswerUsage) -> list[str]:
        """Write one answer; the context is what its last round saw."""
        self.chain.clock.advance()
        message = shape(
            "answer 2.1.217",
            model=self.model.id,
            id=self.chain.ids.message(),
            stop_reason=stop_reason(blocks),
            usage=rounds_usage(*rounds),
        )
        request = {"requestId": self.chain.ids.request(), "type": "assistant"}
        self.tokens = rounds[-1].context
        effort = {"effort": self.model.effort}
        return [
            self.chain.add({"message": message | {"content": [block]}} | request, effort)
            for block in blocks
        ]

    def use_tool(self, say: str, call: DemoToolCall, tokens: int) -> None:
        tool_use_id = self.chain.ids.tool_use()
        blocks = [thinking_block(120), text_block(say), _direct_call(tool_use_id, call)]
        asked_by = self.answer(blocks, split_usage(tokens, self.tokens, 240))[-1]
        # Agents' files have no structured results.
        result: DemoJson = {} if self.chain.agent_id else {"toolUseResult": call.result}
        content = [tool_result_block(tool_use_id, call.output)]
        self.add_user(content, result | {"sourceToolAssistantUUID": asked_by})

    def reply(self, text: str, *rounds: AnswerUsage) -> None:
        self.answer([text_block(text)], *rounds)
        self.chain.add(shape("stop hook 2.1.217"), {"toolUseID": self.chain.ids.uuid()})

    def add_user(self, content: str | list[DemoJson], after: DemoJson) -> None:
        self.chain.add(shape("turn prompt", prompt_id=self.prompt_id, content=content), after)

    def _add_listings(self) -> None:
        skills, types = CLIENT.skills, CLIENT.agent_types
        content = "\n".join(f"- {name}" for name in skills)
        for attachment in (
            shape("attachment tools 2.1.217", names=CLIENT.deferred_tools),
            shape("attachment agents 2.1.217", names=types, lines=agent_lines()),
            shape("attachment skills 2.1.217", content=content, count=len(skills), names=skills),
        ):
            self.chain.add({"attachment": attachment, "type": "attachment"})


def rounds_usage(*rounds: AnswerUsage) -> DemoJson:
    """Return the usage object as 2.1.217 writes it: the top level is the sum of its rounds."""
    iterations = [usage.fields("iteration 2.1.217") for usage in rounds]
    total = reduce(AnswerUsage.plus, rounds)
    return total.fields("usage 2.1.217", searches=len(rounds) - 1, iterations=iterations)


def write_foreground_agent(
    builder: SessionBuilder, talk: NewerConversation, task: AgentTask, tokens: int
) -> None:
    """Write an agent that the main conversation waits for."""
    ids, agent_id = talk.chain.ids, talk.chain.ids.agent()
    tool_use_id = ids.tool_use()
    blocks = [_direct_call(tool_use_id, task.call())]
    asked_by = talk.answer(blocks, split_usage(tokens, talk.tokens, 310))[-1]
    sink = FileBuffer(builder.agent_transcript(agent_id))
    inner = NewerConversation(_open_agent(builder, sink, agent_id), task.model)
    inner.prompt(task.prompt)
    for number, call in enumerate(_agent_calls(builder, task, 900)):
        inner.use_tool(TEXTS.remarks[number], call, NEWER_AGENT_TOKENS + number * NEWER_CALL_TOKENS)
    last = split_usage(inner.tokens + NEWER_CALL_TOKENS, inner.tokens, 420)
    inner.answer([text_block(task.result)], last)
    talk.chain.clock.at = inner.chain.clock.at
    result = shape(
        "agent result 2.1.217",
        task=task,
        agent_id=agent_id,
        tokens=last.context + last.output,
        usage=rounds_usage(last),
    )
    text = client_text(
        "newer_agent_result", agent_id=agent_id, tokens=last.context, calls=task.calls
    )
    content = [tool_result_block(tool_use_id, [text_block(task.result), text_block(text)])]
    talk.add_user(content, {"toolUseResult": result, "sourceToolAssistantUUID": asked_by})
    sidecar = shape("sidecar 2.1.217", task=task, tool_use_id=tool_use_id)
    path = sink.path.with_suffix(".meta.json")
    builder.agent_files.append(FileBuffer(path, [sidecar], sink.last))


OLDER_AGENT_MODEL = "claude-haiku-4-5-20251001"  # the oldest era still wrote dates into model names
OLDER_FIRST_TOKENS = 21_600
OLDER_AGENT_TOKENS = 14_200
OLDER_CALL_TOKENS = 6_100
PLACEHOLDER_OUTPUTS = (1, 3, 8, 2)  # what an early fragment says instead of its output


class OlderConversation:
    """Writes a transcript as 2.1.45 did."""

    def __init__(self, chain: TranscriptChain, model: str) -> None:
        chain.is_older = True
        self.chain = chain
        self.model = model
        self.tokens = 0
        self._answers = 0

    def prompt(self, text: str) -> None:
        line_id = self.chain.ids.uuid()
        self.chain.add_file_history(line_id)
        self.chain.add(shape("prompt", content=text), {"permissionMode": "default"}, line_id)

    def answer(self, blocks: list[DemoJson], tokens: int, output: int) -> list[str]:
        """Write one answer; only its last fragment knows its output."""
        self.chain.clock.advance()
        last = split_usage(tokens, self.tokens, output)
        placeholder = PLACEHOLDER_OUTPUTS[self._answers % len(PLACEHOLDER_OUTPUTS)]
        usages = [last._replace(output=placeholder)] * (len(blocks) - 1) + [last]
        self._answers += 1
        self.tokens = last.context
        message_id, request = self.chain.ids.message(), self.chain.ids.request()
        return [
            self.chain.add(
                {
                    "message": older_answer(self.model, message_id, block, usage),
                    "requestId": request,
                    "type": "assistant",
                }
            )
            for block, usage in zip(blocks, usages, strict=True)
        ]

    def use_tool(self, say: str, call: DemoToolCall, tokens: int) -> None:
        tool_use_id = self.chain.ids.tool_use()
        blocks = [text_block(say), _direct_call(tool_use_id, call)]
        asked_by = self.answer(blocks, tokens, 210)[-1]
        self.add_hook("PostToolUse", call.name, tool_use_id)
        self.tool_result(tool_use_id, call.output, call.result, asked_by)

    def tool_result(
        self, tool_use_id: str, output: str | list[DemoJson], result: DemoJson, asked_by: str
    ) -> None:
        content = [tool_result_block(tool_use_id, output)]
        after: DemoJson = {"toolUseResult": result, "sourceToolAssistantUUID": asked_by}
        self.chain.add(shape("prompt", content=content), after)

    def reply(self, text: str, tokens: int) -> None:
        self.answer([text_block(text)], tokens, 180)
        self.chain.add(shape("stop hook 2.1.45"), {"toolUseID": self.chain.ids.uuid()})
        duration: DemoJson = {"type": "system", "subtype": "turn_duration", "durationMs": 61_200}
        self.chain.add(duration, {"isMeta": False})

    def add_hook(self, event: str, what: str, tool_use_id: str) -> None:
        hook = {"type": "hook_progress", "hookEvent": event, "hookName": f"{event}:{what}"}
        self.add_progress(hook | {"command": "callback"}, tool_use_id, tool_use_id)

    def add_progress(self, data: DemoJson, tool_use_id: str, parent_tool_use_id: str) -> None:
        """Write a progress line; it is part of the chain."""
        head: DemoJson = {"type": "progress", "data": data}
        ids = {"parentToolUseID": parent_tool_use_id, "toolUseID": tool_use_id}
        self.chain.add(head | ids)

    def compact(self, summary: str, pre_tokens: int) -> None:
        """Write a boundary that says only who asked and how much there was."""
        self.chain.clock.advance()
        before, self.chain.parent = self.chain.parent, None
        boundary = shape("boundary 2.1.45", last_line=before)
        metadata = {"trigger": "auto", "preTokens": pre_tokens}
        self.chain.add(boundary, {"level": "info", "compactMetadata": metadata})
        line = shape("prompt", content=client_text("older_summary", summary=summary))
        self.chain.add(line | {"isVisibleInTranscriptOnly": True, "isCompactSummary": True})
        self.tokens = 0

    def start_task(self, task: AgentTask, tokens: int) -> tuple[str, str]:
        """Write the Task call; return its id and the line that made it."""
        tool_use_id = self.chain.ids.tool_use()
        call = replace(task.call(), name="Task")
        return tool_use_id, self.answer([_direct_call(tool_use_id, call)], tokens, 260)[-1]

    def finish_task(self, task: AgentTask, agent_id: str, tool_use_id: str, asked_by: str) -> None:
        tokens = OLDER_AGENT_TOKENS + task.calls * OLDER_CALL_TOKENS
        last = split_usage(tokens, tokens - OLDER_CALL_TOKENS, 380)
        self.chain.parent = asked_by
        text = client_text("older_agent_result", agent_id=agent_id, tokens=tokens, calls=task.calls)
        result = shape(
            "agent result 2.1.45",
            task=task,
            agent_id=agent_id,
            tokens=last.context + last.output,
            usage=last.fields("usage 2.1.45"),
        )
        self.tool_result(tool_use_id, [text_block(task.result), text_block(text)], result, asked_by)


def older_answer(model: str, message_id: str, block: DemoJson, usage: AnswerUsage) -> DemoJson:
    fields = usage.fields("usage 2.1.45")
    return shape("answer 2.1.45", model=model, id=message_id, block=block, usage=fields)


def write_inlined_agent(
    builder: SessionBuilder, talk: OlderConversation, task: AgentTask, tokens: int
) -> None:
    """Write an agent whose whole work is in progress lines of the main file."""
    tool_use_id, asked_by = talk.start_task(task, tokens)
    ids = talk.chain.ids
    agent_id = ids.short_agent()
    tag = f"agent_{ids.message()}"

    def add_line(line: DemoJson) -> None:
        message = line | {"uuid": ids.uuid(), "timestamp": format_time(talk.chain.clock.tick())}
        data = {"message": message, "normalizedMessages": [], "type": "agent_progress"}
        talk.add_progress(data | {"prompt": task.prompt, "agentId": agent_id}, tag, tool_use_id)

    add_line(shape("prompt", content=[text_block(task.prompt)]))
    before = 0
    for number, call in enumerate(_agent_calls(builder, task, 500)):
        seen = OLDER_AGENT_TOKENS + number * OLDER_CALL_TOKENS
        message_id = ids.message()
        block = call.block(ids.tool_use())
        usage = split_usage(seen, before, PLACEHOLDER_OUTPUTS[1])
        message = older_answer(OLDER_AGENT_MODEL, message_id, block, usage)
        add_line({"type": "assistant", "message": message, "requestId": ids.request()})
        before = seen
    talk.finish_task(task, agent_id, tool_use_id, asked_by)


def write_sibling_agent(
    builder: SessionBuilder, talk: OlderConversation, task: AgentTask, tokens: int
) -> None:
    """Write an agent whose file lies beside its session's."""
    tool_use_id, asked_by = talk.start_task(task, tokens)
    agent_id = talk.chain.ids.short_agent()
    sink = FileBuffer(builder.transcript.with_name(f"agent-{agent_id}.jsonl"))
    inner = OlderConversation(_open_agent(builder, sink, agent_id), OLDER_AGENT_MODEL)
    inner.chain.add(shape("prompt", content=task.prompt))
    for number, call in enumerate(_agent_calls(builder, task, 700)):
        inner.use_tool(TEXTS.remarks[number], call, OLDER_AGENT_TOKENS + number * OLDER_CALL_TOKENS)
    inner.answer([text_block(task.result)], inner.tokens + OLDER_CALL_TOKENS, 380)
    talk.chain.clock.at = inner.chain.clock.at
    talk.finish_task(task, agent_id, tool_use_id, asked_by)


def rising_steps(start: int, until: int, count: int) -> list[int]:
    """Return `count` rising values that end at `until`."""
    return [start + (until - start) * (number + 1) // count for number in range(count)]


def _use_tools(
    builder: SessionBuilder,
    talk: NewerConversation | OlderConversation,
    start: int,
    until: int,
    calls: int,
) -> None:
    for tokens in rising_steps(start, until, calls):
        talk.use_tool(builder.next_remark(), builder.next_call(tokens - talk.tokens), tokens)


def write_foreground_story(
    builder: SessionBuilder, task: str, until: tuple[int, int], generated_title: str | None = None
) -> DemoSession:
    """Write a 2.1.217 session: an agent, then an answer in two rounds.

    `until` is the context before the agent and at the end. With a `generated_title`, the
    session's own title is one that a person gave.
    """
    talk = NewerConversation(builder.chain, builder.story.model)
    middle, last = until
    talk.prompt(TASKS[task].prompt)
    _use_tools(builder, talk, NEWER_FIRST_TOKENS, middle, 6)
    write_foreground_agent(builder, talk, TASKS[task], middle + 4_200)
    _use_tools(builder, talk, talk.tokens, last - SEARCH_TOKENS - 300, 8)
    # The answer searched once: its second round is its window.
    first = split_usage(last - SEARCH_TOKENS, talk.tokens, 90)
    talk.reply(builder.closing(), first, split_usage(last, first.context, 410))
    title = builder.story.title
    talk.write_titles(generated_title and title, generated_title or title)
    return builder.to_session(talk.tokens, "measured", 0, 1)


def _begin_older(builder: SessionBuilder, until: int, calls: int) -> OlderConversation:
    talk = OlderConversation(builder.chain, builder.story.model.id)
    talk.chain.add_file_history(talk.chain.ids.uuid())
    talk.add_hook("SessionStart", "startup", talk.chain.ids.uuid())
    talk.prompt(builder.story.title)
    _use_tools(builder, talk, OLDER_FIRST_TOKENS, until, calls)
    return talk


def write_inlined_story(builder: SessionBuilder, task: str) -> DemoSession:
    """Write a 2.1.45 session whose agent left only progress lines."""
    talk = _begin_older(builder, 61_000, 3)
    write_inlined_agent(builder, talk, TASKS[task], 64_300)
    talk.reply(
        "Four routes, one of them probably used by the load balancer. I removed three.", 71_900
    )
    return builder.to_session(talk.tokens, "measured", 0, 1)


def write_sibling_story(builder: SessionBuilder, task: str) -> DemoSession:
    """Write a 2.1.45 session with an agent's file beside it and a bare boundary."""
    talk = _begin_older(builder, 148_000, 5)
    write_sibling_agent(builder, talk, TASKS[task], 158_200)
    talk.compact(SUMMARIES["cobol"], 167_081)
    talk.prompt("So is it the bank's calendar?")
    talk.use_tool(builder.next_remark(), builder.next_call(4_000), 44_700)
    talk.reply("Yes: the last banking day of March was a Friday, the job took the 31st.", 49_350)
    return builder.to_session(talk.tokens, "measured", 1, 1)


OLDER_STORIES: dict[str, Callable[..., DemoSession]] = {
    "foreground_agent": write_foreground_story,
    "inlined_agent": write_inlined_story,
    "sibling_agent": write_sibling_story,
}
"""What writes the sessions of older clients, by its name in demo.toml."""
