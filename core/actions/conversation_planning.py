"""Plans that need the text of the whole conversation: summary, cut, revert and rollover."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from ..compaction.plan import (
    CUT,
    DEFAULT_OPTIONS,
    LAST_PROMPT,
    REVERT,
    ROLLOVER,
    TEMPLATES_BY_SECTIONS,
    AppendLine,
    CompactionPlan,
    Operation,
    PlanOptions,
    Refusal,
    Severity,
    changed_lines,
    edits_of,
    make_plan,
)
from ..compaction.strategies.summary_and_cut import (
    Conversation,
    newest_entry,
    plan_cut,
    plan_revert,
    plan_rollover,
    read_common_fields,
    sent_prompts,
    summarise_by_rules,
    summarise_with_model,
)
from ..compaction.transcript_planning import refusals_after_reading, refusals_before_planning
from ..compaction.transcript_reading import PlanSource, read_as_scanned, read_transcript_view
from ..compaction.transcript_view import TranscriptView, VisibleBlock, open_transcript, shorten_part
from ..store.database import summary_cache_folder
from ..summaries.model_providers import make_provider
from ..summaries.model_summary import ModelSummaryOptions, ProviderName, ProviderRetry
from ..summaries.summary_building import (
    CHEAP_MODEL_ALIAS,
    SESSION_MODEL_ALIAS,
    SummaryBudget,
    SummarySettings,
    read_summary_settings,
)
from ..summaries.summary_facts import find_template
from ..summaries.tool_outcomes import OUTPUT_TOOLS
from ..transcript.conversation import MessagePart, PartKind
from ..transcript.sanitize import one_line
from .session_access import NotPlannedError, SessionAccess

Make = Callable[[Conversation, TranscriptView], Operation | Refusal]


KEPT_RESULT_CHARS: Final = 1_000
"""Of a result: a summary is told its beginning, at most 800 characters (model_summary)."""


def plan_conversation(
    source: PlanSource, make_operation: Make, options: PlanOptions = DEFAULT_OPTIONS
) -> CompactionPlan:
    """Plan what `make_operation` returns for a transcript; a refusal is part of the plan.

    Unlike `plan_transcript` it holds what was said and what tools were called with;
    of their results it holds KEPT_RESULT_CHARS. Raises OSError where the file cannot be read.
    """
    with open_transcript(source.path) as file:
        scan = file.scan()
        source = replace(source, read_entries=read_as_scanned(source.read_entries, file, scan))
        view = read_transcript_view(source, file, scan, options)
        refused = list(refusals_before_planning(view, scan, source.open_in))
        operations: list[Operation] = []
        if not refused:
            made = make_operation(read_conversation(source, view), view)
            if isinstance(made, Refusal):
                refused.append(made)
            elif made.level is Severity.SUMMARY and made.tokens_saved <= 0:
                refused.append(_NOT_SMALLER)
            else:
                operations.append(made)
        refused += refusals_after_reading(file, scan, options.max_bytes)
    return make_plan(
        source.session_id,
        scan.sha256,
        scan.size,
        operations,
        before_tokens=view.tokens,
        unmoved_tokens=view.overhead_tokens + _unmoved_tokens(operations, view),
        model=view.model,
        refused=refused,
    )


_NOT_SMALLER: Final = Refusal(
    "nothing",
    "the summary and what the client announces again would be no smaller than what they replace",
    "let the session grow, or name a smaller --budget",
)


class _PartTokens:
    """Tokens of pieces whose texts are cut, as they were counted when they were whole."""

    def __init__(self, view: TranscriptView) -> None:
        self._count: Final = view.count_tokens
        self._of_slots: Final = {
            slot.part: slot.tokens
            for slot in view.blocks
            # Of a thought the context holds more than its text says.
            if not slot.is_replaced and slot.part.kind is not PartKind.THINKING
        }
        self._known: Final[dict[MessagePart, int]] = {}

    def shorten(self, piece: MessagePart) -> MessagePart:
        """Cut a piece's text where a summary needs no more of it."""
        short = shorten_part(piece, KEPT_RESULT_CHARS) if _is_tool_output(piece) else piece
        known = self._of_slots.get(shorten_part(piece))
        if known is not None:
            self._known[short] = known
        return short

    def tokens_of(self, piece: MessagePart) -> int:
        """Return the count of the uncut text if it is known, else count this one."""
        known = self._known.get(piece)
        if known is None:
            known = self._known[piece] = self._count(piece)
        return known


def _unmoved_tokens(operations: Sequence[Operation], view: TranscriptView) -> int:
    """Add up what of the conversation stays where it was, and so in the cache.

    What is appended stands in the place of all; what is removed leaves all before it as it is.
    """
    if any(isinstance(edit, AppendLine) for edit in edits_of(operations)):
        return 0
    first = min(changed_lines(operations), default=0)
    return min((slot.tokens_before for slot in view.blocks if slot.line >= first), default=0)


def read_conversation(source: PlanSource, view: TranscriptView) -> Conversation:
    """Read what a summary is made from; of results it holds KEPT_RESULT_CHARS. Raises OSError."""
    counts = _PartTokens(view)
    entries = tuple(
        replace(entry, parts=tuple(map(counts.shorten, entry.parts)), snapshot=None)
        for entry in source.read_entries(source.path)
    )
    last = newest_entry(entries)
    said = view.decoded_line(last.line) if last else None
    return Conversation(
        entries,
        read_common_fields(said if isinstance(said, dict) else {}),
        counts.tokens_of,
        str(source.path),
        view.overhead_tokens,
        view.tokens - view.overhead_tokens,
    )


def _is_tool_output(piece: MessagePart) -> bool:
    """Whether it is a tool's output or attached text: by far the most of a conversation."""
    if piece.kind is PartKind.TOOL_RESULT:
        # Of what failed its end counts, and of a running task what it says of its state.
        return not piece.failed and piece.name not in OUTPUT_TOOLS
    return piece.kind in {PartKind.ATTACHMENT, PartKind.META}


MAX_NAMED_PROMPTS: Final = 5  # the newest, of those that can be gone back to
PROMPT_LABEL_CHARS: Final = 30  # characters of a prompt, by which a person knows it


def whole_operation_maker(
    options: PlanOptions,
    access: SessionAccess,
    on_message: Callable[[str], None],
    on_view: Callable[[TranscriptView], None],
) -> Make:
    """Return the function that plans the operation; `on_message` receives a model's warnings.

    Raises NotPlannedError if a model has to be named.
    """
    settings = read_summary_settings(access.policy)
    template = settings.template
    if options.template is not None:
        template = find_template(TEMPLATES_BY_SECTIONS.get(options.template, options.template))
    budget = settings.budget if options.budget is None else SummaryBudget(options.budget)
    keep = settings.keep_messages if options.keep is None else options.keep
    commission = _summary_commission(options, settings, access, on_message)

    def make(whole: Conversation, view: TranscriptView) -> Operation | Refusal:
        on_view(view)
        if options.whole_strategy == CUT:
            return plan_cut(whole, options.keep_turns or 0)
        if options.whole_strategy == REVERT:
            return _revert_to_prompt(view, options.to or "")
        if options.whole_strategy == ROLLOVER:
            return plan_rollover(whole, view, template, budget, settings.selection)
        if commission is None:
            return summarise_by_rules(whole, keep, template, budget, settings.selection)
        return summarise_with_model(whole, keep, template, commission, budget, settings.selection)

    return make


def _revert_to_prompt(view: TranscriptView, to: str) -> Operation | Refusal:
    prompts = sent_prompts(view)
    if to == LAST_PROMPT and prompts:
        return plan_revert(view, prompts[-1].line)
    if to.isdecimal():
        return plan_revert(view, int(to))
    meant = {each.line for each in prompts if to and (each.entry.uuid or "").startswith(to)}
    if len(meant) == 1:
        return plan_revert(view, meant.pop())
    newest = ", ".join(_prompt_label(each) for each in prompts[: -MAX_NAMED_PROMPTS - 1 : -1])
    why = f"{len(meant)} prompts begin with {to!r}" if to else "it needs a prompt to go back to"
    return Refusal("no_prompt", why, f"say --to LINE: {newest}" if prompts else "there is none")


def _prompt_label(prompt: VisibleBlock) -> str:
    said = one_line(prompt.part.text)
    return (
        f"{prompt.line}"
        f" “{said[:PROMPT_LABEL_CHARS]}{'…' if len(said) > PROMPT_LABEL_CHARS else ''}”"
    )


def _summary_commission(
    options: PlanOptions,
    settings: SummarySettings,
    access: SessionAccess,
    on_message: Callable[[str], None],
) -> ModelSummaryOptions | None:
    name = ProviderName(options.provider or ProviderName.NONE)
    provider = make_provider(name, os.environ)
    if provider is None:
        return None
    named = options.model or settings.model
    if name is ProviderName.OPENAI and named in {CHEAP_MODEL_ALIAS, SESSION_MODEL_ALIAS}:
        raise NotPlannedError(f"--provider {name} needs --model NAME: no model of it is known")
    return ModelSummaryOptions(
        provider=provider,
        session_id=access.session.session_id,
        model=options.model or settings.resolve_model(access.session.model),
        cache_folder=summary_cache_folder(access.store) if settings.use_cache else None,
        max_words=settings.max_words,
        retry=ProviderRetry(attempt_timeout_s=settings.timeout_s),
        warn=on_message,
    )
