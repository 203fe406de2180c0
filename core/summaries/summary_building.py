"""Build a summary within its budget as the policy's `summary.*` keys say, and check it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from ..measure.tokens import count_text
from ..policy.policy import PolicyOrigin
from ..transcript.authorship import NOT_TYPED_PREFIXES, SUMMARY_MARKER
from .artifacts import shared_basenames
from .former_summaries import as_quoted, fit_earlier
from .key_messages import (
    DEFAULT_IMPORTANCE,
    ImportanceSettings,
    read_importance_settings,
)
from .mentions import MentionIndex, find_names, fitting_names
from .newest_steps import UNANSWERED_WEIGHT
from .summary_facts import (
    FACT_HEADINGS,
    FOUR_SECTIONS,
    PREFACE,
    TEMPLATES,
    FactKind,
    SummaryFact,
    SummaryTemplate,
    find_template,
    is_marked_anchor,
    parse_summary,
    render_facts,
    render_summary,
)

if TYPE_CHECKING:
    from ..policy.policy import Policy


SOURCE_SHARE: Final = 0.08  # of what is summarized (compaction.md 7.5)
MIN_SUMMARY_TOKENS: Final = 600  # the frame, the task, the next step, and where the rest is
MAX_SUMMARY_TOKENS: Final = 12_000  # compaction.md 7.5; codex and Factory use as much
MAX_PROMPT_TOKENS: Final = 20_000  # of a person's messages, besides (compaction.md 5.2 and 7.5)
MAX_MARKED_TOKENS: Final = MAX_PROMPT_TOKENS  # of marked anchors, besides: as for prompts
MAX_EARLIER_TOKENS: Final = MAX_SUMMARY_TOKENS  # of what earlier compactions left, besides
MAX_STEP_TOKENS: Final = MAX_SUMMARY_TOKENS  # of the newest steps, which cannot stay, besides
STEP_SHARE: Final = 0.25  # of those, at most, for a line that the model has answered
PROMPT_EDGE_CHARS: Final = (400, 50)  # of a message that is shortened, at either end
GAP_NAMES_CHARS: Final = 1_000  # of the names in what a shortened step leaves out
STEP_EDGE_CHARS: Final = (16_000, 4_000, 1_500, 400, 50)  # the same of a step
SECTION_TOKENS: Final = 12  # an upper bound for a section's heading and its empty line


class SummaryBudget(msgspec.Struct, frozen=True):
    """How much room there is; all rules come on top, whatever their size."""

    max_tokens: int  # of everything but what `is_beside_budget`
    max_prompt_tokens: int = MAX_PROMPT_TOKENS  # of the prompts, besides
    max_marked_tokens: int = MAX_MARKED_TOKENS  # of marked anchors, besides (2.2.2)
    max_earlier_tokens: int = MAX_EARLIER_TOKENS  # of what earlier compactions left, besides
    max_step_tokens: int = MAX_STEP_TOKENS  # of the newest steps, if they cannot stay, besides


class Summary(msgspec.Struct, frozen=True):
    text: str  # empty if the budget does not even hold its frame
    facts: tuple[SummaryFact, ...]  # that are in it
    omitted: int  # facts that did not fit the budget
    tokens: int  # estimated
    longer_texts: tuple[str, ...] = ()  # of the levels before it, the longest first (003-20)


def default_budget(source_tokens: int, carried_tokens: int = 0) -> SummaryBudget:
    """Return the budget for a source; facts that an earlier summary held come on top."""
    share = int(SOURCE_SHARE * source_tokens)
    own = max(MIN_SUMMARY_TOKENS, min(share, MAX_SUMMARY_TOKENS))
    return SummaryBudget(own + min(carried_tokens, MAX_EARLIER_TOKENS))


def estimate_tokens(text: str) -> int:
    """Estimate a text's tokens by the tokenizer generation that needs more of them."""
    counted = count_text(text)
    return max(counted.older, counted.newer)


def build_summary(
    facts: Sequence[SummaryFact],
    template: SummaryTemplate,
    budget: SummaryBudget,
    preface: str = PREFACE,
) -> Summary:
    """Choose facts and write them: what weighs least goes first, no budget is exceeded.

    All rules stay, whatever the budget. Of a person's messages the first always stays, then the
    newest, and of what was marked the newest; one that is too long keeps both ends. What earlier
    compactions left stays whole, or by its own sections; of the open turn's steps the newest stay.
    The same facts give the same text.
    """
    rules = [fact for fact in facts if fact.kind is FactKind.CONSTRAINT]
    prompts = [fact for fact in facts if fact.kind is FactKind.PROMPT]
    marked = [fact for fact in facts if is_marked_anchor(fact)]
    others = [fact for fact in facts if not is_beside_budget(fact)]
    chosen = _choose_facts(others, template, budget.max_tokens, preface)
    if estimate_tokens(render_summary(chosen, template, preface)) > budget.max_tokens:
        return Summary("", (), len(facts), 0)
    quotes = _choose_quotes(marked[::-1], budget.max_marked_tokens)
    earlier = _choose_earlier([fact for fact in facts if fact.kind is FactKind.EARLIER], budget)
    steps = choose_steps(facts, budget.max_step_tokens)
    chosen += [*rules, *quotes, *earlier, *steps]
    messages = _choose_quotes([*prompts[:1], *prompts[:0:-1]], budget.max_prompt_tokens)
    limit = budget.max_tokens + budget.max_prompt_tokens
    limit += tokens_beside([*rules, *quotes, *earlier, *steps])
    while (
        messages
        and estimate_tokens(render_summary([*chosen, *messages], template, preface)) > limit
    ):
        messages.pop()
    places = {(fact.kind, fact.key): place for place, fact in enumerate(facts)}
    kept = sorted([*chosen, *messages], key=lambda fact: places[fact.kind, fact.key])
    text = render_summary(kept, template, preface)
    return Summary(text, tuple(kept), len(facts) - len(kept), estimate_tokens(text))


def is_beside_budget(fact: SummaryFact) -> bool:
    """Whether a fact comes on top of the budget: what was asked, a rule, what keeps its length."""
    return fact.kind in {FactKind.PROMPT, FactKind.CONSTRAINT} or keeps_its_length(fact)


def keeps_its_length(fact: SummaryFact) -> bool:
    """Whether a fact is quoted as it is: a marked anchor, an earlier summary, a newest step."""
    return fact.kind in {FactKind.EARLIER, FactKind.STEP} or is_marked_anchor(fact)


def _choose_earlier(facts: Sequence[SummaryFact], budget: SummaryBudget) -> list[SummaryFact]:
    """Choose what earlier compactions left, the newest first."""
    if not facts:
        return []
    left = budget.max_earlier_tokens - estimate_tokens(f"\n{FACT_HEADINGS[FactKind.EARLIER]}")
    chosen: list[SummaryFact] = []
    for fact in reversed(facts):
        fitting = fit_earlier(fact, left - SECTION_TOKENS, estimate_tokens)
        if fitting:
            left -= _fact_tokens(fitting)
            chosen.append(fitting)
    return chosen


def _choose_facts(
    facts: Sequence[SummaryFact], template: SummaryTemplate, tokens: int, preface: str
) -> list[SummaryFact]:
    left = tokens - estimate_tokens(preface)
    chosen: list[SummaryFact] = []
    begun: set[object] = set()
    titles = {kind: section.title for section in template.sections for kind in section.kinds}
    for fact in sorted(facts, key=lambda fact: -fact.weight):
        cost, title = _fact_tokens(fact), titles[fact.kind]
        if fact.kind not in begun:
            cost += estimate_tokens(f"\n{FACT_HEADINGS[fact.kind]}")
        cost += 0 if title in begun else SECTION_TOKENS
        if cost <= left:
            left -= cost
            begun |= {fact.kind, title}
            chosen.append(fact)
    # The parts together can differ by a token or two from the sum of each.
    while chosen and estimate_tokens(render_summary(chosen, template, preface)) > tokens:
        chosen.pop()
    return chosen


def _fact_tokens(fact: SummaryFact) -> int:
    return estimate_tokens("\n".join(["", *render_facts([fact])]))


def tokens_beside(facts: Iterable[SummaryFact]) -> int:
    """Return an upper bound of the tokens that facts take besides the budget."""
    known = list(facts)
    kinds = {fact.kind for fact in known}
    headings = sum(estimate_tokens(f"\n{FACT_HEADINGS[kind]}") + SECTION_TOKENS for kind in kinds)
    return headings + sum(map(_fact_tokens, known))


def _choose_quotes(quotes: Sequence[SummaryFact], tokens: int) -> list[SummaryFact]:
    """Choose quotes, the first before the others: each whole or with both ends."""
    if not quotes:
        return []
    left = tokens - estimate_tokens(f"\n{FACT_HEADINGS[quotes[0].kind]}") - SECTION_TOKENS
    chosen: list[SummaryFact] = []
    for quote in quotes:
        if form := _fit_quote(quote, PROMPT_EDGE_CHARS, left):
            left -= _fact_tokens(form)
            chosen.append(form)
    return chosen


def choose_steps(facts: Iterable[SummaryFact], tokens: int) -> list[SummaryFact]:
    """Choose what is quoted of the newest steps, oldest first: each whole or with both ends.

    The newest come first, and results that the model has not answered may take all, in equal parts.
    """
    steps = [fact for fact in facts if fact.kind is FactKind.STEP]
    waiting = sum(step.weight >= UNANSWERED_WEIGHT for step in steps)
    left = tokens - estimate_tokens(f"\n{FACT_HEADINGS[FactKind.STEP]}") - SECTION_TOKENS
    chosen: list[SummaryFact] = []
    for step in reversed(steps):
        most = min(left, int(STEP_SHARE * tokens))
        if step.weight >= UNANSWERED_WEIGHT:
            most = left // waiting
            waiting -= 1
        if form := _fit_quote(step, STEP_EDGE_CHARS, most):
            left -= _fact_tokens(form)
            chosen.append(form)
    return chosen[::-1]


def _fit_quote(quote: SummaryFact, edges: Iterable[int], tokens: int) -> SummaryFact | None:
    """Return a quote whole or with both its ends; None if no form takes so few tokens."""
    forms = (quote, *(_shorten_quote(quote, edge) for edge in edges))
    return next((form for form in forms if _fact_tokens(form) <= tokens), None)


def _shorten_quote(quote: SummaryFact, edge: int) -> SummaryFact:
    text = quote.text
    out = text[edge:-edge]
    if len(text) <= 2 * edge:
        return quote
    names = f", with {named}" if quote.kind is FactKind.STEP and (named := _names_in(out)) else ""
    gap = f"\n[… {len(out)} characters: line {quote.line} of the transcript{names} …]\n"
    return replace(quote, text=f"{text[:edge]}{gap}{text[-edge:]}")


def _names_in(text: str) -> str:
    """List the names in what is left out of a step, in their order, as many as fit."""
    return ", ".join(fitting_names(sorted(find_names(text), key=text.find), GAP_NAMES_CHARS))


CHEAP_MODEL: Final = "claude-haiku-4-5"  # asked unless another model is named (T-05)
DEFAULT_MAX_WORDS: Final = 1_000  # 001-28
DEFAULT_KEEP_MESSAGES: Final = 10  # if a policy leaves their number to the client (T-04)
CHEAP_MODEL_ALIAS: Final = "cheap"
SESSION_MODEL_ALIAS: Final = "session"
"""Values of `summary.model` that stand for a model's id (T-05)."""

_TOOL_RESULT_FACTS: Final = frozenset({FactKind.ERROR, FactKind.DONE, FactKind.STEP})
"""What is known from tools' results; which files were changed is known from the calls."""


class FactSelection(msgspec.Struct, frozen=True):
    excluded_kinds: frozenset[FactKind] = frozenset()
    levels: int = 1  # summaries of summaries: each has half the budget of the one before (003-20)

    def select(self, facts: Sequence[SummaryFact]) -> tuple[SummaryFact, ...]:
        return tuple(fact for fact in facts if fact.kind not in self.excluded_kinds)

    def build_summary(
        self,
        facts: Sequence[SummaryFact],
        template: SummaryTemplate,
        budget: SummaryBudget,
        preface: str = PREFACE,
    ) -> Summary:
        """Build one summary for each level; the last is the result, with the texts of the others.

        Each is selected from the facts of the one before, so that nothing that was left out comes
        back, and no summary's text is summarized again.
        """
        made = build_summary(facts, template, budget, preface)
        longer: list[str] = []
        for level in range(1, self.levels):
            longer.append(made.text)
            halved = replace(
                budget,
                max_tokens=budget.max_tokens >> level,
                max_prompt_tokens=budget.max_prompt_tokens >> level,
                max_earlier_tokens=budget.max_earlier_tokens >> level,
                max_step_tokens=budget.max_step_tokens >> level,
            )
            made = build_summary(made.facts, template, halved, preface)
        omitted = len(facts) - len(made.facts)
        return replace(made, omitted=omitted, longer_texts=tuple(longer))


ALL_FACTS: Final = FactSelection()


class SummarySettings(msgspec.Struct, frozen=True):
    """The policy's keys `summary.*`, and how much stays word for word."""

    template: SummaryTemplate = FOUR_SECTIONS
    budget: SummaryBudget | None = None  # None for `default_budget`
    keep_messages: int = DEFAULT_KEEP_MESSAGES  # `compact.preserve_recent`
    model: str = CHEAP_MODEL_ALIAS
    is_model_of_preset: bool = False  # a person chose a preset, not this model
    max_words: int = DEFAULT_MAX_WORDS  # that a model is asked for
    use_cache: bool = True
    timeout_s: float = 60.0
    selection: FactSelection = ALL_FACTS
    importance: ImportanceSettings = DEFAULT_IMPORTANCE

    def resolve_model(self, session_model: str | None) -> str:
        if self.model == CHEAP_MODEL_ALIAS:
            return CHEAP_MODEL
        if self.model == SESSION_MODEL_ALIAS:
            return session_model or CHEAP_MODEL
        return self.model

    @property
    def names_foreign_model(self) -> bool:
        """Whether the preset, and no person, names a model that is not Claude's (003-29).

        A person may name any: a gateway or a cloud has its own names for them.
        """
        is_id = self.model not in {CHEAP_MODEL_ALIAS, SESSION_MODEL_ALIAS}
        return self.is_model_of_preset and is_id and "claude" not in self.model


def read_summary_settings(policy: Policy) -> SummarySettings:
    size = policy.value("summary.max_tokens")
    excluded = set() if policy.flag("summary.preserve_decisions") else {FactKind.DECISION}
    if not policy.flag("summary.preserve_tool_results"):
        excluded |= _TOOL_RESULT_FACTS
    keep = policy.integer("compact.preserve_recent")
    return SummarySettings(
        template=find_template(policy.text("summary.template")),
        budget=SummaryBudget(size) if isinstance(size, int) else None,
        keep_messages=DEFAULT_KEEP_MESSAGES if keep is None else keep,
        model=policy.text("summary.model"),
        is_model_of_preset=policy.values["summary.model"].origin is PolicyOrigin.PRESET,
        max_words=policy.integer("summary.max_words") or DEFAULT_MAX_WORDS,
        use_cache=policy.flag("summary.cache"),
        timeout_s=float(policy.integer("compact.timeout_s") or 1),
        selection=FactSelection(frozenset(excluded), policy.integer("summary.levels") or 1),
        importance=read_importance_settings(policy),
    )


MAX_SOURCE_SHARE: Final = 0.5  # of the source: a longer summary is none (compaction.md 5.3)
MODEL_MIN_NAMED_SHARE: Final = 0.5
"""Of the changed files and constraints that a model's own words must name. It was given all of
them; the rest is added from the tool calls."""


class SummaryFlaw(msgspec.Struct, frozen=True):
    check: str  # `empty`, `longer`, `artifacts`, `constraints`, `stale` or `contaminated`
    reason: str


def find_summary_flaws(
    text: str, tokens: int, source_tokens: int, facts: Iterable[SummaryFact], min_share: float = 1.0
) -> tuple[SummaryFlaw, ...]:
    """Return what is wrong with a summary of these facts; empty if it can be used.

    `min_share` is the share of changed files and of constraints that must be named, 0..1.
    """
    if not text.strip():
        return (SummaryFlaw("empty", "the summary is empty"),)
    known = tuple(facts)
    flaws: list[SummaryFlaw] = []
    if tokens > MAX_SOURCE_SHARE * source_tokens:
        why = f"{tokens:,} tokens for a source of {source_tokens:,}"
        flaws.append(SummaryFlaw("longer", why))
    mentions = MentionIndex([text])
    constraints = [fact.key.strip('"') for fact in known if fact.kind is FactKind.CONSTRAINT]
    for check, named in (
        ("artifacts", _changed_files_named(known, mentions)),
        ("constraints", [mentions.has_sentence(sentence) for sentence in constraints]),
    ):
        if named and sum(named) < min_share * len(named):
            flaws.append(SummaryFlaw(check, f"{sum(named)} of {len(named)} are named"))
    flaws += _stale_todos(text, known)
    own = text.removeprefix(SUMMARY_MARKER)
    # They are quoted as what a compaction left or a tool returned, and may tell of one.
    quoted = (fact.text for fact in known if fact.kind in {FactKind.EARLIER, FactKind.STEP})
    for quote in sorted(quoted, key=len, reverse=True):  # a short one may be how another begins
        own = own.replace(as_quoted(quote), "")
    prompt = next((prefix for prefix in NOT_TYPED_PREFIXES[:4] if prefix in own), None)
    if prompt:
        # A compaction's own prompt, quoted as something that was said (Q14).
        flaws.append(
            SummaryFlaw("contaminated", f"contains the compaction prompt itself: {prompt}")
        )
    return tuple(flaws)


MIN_SECTION_SHARE: Final = 0.5  # of a template's sections: a text with fewer has another form
_WORD: Final = re.compile(r"\S*\w\S*")
_TITLE: Final = re.compile(r"^(?:\W*\d+[.)])?\W*(.*?)\W*$")


def find_form_flaws(
    text: str, max_words: int, template: SummaryTemplate | None = None
) -> tuple[str, ...]:
    """Return how a summary differs from what a model was asked for: length, sections (001-28).

    Without a `template` it is the one that most of its headings are of; what has another form,
    as the client's own summaries have, was not asked for so. What ctxtop writes by rules has no
    empty sections, and only the part of it that a model wrote is judged.
    """
    written = [fact.text for fact in parse_summary(text) if fact.kind is FactKind.WRITTEN]
    if not written and text.startswith(PREFACE):
        return ()
    body = written[0] if written else text.removeprefix(SUMMARY_MARKER)
    titles = {_TITLE.sub(r"\1", line).casefold() for line in body.split("\n") if line}
    missing = {
        each: [section.title for section in each.sections if section.title.casefold() not in titles]
        for each in ([template] if template else TEMPLATES.values())
    }
    fitting = min(missing, key=lambda each: len(missing[each]) / len(each.sections))
    if template is None and len(missing[fitting]) > MIN_SECTION_SHARE * len(fitting.sections):
        return ()
    words = len(_WORD.findall(body))
    too_long = [f"{words:,} words, at most {max_words:,}"] if words > max_words else []
    return *too_long, *(f"no section {title}" for title in missing[fitting])


def find_missing_facts(text: str, facts: Sequence[SummaryFact]) -> tuple[SummaryFact, ...]:
    """Return the facts that a model's text lacks; quotes and states are always included."""
    mentions = MentionIndex([text])
    shared = _shared_basenames(facts)
    return tuple(fact for fact in facts if not _is_represented(fact, mentions, shared))


_SENTENCE_FACTS: Final = frozenset(
    {FactKind.DECISION, FactKind.ERROR, FactKind.DONE, FactKind.ANCHOR}
)
_RESTATED_FACTS: Final = frozenset({FactKind.WRITTEN, FactKind.GOAL, FactKind.NEXT})
"""What a model's text replaces: it states them in its own words."""


def _is_represented(fact: SummaryFact, text: MentionIndex, shared: frozenset[str]) -> bool:
    if fact.kind is FactKind.FILE:
        return text.has_path(fact.key, shared)
    if fact.kind is FactKind.NAME:
        return text.has_verbatim(fact.text)
    if fact.kind in _SENTENCE_FACTS and not is_marked_anchor(fact):
        sentence = fact.text if fact.kind is FactKind.ANCHOR else fact.key.strip('"')
        return text.has_sentence(sentence)
    return fact.kind in _RESTATED_FACTS


def _shared_basenames(facts: Iterable[SummaryFact]) -> frozenset[str]:
    return shared_basenames(fact.key for fact in facts if fact.kind is FactKind.FILE)


def _changed_files_named(facts: Sequence[SummaryFact], mentions: MentionIndex) -> list[bool]:
    shared = _shared_basenames(facts)
    changes = ("edited", "written", "created", "deleted")
    return [
        mentions.has_path(fact.key, shared)
        for fact in facts
        if fact.kind is FactKind.FILE
        and any(word in fact.text.removeprefix(fact.key) for word in changes)
    ]


def _stale_todos(text: str, facts: Sequence[SummaryFact]) -> list[SummaryFlaw]:
    """Find what is done but listed as open, in a summary whose lists can be parsed (Q13)."""
    done = {fact.key for fact in facts if fact.kind is FactKind.DONE}
    return [
        SummaryFlaw("stale", f"listed as open, but done: {fact.key[:80]}")
        for fact in parse_summary(text)
        if fact.kind is FactKind.TODO and fact.key in done
    ]
