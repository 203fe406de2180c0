"""What an answer costs: its tokens by model and rate, with those that other models used for it."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from ....core.model.answer_facts import TokenUsage
from ....core.model.claude_models import LONG_PROMPT_TOKENS, PriceRate
from ....core.model.transcript_records import ChargeRecord
from ....core.transcript import reported_usage
from ....core.transcript.reported_usage import Part, PausedResponse, RawUsage
from ....core.transcript.sanitize import sanitize_name

MAX_CHARGES: Final = 20
"""Of one answer, by model and rate: the API's own steps name three models at most."""

# Plain numbers: every answer is read, and an IntFlag takes several times as long to combine.
_LONG, _FAST, _US = map(int, (PriceRate.LONG_PROMPT, PriceRate.FAST, PriceRate.US))

_SPEEDS: Final = frozenset({None, "", "standard"})  # the client prices any other as fast mode


class Charged(msgspec.Struct, frozen=True, gc=False):
    """How an answer is priced."""

    own: TokenUsage  # its own tokens, over all its steps
    prompt_tokens: int  # of them, those that the model saw
    rate: int  # a `PriceRate`
    cache_1h_tokens: int  # of those that it wrote to the cache
    web_searches: int
    charges: str | None  # JSON of ChargeRecords that are priced in its place, if several


def read_charges(
    usage: RawUsage, model: str, paused: Iterable[PausedResponse] | None = None
) -> Charged:
    """Return how an answer is priced; `paused` are the requests that another one resumed."""
    rate = _answer_rate(usage)
    whole = reported_usage.read_part(usage, model)
    own, *others = reported_usage.read_parts(usage, whole, LONG_PROMPT_TOKENS)
    searches = reported_usage.web_searches(usage)
    resumed = [each.usage for each in paused if each.usage is not None] if paused else []
    if not others and not resumed:
        rate = _part_rate(own, rate)
        return Charged(whole.usage, whole.prompt_tokens, rate, own.cache_1h_tokens, searches, None)
    first = replace(_to_charge(own, rate, responses=1), web_searches=searches)
    charges = [first, *(_to_charge(each, rate, responses=_answers(each)) for each in others)]
    charges += [each for part in resumed for each in _read_resumed(part, model)]
    text = msgspec.json.encode(_merge(charges)).decode()
    return Charged(
        whole.usage, whole.prompt_tokens, first.rate, whole.cache_1h_tokens, searches, text
    )


def _read_resumed(usage: RawUsage, model: str) -> Iterator[ChargeRecord]:
    rate, whole = _answer_rate(usage), reported_usage.read_part(usage, model)
    own, *others = reported_usage.read_parts(usage, whole, LONG_PROMPT_TOKENS)
    yield replace(
        _to_charge(own, rate, responses=0), web_searches=reported_usage.web_searches(usage)
    )
    yield from (_to_charge(each, rate, responses=_answers(each)) for each in others)


def _answer_rate(usage: RawUsage) -> int:
    rate = 0 if usage.speed in _SPEEDS else _FAST
    return rate | _US if usage.inference_geo == "us" else rate


def _answers(part: Part) -> int:
    return int(part.step in reported_usage.ASIDE)


def _part_rate(part: Part, rate: int) -> int:
    if part.step == reported_usage.ADVISOR:
        rate &= ~_FAST
    return rate | _LONG if part.prompt_tokens > LONG_PROMPT_TOKENS else rate


def _to_charge(part: Part, rate: int, responses: int) -> ChargeRecord:
    used = part.usage
    return ChargeRecord(
        model=sanitize_name(part.model),
        rate=_part_rate(part, rate),
        input_tokens=used.input_tokens,
        cache_creation_tokens=used.cache_creation_tokens,
        cache_1h_tokens=part.cache_1h_tokens,
        cache_read_tokens=used.cache_read_tokens,
        output_tokens=used.output_tokens,
        responses=responses,
    )


def _merge(charges: list[ChargeRecord]) -> list[ChargeRecord]:
    """Add up charges of one model and rate."""
    by_price: dict[tuple[str, int], ChargeRecord] = {}
    for each in charges:
        key = each.model, each.rate
        known = by_price.get(key)
        by_price[key] = each if known is None else _add(known, each)
    return [*by_price.values()][:MAX_CHARGES]


def _add(one: ChargeRecord, other: ChargeRecord) -> ChargeRecord:
    counts = {name: getattr(one, name) + getattr(other, name) for name in ChargeRecord.COUNTS}
    return replace(one, **counts)
