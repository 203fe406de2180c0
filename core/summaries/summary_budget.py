"""Choose a summary's facts within its token budget, in one or in several levels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from ..measure.tokens import count_text
from .summary_facts import (
    FACT_HEADINGS,
    PREFACE,
    FactKind,
    SummaryFact,
    SummaryTemplate,
    render_facts,
    render_summary,
)

EstimateTokens = Callable[[str], int]


SOURCE_SHARE: Final = 0.08  # of what is summed up (compaction.md 7.5)
MAX_SUMMARY_TOKENS: Final = 12_000  # compaction.md 7.5; codex and Factory use as much
MAX_PROMPT_TOKENS: Final = 20_000  # of a person's messages, besides (compaction.md 5.2 and 7.5)
EDGE_CHARS: Final = 400  # of a message that is shortened, at either end
SECTION_TOKENS: Final = 12  # of a section's heading and its empty line, at the most


class SummaryBudget(msgspec.Struct, frozen=True):
    """Tokens that a summary may have."""

    max_tokens: int  # of everything but the person's messages
    max_prompt_tokens: int = MAX_PROMPT_TOKENS  # of those, besides


class Summary(msgspec.Struct, frozen=True):
    """A summary as it is sent."""

    text: str  # empty where the budget does not even hold its frame
    facts: tuple[SummaryFact, ...]  # that are in it
    omitted: int  # facts that the budget did not allow
    tokens: int  # estimated


def default_budget(source_tokens: int) -> SummaryBudget:
    """Return SOURCE_SHARE of the source, MAX_SUMMARY_TOKENS at most."""
    return SummaryBudget(min(int(SOURCE_SHARE * source_tokens), MAX_SUMMARY_TOKENS))


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text by the generation of tokenizers that takes more of it."""
    counted = count_text(text)
    return max(counted.older, counted.newer)


def build_summary(
    facts: Sequence[SummaryFact],
    template: SummaryTemplate,
    budget: SummaryBudget,
    estimate: EstimateTokens = estimate_tokens,
    preface: str = PREFACE,
) -> Summary:
    """Choose facts and write them: what weighs least goes first, no budget is exceeded.

    Of a person's messages the first always stays, then the newest; what is too long keeps its
    two ends. The same facts give the same text.
    """
    prompts = [each for each in facts if each.kind is FactKind.PROMPT]
    others = [each for each in facts if each.kind is not FactKind.PROMPT]
    chosen = _choose_facts(others, template, budget.max_tokens, estimate, preface)
    if estimate(render_summary(chosen, template, preface)) > budget.max_tokens:
        return Summary("", (), len(facts), 0)
    said = _choose_prompts(prompts, budget.max_prompt_tokens, estimate)
    whole = budget.max_tokens + budget.max_prompt_tokens
    while said and estimate(render_summary([*chosen, *said], template, preface)) > whole:
        said.pop(1 if len(said) > 1 else 0)
    kept = sorted([*chosen, *said], key=_original_order(facts))
    text = render_summary(kept, template, preface)
    return Summary(text, tuple(kept), len(facts) - len(kept), estimate(text))


def _original_order(facts: Sequence[SummaryFact]) -> Callable[[SummaryFact], int]:
    places = {(each.kind, each.key): place for place, each in enumerate(facts)}
    return lambda each: places[each.kind, each.key]


def _choose_facts(
    facts: Sequence[SummaryFact],
    template: SummaryTemplate,
    tokens: int,
    count: EstimateTokens,
    preface: str,
) -> list[SummaryFact]:
    left = tokens - count(preface)
    chosen: list[SummaryFact] = []
    begun: set[object] = set()
    sections = {part: each.title for each in template.sections for part in each.kinds}
    for each in sorted(facts, key=lambda one: -one.weight):
        cost = count("\n".join(["", *render_facts([each])]))
        if each.kind not in begun:
            cost += count(f"\n{FACT_HEADINGS[each.kind]}")
        title = sections[each.kind]
        cost += 0 if title in begun else SECTION_TOKENS
        if cost <= left:
            left -= cost
            begun |= {each.kind, title}
            chosen.append(each)
    # What parts have together can differ by a token or two from what each has alone.
    while chosen and count(render_summary(chosen, template, preface)) > tokens:
        chosen.pop()
    return chosen


def _choose_prompts(
    prompts: Sequence[SummaryFact], tokens: int, count: EstimateTokens
) -> list[SummaryFact]:
    """Choose the first message, then the newest ones, each whole or with its two ends."""
    if not prompts:
        return []
    left = tokens - count(f"\n{FACT_HEADINGS[FactKind.PROMPT]}") - SECTION_TOKENS
    chosen: list[SummaryFact] = []
    for each in (prompts[0], *reversed(prompts[1:])):
        for said in (
            each,
            _shorten_prompt(each, EDGE_CHARS),
            _shorten_prompt(each, EDGE_CHARS // 8),
        ):
            cost = count("\n".join(["", *render_facts([said])]))
            if cost <= left:
                left -= cost
                chosen.append(said)
                break
    return [chosen[0], *reversed(chosen[1:])] if chosen else []


def _shorten_prompt(prompt: SummaryFact, edge: int) -> SummaryFact:
    text = prompt.text
    out = len(text) - 2 * edge
    if out <= 0:
        return prompt
    gap = f"\n[… {out} characters: line {prompt.line} of the transcript …]\n"
    return replace(prompt, text=f"{text[:edge]}{gap}{text[-edge:]}")


def summarise_in_levels(
    facts: Sequence[SummaryFact],
    template: SummaryTemplate,
    budget: SummaryBudget,
    levels: int,
    estimate: EstimateTokens = estimate_tokens,
    preface: str = PREFACE,
) -> tuple[Summary, ...]:
    """Build one summary for each level, each with half the budget of the previous (003-20).

    Each is selected from the facts of the previous one, so that nothing that was left out comes
    back, and no summary's text is summarised again.
    """
    found: list[Summary] = []
    left = tuple(facts)
    for level in range(max(1, levels)):
        halved = SummaryBudget(budget.max_tokens >> level, budget.max_prompt_tokens >> level)
        made = build_summary(left, template, halved, estimate, preface)
        found.append(made)
        left = made.facts
    return tuple(found)
