"""Reads where each stored rule comes from, and what compactions did to it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from sqlite3 import Connection
from typing import Final

import msgspec

from ..model.rule import ListedRule, RuleState
from ..store.queries.agent_queries import answer_items
from ..store.queries.query_rows import LISTED
from ..summaries.compaction_report import CompactionReport, decode_report
from ..summaries.decision_patterns import quote_line
from ..summaries.mentions import MentionIndex
from ..summaries.session_rules import RuleChoices
from ..summaries.steering import RULE_KINDS
from ..summaries.summary_facts import quote_rule


class _Compaction(msgspec.Struct):
    offset: int
    at: int
    report: CompactionReport | None
    summary: MentionIndex


_RULES: Final = f"""
SELECT s.summary_id, s.uuid, s.text, f.session_id, s.offset, s.source, s.file_id
FROM summary s JOIN file f USING (file_id) WHERE s.kind = 'rule' AND s.summary_id IN {LISTED}
"""

_COMPACTIONS: Final = f"""
SELECT b.file_id, b.offset, COALESCE(b.at, 0), t.told,
    (SELECT s.text FROM summary s WHERE s.file_id = b.file_id AND s.kind = 'boundary'
        AND s.offset > b.offset ORDER BY s.offset LIMIT 1)
FROM boundary b LEFT JOIN compaction_told t ON t.file_id = b.file_id AND t.offset = b.offset
WHERE b.file_id IN {LISTED} ORDER BY b.offset
"""


def read_listed_rules(
    db: Connection, summary_ids: Sequence[int], choices: RuleChoices
) -> dict[int, ListedRule]:
    """Read the rules among these summaries, by their ids."""
    rows = [tuple(row) for row in db.execute(_RULES, [json.dumps(summary_ids)])]
    compactions = _read_compactions(db, {row[-1] for row in rows})
    given = {session_id: _read_given(db, session_id) for session_id in {row[3] for row in rows}}
    rules = {}
    for summary_id, rule_id, text, session_id, offset, path, file_id in rows:
        since = [each for each in compactions.get(file_id, ()) if each.offset > offset]
        state, at = _find_state(text, path, since, given[session_id])
        mark = choices.mark_of(rule_id)
        rules[summary_id] = ListedRule(rule_id, offset, path, mark, state, at or None)
    return rules


def _read_compactions(db: Connection, file_ids: Iterable[int]) -> dict[int, list[_Compaction]]:
    found: dict[int, list[_Compaction]] = {}
    for file_id, offset, at, told, summary in db.execute(_COMPACTIONS, [json.dumps([*file_ids])]):
        compaction = _Compaction(offset, at, decode_report(told), MentionIndex([summary or ""]))
        found.setdefault(file_id, []).append(compaction)
    return found


def _read_given(db: Connection, session_id: str) -> dict[str, int]:
    """Return when each rule was given back last, as it was quoted."""
    items = answer_items(db, "remember", session_id)
    return {item.text: item.at for item in items if item.kind in RULE_KINDS}


def _find_state(
    text: str, path: str | None, since: Iterable[_Compaction], given: Mapping[str, int]
) -> tuple[RuleState, int]:
    """Return what happened last to a rule, and when; `since` are the compactions after it."""
    lost = next((each for each in since if _is_lost(text, path, each)), None)
    if lost is None:
        return RuleState.IN_CONTEXT, 0
    given_at = given.get(quote_rule(text, path), -1)
    if given_at >= lost.at:
        return RuleState.GIVEN_BACK, given_at
    return RuleState.LOST, lost.at


def _is_lost(text: str, path: str | None, compaction: _Compaction) -> bool:
    """Whether a compaction lost a rule; reports cover prompts, whose messages may be kept."""
    if path is not None:
        return not compaction.summary.has_sentence(text)
    report = compaction.report
    lost = report.forgotten.constraints if report else ()
    return any(each.text == quote_line(text) for each in lost)
