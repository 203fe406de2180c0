"""Plans that need the text of the whole conversation: condensing, summary, cut and others."""

import os
from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from ..compaction import plan as plans
from ..compaction.condensing import CondensedPlan, plan_condensed
from ..compaction.plan import CompactionPlan, Operation, PlanOptions, Refusal
from ..compaction.protection import first_recent_line
from ..compaction.strategies import summary_and_cut
from ..compaction.strategies.summary_and_cut import Conversation
from ..compaction.transcript_planning import (
    refusals_after_reading,
    refusals_before_planning,
    target_of,
)
from ..compaction.transcript_reading import PlanSource, read_as_scanned, read_transcript_view
from ..compaction.transcript_view import TranscriptView, VisibleBlock, open_transcript, shorten_part
from ..compaction.turn_restoring import plan_restore
from ..model.conversation import MessagePart, PartKind
from ..store.database import summary_cache_folder
from ..summaries.model_providers import OpenAiApi, make_provider
from ..summaries.model_summary import ModelSummaryOptions, ProviderName, ProviderRetry
from ..summaries.session_rules import RULE_ATTACHMENTS
from ..summaries.summary_building import (
    CHEAP_MODEL,
    CHEAP_MODEL_ALIAS,
    SESSION_MODEL_ALIAS,
    SummaryBudget,
    SummarySettings,
    read_summary_settings,
)
from ..summaries.summary_facts import find_template
from ..summaries.tool_outcomes import OUTPUT_TOOLS, SHELL_TOOLS
from ..summaries.turn_digest import QUESTION_TOOL
from ..transcript.client_messages import is_given_task
from ..transcript.sanitize import one_line
from ..transcript.visible_messages import waits_for_model
from .session_access import NotPlannedError, SessionAccess

MakeOperation = Callable[[Conversation, TranscriptView], Operation | CondensedPlan | Refusal]

KEPT_RESULT_CHARS: Final = 1_000  # of results that a summary does not quote; it uses at most 800
KEPT_OUTCOME_CHARS: Final = 300  # of those of a command, from its end: there it says how it went


def plan_conversation(
    source: PlanSource, make_operation: MakeOperation, options: PlanOptions = plans.DEFAULT_OPTIONS
) -> CompactionPlan:
    """Plan what `make_operation` returns for a transcript; a refusal is part of the plan.

    Unlike `PlanDraft` it holds all texts and inputs in memory, and of results
    KEPT_RESULT_CHARS. Raises OSError if the file cannot be read.
    """
    with open_transcript(source.path) as file:
        scan = file.scan()
        source = replace(source, read_entries=read_as_scanned(source.read_entries, file, scan))
        view = read_transcript_view(source, file, scan, options)
        refused = list(refusals_before_planning(view, scan, source.open_in))
        made = _NOTHING
        if not refused:
            operation = make_operation(read_conversation(source, view), view)
            if isinstance(operation, Refusal):
                refused.append(operation)
            elif isinstance(operation, CondensedPlan):
                made = operation
            elif operation.strategy == plans.SUMMARIZE and operation.tokens_saved <= 0:
                refused.append(_NOT_SMALLER)
            else:
                made = CondensedPlan((operation,), ())
        refused += refusals_after_reading(file, scan, options.max_bytes)
    return plans.make_plan(
        source.session_id,
        scan.sha256,
        scan.size,
        made.operations,
        before_tokens=view.tokens,
        unmoved_tokens=view.overhead_tokens + _unmoved_tokens(made.operations, view),
        model=view.model,
        refused=refused,
        target_reduction=options.target_reduction,
        steps=made.steps,
        target=target_of(view, options),
    )


_NOTHING: Final = CondensedPlan((), ())


_NOT_SMALLER: Final = Refusal(
    "nothing",
    "the summary, with what Claude Code adds again, would be no smaller than what it replaces",
    "wait until the session has grown, or use a smaller --budget",
)


def _unmoved_tokens(operations: Sequence[Operation], view: TranscriptView) -> int:
    """Add up what stays in the cache: nothing if lines are appended, else all before a change."""
    if any(isinstance(edit, plans.AppendLine) for edit in plans.edits_of(operations)):
        return 0
    first = min(plans.changed_lines(operations), default=0)
    return min((block.tokens_before for block in view.blocks if block.line >= first), default=0)


def read_conversation(source: PlanSource, view: TranscriptView) -> Conversation:
    """Read what a summary is made from; of results it holds KEPT_RESULT_CHARS. Raises OSError."""
    block_tokens = {
        block.part: block.tokens
        for block in view.blocks
        # Thinking takes more of the context than its recorded text says.
        if not block.is_replaced and block.part.kind is not PartKind.THINKING
    }
    known: dict[MessagePart, int] = {}

    whole_from = _first_quotable_line(view)

    def shorten(part: MessagePart, line: int) -> MessagePart:
        short = shorten_output(part) if line < whole_from and _is_tool_output(part) else part
        tokens = block_tokens.get(shorten_part(part))
        if tokens is not None:
            known[short] = tokens
        return short

    def count_tokens(part: MessagePart) -> int:
        """Return the count of the uncut text if it is known, else count this one."""
        if part not in known:
            known[part] = view.count_tokens(part)
        return known[part]

    entries = tuple(
        replace(
            entry, parts=tuple(shorten(part, entry.line) for part in entry.parts), snapshot=None
        )
        for entry in source.read_entries(source.path)
    )
    last = summary_and_cut.newest_entry(entries)
    line = view.decoded_line(last.line) if last else None
    return Conversation(
        entries,
        line if isinstance(line, dict) else {},
        count_tokens,
        str(source.path),
        view.overhead_tokens,
        view.line_tokens,
        source.rule_choices,
    )


def _first_quotable_line(view: TranscriptView) -> int:
    """Return the first line of those that a summary may quote: the newest of an open turn."""
    is_open = waits_for_model(block.entry for block in view.blocks)
    return first_recent_line(view.blocks) if is_open else len(view.lines) + 1


def shorten_output(part: MessagePart) -> MessagePart:
    """Cut a tool's output for holding it, as `shorten_part`; a command's keeps its end too."""
    if part.name not in SHELL_TOOLS or len(part.text) <= KEPT_RESULT_CHARS:
        return shorten_part(part, KEPT_RESULT_CHARS)
    short = shorten_part(part, KEPT_RESULT_CHARS - KEPT_OUTCOME_CHARS)
    return replace(short, text=f"{short.text}\n{part.text[-KEPT_OUTCOME_CHARS:]}")


def _is_tool_output(part: MessagePart) -> bool:
    """Whether it is a tool's output or attached text: by far the most of a conversation."""
    if part.kind is PartKind.TOOL_RESULT:
        # The end of a failed result matters, and what a running task reports of its state.
        return not part.failed and part.name not in {*OUTPUT_TOOLS, QUESTION_TOOL}
    # A rule may be anywhere in a memory file, or in what the person typed during a turn.
    if is_given_task(part):
        return False
    return part.kind in {PartKind.ATTACHMENT, PartKind.META} and part.name not in RULE_ATTACHMENTS


def whole_operation_maker(
    options: PlanOptions,
    access: SessionAccess,
    on_message: Callable[[str], None],
    on_view: Callable[[TranscriptView], None],
) -> MakeOperation:
    """Return the operation's planner. Raises NotPlannedError if a model has to be named."""
    settings = read_summary_settings(access.policy)
    if options.template is not None:
        name = plans.TEMPLATES_BY_SECTIONS.get(options.template, options.template)
        settings = replace(settings, template=find_template(name))
    if options.budget is not None:
        settings = replace(settings, budget=SummaryBudget(options.budget))
    if options.keep is not None:
        settings = replace(settings, keep_messages=options.keep)
    model_options = _model_options(options, settings, access, on_message)

    def make(
        conversation: Conversation, view: TranscriptView
    ) -> Operation | CondensedPlan | Refusal:
        on_view(view)
        if options.whole_strategy == plans.CONDENSE:
            return plan_condensed(conversation, view, options, settings.importance)
        if options.restore_turn is not None:
            return plan_restore(conversation, options.restore_turn)
        if options.whole_strategy == plans.CUT:
            return summary_and_cut.plan_cut(conversation, options.keep_turns or 0)
        if options.whole_strategy == plans.REVERT:
            return _revert_to_prompt(view, options.to or "")
        if options.whole_strategy == plans.ROLLOVER:
            return summary_and_cut.plan_rollover(conversation, view, settings)
        if model_options is None:
            return summary_and_cut.summarize_by_rules(conversation, settings)
        return summary_and_cut.summarize_with_model(conversation, settings, model_options)

    return make


def _revert_to_prompt(view: TranscriptView, to: str) -> Operation | Refusal:
    prompts = summary_and_cut.sent_prompts(view)
    if to == plans.LAST_PROMPT and prompts:
        return summary_and_cut.plan_revert(view, prompts[-1].line)
    if to.isdecimal():
        return summary_and_cut.plan_revert(view, int(to))
    matches = {each.line for each in prompts if to and (each.entry.uuid or "").startswith(to)}
    if len(matches) == 1:
        return summary_and_cut.plan_revert(view, matches.pop())
    newest = ", ".join(_prompt_label(each) for each in prompts[:-6:-1])
    why = f"{len(matches)} prompts begin with {to!r}" if to else "it needs a prompt to go back to"
    return Refusal("no_prompt", why, f"use --to LINE: {newest}" if prompts else "there is none")


def _prompt_label(prompt: VisibleBlock) -> str:
    text = one_line(prompt.part.text)
    return f"{prompt.line} “{text[:30]}{'…' if len(text) > 30 else ''}”"


def _model_options(
    options: PlanOptions,
    settings: SummarySettings,
    access: SessionAccess,
    on_message: Callable[[str], None],
) -> ModelSummaryOptions | None:
    name = ProviderName(options.provider or ProviderName.NONE)
    provider = make_provider(name, os.environ)
    if provider is None:
        return None
    if options.model is not None:
        settings = replace(settings, model=options.model, is_model_of_preset=False)
    return ModelSummaryOptions(
        provider=provider,
        session_id=access.session.session_id,
        model=_model_to_ask(name, settings, access.session.model, on_message),
        cache_folder=summary_cache_folder(access.store) if settings.use_cache else None,
        max_words=settings.max_words,
        retry=ProviderRetry(attempt_timeout_s=settings.timeout_s),
        warn=on_message,
    )


def _model_to_ask(
    name: ProviderName,
    settings: SummarySettings,
    session_model: str | None,
    on_message: Callable[[str], None],
) -> str:
    if name is ProviderName.OPENAI:
        # A server that the person chose may have it; OpenAI's own does not.
        is_own = OpenAiApi(os.environ).base_url != OpenAiApi.default_url
        is_foreign = settings.names_foreign_model and not is_own
        if is_foreign or settings.model in {CHEAP_MODEL_ALIAS, SESSION_MODEL_ALIAS}:
            raise NotPlannedError(f"--provider {name} needs --model NAME: it has no default model")
        return settings.model
    if not settings.names_foreign_model:
        return settings.resolve_model(session_model)
    on_message(
        f"{settings.model}, which the preset names, is not one of Claude's models:"
        f" {CHEAP_MODEL} is asked; --model NAME chooses another"
    )
    return CHEAP_MODEL
