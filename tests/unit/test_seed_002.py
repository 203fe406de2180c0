"""Recovery's requirements 002-37 to 002-103, one by one: the test's id is the requirement's.

What a requirement says beside it is in `requirements.md`; here is what holds of it in ctxtop.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest
from ctxtop.collectors import resuming
from ctxtop.collectors.recovering import Recovery, Wanted, recover
from ctxtop.collectors.transcripts.conversation import read_conversation
from ctxtop.core.compaction.limit_errors import LimitErrorType as Type
from ctxtop.core.compaction.limit_errors import parse_anthropic_token_limit_error as parse
from ctxtop.core.compaction.plan import Harm, Operation
from ctxtop.core.compaction.project import project
from ctxtop.core.compaction.recovery.detection import find_refusal
from ctxtop.core.compaction.recovery.fix_empty import PLACEHOLDER, fix_empty
from ctxtop.core.compaction.recovery.order import steps_for
from ctxtop.core.compaction.recovery.planning import Choice, choose
from ctxtop.core.compaction.recovery.revert import revert
from ctxtop.core.compaction.recovery.run import (
    OVER,
    Counters,
    Found,
    Run,
    State,
    cancel,
    delay_ms,
    detect,
    next_step,
    obstacle,
    succeed,
    wait_for_lock,
)
from ctxtop.core.compaction.recovery.settings import RecoverySettings, RetrySettings, Step
from ctxtop.core.compaction.recovery.steps import Tools
from ctxtop.core.compaction.recovery.truncate import (
    TRUNCATION_MESSAGE,
    chars_to_free,
    truncate_aggressively,
    truncate_largest,
)
from ctxtop.core.compaction.subject import Subject
from ctxtop.core.store.recovery_rows import change_run, clean_runs, read_run
from ctxtop.core.store.writer import Writer
from ctxtop.tui.cli.recover_lines import lines_of

from .. import transcripts as made
from ..recovering import SETTINGS, Chars4, base, carried_out, chain, ground, turn
from .test_recovery_attempt import file_row
from .test_recovery_run import NOW, locked, pending

if TYPE_CHECKING:
    from collections.abc import Callable

TOO_LONG: Final = "prompt is too long: 210000 tokens > 200000 maximum"
FEWER: Final = "prompt is too long: 30000 tokens > 20000 maximum"
FOUND: Final = Found(made.SESSION, "k", Type.TOKEN_LIMIT, 210_000, 200_000)
AGGRESSIVE: Final = RecoverySettings(
    order=(Step.AGGRESSIVE, Step.TRUNCATE, Step.FIX_EMPTY, Step.REVERT, Step.SUMMARIZE),
    aggressive=True,
)

SUMMARY: Final = Operation("summarise", Harm.SUMMARY, None, "summary", "all", "", 15_000, 0, ())

CANNOT: Final = {
    69: "OpenCode's files of messages and parts: Claude Code has one transcript a session",
    70: "the same files' schema; what is truncated is known by the receipt's operations",
    87: "no API is asked: the summary is made by rules, from the transcript alone",
    90: "the client's own: seen by the collector as a boundary, tested in the client's lab",
}
"""What cannot apply to Claude Code, and why."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f"{made.SESSION}.jsonl"


def sizes(*chars: int) -> list[made.JsonLine]:
    turns = [line for n, size in enumerate(chars) for line in turn(f"t{n}", f"{n}" * size)]
    return chain(made.user("look at all of it"), *turns)


def refused(words: str = TOO_LONG, **fields: Any) -> made.JsonLine:  # noqa: ANN401
    return made.refusal("Prompt is too long", error="invalid_request", errorDetails=words, **fields)


def found_in(path: Path, *lines: made.JsonLine) -> Found | None:
    rows = [json.loads(line) for line in made.write(path, chain(*lines)).read_bytes().splitlines()]
    return find_refusal(made.SESSION, read_conversation(path), lambda line: rows[line - 1])


def talk(*prompts: int) -> list[made.JsonLine]:
    lines = []
    for number, size in enumerate(prompts):
        lines += [made.user(f"{number}" * size), made.assistant(f"m{number}")]
    lines[-1] = made.refusal("Prompt is too long")
    return chain(*lines)


def chosen(
    path: Path,
    lines: list[made.JsonLine],
    settings: RecoverySettings,
    **more: Any,  # noqa: ANN401
) -> Choice:
    seen = ground(path, lines, current=30_000, most=20_000, settings=settings)
    steps = steps_for(seen.found.error_type, settings)
    return choose(steps, seen, base(path), Tools(**more), frozenset({Step.REVERT}))


def mend(
    path: Path, lines: list[made.JsonLine], order: tuple[Step, ...] = SETTINGS.order
) -> Recovery:
    made.write(path, lines)
    state = path.parent / "state"
    with closing(Writer(path.parent / "ctxtop.db")) as writer:
        wanted = Wanted(
            subject=Subject(made.SESSION, path, None, state, read_conversation, lambda _: None),
            settings=RecoverySettings(order=order),
            counter_of=lambda _model: Chars4(),
            window_tokens=None,
            reserve_tokens=0,
            confirmed=frozenset({Step.REVERT}),
        )
        return recover(wanted, writer.connection)


def left(steps: Any) -> list[Step]:  # noqa: ANN401
    run, found = steps, []
    while (run := next_step(run, NOW, SETTINGS)).step:
        found.append(run.step)
    return found


def after_reverts(reverted: int) -> Run:
    return msgspec.structs.replace(locked(), counters=Counters(attempts=1, reverted=reverted))


# 1.2.5 Error detection and parsing.


def r37(path: Path) -> None:
    """Seen without a person; mended without one only where that was opted in."""
    assert found_in(path, made.user(), refused())
    assert not SETTINGS.auto


def r38(path: Path) -> None:
    """The source is the answer that the client makes up, and its API error."""
    assert found_in(path, made.user(), refused())
    assert found_in(path, made.user(), made.refusal(TOO_LONG))
    assert found_in(path, made.user(TOO_LONG), made.assistant()) is None


def r39(_: Path) -> None:
    inner = {"error": {"error": {"message": TOO_LONG}}}
    for error in (
        TOO_LONG,
        inner,
        json.dumps(inner),
        {"data": {"responseBody": json.dumps(inner)}},
    ):
        parsed = parse(error)
        assert parsed
        assert parsed.max_tokens == 200_000


def r40(_: Path) -> None:
    for words in ("prompt is too long", "context_length_exceeded", "non-empty content"):
        assert parse(words)
    assert parse("overloaded") is None


def r41(_: Path) -> None:
    for words in ("210000 tokens > 200000 maximum", "210,000 tokens > 200,000 maximum"):
        parsed = parse(f"prompt is too long: {words}")
        assert parsed
        assert (parsed.current_tokens, parsed.max_tokens) == (210_000, 200_000)


def r42(_: Path) -> None:
    for words in ("messages.12: non-empty content", "messages[12]: non-empty content"):
        parsed = parse(words)
        assert parsed
        assert parsed.message_index == 12


def r43(_: Path) -> None:
    fields = {"current_tokens", "max_tokens", "error_type", "message_index"}
    more = {"request_id", "provider_id", "model_id"}
    parsed = parse(TOO_LONG)
    assert parsed
    assert fields | more <= set(parsed.__struct_fields__)


def r44(_: Path) -> None:
    steps = steps_for(Type.TOKEN_LIMIT, RecoverySettings(order=AGGRESSIVE.order))
    assert steps == (Step.TRUNCATE, Step.FIX_EMPTY, Step.REVERT, Step.SUMMARIZE)


def r45(_: Path) -> None:
    assert steps_for(Type.NON_EMPTY_CONTENT, AGGRESSIVE)[0] is Step.FIX_EMPTY
    assert Step.TRUNCATE not in steps_for(Type.NON_EMPTY_CONTENT, AGGRESSIVE)


def r46(path: Path) -> None:
    """Needs no sizes: half of what is there is the target."""
    last = RecoverySettings(order=(Step.TRUNCATE, Step.AGGRESSIVE), aggressive=True)
    assert steps_for(Type.BEDROCK, last)[0] is Step.AGGRESSIVE
    seen = ground(path, sizes(40_000, 40_000), error_type=Type.BEDROCK, settings=last)
    assert chars_to_free(seen) == (seen.tokens - seen.tokens // 2) * 4


def r47(_: Path) -> None:
    assert steps_for(Type.CONTEXT_LENGTH, SETTINGS) == steps_for(Type.TOKEN_LIMIT, SETTINGS)


def r48(_: Path) -> None:
    run = wait_for_lock(detect(None, FOUND, SETTINGS.order, NOW, SETTINGS), NOW)
    assert (run.state, run.found) == (State.PENDING, FOUND)


# 1.2.6 The pipeline.


def r49(path: Path) -> None:
    """Only what is idle is locked and mended: nothing follows the refusal."""
    assert locked().state is State.LOCKED
    assert found_in(path, made.user(), refused(), made.user("again"), made.assistant()) is None


def r50(_: Path) -> None:
    off = msgspec.structs.replace(AGGRESSIVE, aggressive=False)
    assert Step.AGGRESSIVE in steps_for(Type.TOKEN_LIMIT, AGGRESSIVE)
    assert Step.AGGRESSIVE not in steps_for(Type.TOKEN_LIMIT, off)


def r51(path: Path) -> None:
    seen = ground(path, sizes(40_000), current=30_000, most=20_000)
    assert chars_to_free(seen) == (30_000 - 10_000) * 4


def r52(path: Path) -> None:
    seen = ground(path, sizes(600, 40_000, 20_000), current=30_000, most=20_000)
    assert [each.line for each in truncate_aggressively(seen).operations] == [5, 7, 3]


def r53(path: Path) -> None:
    enough = chosen(path, sizes(90_000, 600), AGGRESSIVE)
    assert (enough.chosen and enough.chosen.step) is Step.AGGRESSIVE
    assert len(enough.chosen.operations if enough.chosen else ()) == 1
    little = chosen(path, sizes(8000), AGGRESSIVE)
    assert [each.step for each in little.tried][:2] == [Step.AGGRESSIVE, Step.TRUNCATE]


def r54(path: Path) -> None:
    """One result after the other, the largest first; one that is truncated is left."""
    seen = ground(path, sizes(20_000, 60_000), current=30_000, most=20_000)
    assert [each.line for each in truncate_largest(seen).operations] == [5]
    nothing = ground(path, sizes(100), current=30_000, most=20_000)
    assert truncate_largest(nothing).missing


def r55(path: Path) -> None:
    lines = chain(made.user(""), made.assistant("m1", content=[]), made.user("on"))
    done = carried_out(path, fix_empty(ground(path, lines)).operations)
    assert done[0]["message"]["content"] == PLACEHOLDER
    assert done[1]["message"]["content"] == [made.text(PLACEHOLDER)]


def r56(path: Path) -> None:
    seen = ground(path, talk(400, 400, 40_000), current=12_000, most=8000)
    assert len(carried_out(path, revert(seen).operations)) == 4


def r57(path: Path) -> None:
    """No provider is asked: what a summary is made of is counted for the newest model."""
    assert ground(path, sizes(600)).view.model == made.MODEL
    found = chosen(path, sizes(8000), SETTINGS, summarise=lambda _: SUMMARY)
    assert (found.chosen and found.chosen.step) is Step.SUMMARIZE


def r58(path: Path) -> None:
    lines = chain(*sizes(80_000), refused(FEWER))
    assert any(line.startswith("done in a fork") for line in lines_of(mend(path, lines), None))
    other = path.with_name("other") / path.name
    other.parent.mkdir()
    lines = chain(*sizes(100), refused(FEWER))
    assert "no step suffices" in lines_of(mend(other, lines, order=(Step.TRUNCATE,)), None)


def r59(_: Path) -> None:
    """Nothing is pending, and nothing locked, once it has ended in any way."""
    running = next_step(locked(), NOW, SETTINGS)
    exhausted = msgspec.structs.replace(locked(), steps=())
    late = next_step(running, NOW + 120_000, SETTINGS)
    for run in (
        succeed(running, NOW),
        cancel(running, NOW),
        late,
        next_step(exhausted, NOW, SETTINGS),
    ):
        assert run.state in OVER
        assert run.holder is None


def r60(_: Path) -> None:
    assert left(locked()) == list(SETTINGS.order)
    assert locked().counters.attempts == 1


# 1.2.7 Aggressive truncation.


def r61(_: Path) -> None:
    assert AGGRESSIVE.aggressive
    assert not SETTINGS.aggressive


def r62(path: Path) -> None:
    seen = ground(path, sizes(4000), current=25_000, most=20_000)
    assert chars_to_free(seen) == (25_000 - 10_000) * 4


def r63(path: Path) -> None:
    """Gross: what stands in its place is not subtracted."""
    seen = ground(path, sizes(20_000, 20_000, 20_000), current=20_000, most=20_000)
    assert chars_to_free(seen) == 40_000
    assert len(truncate_aggressively(seen).operations) == 2


def r64(path: Path) -> None:
    assert SETTINGS.max_truncate == 20
    for truncate in (truncate_aggressively, truncate_largest):
        seen = ground(path, sizes(*[600] * 25), current=30_000, most=20_000)
        assert len(truncate(seen).operations) == 20


def r65(_: Path) -> None:
    assert SETTINGS.target_ratio == 0.5


def r66(_: Path) -> None:
    assert SETTINGS.chars_per_token == 4


def r67(path: Path) -> None:
    seen = ground(path, sizes(499, 500), current=30_000, most=20_000)
    assert SETTINGS.min_output == 500
    assert [each.line for each in truncate_aggressively(seen).operations] == [5]


# 1.2.8 Single truncation.


def r68(path: Path) -> None:
    assert [each.step for each in chosen(path, sizes(90_000), SETTINGS).tried][-1] is Step.TRUNCATE
    some = msgspec.structs.replace(AGGRESSIVE, max_truncate=1)
    assert [each.step for each in chosen(path, sizes(8000, 8000), some).tried][1] is Step.TRUNCATE


def r71(path: Path) -> None:
    """The receipt records it: how long it was, what went, and a copy of it all."""
    mended = mend(path, chain(*sizes(80_000), refused(FEWER)))
    receipt = mended.receipt
    assert receipt
    assert receipt.backup
    assert "80,000 characters" in receipt.plan.operations[0].why
    assert receipt.plan.operations[0].bytes_saved > 79_000


def r72(path: Path) -> None:
    lines = sizes(80_000)
    done = carried_out(
        path, truncate_largest(ground(path, lines, current=30_000, most=20_000)).operations
    )
    assert done[2]["message"]["content"][0]["content"] == TRUNCATION_MESSAGE
    assert done[:2] == lines[:2]


def r73(_: Path) -> None:
    assert TRUNCATION_MESSAGE == (
        "[TOOL RESULT TRUNCATED - Context limit exceeded. Original output was too large and has"
        " been truncated to recover the session. Please re-run this tool if you need the full"
        " output.]"
    )
    assert len(TRUNCATION_MESSAGE) == 179


def r74(path: Path) -> None:
    """What is sent after a resume of the fork is the message."""
    mended = mend(path, chain(*sizes(80_000), refused(FEWER)))
    assert mended.receipt
    sent = project(read_conversation(Path(mended.receipt.target)))
    assert TRUNCATION_MESSAGE in [piece.text for entry in sent for piece in entry.pieces]


# 1.2.9 Empty messages.


def empty_answer() -> list[made.JsonLine]:
    lines = [made.user("go"), made.assistant("m1", content=[made.text(" ")]), made.user("on")]
    return chain(
        *lines, made.refusal("API Error: 400 messages.1: all messages must have non-empty content")
    )


def r75(path: Path) -> None:
    found = found_in(path, *empty_answer())
    assert found
    assert found.error_type is Type.NON_EMPTY_CONTENT


def r76(path: Path) -> None:
    """By its index; all where that leads to none."""
    lines = [*empty_answer()[:2], made.user("on"), made.assistant("m2", content=[made.text("")])]
    at_one = fix_empty(ground(path, chain(*lines), index=1)).operations
    everywhere = fix_empty(ground(path, chain(*lines), index=40)).operations
    assert ([each.line for each in at_one], len(everywhere)) == ([2], 2)


def r77(path: Path) -> None:
    """An empty part is filled; where there is none, one is put in."""
    for content in ([made.text(""), made.tool("Bash", "t")], []):
        lines = chain(made.user("go"), made.assistant("m1", content=content))
        done = carried_out(path, fix_empty(ground(path, lines)).operations)
        assert done[1]["message"]["content"][0] == made.text(PLACEHOLDER)


def r78(_: Path) -> None:
    assert PLACEHOLDER == "[user interrupted]"


def r79(path: Path) -> None:
    mended = mend(path, empty_answer())
    assert any("fills 1 empty message:" in line for line in lines_of(mended, None))


# 1.2.10 Going back.


def r80(path: Path) -> None:
    lines = talk(400, 400, 40_000)
    settings = RecoverySettings(order=(Step.TRUNCATE, Step.REVERT))
    found = chosen(path, lines, settings)
    assert [each.step for each in found.tried] == [Step.TRUNCATE, Step.REVERT]
    done = carried_out(path, found.tried[-1].operations)
    assert done[-1]["type"] == "assistant"
    assert not done[-1].get("isApiErrorMessage")


def r81(path: Path) -> None:
    """All before the person's words stays, and the words are given back to be asked again."""
    proposal = revert(ground(path, talk(400, 400, 40_000), current=12_000, most=8000))
    assert proposal.prompt == "2" * 40_000


def r82(path: Path) -> None:
    assert SETTINGS.max_revert == 3
    used = ground(path, talk(400, 40_000), current=12_000, most=8000, counters=Counters(reverted=3))
    assert revert(used).missing


def r83(path: Path) -> None:
    assert SETTINGS.min_messages == 2
    assert revert(ground(path, talk(40_000), current=12_000, most=8000)).missing


def r84(_: Path) -> None:
    run = msgspec.structs.replace(locked(), steps=(Step.REVERT,))
    ended = succeed(next_step(run, NOW, SETTINGS), NOW, reverted="u")
    assert (ended.counters.reverted, ended.counters.last_reverted) == (1, "u")


def r85(_: Path) -> None:
    assert Step.REVERT in left(after_reverts(2))
    assert Step.REVERT not in left(after_reverts(3))


# 1.2.11 Summarising.


def long_talk() -> list[made.JsonLine]:
    lines = [line for n in range(12) for line in turn(f"t{n}", f"{n} is the word " * 600)]
    return chain(made.user("look"), *lines, made.assistant("end"), made.user("on"), refused(FEWER))


def r86(path: Path) -> None:
    """Of the whole history: a boundary and a summary are appended."""
    mended = mend(path, long_talk(), (Step.SUMMARIZE,))
    assert mended.choice.plan
    assert mended.choice.plan.only_appends
    assert mended.receipt
    assert any(each.boundary for each in read_conversation(Path(mended.receipt.target)))


def r88(path: Path) -> None:
    """Nobody is asked: the session goes on with the model that it had."""
    mended = mend(path, long_talk(), (Step.SUMMARIZE,))
    assert mended.receipt
    assert "--model" not in mended.receipt.resume_command


def r89(path: Path) -> None:
    """Only where a policy says so (T-11)."""
    made.write(path, chain(made.user("the last words"), refused()))
    assert resuming.prompt_to_send("none", path, None) is None
    assert resuming.prompt_to_send("continue", path, None) == "Continue"
    assert resuming.prompt_to_send("last_prompt", path, None) == "the last words"
    assert resuming.prompt_to_send("last_prompt", path, "taken out") == "taken out"


def r91(_: Path) -> None:
    """In the seed's own order it is the last."""
    assert steps_for(Type.TOKEN_LIMIT, AGGRESSIVE)[-1] is Step.SUMMARIZE


# 1.2.12 Retry and back-off.


def r92(_: Path) -> None:
    assert (locked().counters.attempts, locked().began_at) == (1, NOW)


def r93(_: Path) -> None:
    assert RetrySettings().max_attempts == 2
    tried = msgspec.structs.replace(pending(), counters=Counters(attempts=2), began_at=NOW)
    refusal = obstacle(tried, NOW + 299_999, SETTINGS)
    assert refusal
    assert refusal.check == "attempts"


def r94(_: Path) -> None:
    assert RetrySettings().initial_ms == 2000


def r95(_: Path) -> None:
    assert RetrySettings().factor == 2


def r96(_: Path) -> None:
    assert RetrySettings().max_ms == 30_000
    assert delay_ms(4, RetrySettings()) == 30_000


def r97(_: Path) -> None:
    assert [delay_ms(each, RetrySettings()) for each in range(3)] == [2000, 4000, 8000]


def r98(path: Path) -> None:
    """Wait, ask, look whether it was answered, and once more; then it is given up."""
    mended = mend(path, chain(*sizes(80_000), refused(FEWER)))
    assert mended.receipt
    waits: list[float] = []
    asked: list[str] = []

    def run(prompt: str, *_: object) -> str:
        asked.append(prompt)
        return "no"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resuming, "run_client", run)
        here = str(path.parent)
        went = resuming.go_on("on", mended.receipt, here, None, RetrySettings(), waits.append)
    assert (waits, asked) == ([2.0, 4.0], ["on", "on"])
    assert (went.answered, went.attempts) == (False, 2)


# 1.2.13 State.


def r99(_: Path) -> None:
    """The seed's seven containers are one row a session."""
    run = {"state", "found", "holder", "counters", "began_at"}
    counters = {"attempts", "truncated", "emptied", "reverted"}
    assert run <= set(Run.__struct_fields__)
    assert counters <= set(Counters.__struct_fields__)


def r100(_: Path) -> None:
    refusal = obstacle(locked(), NOW + 90_000, SETTINGS)
    assert refusal
    assert refusal.check == "in_progress"


def r101(_: Path) -> None:
    ended = succeed(next_step(locked(), NOW, SETTINGS), NOW + 5, truncated=3)
    assert (ended.counters.truncated, ended.changed_at) == (3, NOW + 5)


def r102(_: Path) -> None:
    """What was used up is forgotten when the session has gone on; the rest by success."""
    other = msgspec.structs.replace(locked().found, key="another")
    full = Counters(attempts=2, truncated=20, emptied=2, reverted=3, last_reverted="u")
    ended = msgspec.structs.replace(succeed(next_step(locked(), NOW, SETTINGS), NOW), counters=full)
    assert detect(ended, other, (), NOW + 300_000, SETTINGS).counters == Counters()


def r103(path: Path) -> None:
    with closing(Writer(path.parent / "ctxtop.db")) as writer:
        db = writer.connection
        file_row(db, locked().found.session_id, gone=True)
        change_run(db, locked().found.session_id, lambda _: pending())
        clean_runs(db, NOW)
        assert read_run(db, locked().found.session_id) is None


CHECKS: Final[dict[int, Callable[[Path], None]]] = {
    int(name[1:]): check
    for name, check in list(globals().items())
    if name[:1] == "r" and name[1:].isdigit()
}


@pytest.mark.parametrize("number", [pytest.param(n, id=f"002-{n}") for n in sorted(CHECKS)])
def test_requirement(path: Path, number: int) -> None:
    CHECKS[number](path)


def test_none_is_left_out() -> None:
    assert sorted([*CHECKS, *CANNOT]) == list(range(37, 104))
