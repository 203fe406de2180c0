"""Reads the rules that a person set from their messages and from memory files."""

from collections.abc import Collection, Iterator

from ....core.model.conversation import Author
from ....core.model.transcript_records import SummaryRecord
from ....core.summaries import session_rules
from ....core.transcript import line_decoder
from ....core.transcript.authorship import queued_author
from ....core.transcript.client_messages import attachment_parts, typed_text
from ....core.transcript.line_decoder import TranscriptLine
from .agent_results import make_summary


def read_persons_rules(
    offset: int, line: TranscriptLine, author: Author, texts: Collection[str]
) -> Iterator[SummaryRecord]:
    """Yield the rules in the texts of one line; none if a person did not write them."""
    for rule in session_rules.find_persons_rules(author, texts):
        rule_id = session_rules.make_rule_id(line.name_at(offset), rule)
        yield make_summary(offset, rule_id, "rule", line, rule)


def read_attached_rules(
    offset: int, line: TranscriptLine, transcript_path: str
) -> Iterator[SummaryRecord]:
    """Yield the rules of attached memory files, or of a prompt that was sent during a turn."""
    attachment = line_decoder.decode_value(line.attachment)
    rendered = line_decoder.decode_value(line.rendered)
    if not isinstance(attachment, dict) or not isinstance(rendered, list | None):
        return
    kind = str(attachment.get("type") or "")
    for part in attachment_parts(kind, attachment, rendered):
        if session_rules.states_memory_rules(part, transcript_path):
            for rule in session_rules.find_file_rules(part.text):
                rule_id = session_rules.make_rule_id(part.path or "", rule)
                yield make_summary(offset, rule_id, "rule", line, rule, source=part.path)
        elif text := typed_text(part):
            yield from read_persons_rules(offset, line, queued_author(attachment), [text])
