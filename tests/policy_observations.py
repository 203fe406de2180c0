"""What plans and breakdowns of a made session do under a policy."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from ctxtop.core.actions.conversation_planning import plan_conversation
from ctxtop.core.actions.session_compaction import options_with_policy
from ctxtop.core.compaction.plan import PlanOptions, Severity
from ctxtop.core.compaction.strategies.summary_and_cut import summarize_by_rules
from ctxtop.core.measure.composition import ContextContent, ContextPart, break_down_context
from ctxtop.core.model.conversation import MessagePart, PartKind
from ctxtop.core.summaries.summary_building import read_summary_settings

from .planned import COUNTERS, plan_of, source_of
from .worked import WORDS, Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctxtop.core.policy.policy import Policy

OUTPUT = "\n".join(f"line {n} of {WORDS}" for n in range(300))


@contextmanager
def written(session: Session) -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        yield session.write(Path(folder) / "session.jsonl")


def plan_with_large_results(policy: Policy) -> object:
    """The operations for a session whose newest turn has a long output and a long page."""
    session = Session()
    session.ask("mend the decoder")
    session.use("Bash", OUTPUT, command="make test")
    session.use("WebFetch", OUTPUT, url="https://example.org/a")
    session.say()
    options = options_with_policy(PlanOptions(level=Severity.MASKED.value), policy)
    with written(session) as path:
        return plan_of(path, options).operations


def oversized_items(policy: Policy) -> object:
    result = MessagePart(PartKind.TOOL_RESULT, OUTPUT, "Bash")
    found = break_down_context(
        ContextContent((ContextPart(result, 1),)),
        COUNTERS.for_model(None),
        warn_result_chars=policy.count("tools.warn_result_chars"),
    )
    return [item.oversized for item in found.largest]


def summary_with_anchors(policy: Policy) -> object:
    """The reasons of a summary of a marked prompt after a result, a decision and keywords."""
    session = Session()
    session.ask("mend the decoder")
    session.use("Bash", "done", command="make test")
    session.ask("the port is 8080 <!-- anchor -->")
    session.say("We decided to keep SQLite.")
    session.ask()
    session.say("The test failed with an error: a bug in the schema.")
    session.rest()
    settings = read_summary_settings(policy)
    with written(session) as path:
        plan = plan_conversation(
            source_of(path), lambda said, _view: summarize_by_rules(said, settings)
        )
    return [each.why for each in plan.operations]
