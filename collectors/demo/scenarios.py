"""The cast of the demo: which sessions there are, in the order in which they are told."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from . import agent_texts, old_stories, review_texts, stories, texts
from .model import (
    CURRENT,
    HAIKU_200K,
    NEWER,
    OLDER,
    OPUS,
    OPUS_5,
    OPUS_46,
    SONNET,
    SONNET_5,
    SONNET_46,
    Model,
)
from .stage import Cast

if TYPE_CHECKING:
    from .stories import Story
    from .texts import Project

HOSTILE = (
    "The log view eats markup: [/foo] closes a tag that nobody opened, [bold red] paints the rest "
    "of the page and \x1b[31m turns my terminal red. A name with \u202e in it runs backwards. "
    "Show all of it as it is."
)


@dataclass(frozen=True)
class Scenario:
    """One session: who plays, and what happens."""

    spec: Cast
    story: Story


def _seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def _live(project: Project, model: Model, title: str, ended: float, status: str) -> Cast:
    pace = timedelta(minutes=2)
    return Cast(project, model, title, CURRENT, "cli", _seconds(ended), pace, 9, status)


def _growing(project: Project, model: Model, title: str, ended: float, status: str) -> Cast:
    pace = timedelta(seconds=40)
    ago = _seconds(ended)
    return Cast(project, model, title, CURRENT, "cli", ago, pace, 12, status, grows=True)


ENTRYPOINTS = {CURRENT: "sdk-cli", NEWER: "claude-desktop", OLDER: "cli"}


def _past(project: Project, model: Model, title: str, era: str, ended: timedelta) -> Cast:
    pace = timedelta(minutes=3)
    return Cast(project, model, title, era, ENTRYPOINTS[era], ended, pace, 10)


def _typed(cast: Cast) -> Cast:
    return replace(cast, entrypoint="cli")


QUIET = Scenario(
    replace(_live(texts.NOTES, OPUS, "Search offline notes by tag", 4, "busy"), answers=0),
    stories.quiet,
)
FULL = Scenario(
    _live(texts.SHOP, HAIKU_200K, "Fix the flaky checkout tests", 140, "idle"),
    stories.turns(
        ("Three checkout tests fail every tenth run. Find out why and fix it.", 96_500, 8),
        ("Run them two hundred times and show me what is left.", 163_412, 7),
    ),
)
CLIMBER = Scenario(
    _growing(texts.SHOP, HAIKU_200K, "Move checkout to the new tax API", 3, "busy"),
    stories.busy(
        ("Replace the tax table by the tax API, behind a setting.", 97_300, 9),
        "Now the refunds. They must use the tax that was charged.",
        128_240,
    ),
)
SPLIT = Scenario(
    _live(texts.ATLAS, OPUS, "Split the ingest worker from the API", 610, "idle"),
    stories.turns(
        ("The ingest worker imports half of the API. Split them into two packages.", 188_200, 8),
        ("What would break for the people who call us?", 296_700, 5),
        ("Write the migration, keep the old import paths for one release.", 412_306, 5),
    ),
)
OPENAPI = Scenario(
    _past(texts.ATLAS, SONNET, "Rewrite the OpenAPI generator", CURRENT, timedelta(hours=5)),
    stories.planned(
        ("Read every route and tell me where the schema and the code disagree.", 402_800, 17),
        "Plan first how you would mend it, and show me.",
        texts.OPENAPI_PLAN,
        (
            "Fix all of them, schema first, then the code that relied on the difference.",
            781_930,
            16,
        ),
    ),
)
LEADER = Scenario(
    _live(texts.SHOP, OPUS, "Ship the wishlist: API, page, review", 38, "idle"),
    stories.leader,
)
LAUNCHER = Scenario(
    replace(_growing(texts.ATLAS, OPUS, "Search p95 below 120 ms", 2, "busy"), answers=24),
    stories.launcher,
)
TWICE = Scenario(
    replace(
        _typed(
            _past(
                texts.INFRA,
                HAIKU_200K,
                "Staging cluster to Terraform",
                CURRENT,
                timedelta(minutes=52),
            )
        ),
        answers=46,
    ),
    stories.compacted_twice,
)
SYNC = Scenario(
    _live(texts.NOTES, OPUS, "Conflict-free note sync", 75, "idle"),
    stories.compacted,
)
COBOL = Scenario(
    _past(texts.BILLING, HAIKU_200K, "Explain the invoice run", CURRENT, timedelta(hours=26)),
    stories.too_long,
)
WAITING = Scenario(
    _growing(texts.INFRA, SONNET, "Rotate the database password", 21, "waiting"),
    stories.waiting,
)
WIDE = Scenario(
    replace(
        _typed(_past(texts.SHOP, OPUS, "修复支付网关 🚑 超时", CURRENT, timedelta(hours=2))),
        answers=34,
    ),
    stories.sending(
        (("支付网关在高峰期超时,请找出原因并修复。🙏", 143_800, 11),),
        stories.Launch(
            "改好之后请审查。",
            (review_texts.PAYMENT_FIX, review_texts.PAYMENT_REVIEW, review_texts.PAYMENT_LOG),
            "One mends it, one reviews it, one makes it visible.",
        ),
        stories.Launch("再审查一次。", (review_texts.PAYMENT_AGAIN,), "Once more."),
    ),
)
RIGHT_TO_LEFT = Scenario(
    replace(
        _past(texts.NOTES, SONNET, "إصلاح البحث في الملاحظات", CURRENT, timedelta(hours=31)),
        answers=16,
    ),
    stories.sending(
        (("البحث لا يجد الكلمات التي فيها تشكيل. أصلحه من فضلك.", 67_900, 3),),
        stories.Launch(
            "والآن الفهرس.",
            (review_texts.TAG_INDEX, review_texts.TAG_SPEED, review_texts.TAG_REVIEW),
            "The index and its review.",
        ),
    ),
)
HOSTILE_TEXT = Scenario(
    replace(
        _past(
            texts.INFRA,
            SONNET,
            "Show [/foo] and [bold red] as they are",
            CURRENT,
            timedelta(days=2),
        ),
        answers=20,
    ),
    stories.sending(
        ((HOSTILE, 39_700, 3),),
        stories.Launch(
            "Now the whole log view. Send out whom you need.",
            (review_texts.LOG_PLAN, review_texts.LOG_LIMIT, review_texts.LOG_DOCS),
            "One plans it with helpers of its own, one writes it down.",
        ),
    ),
)
LEDGER = Scenario(
    _past(texts.BILLING, OPUS_5, "Ledger rounding, cent by cent", NEWER, timedelta(days=4)),
    old_stories.newer("Find the missing cents", agent_texts.LEDGER_AUDIT, (88_000, 264_310)),
)
WORKER = Scenario(
    _past(texts.ATLAS, SONNET_5, "Map the ingest worker", NEWER, timedelta(days=6)),
    old_stories.newer(None, agent_texts.WORKER_MAP, (41_000, 96_480)),
)
ROUTES = Scenario(
    _past(
        texts.SHOP, OPUS_46, "Which routes of the shop are never called?", OLDER, timedelta(days=12)
    ),
    old_stories.older_inlined,
)
MONTH_END = Scenario(
    _past(
        texts.BILLING,
        SONNET_46,
        "Why does March close a day late?",
        OLDER,
        timedelta(days=19),
    ),
    old_stories.older_sibling,
)

# The fork comes after its parent, because it copies the parent's lines.
SCENARIOS = (
    QUIET,
    FULL,
    CLIMBER,
    SPLIT,
    OPENAPI,
    LEADER,
    LAUNCHER,
    TWICE,
    SYNC,
    COBOL,
    WAITING,
    WIDE,
    RIGHT_TO_LEFT,
    HOSTILE_TEXT,
    LEDGER,
    WORKER,
    ROUTES,
    MONTH_END,
)
FORK = _past(
    texts.ATLAS, OPUS, "Split the ingest worker, with a queue", CURRENT, timedelta(minutes=8)
)
FORK_PROMPT = "Other idea: put a queue between them instead and keep one package."
FORK_TOKENS = 447_920
