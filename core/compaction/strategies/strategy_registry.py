"""All strategies, least severe first; within a level in the order in which they are asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from . import files, inputs, lossless, masked, prose, reasoning, superseded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..plan import Operation, Severity
    from ..transcript_view import TranscriptView

    FindOperations = Callable[[TranscriptView], Iterator[Operation]]


class CompactionStrategy(msgspec.Struct, frozen=True):
    """A way to make a transcript smaller."""

    name: str
    level: Severity
    find_operations: FindOperations
    is_opt_in: bool = False
    """Only where it is named."""


STRATEGIES: Final = (
    CompactionStrategy(files.PROGRESS_PAYLOADS, files.LEVEL, files.find_progress_payloads),
    # Opt-in: what it removes is a way back.
    CompactionStrategy(files.FILE_HISTORY, files.LEVEL, files.find_file_history, is_opt_in=True),
    CompactionStrategy(files.ATTRIBUTION, files.LEVEL, files.find_attribution),
    CompactionStrategy(files.TOOL_DETAILS, files.LEVEL, files.find_tool_details),
    # Opt-in: the summary points the model to these lines.
    CompactionStrategy(
        files.BEFORE_BOUNDARY, files.LEVEL, files.find_before_boundary, is_opt_in=True
    ),
    CompactionStrategy(files.SECOND_IMAGES, files.LEVEL, files.find_second_images),
    CompactionStrategy(lossless.DUPLICATE_RESULTS, lossless.LEVEL, lossless.find_duplicate_results),
    CompactionStrategy(lossless.UNCHANGED_READS, lossless.LEVEL, lossless.find_unchanged_reads),
    CompactionStrategy(
        lossless.REPEATED_ATTACHMENTS, lossless.LEVEL, lossless.find_repeated_attachments
    ),
    CompactionStrategy(lossless.PLAIN_OUTPUT, lossless.LEVEL, lossless.find_plain_output),
    CompactionStrategy(superseded.COVERED_READS, superseded.LEVEL, superseded.find_covered_reads),
    CompactionStrategy(
        superseded.OVERWRITTEN_READS, superseded.LEVEL, superseded.find_overwritten_reads
    ),
    CompactionStrategy(superseded.REREAD_EDITS, superseded.LEVEL, superseded.find_reread_edits),
    CompactionStrategy(superseded.OLD_TODOS, superseded.LEVEL, superseded.find_old_todos),
    CompactionStrategy(superseded.FAILED_INPUTS, superseded.LEVEL, superseded.find_failed_inputs),
    CompactionStrategy(superseded.REPEATED_CALLS, superseded.LEVEL, superseded.find_repeated_calls),
    CompactionStrategy(masked.EDITED_READS, masked.LEVEL, masked.find_edited_reads),
    CompactionStrategy(masked.OLD_LISTINGS, masked.LEVEL, masked.find_old_listings),
    CompactionStrategy(masked.OLD_SHELL_OUTPUT, masked.LEVEL, masked.find_old_shell_output),
    CompactionStrategy(masked.OLD_WEB_PAGES, masked.LEVEL, masked.find_old_web_pages),
    CompactionStrategy(masked.OLD_IMAGES, masked.LEVEL, masked.find_old_images),
    CompactionStrategy(masked.OLD_RESULTS, masked.LEVEL, masked.find_old_results),
    CompactionStrategy(inputs.WRITE_CONTENTS, inputs.LEVEL, inputs.find_write_contents),
    CompactionStrategy(inputs.EDIT_INPUTS, inputs.LEVEL, inputs.find_edit_inputs),
    CompactionStrategy(inputs.HEREDOCS, inputs.LEVEL, inputs.find_heredocs),
    CompactionStrategy(inputs.AGENT_PROMPTS, inputs.LEVEL, inputs.find_agent_prompts),
    CompactionStrategy(
        reasoning.THINKING_AFTER, reasoning.LEVEL, reasoning.find_thinking_after_change
    ),
    CompactionStrategy(reasoning.ALL_THINKING, reasoning.LEVEL, reasoning.find_all_thinking),
    CompactionStrategy(prose.OLD_PROSE, prose.LEVEL, prose.find_old_prose),
    CompactionStrategy(prose.LONG_PASTES, prose.LEVEL, prose.find_long_pastes),
)


def find_strategy(name: str) -> CompactionStrategy | None:
    return next((each for each in STRATEGIES if each.name == name), None)
