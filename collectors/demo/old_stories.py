"""The stories of the sessions that older clients wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import agent_texts, texts
from .newer import NewerTalk, waited_agent
from .older import OlderTalk, inlined_task, older_chain, sibling_task
from .stage import Stage, Told, steps_between
from .usage import Usage, usage_for

if TYPE_CHECKING:
    from .agent_texts import AgentTask
    from .stories import Story

NEWER_FIRST = 24_300  # what the first request of a session held then
OLDER_FIRST = 21_600
SEARCHED = 11_400  # what a search on the API's side added between the two rounds of one answer


def newer(by_hand: str | None, task: AgentTask, targets: tuple[int, int]) -> Story:
    """Return the story of a 2.1.217 session: an agent, then an answer in two rounds."""

    def story(stage: Stage) -> Told:
        talk = NewerTalk(stage.new_chain(), stage.spec.model)
        middle, last = targets
        talk.prompt(task.prompt)
        for tokens in steps_between(NEWER_FIRST, middle, 6):
            talk.use(stage.next_remark(), stage.next_call(tokens - talk.tokens), tokens)
        folder = stage.transcript.with_suffix("") / "subagents"
        stage.agent_buffers += waited_agent(
            talk, task, folder, stage.spec.project, stage.rng, middle + 4_200
        )
        for tokens in steps_between(talk.tokens, last - SEARCHED - 300, 8):
            talk.use(stage.next_remark(), stage.next_call(tokens - talk.tokens), tokens)
        talk.say(stage.closing(), two_rounds(talk.tokens, last))
        title = stage.spec.title
        talk.title(by_hand and title, by_hand or title)
        return Told(talk.tokens, "measured", 0, 1)

    return story


def two_rounds(before: int, last: int) -> tuple[Usage, Usage]:
    """Return the counts of an answer that searched once: the second round is its window."""
    first = usage_for(last - SEARCHED, before, 90)
    return first, usage_for(last, first.context, 410)


def older_inlined(stage: Stage) -> Told:
    """Tell a 2.1.45 session whose agent left nothing but progress lines."""
    talk = OlderTalk(older_chain(stage.new_chain()), stage.spec.model.id)
    talk.start()
    talk.prompt(stage.spec.title)
    for tokens in steps_between(OLDER_FIRST, 61_000, 3):
        talk.use(stage.next_remark(), stage.next_call(tokens - talk.tokens), tokens)
    inlined_task(talk, agent_texts.INVENTORY, stage.spec.project, stage.rng, 64_300)
    talk.say(
        "Four routes, one of them probably used by the load balancer. I removed three.", 71_900
    )
    return Told(talk.tokens, "measured", 0, 1)


def older_sibling(stage: Stage) -> Told:
    """Tell a 2.1.45 session with an agent's file beside it and a bare boundary."""
    talk = OlderTalk(older_chain(stage.new_chain()), stage.spec.model.id)
    talk.start()
    talk.prompt(stage.spec.title)
    for tokens in steps_between(OLDER_FIRST, 148_000, 5):
        talk.use(stage.next_remark(), stage.next_call(tokens - talk.tokens), tokens)
    sheet = sibling_task(
        talk,
        agent_texts.LEDGER_AUDIT,
        stage.transcript.parent,
        stage.spec.project,
        stage.rng,
        158_200,
    )
    stage.agent_buffers.append(sheet)
    talk.compact(texts.COBOL_SUMMARY, 167_081)
    talk.prompt("So is it the bank's calendar?")
    talk.use(stage.next_remark(), stage.next_call(4_000), 44_700)
    talk.say("Yes: the last banking day of March was a Friday, the job took the 31st.", 49_350)
    return Told(talk.tokens, "measured", 1, 1)
