"""The prompt cache's ledger: what each request read and wrote, what was written again, and why.

A request repeats what the one before it sent. What that one left in the cache is read for a tenth
of the price or less; what is written again was paid before. Times are milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from ...model.claude_models import HOUR_MS, MILLION, find_price
from .rewrites import ReadPart, Rewrite, lifetime_ms, sent_tokens

if TYPE_CHECKING:
    from ...model.answer_rows import CacheAnswerRow

KeyT = TypeVar("KeyT", bound=Hashable)


class CacheCause(StrEnum):
    LIFETIME = "lifetime_passed"
    COMPACTION = "compaction"
    OWN_EDIT = "own_edit"  # ctxtop changed the transcript
    MODEL = "model_changed"
    VERSION = "version_changed"  # another version of the client: its system prompt and tools
    SYSTEM = "system_changed"
    TOOLS = "tools_changed"
    SETTINGS = "settings_changed"  # of the request: effort, thinking, betas
    CLEARING = "microcompaction"
    REWIND = "rewind"
    MESSAGES = "messages_changed"
    NOT_FOUND = "previous_message_not_found"
    UNCHANGED = "nothing_changed"  # the same was sent again: the service lost it
    UNKNOWN = "unknown"


class CauseSource(StrEnum):
    CLIENT = "client"
    INFERRED = "inferred"


UNAVAILABLE: Final = "unavailable"  # the API could not say why

_NAMED_CAUSES: Final = {
    "model_changed": CacheCause.MODEL,
    "system_changed": CacheCause.SYSTEM,
    "tools_changed": CacheCause.TOOLS,
}
"""Words of the API that name a cause by themselves."""

_GENERAL_CAUSES: Final = {
    "messages_changed": CacheCause.MESSAGES,
    "previous_message_not_found": CacheCause.NOT_FOUND,
}
"""Words of the API that several causes lead to."""

_RECORDED_CAUSES: Final = {CacheCause.COMPACTION, CacheCause.OWN_EDIT}
"""What lines or receipts record, and what replaces the conversation that the API compares."""

AGREEING_CAUSES: Final[Mapping[str, frozenset[CacheCause]]] = {
    "model_changed": frozenset({CacheCause.MODEL}),
    # Another version has other tools and another system prompt; a compaction renews the prompt.
    "system_changed": frozenset(
        {CacheCause.SYSTEM, CacheCause.VERSION, CacheCause.COMPACTION, CacheCause.OWN_EDIT}
    ),
    "tools_changed": frozenset({CacheCause.TOOLS, CacheCause.VERSION}),
    # All of these replace earlier messages; another version rebuilds the first one.
    "messages_changed": frozenset(
        {
            *(CacheCause.MESSAGES, CacheCause.COMPACTION, CacheCause.CLEARING, CacheCause.REWIND),
            *(CacheCause.OWN_EDIT, CacheCause.VERSION),
        }
    ),
    # The API forgot the answer that the client compares with: it knew it for over an hour.
    "previous_message_not_found": frozenset({CacheCause.LIFETIME, CacheCause.NOT_FOUND}),
    UNAVAILABLE: frozenset(CacheCause),
}
"""By the API's word: what ctxtop calls the same."""


class ChangeKind(StrEnum):
    """What differs between two requests, or happened between them."""

    COMPACTED = "compacted"
    CLEARED = "cleared"
    REWOUND = "rewound"
    RESUMED = "resumed"
    FORKED = "forked"
    EDITED = "edited"
    MODEL = "model"
    VERSION = "version"
    SYSTEM = "system_prompt"
    TOOLS_ADDED = "tools_added"
    TOOLS_REMOVED = "tools_removed"
    TOOLS_CHANGED = "tools_changed"
    TOOLS_LOADED = "tools_loaded"  # that a tool search found: sent as tools from then on
    SETTINGS = "settings"
    LIFETIME = "lifetime"  # that the cache was asked for
    MESSAGES = "messages"
    INSTRUCTIONS = "instructions"  # a CLAUDE.md was sent with another text
    INSTRUCTIONS_EDITED = "instructions_edited"  # and is sent when it is read next
    # Announced in the conversation, which by itself changes nothing before it.
    TOOLS_ANNOUNCED = "tools_announced"
    TOOLS_WITHDRAWN = "tools_withdrawn"
    SERVERS_ANNOUNCED = "servers_announced"
    AGENTS_LISTED = "agents_listed"
    SKILLS_LISTED = "skills_listed"
    PROMPT_KEPT = "prompt_kept"  # system prompt, tools, settings and messages are known to be equal
    PROMPTED = "prompted"  # by a person, a task, a command: the request is rebuilt


_EVIDENCE_ONLY: Final = {ChangeKind.PROMPT_KEPT, ChangeKind.PROMPTED}
"""What is no change by itself."""


class Change(msgspec.Struct, frozen=True):
    kind: ChangeKind
    what: str = ""


class CacheRequest(msgspec.Struct, frozen=True, gc=False):
    at: int | None
    session_id: str
    agent_id: str | None
    model: str
    client_version: str | None
    input_tokens: int  # neither read from the cache nor written to it
    read_tokens: int
    written_5m_tokens: int
    written_1h_tokens: int
    sent_tokens: int  # its context, without the answer
    answers: int = 1  # 0 for a part of an answer that has a price of its own

    @property
    def written_tokens(self) -> int:
        return self.written_5m_tokens + self.written_1h_tokens


class CacheMiss(msgspec.Struct, frozen=True):
    rewrite: Rewrite
    cause: CacheCause
    source: CauseSource
    inferred: CacheCause  # without the API's word
    changes: tuple[Change, ...]
    cost_usd: float | None  # of writing; None if the model has no price
    extra_usd: float | None  # of writing instead of reading

    @property
    def request(self) -> CacheAnswerRow:
        return self.rewrite.current

    @property
    def tokens(self) -> int:
        return self.rewrite.tokens


class CacheTotals(msgspec.Struct, frozen=True):
    requests: int = 0
    input_tokens: int = 0
    read_tokens: int = 0
    written_5m_tokens: int = 0
    written_1h_tokens: int = 0
    misses: int = 0
    rewritten_tokens: int = 0
    cost_usd: float = 0.0
    extra_usd: float = 0.0
    unpriced: int = 0  # misses of models without a price

    @property
    def written_tokens(self) -> int:
        return self.written_5m_tokens + self.written_1h_tokens

    @property
    def read_ratio(self) -> float | None:
        """Share of all prompts' tokens that was read from the cache: how well it works, 0..1."""
        return ratio(self.read_tokens, self.read_tokens + self.written_tokens + self.input_tokens)

    @property
    def rewritten_ratio(self) -> float | None:
        """Share of all that was written to the cache that had been there before, 0..1."""
        return ratio(self.rewritten_tokens, self.written_tokens)


def ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


class CacheLedger(msgspec.Struct, frozen=True):
    requests: tuple[CacheRequest, ...] = ()  # each once over the whole store
    misses: tuple[CacheMiss, ...] = ()  # newest first


def to_request(row: CacheAnswerRow) -> CacheRequest:
    return CacheRequest(
        at=row.at,
        session_id=row.session_id,
        agent_id=row.agent_id,
        model=row.model,
        client_version=row.client_version,
        input_tokens=row.input_tokens,
        read_tokens=row.cache_read_tokens,
        written_5m_tokens=row.cache_creation_tokens - row.cache_1h_tokens,
        written_1h_tokens=row.cache_1h_tokens,
        sent_tokens=sent_tokens(row),
    )


def judge_miss(
    rewrite: Rewrite, found: Iterable[Change], custom_prices: Mapping[str, str]
) -> CacheMiss:
    """Name the cause of a rewrite; `found` is what its files say changed before it."""
    changes = (*_stated_changes(rewrite), *found)
    inferred = infer_cause(rewrite, changes)
    cause, source = choose_cause(rewrite.current.reason, inferred)
    cost, extra = _price_rewrite(rewrite, custom_prices)
    shown = tuple(dict.fromkeys(each for each in changes if each.kind not in _EVIDENCE_ONLY))
    return CacheMiss(rewrite, cause, source, inferred, shown, cost, extra)


def choose_cause(reason: str | None, inferred: CacheCause) -> tuple[CacheCause, CauseSource]:
    """Prefer the API's word, and what is inferred where it agrees and says more."""
    agrees = inferred in AGREEING_CAUSES.get(reason or "", frozenset())
    if agrees and inferred in _RECORDED_CAUSES:
        return inferred, CauseSource.INFERRED
    if named := _NAMED_CAUSES.get(reason or ""):
        return named, CauseSource.CLIENT
    if general := _GENERAL_CAUSES.get(reason or ""):
        if inferred is not general and agrees:
            return inferred, CauseSource.INFERRED
        return general, CauseSource.CLIENT
    return inferred, CauseSource.INFERRED


def _stated_changes(rewrite: Rewrite) -> Iterator[Change]:
    before, now = rewrite.previous, rewrite.current
    if before.model != now.model:
        yield Change(ChangeKind.MODEL, f"{before.model} → {now.model}")
    if before.client_version and now.client_version and before.client_version != now.client_version:
        yield Change(ChangeKind.VERSION, f"{before.client_version} → {now.client_version}")
    lifetime = lifetime_ms(now) if now.cache_creation_tokens else rewrite.lifetime_ms
    if lifetime != rewrite.lifetime_ms:
        yield Change(ChangeKind.LIFETIME, "5 min → 1 h" if lifetime == HOUR_MS else "1 h → 5 min")
    if before.is_shared and not now.is_shared:
        yield Change(ChangeKind.FORKED)


_BEFORE_ALL: Final = (
    (ChangeKind.EDITED, CacheCause.OWN_EDIT),
    (ChangeKind.COMPACTED, CacheCause.COMPACTION),
    (ChangeKind.MODEL, CacheCause.MODEL),
)
"""What replaces the conversation, or its cache, whatever else happened; the first that did."""

_BEFORE_MESSAGES: Final = (
    (ChangeKind.VERSION, CacheCause.VERSION),
    (ChangeKind.TOOLS_ADDED, CacheCause.TOOLS),
    (ChangeKind.TOOLS_REMOVED, CacheCause.TOOLS),
    (ChangeKind.TOOLS_CHANGED, CacheCause.TOOLS),
    (ChangeKind.SYSTEM, CacheCause.SYSTEM),
    (ChangeKind.SETTINGS, CacheCause.SETTINGS),
)
"""What changes a request before its first message. Tools stand before the system prompt. That
another lifetime is asked for is none of it: a recorded session went from an hour to five minutes
and read all."""

_RECORDED_AMONG_MESSAGES: Final = (
    (ChangeKind.INSTRUCTIONS, CacheCause.MESSAGES),
    (ChangeKind.MESSAGES, CacheCause.MESSAGES),
    (ChangeKind.PROMPT_KEPT, CacheCause.UNCHANGED),
)
"""By a comparison of both requests."""

_AMONG_MESSAGES: Final = (
    (ChangeKind.CLEARED, CacheCause.CLEARING),
    (ChangeKind.REWOUND, CacheCause.REWIND),
    *_RECORDED_AMONG_MESSAGES,
)

_PROMPTED_CAUSES: Final = {
    ReadPart.SHARED_START: CacheCause.SYSTEM,
    ReadPart.SYSTEM: CacheCause.MESSAGES,
    ReadPart.MESSAGES: CacheCause.MESSAGES,
}
"""What differs after the part at whose end reading ended. Only with a new prompt does a client
put together anew what stands before it: within a turn it adds to the request, and what is read
less then may as well have been lost by the service."""


def infer_cause(rewrite: Rewrite, changes: Sequence[Change]) -> CacheCause:
    """Infer a cause from what changed, from the pause, and from where reading ended.

    Each needs evidence of its own: a change that explains why reading ended there. Without one
    the cause is unknown.
    """
    kinds = {each.kind for each in changes}
    part = rewrite.read_end.part
    if cause := _first_cause(kinds, _BEFORE_ALL):
        return cause
    if part is not ReadPart.MESSAGES:
        if (rewrite.idle_ms or 0) > rewrite.lifetime_ms:
            return CacheCause.LIFETIME
        if cause := _first_cause(kinds, _BEFORE_MESSAGES):
            return cause
        if ChangeKind.TOOLS_LOADED in kinds and part is not ReadPart.SHARED_START:
            return CacheCause.TOOLS
    reaches_messages = part in {ReadPart.SYSTEM, ReadPart.MESSAGES}
    among = _AMONG_MESSAGES if reaches_messages else _RECORDED_AMONG_MESSAGES
    if cause := _first_cause(kinds, among):
        return cause
    prompted = ChangeKind.PROMPTED in kinds
    return _PROMPTED_CAUSES.get(part, CacheCause.UNKNOWN) if prompted else CacheCause.UNKNOWN


def _first_cause(
    kinds: set[ChangeKind], order: Iterable[tuple[ChangeKind, CacheCause]]
) -> CacheCause | None:
    return next((cause for kind, cause in order if kind in kinds), None)


def _price_rewrite(
    rewrite: Rewrite, custom_prices: Mapping[str, str]
) -> tuple[float | None, float | None]:
    """Return the dollars of writing the tokens, and those above what reading them costs."""
    row = rewrite.current
    price = find_price(row.model, row.rate, custom_prices)
    if price is None:
        return None, None
    hour_share = row.cache_1h_tokens / (row.cache_creation_tokens or 1)
    write = hour_share * price.write_1h + (1 - hour_share) * price.write_5m
    tokens = rewrite.tokens / MILLION
    return tokens * write, tokens * (write - price.read)


def add_up(ledger: CacheLedger) -> CacheTotals:
    return _totals(ledger.requests, ledger.misses)


def _totals(requests: Sequence[CacheRequest], misses: Sequence[CacheMiss]) -> CacheTotals:
    return CacheTotals(
        requests=sum(each.answers for each in requests),
        input_tokens=sum(each.input_tokens for each in requests),
        read_tokens=sum(each.read_tokens for each in requests),
        written_5m_tokens=sum(each.written_5m_tokens for each in requests),
        written_1h_tokens=sum(each.written_1h_tokens for each in requests),
        misses=len(misses),
        rewritten_tokens=sum(each.tokens for each in misses),
        cost_usd=sum(each.cost_usd or 0.0 for each in misses),
        extra_usd=sum(each.extra_usd or 0.0 for each in misses),
        unpriced=sum(each.cost_usd is None for each in misses),
    )


CauseKey = tuple[CacheCause, CauseSource]


def totals_by_cause(ledger: CacheLedger) -> dict[CauseKey, CacheTotals]:
    """Add up the misses of each cause, the largest first; all requests' tokens are of none.

    A cause that the API named and the same one inferred are two.
    """
    by_cause: dict[CauseKey, list[CacheMiss]] = {}
    for miss in ledger.misses:
        by_cause.setdefault((miss.cause, miss.source), []).append(miss)
    return _largest_first({cause: _totals((), of) for cause, of in by_cause.items()})


def rewrite_factor(ledger: CacheLedger) -> float | None:
    """Divide what one session's own conversation wrote to the cache by its largest context.

    It is at most 1 if each token was written once; each compaction and each loss adds to it.
    """
    own = [each for each in ledger.requests if each.agent_id is None]
    largest = max((each.sent_tokens for each in own), default=0)
    return sum(each.written_tokens for each in own) / largest if largest else None


def totals_by(
    ledger: CacheLedger, key: Callable[[CacheRequest | CacheAnswerRow], KeyT]
) -> dict[KeyT, CacheTotals]:
    """Add up requests and misses by something that both have, the most rewritten first."""
    requests: dict[KeyT, list[CacheRequest]] = {}
    for request in ledger.requests:
        requests.setdefault(key(request), []).append(request)
    misses: dict[KeyT, list[CacheMiss]] = {}
    for miss in ledger.misses:
        misses.setdefault(key(miss.request), []).append(miss)
    return _largest_first(
        {each: _totals(of, misses.get(each, [])) for each, of in requests.items()}
    )


def _largest_first(totals: Mapping[KeyT, CacheTotals]) -> dict[KeyT, CacheTotals]:
    order = sorted(totals.items(), key=lambda each: (-each[1].rewritten_tokens, str(each[0])))
    return dict(order)
