"""Which agents, types of agents and findings are shown, and in which order.

retry !draft                       in type, task, model, state, verdict; ! turns it round
type:reviewer  model:opus          in that field
verdict:forced  verdict:V05        of that verdict, or with that code
is:running  is:done  is:failed     in that state; `running` alone does it too
broke:                             that broke the rule
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..core.agents import AgentStatus
from ..core.compliance.codes import FAILED
from ..core.compliance.cost import CHARS_A_TOKEN
from ..core.compliance.findings import labels
from .compliance_words import WORDS
from .cycled import Cycled
from .formats import model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ..core.agents import Agent
    from ..core.compliance_summary import Part
    from ..core.review_groups import Found

    Fields = Mapping[str, str]

BROKE: Final = "broke:"
"""The word that `v` puts into the filter and takes out again."""

_STATES: Final = {AgentStatus.COMPLETED: "completed done"}


class AgentOrder(Cycled):
    """How those that one agent started are sorted; `s` goes from one to the next."""

    STARTED = "as started"
    NEWEST = "newest"
    FULLEST = "fullest"
    LARGEST = "largest result"


def choose_agents(
    agents: Iterable[Agent], words: str, order: AgentOrder = AgentOrder.STARTED
) -> list[Agent]:
    """Take the agents that every word fits, in an order."""
    takes = _test(words)
    chosen = [each for each in agents if takes(_of_agent(each))] if words else list(agents)
    if order is not AgentOrder.STARTED:
        chosen.sort(key=_KEYS[order])
    return chosen


def choose_types(parts: Iterable[Part], words: str) -> list[Part]:
    """Take the types that every word fits."""
    takes = _test(words)
    return [each for each in parts if takes(_of_type(each))]


def choose_found(found: Iterable[Found], words: str) -> list[Found]:
    """Take what reviewers found that every word fits: `severity:`, `file:`, `type:`, `project:`."""
    takes = _test(words)
    return [each for each in found if takes(_of_found(each))]


def toggled(words: str, word: str) -> str:
    """Put a word into a filter, or take it out."""
    listed = words.split()
    return " ".join(
        [each for each in listed if each != word] if word in listed else [*listed, word]
    )


def _test(words: str) -> Callable[[Fields], bool]:
    asked = [(word.removeprefix("!"), word.startswith("!")) for word in words.casefold().split()]
    return lambda fields: all(_fits(word, fields) is not negated for word, negated in asked)


def _fits(word: str, fields: Fields) -> bool:
    key, colon, value = word.partition(":")
    if colon and key in fields:
        return value in fields[key]
    if colon and not value and key == BROKE[:-1]:
        return False
    # A path or a time may well hold a colon.
    return any(word in each for each in fields.values())


def _of_agent(agent: Agent) -> Fields:
    ruling = agent.compliance
    fields = {
        "type": agent.agent_type,
        "model": f"{agent.model} {model(agent.model)}",
        "is": _STATES.get(agent.status, agent.status.label),
        "task": agent.description,
        "id": agent.agent_id,
    }
    if ruling is not None:
        codes = " ".join(labels((*ruling.violations, *ruling.warnings)))
        fields["verdict"] = f"{ruling.verdict.value} {WORDS[ruling.verdict]} {codes}"
    if ruling is not None and ruling.failed:
        fields["broke"] = ""
    return {key: value.casefold() for key, value in fields.items()}


def _of_type(part: Part) -> Fields:
    fields = {
        "type": part.name.casefold(),
        "format": " ".join(each.value for each in part.formats),
        "verdict": " ".join(f"{each.value} {WORDS[each]}" for each in part.last_verdicts),
        "is": "running" if part.running else "",
    }
    if any(each in FAILED for each in part.score.verdicts if part.score.verdicts[each]):
        fields["broke"] = ""
    return fields


def _of_found(found: Found) -> Fields:
    finding = found.finding
    fields = {
        "severity": finding.severity,
        "file": finding.path,
        "project": found.project,
        "type": " ".join(each.agent_type for each in found.reviews),
        "text": f"{found.location} {finding.text}",
    }
    return {key: value.casefold() for key, value in fields.items()}


def _size(agent: Agent) -> int:
    result = agent.result
    if result is None:
        return -1
    estimate = result.estimated_tokens
    return result.chars // CHARS_A_TOKEN if estimate is None else estimate


_KEYS: Final[dict[AgentOrder, Callable[[Agent], tuple[float, str]]]] = {
    AgentOrder.NEWEST: lambda agent: (
        -(agent.ended_at or agent.started_at or 0)
        if agent.status is not AgentStatus.RUNNING
        else float("-inf"),
        agent.agent_id,
    ),
    AgentOrder.FULLEST: lambda agent: (-(agent.context.ratio or 0.0), agent.agent_id),
    AgentOrder.LARGEST: lambda agent: (-_size(agent), agent.agent_id),
}
