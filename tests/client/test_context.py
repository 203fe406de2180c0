"""`ctxtop context` beside the client's own `/context`, category by category."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import pytest
from ctxtop.collectors.claude_code.transcript_details import read_composition
from ctxtop.collectors.claude_code.transcripts.client_output import (
    parse_context_text,
    parse_context_usage,
)
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.core.measure.composition import CompositionSource, ContextCategory
from ctxtop.core.measure.tokens import estimate_tokens
from ctxtop.core.model.context import ContextReport, ReportedCategory
from ctxtop.core.model.conversation import MessagePart, PartKind
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.writer import Writer

from ..recorder import Recorder
from . import mcp_server
from .counting import FACTOR, TOOLS_PREAMBLE

if TYPE_CHECKING:
    from ctxtop.core.measure.composition import Composition

    from .lab import Lab

FROM: Final = 0.05
"""Share of the total from which on a category is compared (the issue's proof)."""

WITHIN: Final = 0.05

COUNTED: Final = "&&&usage:counted"

MAPPED: Final = {
    "system prompt": ((ReportedCategory.SYSTEM_PROMPT,), (ContextCategory.SYSTEM_PROMPT,)),
    # The client takes the skills' listing off the tools, where it stood in older versions, and
    # leaves it among the messages, where it stands now.
    "system tools": (
        (ReportedCategory.SYSTEM_TOOLS, ReportedCategory.SKILLS),
        (ContextCategory.SYSTEM_TOOLS,),
    ),
    "MCP tools": ((ReportedCategory.MCP_TOOLS,), (ContextCategory.MCP_TOOLS,)),
    "memory files": ((ReportedCategory.MEMORY_FILES,), (ContextCategory.MEMORY,)),
    "messages": (
        (ReportedCategory.MESSAGES, ReportedCategory.CUSTOM_AGENTS),
        tuple(
            set(ContextCategory)
            - {
                ContextCategory.SYSTEM_PROMPT,
                ContextCategory.SYSTEM_TOOLS,
                ContextCategory.MCP_TOOLS,
                ContextCategory.MEMORY,
            }
        ),
    ),
}
"""The client's categories, and ours that are the same."""


def asked(lab: Lab, session_id: str, more: tuple[str, ...] = ()) -> ContextReport:
    """Run `/context` and return its exact report.

    Checks that the report's text agrees with its figures.
    """
    lab.turn("/context", resume=session_id, more=more)
    (line,) = [one for one in lab.transcript(session_id) if "contextUsage" in one][-1:]
    exact = parse_context_usage(msgspec.Raw(json.dumps(line["contextUsage"]).encode()))
    rounded = parse_context_text(line["content"])
    assert exact is not None
    assert rounded is not None
    assert rounded.model == exact.model
    assert rounded.window_tokens == exact.window_tokens
    assert rounded.categories.keys() == exact.categories.keys()
    assert rounded.total_tokens == pytest.approx(exact.total_tokens, abs=100)
    return exact


class LabTokens:
    """The tokenizer of the scripted API, but for its factor, which the totals tell."""

    def tokens(self, part: MessagePart) -> int:
        """Count a piece."""
        called = f"{part.name} " if part.kind is PartKind.TOOL_INPUT else ""
        return estimate_tokens(called + part.text)


def ours(lab: Lab, session_id: str) -> Composition:
    lab.ctxtop()
    with closing(open_reader(lab.store)) as db:
        projects = lab.config.resolve() / "projects"
        return read_composition(db, projects, session_id, counter=LabTokens())


def bare(lab: Lab, session_id: str) -> Composition:
    """Break down the same context without the recorded API requests."""
    folder = lab.root / "bare"
    (path,) = lab.config.glob(f"projects/*/{session_id}.jsonl")
    copied = folder / "projects" / path.parent.name / path.name
    copied.parent.mkdir(parents=True)
    lines = path.read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(b'{"type":"api-request')]
    copied.write_bytes(b"".join(kept))
    store = folder / "ctxtop.db"
    with closing(Writer(store)) as writer:
        Collector(ClaudeFolder(folder.resolve()), writer, Recorder()).scan()
    with closing(open_reader(store)) as db:
        return read_composition(db, folder.resolve() / "projects", session_id, None, LabTokens())


def agree(sent: Composition, projected: Composition) -> None:
    """Both sources say the same of what they know, category by category."""
    assert projected.source is CompositionSource.PROJECTION
    assert projected.total_tokens == sent.total_tokens
    known = {each.name: each.tokens for each in projected.categories}
    known.pop(ContextCategory.UNEXPLAINED, None)
    for each in sent.categories:
        share = known.get(each.name, 0) / sum(known.values())
        assert share == pytest.approx(each.share, abs=0.02), each.name


def compare(name: str, found: Composition, report: ContextReport, counted_again: int = 0) -> None:
    """Print both side by side, and let no category of weight differ by more than `WITHIN`.

    The client counts `counted_again` tokens of the tools twice, and so of the messages too few.
    """
    again = {"system tools": -counted_again, "messages": counted_again}
    assert found.source is CompositionSource.REQUESTS
    assert found.total_tokens == report.total_tokens
    assert sum(each.tokens for each in found.categories) == found.total_tokens
    own = {each.name: each.tokens for each in found.categories}
    lines, wrong = [], []
    for what, (theirs, categories) in MAPPED.items():
        told = sum(report.categories.get(each, 0) for each in theirs) + again.get(what, 0)
        said = sum(own.get(each, 0) for each in categories)
        off = (said - told) / told if told else 0.0
        lines.append(f"  {what:<14} client {told:>7,}  ctxtop {said:>7,}  {off:+.1%}")
        if told > FROM * report.total_tokens and abs(off) > WITHIN:
            wrong.append(lines[-1])
    print(f"\n{name}: {report.total_tokens:,} tokens", *lines, sep="\n")
    assert not wrong


def test_a_session_with_tools(lab: Lab) -> None:
    file = lab.project / "shop.py"
    file.write_text("".join(f"price_{n} = {n} * RATE\n" for n in range(400)), encoding="utf-8")
    turn = lab.turn(
        f"Look. [[think:A rule.&&&read:{file}&&&bash:seq 1 900{COUNTED}]]"
        f" [[say:Now.&&&write:{lab.project}/b.py|x = 1{COUNTED}]] [[say:Done.{COUNTED}]]"
    )
    lab.turn(f"Again. [[read:{file}{COUNTED}]] [[say:Read.{COUNTED}]]", resume=turn.session_id)
    report = asked(lab, turn.session_id)
    found = ours(lab, turn.session_id)
    compare("tools", found, report)
    agree(found, bare(lab, turn.session_id))
    reads = [item for item in found.largest if item.name == f"Read {file}"]
    assert len(reads) == 2
    assert sum(item.superseded is not None for item in reads) == 1


def test_a_session_with_mcp_memory_and_skills(lab: Lab) -> None:
    (lab.project / "CLAUDE.md").write_text("Prices are in cents.\n" * 500, encoding="utf-8")
    lab.define_skill("polish", "Rub it with a cloth.\n" * 200)
    servers = {"shop": {"command": sys.executable, "args": ["-I", str(Path(mcp_server.__file__))]}}
    config = lab.root / "mcp.json"
    config.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    env = ("--mcp-config", str(config), "--settings", '{"env":{"ENABLE_TOOL_SEARCH":"false"}}')
    turn = lab.turn(
        f'Ask. [[tool:mcp__shop__price|{{"item":"tea"}}{COUNTED}]]'
        f' [[tool:Skill|{{"skill":"polish"}}{COUNTED}]] [[say:Done.{COUNTED}]]',
        more=env,
    )
    report = asked(lab, turn.session_id, env)
    found = ours(lab, turn.session_id)
    # Without tool search the client counts built-in tools in two requests, and takes what the API
    # adds for tools off neither.
    compare("MCP, memory and skills", found, report, counted_again=TOOLS_PREAMBLE)
    agree(found, bare(lab, turn.session_id))
    memory = next(each for each in found.categories if each.name == ContextCategory.MEMORY)
    assert memory.parts[0].name == str(lab.project / "CLAUDE.md")
    skills = next(each for each in found.categories if each.name == ContextCategory.SKILLS)
    assert "polish" in {part.name for part in skills.parts}
    tools = next(each for each in found.categories if each.name == ContextCategory.MCP_TOOLS)
    assert [part.name for part in tools.parts] == ["shop"]


def test_a_compacted_session_with_an_agent(lab: Lab) -> None:
    lab.define_agent("worker")
    turn = lab.turn(f"Fill it. [[bash:seq 1 3000{COUNTED}]] [[say:full{COUNTED}]]")
    lab.turn("/compact keep the plan", resume=turn.session_id)
    lab.turn(
        f"Delegate. [[agent:worker|Build it <<say:{'Built. ' * 500}+++usage:counted>>{COUNTED}]]"
        f" [[bash:seq 1 900{COUNTED}]] [[say:Done.{COUNTED}]]",
        resume=turn.session_id,
    )
    report = asked(lab, turn.session_id)
    found = ours(lab, turn.session_id)
    compare("compacted, with an agent", found, report)
    agree(found, bare(lab, turn.session_id))
    assert ContextCategory.SUMMARIES in {each.name for each in found.categories}
    (agent,) = lab.ctxtop().agents
    with closing(open_reader(lab.store)) as db:
        projects = lab.config.resolve() / "projects"
        own = read_composition(db, projects, turn.session_id, agent.agent_id, LabTokens())
    assert own.source is CompositionSource.REQUESTS
    assert own.total_tokens == agent.context.tokens
    assert sum(each.tokens for each in own.categories) == own.total_tokens


def test_what_a_compaction_restores(lab: Lab) -> None:
    """Right after it, with the files and the listings that the client puts back."""
    files = [lab.project / f"shop_{number}.py" for number in range(7)]
    for number, file in enumerate(files):
        lines = 2_000 if number == 6 else 100  # too large: it comes back by name
        text = "".join(f"price_{n} = {n} * RATE_{number}\n" for n in range(lines))
        file.write_text(text, encoding="utf-8")
    reads = " ".join(f"[[read:{file}{COUNTED}]]" for file in files)
    turn = lab.turn(f"Look. {reads} [[say:Read.{COUNTED}]]")
    lab.turn("/compact", resume=turn.session_id)
    lab.turn(f"And now? [[say:Go on.{COUNTED}]]", resume=turn.session_id)
    report = asked(lab, turn.session_id)
    found = ours(lab, turn.session_id)
    compare("what a compaction restores", found, report)
    projected = bare(lab, turn.session_id)
    agree(found, projected)
    # `LabTokens` does not know the API's factor; beyond that hardly anything is unexplained.
    unexplained = projected.unexplained_tokens / projected.total_tokens
    assert unexplained <= 1 - 1 / FACTOR + WITHIN / 5
    names = {
        part.name: {each.name for each in part.parts}
        for category in projected.categories
        for part in category.parts
    }
    assert names["file"] == set(map(str, files[2:6]))
    assert names["compact_file_reference"] == {str(files[6])}
