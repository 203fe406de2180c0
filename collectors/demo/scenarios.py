"""Which sessions the demo has, in the order in which they are written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from . import agent_tasks, demo_texts, stories
from .demo_transcript import (
    CURRENT_VERSION,
    HAIKU_200K,
    NEWER_VERSION,
    OLDER_VERSION,
    OPUS,
    OPUS_5,
    OPUS_46,
    SONNET,
    SONNET_5,
    SONNET_46,
    DemoModel,
)
from .session_builder import SessionSpec

if TYPE_CHECKING:
    from .demo_texts import DemoProject
    from .stories import SessionStory


HOSTILE_PROMPT = (
    "The log view eats markup: [/foo] closes a tag that nobody opened, [bold red] paints the rest "
    "of the page and \x1b[31m turns my terminal red. A name with \u202e in it runs backwards. "
    "Show all of it as it is."
)


@dataclass(frozen=True)
class DemoScenario:
    """One session: who plays, and what happens."""

    spec: SessionSpec
    story: SessionStory


def _seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def _live_session(
    project: DemoProject, model: DemoModel, title: str, ended: float, status: str
) -> SessionSpec:
    pace = timedelta(minutes=2)
    return SessionSpec(
        project, model, title, CURRENT_VERSION, "cli", _seconds(ended), pace, 9, status
    )


def _growing_session(
    project: DemoProject, model: DemoModel, title: str, ended: float, status: str
) -> SessionSpec:
    pace = timedelta(seconds=40)
    ago = _seconds(ended)
    return SessionSpec(
        project, model, title, CURRENT_VERSION, "cli", ago, pace, 12, status, grows=True
    )


ENTRYPOINTS = {CURRENT_VERSION: "sdk-cli", NEWER_VERSION: "claude-desktop", OLDER_VERSION: "cli"}


def _past_session(
    project: DemoProject, model: DemoModel, title: str, era: str, ended: timedelta
) -> SessionSpec:
    pace = timedelta(minutes=3)
    return SessionSpec(project, model, title, era, ENTRYPOINTS[era], ended, pace, 10)


def _in_terminal(cast: SessionSpec) -> SessionSpec:
    return replace(cast, entrypoint="cli")


FIRST_PROMPT = DemoScenario(
    replace(
        _live_session(demo_texts.NOTES, OPUS, "Search offline notes by tag", 4, "busy"), answers=0
    ),
    stories.first_prompt,
)
NEARLY_FULL = DemoScenario(
    _live_session(demo_texts.SHOP, HAIKU_200K, "Fix the flaky checkout tests", 140, "idle"),
    stories.finished_turns(
        ("Three checkout tests fail every tenth run. Find out why and fix it.", 96_500, 8),
        ("Run them two hundred times and show me what is left.", 163_412, 7),
    ),
)
FILLING = DemoScenario(
    _growing_session(demo_texts.SHOP, HAIKU_200K, "Move checkout to the new tax API", 3, "busy"),
    stories.running_tests(
        ("Replace the tax table by the tax API, behind a setting.", 97_300, 9),
        "Now the refunds. They must use the tax that was charged.",
        128_240,
    ),
)
FORK_PARENT = DemoScenario(
    _live_session(demo_texts.ATLAS, OPUS, "Split the ingest worker from the API", 610, "idle"),
    stories.finished_turns(
        ("The ingest worker imports half of the API. Split them into two packages.", 188_200, 8),
        ("What would break for the people who call us?", 296_700, 5),
        ("Write the migration, keep the old import paths for one release.", 412_306, 5),
    ),
)
PLANNED = DemoScenario(
    _past_session(
        demo_texts.ATLAS,
        SONNET,
        "Rewrite the OpenAPI generator",
        CURRENT_VERSION,
        timedelta(hours=5),
    ),
    stories.approved_plan(
        ("Read every route and tell me where the schema and the code disagree.", 402_800, 17),
        "Plan first how you would mend it, and show me.",
        demo_texts.OPENAPI_PLAN,
        (
            "Fix all of them, schema first, then the code that relied on the difference.",
            781_930,
            16,
        ),
    ),
)
AGENTS_RETURNED = DemoScenario(
    _live_session(demo_texts.SHOP, OPUS, "Ship the wishlist: API, page, review", 38, "idle"),
    stories.agents_returned,
)
AGENTS_LAUNCHING = DemoScenario(
    replace(
        _growing_session(demo_texts.ATLAS, OPUS, "Search p95 below 120 ms", 2, "busy"), answers=24
    ),
    stories.agents_launching,
)
COMPACTED_TWICE = DemoScenario(
    replace(
        _in_terminal(
            _past_session(
                demo_texts.INFRA,
                HAIKU_200K,
                "Staging cluster to Terraform",
                CURRENT_VERSION,
                timedelta(minutes=52),
            )
        ),
        answers=46,
    ),
    stories.compacted_twice,
)
COMPACTED = DemoScenario(
    _live_session(demo_texts.NOTES, OPUS, "Conflict-free note sync", 75, "idle"),
    stories.compacted,
)
PROMPT_TOO_LONG = DemoScenario(
    _past_session(
        demo_texts.BILLING,
        HAIKU_200K,
        "Explain the invoice run",
        CURRENT_VERSION,
        timedelta(hours=26),
    ),
    stories.prompt_too_long,
)
WAITING = DemoScenario(
    _growing_session(demo_texts.INFRA, SONNET, "Rotate the database password", 21, "waiting"),
    stories.permission_prompt,
)
WIDE_CHARACTERS = DemoScenario(
    replace(
        _in_terminal(
            _past_session(
                demo_texts.SHOP, OPUS, "修复支付网关 🚑 超时", CURRENT_VERSION, timedelta(hours=2)
            )
        ),
        answers=34,
    ),
    stories.turns_with_agents(
        (("支付网关在高峰期超时,请找出原因并修复。🙏", 143_800, 11),),
        stories.AgentLaunch(
            "改好之后请审查。",
            (agent_tasks.PAYMENT_FIX, agent_tasks.PAYMENT_REVIEW, agent_tasks.PAYMENT_LOG),
            "One mends it, one reviews it, one makes it visible.",
        ),
        stories.AgentLaunch("再审查一次。", (agent_tasks.PAYMENT_AGAIN,), "Once more."),
    ),
)
RIGHT_TO_LEFT = DemoScenario(
    replace(
        _past_session(
            demo_texts.NOTES,
            SONNET,
            "إصلاح البحث في الملاحظات",
            CURRENT_VERSION,
            timedelta(hours=31),
        ),
        answers=16,
    ),
    stories.turns_with_agents(
        (("البحث لا يجد الكلمات التي فيها تشكيل. أصلحه من فضلك.", 67_900, 3),),
        stories.AgentLaunch(
            "والآن الفهرس.",
            (agent_tasks.TAG_INDEX, agent_tasks.TAG_SPEED, agent_tasks.TAG_REVIEW),
            "The index and its review.",
        ),
    ),
)
HOSTILE_TEXT = DemoScenario(
    replace(
        _past_session(
            demo_texts.INFRA,
            SONNET,
            "Show [/foo] and [bold red] as they are",
            CURRENT_VERSION,
            timedelta(days=2),
        ),
        answers=20,
    ),
    stories.turns_with_agents(
        ((HOSTILE_PROMPT, 39_700, 3),),
        stories.AgentLaunch(
            "Now the whole log view. Send out whom you need.",
            (agent_tasks.LOG_PLAN, agent_tasks.LOG_LIMIT, agent_tasks.LOG_DOCS),
            "One plans it with helpers of its own, one writes it down.",
        ),
    ),
)
NEWER_LEDGER = DemoScenario(
    _past_session(
        demo_texts.BILLING,
        OPUS_5,
        "Ledger rounding, cent by cent",
        NEWER_VERSION,
        timedelta(days=4),
    ),
    stories.newer_session("Find the missing cents", agent_tasks.LEDGER_AUDIT, (88_000, 264_310)),
)
NEWER_WORKER = DemoScenario(
    _past_session(
        demo_texts.ATLAS, SONNET_5, "Map the ingest worker", NEWER_VERSION, timedelta(days=6)
    ),
    stories.newer_session(None, agent_tasks.WORKER_MAP, (41_000, 96_480)),
)
OLDER_ROUTES = DemoScenario(
    _past_session(
        demo_texts.SHOP,
        OPUS_46,
        "Which routes of the shop are never called?",
        OLDER_VERSION,
        timedelta(days=12),
    ),
    stories.older_inlined_agent,
)
OLDER_MONTH_END = DemoScenario(
    _past_session(
        demo_texts.BILLING,
        SONNET_46,
        "Why does March close a day late?",
        OLDER_VERSION,
        timedelta(days=19),
    ),
    stories.older_sibling_agent,
)

# The fork comes after its parent, because it copies the parent's lines.
SCENARIOS = (
    FIRST_PROMPT,
    NEARLY_FULL,
    FILLING,
    FORK_PARENT,
    PLANNED,
    AGENTS_RETURNED,
    AGENTS_LAUNCHING,
    COMPACTED_TWICE,
    COMPACTED,
    PROMPT_TOO_LONG,
    WAITING,
    WIDE_CHARACTERS,
    RIGHT_TO_LEFT,
    HOSTILE_TEXT,
    NEWER_LEDGER,
    NEWER_WORKER,
    OLDER_ROUTES,
    OLDER_MONTH_END,
)
FORK = _past_session(
    demo_texts.ATLAS,
    OPUS,
    "Split the ingest worker, with a queue",
    CURRENT_VERSION,
    timedelta(minutes=8),
)
FORK_PROMPT = "Other idea: put a queue between them instead and keep one package."
FORK_TOKENS = 447_920
