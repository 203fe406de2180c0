"""Which facts a summary holds: the most important ones that a budget of tokens allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from ..text_count import count_text
from .fact import Fact, Part
from .words import HEADS, PREFACE, render, written

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .templates import Template

    CountTokens = Callable[[str], int]

SOURCE_SHARE: Final = 0.08
"""Of what is summed up (compaction.md 7.5)."""

MOST_TOKENS: Final = 12_000
"""compaction.md 7.5; codex and Factory use as much."""

PROMPT_TOKENS: Final = 20_000
"""Of a person's messages, besides (compaction.md 5.2 and 7.5)."""

EDGE_CHARS: Final = 400
"""Of a message that is shortened, at either end."""

FRAME_TOKENS: Final = 12
"""Of a section's heading and its empty line, at the most."""


class Budget(msgspec.Struct, frozen=True):
    """Tokens that a summary may have."""

    max_tokens: int
    """Of everything but the person's messages."""
    max_prompt_tokens: int = PROMPT_TOKENS
    """Of those, besides."""


class Summary(msgspec.Struct, frozen=True):
    """A summary as it is sent."""

    text: str
    """Empty where the budget does not even hold its frame."""
    facts: tuple[Fact, ...]
    """That are in it."""
    omitted: int
    """Facts that the budget did not allow."""
    tokens: int
    """Estimated."""


def budget_of(source_tokens: int) -> Budget:
    """Give the default budget of what has so many tokens."""
    return Budget(min(int(SOURCE_SHARE * source_tokens), MOST_TOKENS))


def most(text: str) -> int:
    """Estimate the tokens of a text by the generation of tokenizers that takes more of it."""
    counted = count_text(text)
    return max(counted.older, counted.newer)


def sum_up(
    facts: Sequence[Fact],
    template: Template,
    budget: Budget,
    estimate: CountTokens = most,
    preface: str = PREFACE,
) -> Summary:
    """Choose facts and write them: what weighs least goes first, no budget is exceeded.

    Of a person's messages the first always stays, then the newest; what is too long keeps its
    two ends. The same facts give the same text.
    """
    prompts = [each for each in facts if each.kind is Part.PROMPT]
    others = [each for each in facts if each.kind is not Part.PROMPT]
    chosen = _choose(others, template, budget.max_tokens, estimate, preface)
    if estimate(render(chosen, template, preface)) > budget.max_tokens:
        return Summary("", (), len(facts), 0)
    said = _choose_prompts(prompts, budget.max_prompt_tokens, estimate)
    whole = budget.max_tokens + budget.max_prompt_tokens
    while said and estimate(render([*chosen, *said], template, preface)) > whole:
        said.pop(1 if len(said) > 1 else 0)
    kept = sorted([*chosen, *said], key=_order(facts))
    text = render(kept, template, preface)
    return Summary(text, tuple(kept), len(facts) - len(kept), estimate(text))


def _order(facts: Sequence[Fact]) -> Callable[[Fact], int]:
    places = {(each.kind, each.key): place for place, each in enumerate(facts)}
    return lambda each: places[each.kind, each.key]


def _choose(
    facts: Sequence[Fact], template: Template, tokens: int, count: CountTokens, preface: str
) -> list[Fact]:
    left = tokens - count(preface)
    chosen: list[Fact] = []
    begun: set[object] = set()
    sections = {part: each.title for each in template.sections for part in each.kinds}
    for each in sorted(facts, key=lambda one: -one.weight):
        cost = count("\n".join(["", *written([each])]))
        if each.kind not in begun:
            cost += count(f"\n{HEADS[each.kind]}")
        title = sections[each.kind]
        cost += 0 if title in begun else FRAME_TOKENS
        if cost <= left:
            left -= cost
            begun |= {each.kind, title}
            chosen.append(each)
    # What parts have together can differ by a token or two from what each has alone.
    while chosen and count(render(chosen, template, preface)) > tokens:
        chosen.pop()
    return chosen


def _choose_prompts(prompts: Sequence[Fact], tokens: int, count: CountTokens) -> list[Fact]:
    """Choose the first message, then the newest ones, each whole or with its two ends."""
    if not prompts:
        return []
    left = tokens - count(f"\n{HEADS[Part.PROMPT]}") - FRAME_TOKENS
    chosen: list[Fact] = []
    for each in (prompts[0], *reversed(prompts[1:])):
        for said in (each, _shortened(each, EDGE_CHARS), _shortened(each, EDGE_CHARS // 8)):
            cost = count("\n".join(["", *written([said])]))
            if cost <= left:
                left -= cost
                chosen.append(said)
                break
    return [chosen[0], *reversed(chosen[1:])] if chosen else []


def _shortened(prompt: Fact, edge: int) -> Fact:
    text = prompt.text
    out = len(text) - 2 * edge
    if out <= 0:
        return prompt
    gap = f"\n[… {out} characters: line {prompt.line} of the transcript …]\n"
    return replace(prompt, text=f"{text[:edge]}{gap}{text[-edge:]}")
