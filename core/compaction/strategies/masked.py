"""Levels 3 and 6: stubs for old results and prose, naming what only they held."""

import re
from collections.abc import Iterator
from math import ceil
from typing import Final

from ...model.conversation import PartKind
from ...summaries.decision_patterns import (
    DECISION_PATTERN,
    REASON_PATTERN,
    RULE_PATTERN,
    find_decisions,
)
from ...summaries.mentions import decoded_text, find_names, split_words
from ...summaries.tool_outcomes import READ_AGAIN
from ...transcript.client_messages import split_result
from ...transcript.line_types import EDIT_TOOLS
from .. import edit_builder
from ..edit_builder import Because, FindOperations, OperationReason, read_text
from ..plan import Operation
from ..protection import AGENT_RESULT, NEWEST_TURNS
from ..transcript_view import TranscriptView, VisibleBlock
from . import stubs
from .stubs import is_worth_stubbing, stub_with_unique_names


def mask_result(
    view: TranscriptView, block: VisibleBlock, reason: OperationReason, restore_hint: str
) -> Operation | None:
    """Replace a result by a stub; None if it is not worth it."""
    text = read_text(view, block)
    if text is None:
        return None
    # The call stands right above it, with its file or command.
    stub = stub_with_unique_names(view, text, "", restore_hint)
    return stubs.stub_result(view, block, reason, text, stub)


def _describe_result(view: TranscriptView, block: VisibleBlock) -> str:
    call = view.call_of(block)
    tool_input = edit_builder.read_tool_input(view, call) if call else {}
    return edit_builder.describe_call(block, tool_input)


def find_edited_reads(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find Reads of files that were edited since and not read again."""
    for old, later in stubs.changeable_file_calls(view, stubs.READ_TOOLS):
        edit = next((call for call in later if call.tool in EDIT_TOOLS), None)
        if edit:
            reason = because(f"edited at line {edit.result.line}")
            hint = f"It was edited since. {READ_AGAIN}"
            yield mask_result(view, old.result, reason, hint)


def result_masker(tools: frozenset[str], why: str) -> FindOperations:
    def find(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
        for block in stubs.changeable_results(view, tools):
            yield mask_result(view, block, because(why), stubs.restore_hint(block.part.name))

    return find


find_old_listings: Final = result_masker(stubs.LISTING_TOOLS, "an old listing")
find_old_web_pages: Final = result_masker(stubs.WEB_TOOLS, "an old page")


HEAD_LINES: Final = 20
TAIL_LINES: Final = 30
ERROR_LINES: Final = 20  # all three: compaction.md 7.5 (gemini-cli, codeArbiter)
SHORT_TAIL_LINES: Final = 5  # of a shorter version: a test's outcome, and what a command made
MAX_TEXT_LINE_CHARS: Final = 400  # an output with a longer line is data, and masked as a whole
_ERROR_WORD: Final = re.compile(
    r"\b(?:error|errors|failed|failure|fatal|panic|exception|traceback|denied|exit code)\b",
    re.IGNORECASE,
)


def find_old_shell_output(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find old shell output. Of data only the names stay; a failed command keeps its errors."""
    reason = because("old output; its end and errors are kept")
    failed = (block for block in view.blocks if stubs.is_failed_command(view, block))
    for block in (*stubs.changeable_results(view, stubs.SHELL_TOOLS), *failed):
        text = read_text(view, block) or ""
        versions = _shorter_outputs(view, text)
        shorter = next((each for each in versions if is_worth_stubbing(text, each)), None)
        operation = None
        if shorter is not None:
            operation = edit_builder.replace_result(view, block, reason, shorter)
        if operation is None and not block.part.failed:
            operation = mask_result(view, block, reason, stubs.restore_hint(block.part.name))
        yield operation


def _shorter_outputs(view: TranscriptView, text: str) -> Iterator[str]:
    """Yield shorter versions of an output, the longest first; none for data."""
    if max(map(len, text.split("\n"))) <= MAX_TEXT_LINE_CHARS:
        yield shorten_output(view, text, HEAD_LINES, TAIL_LINES)
        yield shorten_output(view, text, 0, SHORT_TAIL_LINES)


def shorten_output(view: TranscriptView, text: str, first: int, last: int) -> str:
    """Keep the first and last lines of an output, and the lines between that report errors."""
    lines = text.split("\n")
    head, between, tail = lines[:first], lines[first:-last], lines[max(first, len(lines) - last) :]
    errors = [line for line in between if _ERROR_WORD.search(line)][:ERROR_LINES]
    removed = "\n".join(line for line in between if line not in errors)
    kept = "\n".join([*head, *errors, *tail])
    stub = stub_with_unique_names(view, removed, "", "Run it again for more.", kept)
    return "\n\n".join(filter(None, ["\n".join(head), stub, "\n".join([*errors, *tail])]))


def find_old_images(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find results with images or documents; each is replaced by a line of text."""
    reason = because("an old image")
    for block in view.changeable_blocks():
        if block.part.kind is PartKind.TOOL_RESULT and block.part.media:
            yield edit_builder.replace_images(view, block, reason, _image_stub)


def _image_stub(data: str, kind: str) -> str:
    return f"[ctxtop {stubs.text_mark(data)}: {kind} left out. Read it again to see it.]"


_TOOLS_HANDLED_ELSEWHERE: Final = stubs.LISTING_TOOLS | stubs.SHELL_TOOLS | stubs.WEB_TOOLS


def find_old_results(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find old results of tools that have no strategy of their own."""
    reason = because("an old result")
    for block in stubs.changeable_results(view):
        if block.part.name not in _TOOLS_HANDLED_ELSEWHERE:
            yield mask_result(view, block, reason, stubs.restore_hint(block.part.name))


_SENTENCE: Final = re.compile(r"[^\n]+?(?:[.!?](?=\s)|$)", re.MULTILINE)

MIN_AGENT_RESULT_CHARS: Final = 2_000  # a compressed result is shorter, and stays
MIN_SHARE_TAKEN_UP: Final = 0.1
"""Share of the names in an agent's result that later answers must mention. An answer that builds on
a result names only a few of its files: in the recorded sessions nine tenths of the results, by
size, reach this share, and less than half reach a fifth."""
MAX_AGENT_ERRORS: Final = 5
_AGENT_ID: Final = re.compile(r"^.*\bagent_?id:.*$", re.IGNORECASE | re.MULTILINE)


def find_agent_results(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find agents' results that later answers took up: decisions, errors, names and the id stay."""
    reason = because("later answers took it up: decisions and names are kept")
    for block in _results_taken_up(view):
        text = read_text(view, block) or ""
        # A teammate's message has no <result> element, and stays whole.
        report = text if block.call_id else split_result(text)[0] or ""
        shorter = _shorten_report(view, text, report)
        if is_worth_stubbing(report, shorter):
            replace = edit_builder.replace_result if block.call_id else edit_builder.replace_text
            yield replace(view, block, reason, text.replace(report, shorter, 1))


def _shorten_report(view: TranscriptView, text: str, report: str) -> str:
    key_lines = "\n".join(_key_lines(report))
    kept = f"{text.replace(report, '', 1)}\n{key_lines}"
    stub = stub_with_unique_names(view, report, "the rest of this result", "", kept)
    return f"{key_lines}\n\n{stub}"


def _key_lines(report: str) -> dict[str, None]:
    """Return its first sentence, decisions, the first errors and the agent's id, each once."""
    first = _SENTENCE.search(report)
    errors = [line for line in report.split("\n") if _ERROR_WORD.search(line)][:MAX_AGENT_ERRORS]
    begins = [first[0]] if first else []
    return dict.fromkeys([*begins, *find_decisions(report), *errors, *_AGENT_ID.findall(report)])


def _results_taken_up(view: TranscriptView) -> list[VisibleBlock]:
    """List the old results of agents whose names the model used afterwards."""
    found: list[VisibleBlock] = []
    results = [block.index for block in view.blocks if _is_old_agent_result(view, block)]
    said_later: set[str] = set()
    for block in reversed(view.blocks[results[0] :] if results else ()):
        if block.part.kind in {PartKind.TEXT, PartKind.TOOL_INPUT}:
            said_later |= split_words(decoded_text(view.decoded_line(block.line), block.call_id))
        elif _is_old_agent_result(view, block):
            names = find_names(read_text(view, block) or "")
            if names and len(names & said_later) >= MIN_SHARE_TAKEN_UP * len(names):
                found.append(block)
    return found[::-1]


def _is_old_agent_result(view: TranscriptView, block: VisibleBlock) -> bool:
    is_old = block.protected_reason == AGENT_RESULT and view.is_untouched(block)
    return is_old and block.chars >= MIN_AGENT_RESULT_CHARS and not block.part.failed


OVERSIZED: Final = "oversized-results"
STUB_RESERVE_TOKENS: Final = 50  # of a cap, for the notice (R002-18)
MAX_CAP_ATTEMPTS: Final = 4  # a stub with names takes more than the reserve: each try keeps less


def find_oversized_results(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find results above their cap that no other strategy replaced, in the newest turns too.

    The first lines and the end stay (R002-18). Errors and agents' results stay whole.
    """
    caps = view.result_caps
    for block in view.blocks:
        cap = caps.max_web_tokens if block.part.name in stubs.WEB_TOOLS else caps.max_tokens
        is_large = block.part.kind is PartKind.TOOL_RESULT and block.tokens > cap
        if is_large and not block.part.media and _can_be_capped(view, block):
            yield _cap_result(view, block, because(f"larger than {cap:,} tokens"), cap)


def _can_be_capped(view: TranscriptView, block: VisibleBlock) -> bool:
    is_kept = block.part.failed or block.protected_reason not in {None, NEWEST_TURNS}
    return not is_kept and view.is_untouched(block)


def _cap_result(
    view: TranscriptView, block: VisibleBlock, reason: OperationReason, cap: int
) -> Operation | None:
    text = read_text(view, block) or ""
    chars_per_token = len(text) / block.tokens
    room = int(max(0, cap - STUB_RESERVE_TOKENS) * chars_per_token)
    shorter = _cut_middle(view, block, text, room)
    for _ in range(MAX_CAP_ATTEMPTS):
        excess = 0 if shorter is None else view.count_tokens_with_text(block, shorter) - cap
        if excess <= 0 or room <= 0:
            break
        room = max(0, room - ceil(excess * chars_per_token))
        shorter = _cut_middle(view, block, text, room)
    return None if shorter is None else edit_builder.replace_result(view, block, reason, shorter)


def _cut_middle(view: TranscriptView, block: VisibleBlock, text: str, room: int) -> str | None:
    """Keep the first lines, and of the end what fits into `room` characters.

    None if what goes is not worth a stub.
    """
    count = view.result_caps.header_lines
    head = "\n".join(text.split("\n", count)[:count])[: room // 2]
    end = len(text) - (room - len(head))
    line_end = text.find("\n", end, end + MAX_TEXT_LINE_CHARS)
    tail = text[end if line_end < 0 else line_end + 1 :]
    removed = text[len(head) : len(text) - len(tail)].strip("\n")
    what = f"{stubs.CAPPED}{_describe_result(view, block)}"
    hint = stubs.restore_hint(block.part.name)
    stub = stub_with_unique_names(view, removed, what, hint, f"{head}\n{tail}")
    if not is_worth_stubbing(removed, stub):
        return None
    return "\n".join(each for each in (head, stub, tail) if each)


LONG_RESULTS: Final = "long-results"


def find_long_results(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find what results hold beyond their first characters; a notice says how much that is."""
    first_chars = view.result_caps.first_chars
    reason = because(f"longer than {first_chars:,} characters")
    for block in stubs.changeable_results(view):
        text = read_text(view, block) or ""
        kept, rest = text[:first_chars], text[first_chars:]
        what = f"all after the first {first_chars:,} characters of {_describe_result(view, block)}"
        stub = stub_with_unique_names(view, rest, what, "Call it again for more.", kept)
        if is_worth_stubbing(rest, stub) and not stubs.has_stub(kept):
            yield edit_builder.replace_result(view, block, reason, f"{kept}\n{stub}")


_KEY_PATTERNS: Final = (DECISION_PATTERN, RULE_PATTERN, REASON_PATTERN)


def find_old_prose(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find long answers; sentences that decide, forbid or give a reason stay as they are."""
    reason = because("an old answer: decisions and names are kept")
    for block in stubs.long_blocks(view, PartKind.TEXT):
        text = read_text(view, block) or ""
        kept = extract_key_sentences(text)
        stub = stub_with_unique_names(view, text, "the rest of this answer", "", kept)
        if is_worth_stubbing(text, f"{kept}\n{stub}"):
            yield edit_builder.replace_text(view, block, reason, f"{kept}\n{stub}")


def extract_key_sentences(text: str) -> str:
    """Keep the first sentence and those that decide, forbid or give a reason."""
    sentences = [match[0].strip() for match in _SENTENCE.finditer(text) if match[0].strip()]
    key = [each for each in sentences[1:] if any(cue.search(each) for cue in _KEY_PATTERNS)]
    return "\n".join([*sentences[:1], *key])


KEPT_PASTE_CHARS: Final = 200  # its beginning, which says what it is
_CLOSING_TAG: Final = re.compile(r"\s*</[\w-]+>\s*\Z")  # what follows it is the person's


def find_long_pastes(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find what commands of the client and of its shell printed into the conversation."""
    reason = because("old output")
    for block in stubs.long_blocks(view, PartKind.META):
        text = read_text(view, block) or ""
        closing = _CLOSING_TAG.search(text)
        end = closing.start() if closing else len(text)
        kept, rest = text[:KEPT_PASTE_CHARS], text[KEPT_PASTE_CHARS:end]
        stub = stub_with_unique_names(view, rest, "the rest of this output", "Ask for it.", kept)
        shorter = f"{kept}\n{stub}{text[end:]}"
        if is_worth_stubbing(text, shorter):
            yield edit_builder.replace_text(view, block, reason, shorter)
