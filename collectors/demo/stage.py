"""Where a session is told: its files, its ids, its clock, and what is known about it after."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from .chain import Chain
from .current import Talk
from .model import ContextState, DemoSession, Json, Model, Origin, ToolCall
from .plumbing import Clock, Ids, Sheet, millis, slug
from .speaker import text_block, thinking_block, tool_block
from .texts import CLOSINGS, REMARKS, Project
from .toolwork import work
from .usage import Totals

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

FIRST_TOKENS = 18_200  # system prompt, tools and memory: what the first request of a session has
CHARS_A_TOKEN = 2.6  # of what the demo's tools put out, as `ctxtop context` counts it
SMALLEST_OUTPUT = 400
LARGEST_OUTPUT = 60_000  # characters: about what the client lets one read bring


@dataclass(frozen=True)
class Cast:
    """What makes one session: its project, its model, its title, its place in time."""

    project: Project
    model: Model
    title: str
    era: str
    entrypoint: str
    ended: timedelta  # before now
    pace: timedelta  # between two answers
    answers: int  # about how many there will be: says when the session began
    status: str | None = None  # of the registry; none when no process has the session open
    grows: bool = False


@dataclass(frozen=True)
class Told:
    """What a story left behind: the truth about its session."""

    tokens: int | None
    state: ContextState
    compactions: int
    agents: int


@dataclass
class Stage:
    """One session while it is told."""

    spec: Cast
    origin: Origin
    root: Path
    rng: Random
    ids: Ids
    clock: Clock
    buffer: Sheet
    agent_buffers: list[Sheet] = field(default_factory=list)
    calls: int = 0
    owed_chars: int = 0  # characters that the answers' tokens stand for and no tool has put out

    @property
    def transcript(self) -> Path:
        """Return the session's main file."""
        return self.buffer.path

    @property
    def display_path(self) -> str:
        """Return the main file as people know it: the same wherever the demo's folder is."""
        return f"~/.claude/projects/{self.transcript.parent.name}/{self.transcript.name}"

    def started_at(self) -> datetime:
        """Return when the session began."""
        return datetime.fromisoformat(
            next(line["timestamp"] for line in self.buffer.lines if "timestamp" in line)
        )

    def new_chain(self) -> Chain:
        """Return a new chain that writes to the main file."""
        return Chain(self.origin, self.ids, self.clock, self.buffer)

    def new_conversation(self) -> Talk:
        """Return the main conversation of a 2.1.329 session."""
        totals = Totals(millis(self.clock.at))
        return Talk(self.new_chain(), self.spec.model, totals, self.spec.title)

    def next_call(self, growth: int) -> ToolCall:
        """Return the next tool call, sized by the tokens that it brings."""
        self.calls += 1
        self.owed_chars += int(growth * CHARS_A_TOKEN)
        size = min(LARGEST_OUTPUT, max(SMALLEST_OUTPUT, self.owed_chars))
        call = work(self.rng, self.spec.project, self.calls, size)
        self.owed_chars = max(0, self.owed_chars - len(call.output))
        return call

    def next_remark(self) -> str:
        """Return what is said before the next tool call."""
        return REMARKS[(self.calls * 5 + len(self.spec.title)) % len(REMARKS)]

    def closing(self) -> str:
        """Return what ends a turn."""
        return CLOSINGS[(self.calls + len(self.spec.title)) % len(CLOSINGS)]

    def to_session(self, told: Told) -> DemoSession:
        """Return the truth about the session."""
        return DemoSession(
            session_id=self.origin.session_id,
            title=self.spec.title,
            transcript=self.transcript,
            era=self.spec.era,
            model=self.spec.model.id,
            context_tokens=told.tokens,
            context_state=told.state,
            window_tokens=self.spec.model.window,
            compactions=told.compactions,
            agents=told.agents,
            grows=self.spec.grows,
        )


NICKNAMES = ("amber-drifting-otter", "quiet-humming-fjord", "brisk-folding-lantern")


def open_stage(cast: Cast, root: Path, now: datetime, rng: Random) -> Stage:
    """Return the stage of one session, its clock set to when it began."""
    ids = Ids(rng)
    origin = Origin(
        session_id=ids.uuid(),
        cwd=cast.project.cwd,
        version=cast.era,
        entrypoint=cast.entrypoint,
        branch=cast.project.branch,
        nickname=rng.choice(NICKNAMES),
    )
    end = now - cast.ended
    clock = Clock(end - cast.pace * cast.answers, cast.pace, end)
    path = root / "projects" / slug(cast.project.cwd) / f"{origin.session_id}.jsonl"
    return Stage(cast, origin, root, rng, ids, clock, Sheet(path))


def truth_of(talk: Talk) -> Told:
    """Return what a 2.1.329 conversation knows about itself."""
    tokens = None if talk.state == "unknown" else talk.tokens
    return Told(tokens, talk.state, talk.compactions, talk.agents)


def steps_between(start: int, until: int, count: int) -> list[int]:
    """Return `count` rising values that end at `until`."""
    return [start + (until - start) * (number + 1) // count for number in range(count)]


def _steps(tokens: int, until: int, calls: int) -> list[int]:
    """Return what each call's answer has; the first of all has what every session begins with."""
    if not tokens:
        return [FIRST_TOKENS, *steps_between(FIRST_TOKENS, until, calls)[:-1]]
    return steps_between(tokens, until, calls + 1)[:-1]


def use_tool(stage: Stage, talk: Talk, tokens: int) -> None:
    """Tell one exchange: a remark, a tool call, its result."""
    asked_by, tool_use_id, call = ask_tool(stage, talk, tokens)
    talk.tool_result(tool_use_id, call, asked_by)


def run_tests(stage: Stage, talk: Talk, tokens: int) -> None:
    """Tell an answer that runs the tests, which have not ended."""
    wanted = stage.next_call(tokens - talk.tokens)
    tests = {"command": stage.spec.project.test, "description": "Run the tests"}
    call = replace(wanted, name="Bash", input=tests)
    asked_by, tool_use_id = _ask(stage, talk, tokens, call)
    lines = len(stage.buffer.lines)
    # The end is told and taken back: so all that is told after it stays the same.
    talk.tool_result(tool_use_id, call, asked_by)
    stage.buffer.cut(lines)


def ask_tool(stage: Stage, talk: Talk, tokens: int) -> tuple[str, str, ToolCall]:
    """Tell an answer that asks for a tool; return who asked, under which id, for what."""
    call = stage.next_call(tokens - talk.tokens)
    return *_ask(stage, talk, tokens, call), call


def _ask(stage: Stage, talk: Talk, tokens: int, call: ToolCall) -> tuple[str, str]:
    tool_use_id = stage.ids.tool_use()
    blocks: list[Json] = [text_block(stage.next_remark()), tool_block(tool_use_id, call)]
    if stage.calls % 3 == 1 and talk.model.effort is not None:
        blocks.insert(0, thinking_block(300))
    asked_by = talk.answer(blocks, tokens, 160 + 40 * len(blocks))[-1]
    return asked_by, tool_use_id


def turn(stage: Stage, talk: Talk, prompt: str, until: int, calls: int) -> None:
    """Tell a whole turn: a prompt, some tool calls, an answer at `until` tokens."""
    talk.prompt(prompt)
    began = stage.clock.at
    for tokens in _steps(talk.tokens, until, calls):
        use_tool(stage, talk, tokens)
    talk.answer([text_block(stage.closing())], until, 240)
    talk.finish_turn((stage.clock.at - began).total_seconds())
