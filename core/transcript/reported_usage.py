"""What an answer says that it used: its tokens, its context, and what has a price of its own.

How the counts of steps are read is how the client reads them (client 2.1.332).
"""

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Final, Protocol

import msgspec
from msgspec import Meta

from ..model.answer_facts import TokenUsage, context_tokens

Count = Annotated[int, Meta(ge=0, le=1 << 40)]  # sums of larger ones would not fit the store


class ForkSource(msgspec.Struct, rename="camel"):
    """Where a copied line comes from (/branch, the SDK)."""

    session_id: str | None = None
    message_uuid: str | None = None


class CacheCreation(msgspec.Struct, gc=False):  # clients before 2.1.152 wrote only these
    ephemeral_5m_input_tokens: Count | None = None
    ephemeral_1h_input_tokens: Count | None = None


class UsageStep(msgspec.Struct, gc=False):
    """A sampling of a request: by the model that was asked, or by another one for it."""

    type: str | None = None
    model: str | None = None
    input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_creation: CacheCreation | None = None


class ServerTools(msgspec.Struct, gc=False):
    web_search_requests: Count | None = None  # fetches cost nothing besides their tokens


class RawUsage(UsageStep, gc=False):
    """`message.usage`; where there are steps, its own counts are the sums of the answer's own."""

    iterations: list[UsageStep] | None = None
    server_tool_use: ServerTools | None = None
    speed: str | None = None
    inference_geo: str | None = None


class PausedResponse(msgspec.Struct, gc=False):
    """What the API had answered when it paused; another request resumed the answer.

    Each has the usage of its own request (`message.pausedResponses`, client 2.1.332).
    """

    usage: RawUsage | None = None


class AppliedEdit(msgspec.Struct, gc=False):
    """What the API left out of a request that it answered."""

    type: str | None = None
    cleared_input_tokens: Count | None = None
    cleared_tool_uses: Count | None = None


class ContextManagement(msgspec.Struct, gc=False):
    """What a request held no longer; the client adds what it knows better (`client_…`)."""

    applied_edits: list[AppliedEdit] | None = None
    client_cut_tool_uses: Count | None = None  # by the client itself, before it sent the request
    client_estimated_cleared_input_tokens: Count | None = None
    client_estimate_measured_from_prompts: bool | None = None
    client_sent_exclude_tools: list[str] | None = None  # whose results are never cleared


class OutputDetails(msgspec.Struct, gc=False):
    thinking_tokens: Count | None = None


class DetailedUsage(RawUsage, gc=False):
    output_tokens_details: OutputDetails | None = None


_ID_CHARS: Final = 16  # random ids of all known APIs are longer
_REPEATED: Final = re.compile(r"(.)\1{5}")  # six of one kind: a number that was filled with zeros

ADVISOR: Final = "advisor_message"  # another model read the conversation and gave advice
COMPACTION: Final = "compaction"  # the API summarized the conversation before it answered
FALLBACK: Final = "fallback_message"  # another model answered what the one before it refused
MESSAGE: Final = "message"

ASIDE: Final = frozenset({ADVISOR, COMPACTION})  # their prompt is not the session's context
_SEEN_BY_SESSION: Final = frozenset({None, MESSAGE, FALLBACK})
_OWN: Final = frozenset({None, MESSAGE})  # of the model that was asked


class _Answer(Protocol):  # a message
    id: str | None

    @property
    def model(self) -> str | None: ...
    @property
    def usage(self) -> RawUsage | None: ...


class _Line(Protocol):  # that holds it
    @property
    def session_id(self) -> str | None: ...
    @property
    def request_id(self) -> str | None: ...
    @property
    def request_ref(self) -> str | None: ...
    @property
    def forked_from(self) -> ForkSource | None: ...


def name_answer(message: _Answer, line: _Line) -> None:
    """Make an answer's id one that no other answer has.

    Some relays give all answers one id, and no id of the request. What then tells answers apart is
    their session, that of the original in a fork, and the size of the prompt, which grows.
    """
    named = message.id
    if not named or line.request_id or line.request_ref:
        return
    if named != message.model and _looks_random(named):
        return
    origin = line.forked_from.session_id if line.forked_from else None
    prompt = context_tokens(_to_token_usage(message.usage)) if message.usage else 0
    message.id = f"{named} {origin or line.session_id} {prompt}"


def _looks_random(named: str) -> bool:
    """Whether an id is one of many: not `chatcmpl`, `msg_1`, or a number of zeros."""
    chars = "".join(filter(str.isalnum, named))
    has_digit = any(map(str.isdigit, chars))
    return len(chars) >= _ID_CHARS and has_digit and not _REPEATED.search(chars)


class Part(msgspec.Struct, frozen=True, gc=False):
    """Tokens of an answer that have one price."""

    model: str
    usage: TokenUsage
    prompt_tokens: int  # of the longest prompt among them
    cache_1h_tokens: int
    step: str | None = None  # the type of the step that it is


def read_usage(usage: RawUsage) -> tuple[TokenUsage, int]:
    """Return the answer's own usage over all its steps, and the context of its last step."""
    total = _to_token_usage(usage)
    return total, read_context(usage, total)


def read_context(usage: RawUsage, total: TokenUsage) -> int:
    """Return the context of the answer's last step; `total` is its own usage over all of them."""
    last = _context_step(usage)
    return context_tokens(total if last is None else _to_token_usage(last))


def last_output_tokens(usage: RawUsage) -> int | None:
    """Return the output of the answer's last step; None if it has no steps."""
    last = _context_step(usage)
    return None if last is None else last.output_tokens


def is_estimated_usage(usage: RawUsage) -> bool:
    """Return whether an edit of ctxtop lowered the context of the last step (strategies.usage).

    An edit leaves the sums, which were paid, and writes one step with less context. The client
    never does: where it writes one step, its counts are the sums.
    """
    if not usage.iterations:
        return False
    own = [each for each in usage.iterations if each.type not in ASIDE]
    if len(own) != 1:
        return False
    step, total = map(_to_token_usage, (own[0], usage))
    return context_tokens(step) < context_tokens(total)


CLEARS_RESULTS: Final = "clear_tool_uses_20250919"


def also_counted_tokens(found: ContextManagement | None) -> int:
    """Return what was cleared from a request: the client adds it when it compares with its trigger.

    Its own estimate counts if it was measured, else where it is smaller than the API's.
    """
    if found is None:
        return 0
    estimate = found.client_estimated_cleared_input_tokens
    if found.client_cut_tool_uses:
        return estimate or 0
    edits = [each for each in found.applied_edits or () if each.type == CLEARS_RESULTS]
    cleared = sum(each.cleared_input_tokens or 0 for each in edits)
    if estimate is None:
        return cleared
    is_measured = found.client_estimate_measured_from_prompts is True and cleared > 0
    return estimate if is_measured else min(cleared, estimate)


def web_searches(usage: RawUsage) -> int:
    tools = usage.server_tool_use
    return (tools.web_search_requests or 0) if tools else 0


def read_parts(usage: RawUsage, own: Part, splits_at: int) -> tuple[Part, ...]:
    """Divide an answer (`own`) by price; the first part is its own; most have no other.

    Advice and compactions are answers besides. A model that refused is paid if another one
    refused after it. Steps with prompts on both sides of `splits_at` tokens are priced by
    themselves, if their sum is the answer's.
    """
    steps = usage.iterations or ()
    if not steps or (len(steps) == 1 and steps[0].type in _OWN):
        return (own,)
    parts = [read_part(each, each.model or own.model) for each in steps]
    refused = [each for each in parts if each.step == FALLBACK][:-1]
    aside = [each for each in parts if each.step in ASIDE]
    own_steps = [each for each in steps if each.type in _OWN]
    return (*_split_by_prompt(own, own_steps, splits_at), *refused, *aside)


def _split_by_prompt(own: Part, steps: Sequence[UsageStep], splits_at: int) -> Iterable[Part]:
    """Add up steps with short prompts, and those with long ones."""
    parts = _share_lifetimes(own, steps)
    if not parts or _add_up(each.usage for each in parts) != own.usage:
        return (own,)
    halves = (
        [each for each in parts if (each.prompt_tokens > splits_at) is is_long]
        for is_long in (False, True)
    )
    return [
        Part(
            own.model,
            _add_up(each.usage for each in half),
            max(each.prompt_tokens for each in half),
            sum(each.cache_1h_tokens for each in half),
        )
        for half in halves
        if half
    ]


def _share_lifetimes(own: Part, steps: Sequence[UsageStep]) -> list[Part]:
    """Return a part for each step; those that name no lifetime share what the answer names."""
    parts = [read_part(each, own.model) for each in steps]
    left = max(0, own.cache_1h_tokens - sum(each.cache_1h_tokens for each in parts))
    for place, step in enumerate(steps):
        if step.cache_creation is None:
            hour = min(left, parts[place].usage.cache_creation_tokens)
            left -= hour
            parts[place] = msgspec.structs.replace(parts[place], cache_1h_tokens=hour)
    return parts


def _add_up(usages: Iterable[TokenUsage]) -> TokenUsage:
    return TokenUsage(*map(sum, zip(*map(msgspec.structs.astuple, usages), strict=True)))


def read_part(counts: UsageStep, model: str) -> Part:
    """Return what a step used, or an answer over all its steps, as if it had one price."""
    usage = _to_token_usage(counts)
    nested = counts.cache_creation
    hour = (nested.ephemeral_1h_input_tokens or 0) if nested else 0
    return Part(
        model, usage, context_tokens(usage), min(hour, usage.cache_creation_tokens), counts.type
    )


def _context_step(usage: RawUsage) -> UsageStep | None:
    """Find the last step that saw the session's context; None if the sums say it.

    The client takes only a step with all four counts, and none of an answer that was sent nothing.
    """
    if not usage.iterations:
        return None
    step = next((each for each in reversed(usage.iterations) if each.type not in ASIDE), None)
    if step is None or step.type not in _SEEN_BY_SESSION or not _has_all_counts(step):
        return None
    is_sent = context_tokens(_to_token_usage(usage)) and context_tokens(_to_token_usage(step))
    return step if is_sent else None


def _has_all_counts(step: UsageStep) -> bool:
    counts = (
        step.input_tokens,
        step.cache_creation_input_tokens,
        step.cache_read_input_tokens,
        step.output_tokens,
    )
    return None not in counts


def _to_token_usage(counts: UsageStep) -> TokenUsage:
    cache_creation, nested = counts.cache_creation_input_tokens or 0, counts.cache_creation
    if nested is not None:
        # Clients before 2.1.152 wrote 0 beside the nested counts.
        five_minutes, hour = nested.ephemeral_5m_input_tokens, nested.ephemeral_1h_input_tokens
        cache_creation = max(cache_creation, (five_minutes or 0) + (hour or 0))
    return TokenUsage(
        counts.input_tokens or 0,
        cache_creation,
        counts.cache_read_input_tokens or 0,
        counts.output_tokens or 0,
    )
