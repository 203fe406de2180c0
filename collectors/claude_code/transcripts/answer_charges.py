"""What an answer costs: its tokens by model and rate, with those that other models used for it."""

from typing import Final

import msgspec
from msgspec.structs import replace

from ....core.measure.models import LONG_PROMPT_TOKENS, PriceRate, prompt_rate
from ....core.store.transcript_records import ChargeRecord
from ....core.transcript import reported_usage
from ....core.transcript.reported_usage import Part, RawUsage
from ....core.transcript.sanitize import sanitize_name

MAX_CHARGES: Final = 100
"""Of one answer, by model and rate: the API's own steps name three models at most."""

_SPEEDS: Final = frozenset({None, "", "standard"})  # the client prices any other as fast mode


def read_charges(
    usage: RawUsage, model: str, output_tokens: int
) -> tuple[ChargeRecord, str | None]:
    """Return the charge of the answer itself, and all charges as JSON if there are others.

    `output_tokens` is the answer's own: a line that was written early may have a placeholder.
    """
    rate = PriceRate.STANDARD if usage.speed in _SPEEDS else PriceRate.FAST
    if usage.inference_geo == "us":
        rate |= PriceRate.US
    own, *others = reported_usage.read_parts(usage, model, LONG_PROMPT_TOKENS)
    first = replace(
        _to_charge(own, rate, responses=1), web_searches=reported_usage.web_searches(usage)
    )
    if not others:
        return replace(first, output_tokens=output_tokens), None
    charges = [first, *(_to_charge(each, rate, responses=_answers(each)) for each in others)]
    return first, msgspec.json.encode(_merge(charges)).decode()


def _answers(part: Part) -> int:
    return int(part.step in reported_usage.ASIDE)


def _to_charge(part: Part, rate: PriceRate, responses: int) -> ChargeRecord:
    if part.step == reported_usage.ADVISOR:
        rate &= ~PriceRate.FAST
    used = part.usage
    return ChargeRecord(
        model=sanitize_name(part.model),
        rate=rate | prompt_rate(part.prompt_tokens),
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
