"""Why the prompt cache was lost, from what the client wrote between two requests."""

# ruff: noqa: ANN401 -- any field may be named

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pytest
from ctxtop.collectors.claude_code.cache_ledger_reader import read_cache_ledger
from ctxtop.core.compaction.plan import make_plan
from ctxtop.core.compaction.receipts import (
    ApplyMode,
    CompactionReceipt,
    MtimeHandling,
    ReceiptStore,
    WrittenVersion,
)
from ctxtop.core.measure.prompt_cache.cache_ledger import (
    CacheCause,
    CacheLedger,
    CacheMiss,
    CauseSource,
    Change,
    ChangeKind,
    add_up,
)
from ctxtop.core.model.transcript_records import LogKind
from ctxtop.core.store.database import open_reader, state_folder

from ..logs import log_file
from ..transcripts import (
    PROJECT,
    SESSION,
    START_MS,
    JsonLine,
    append,
    assistant,
    attachment,
    boundary,
    microcompacted,
    text,
    tool_result,
    user,
    write,
)
from .test_requests import blob, hashed, request, said

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder

OTHER: Final = "99999999-2222-4333-8444-555555555555"
MODEL: Final = "claude-opus-5"


@pytest.fixture
def path(claude: ClaudeFolder) -> Path:
    return claude.projects / PROJECT / f"{SESSION}.jsonl"


def answer(
    name: str, read: int, written: int, at: int = 1, reason: Any = None, **fields: Any
) -> JsonLine:
    counts = {
        "input_tokens": 2,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "cache_creation": {
            "ephemeral_5m_input_tokens": written,
            "ephemeral_1h_input_tokens": 0,
        },
        "output_tokens": 5,
    }
    line = assistant(name, counts=counts, at=at, model=MODEL, **fields)
    line["message"]["diagnostics"] = None if reason is None else {"cache_miss_reason": reason}
    return line


def before(**fields: Any) -> list[JsonLine]:
    """A session whose cache holds 100,000 tokens, of which all sessions share 20,000."""
    first = answer("m1", 20_000, 10_000, at=1)
    return [user(uuid="u1"), first, user(at=2), answer("m2", 30_000, 70_000, at=3, **fields)]


def lost(name: str = "m3", at: int = 10, **fields: Any) -> JsonLine:
    return answer(name, 20_000, 85_000, at=at, **fields)


def read(claude: ClaudeFolder, store: Path, session: str | None = SESSION) -> CacheLedger:
    wanted = None if session is None else [session]
    with closing(open_reader(store)) as db:
        return read_cache_ledger(db, claude.projects, store, {}, session_ids=wanted)


def only_miss(claude: ClaudeFolder, store: Path) -> CacheMiss:
    (miss,) = read(claude, store).misses
    return miss


@pytest.fixture
def miss_after(
    claude: ClaudeFolder, path: Path, collector: Collector, store: Path
) -> Any:  # a function of lines
    """The miss of a session with these lines between its last two answers."""

    def judge(
        between: Sequence[JsonLine], last: JsonLine | None = None, **fields: Any
    ) -> CacheMiss:
        write(path, [*before(**fields), *between, last or lost()])
        collector.scan()
        return only_miss(claude, store)

    return judge


def test_the_api_s_word_is_kept_from_any_line_of_an_answer(
    claude: ClaudeFolder, path: Path, collector: Collector, store: Path
) -> None:
    reason = {"type": "system_changed", "cache_missed_input_tokens": 79_000}
    write(path, [*before(), user(at=9), lost(reason=reason), lost()])
    collector.scan()

    miss = only_miss(claude, store)
    assert (miss.cause, miss.source) == (CacheCause.SYSTEM, CauseSource.CLIENT)
    assert (miss.request.reason, miss.request.missed_tokens) == ("system_changed", 79_000)
    assert miss.tokens == 80_000


@pytest.mark.parametrize("odd", ["a text", 5, [], {"type": 7}, {"type": "tools_changed", "x": []}])
def test_diagnostics_of_another_shape_keep_no_answer_from_being_read(
    claude: ClaudeFolder, path: Path, collector: Collector, store: Path, odd: Any
) -> None:
    line = lost()
    line["message"]["diagnostics"] = odd
    write(path, [*before(), user(at=9), line, lost("m4", reason=odd)])
    collector.scan()
    assert len(read(claude, store).requests) == 4


def test_a_compaction_between_is_named_with_its_trigger(miss_after: Any) -> None:
    listed = attachment("agent_listing_delta", addedTypes=["one", "two"])
    miss = miss_after([boundary(at=5), user("Summary", at=6, isCompactSummary=True), listed])
    assert miss.cause is CacheCause.COMPACTION
    assert miss.changes[0] == Change(ChangeKind.COMPACTED, "auto")
    # After a compaction everything is announced again.
    assert miss.changes[1] == Change(ChangeKind.AGENTS_LISTED, "all 2")


def test_a_microcompaction_between_is_named(miss_after: Any) -> None:
    miss = miss_after([microcompacted(["t1"]), user(at=9)], answer("m3", 50_000, 50_000, at=10))
    assert miss.cause is CacheCause.CLEARING


def test_a_prompt_that_continues_an_earlier_line_is_a_rewind(miss_after: Any) -> None:
    miss = miss_after([user(at=9, parentUuid="u1")], answer("m3", 30_000, 75_000, at=10))
    assert miss.cause is CacheCause.REWIND


def test_a_prompt_that_continues_the_last_answer_is_none(miss_after: Any) -> None:
    assert miss_after([user(at=9, parentUuid="a2")], uuid="a2").cause is CacheCause.SYSTEM


def test_a_tool_server_s_tools_are_named(miss_after: Any) -> None:
    names = [f"mcp__shop__{number}" for number in range(10)]
    miss = miss_after(
        [
            attachment("deferred_tools_delta", addedNames=names, removedNames=["Old"]),
            attachment("mcp_instructions_delta", addedNames=["shop"]),
            attachment("skill_listing", content="…"),
        ]
    )
    assert miss.changes == (
        Change(ChangeKind.TOOLS_ANNOUNCED, f"{', '.join(names[:8])} and 2 more"),
        Change(ChangeKind.TOOLS_WITHDRAWN, "Old"),
        Change(ChangeKind.SERVERS_ANNOUNCED, "shop"),
        Change(ChangeKind.SKILLS_LISTED),
    )


def test_tools_that_a_search_loaded_are_named(miss_after: Any) -> None:
    found = [{"type": "tool_reference", "tool_name": name} for name in ("WebFetch", "WebSearch")]
    search = tool_result("t", "", {"matches": []})
    search["message"]["content"][0]["content"] = found
    miss = miss_after([search], answer("m3", 20_093, 85_000, at=10))
    assert miss.cause is CacheCause.TOOLS
    assert miss.changes == (Change(ChangeKind.TOOLS_LOADED, "WebFetch, WebSearch"),)


@pytest.mark.parametrize(
    "between", [[], [tool_result("t", "done", "done")], [user("note", at=9, isMeta=True)]]
)
def test_within_a_turn_no_system_prompt_is_blamed(miss_after: Any, between: list[JsonLine]) -> None:
    assert miss_after(between).cause is CacheCause.UNKNOWN
    assert miss_after([*between, user(at=9)]).cause is CacheCause.SYSTEM


@pytest.mark.parametrize(
    "noted",
    [
        attachment("instructions", changed=True, files=[{"path": "/p/CLAUDE.md"}]),
        attachment("edited_text_file", filename="/p/CLAUDE.md", snippet="1"),
        tool_result(
            "t", "done", {"filePath": "/p/CLAUDE.md", "structuredPatch": []}, parentUuid=None
        ),
    ],
)
def test_an_edited_claude_md_is_named(miss_after: Any, noted: JsonLine) -> None:
    assert miss_after([noted]).changes == (Change(ChangeKind.INSTRUCTIONS_EDITED, "/p/CLAUDE.md"),)


def test_another_edited_file_is_no_change(miss_after: Any) -> None:
    edited = attachment("edited_text_file", filename="/p/src/main.py", snippet="1")
    assert miss_after([edited]).changes == ()


def test_a_resume_is_known_by_its_hook(miss_after: Any) -> None:
    hook = attachment("hook_success", hookName="SessionStart:resume", hookEvent="SessionStart")
    miss = miss_after([hook, user(at=9)])
    assert (miss.cause, miss.changes) == (CacheCause.SYSTEM, (Change(ChangeKind.RESUMED),))


def test_a_resume_is_known_from_ctxtop_s_own_hook_log(
    claude: ClaudeFolder, path: Path, collector: Collector, store: Path
) -> None:
    write(path, [*before(), user(at=9), lost()])
    given = {"session_id": SESSION, "source": "resume"}
    told = {"v": 1, "at": START_MS + 5_000, "pid": 7, "event": "SessionStart", "given": given}
    log_file(store, LogKind.HOOKS).write_bytes(json.dumps(told).encode() + b"\n")
    collector.scan()
    assert only_miss(claude, store).changes == (Change(ChangeKind.RESUMED),)


def test_ctxtop_s_own_edit_is_known_by_its_receipt(
    claude: ClaudeFolder, path: Path, collector: Collector, store: Path
) -> None:
    write(path, [*before(), boundary(at=5), user(at=9), lost()])
    receipt = CompactionReceipt(
        receipt_id="r-1",
        session_id=SESSION,
        new_session_id=None,
        mode=ApplyMode.IN_PLACE,
        at=START_MS + 5_000,
        transcript=str(path),
        target=str(path),
        backup=None,
        verified=(),
        resume_command="",
        mtime=MtimeHandling.KEPT,
        plan=make_plan(SESSION, "x", 1, [], before_tokens=1),
        now=WrittenVersion("0" * 64, 1),
    )
    ReceiptStore(state_folder(store)).write(receipt)
    collector.scan()
    miss = only_miss(claude, store)
    assert miss.cause is CacheCause.OWN_EDIT
    assert Change(ChangeKind.EDITED, "receipt r-1") in miss.changes


def test_another_effort_is_named(miss_after: Any) -> None:
    miss = miss_after([user(at=9)], lost(effort="high"), effort="low")
    assert miss.cause is CacheCause.SETTINGS
    assert miss.changes == (Change(ChangeKind.SETTINGS, "effort low → high"),)


def shape(name: str, system: str, *tools: str) -> JsonLine:
    given = {"system": [text(system)], "tools": [{"name": each} for each in tools]}
    head = {"type": "api-request-shape", "sessionId": SESSION, "shapeHash": name}
    return head | {"timestamp": "t", "version": "v", "shape": given}


HI: Final = said("hi")
BYE: Final = said("bye")


def recorded(second: JsonLine, *parts: JsonLine, **fields: Any) -> list[JsonLine]:
    """Two answers whose requests the client recorded."""
    first = request("r1", 0, hashed(HI), hashed(BYE), shapeHash="one")
    return [
        *(user(), answer("m1", 20_000, 10_000, requestRef="r0")),
        *(shape("one", "You are", "Bash", "Read"), blob(HI), blob(BYE), first),
        answer("m2", 30_000, 70_000, at=3, requestRef="r1", **fields),
        *(*parts, second, lost(requestRef="r2", **fields)),
    ]


@pytest.mark.parametrize(
    ("changed", "cause", "changes"),
    [
        (
            shape("two", "You are", "Bash", "Read", "mcp__shop__buy"),
            CacheCause.TOOLS,
            [Change(ChangeKind.TOOLS_ADDED, "mcp__shop__buy")],
        ),
        (
            shape("two", "You are", "Bash"),
            CacheCause.TOOLS,
            [Change(ChangeKind.TOOLS_REMOVED, "Read")],
        ),
        (
            shape("two", "You are\nquick", "Bash", "Read"),
            CacheCause.SYSTEM,
            [Change(ChangeKind.SYSTEM, "quick")],
        ),
    ],
)
def test_the_recorded_requests_tell_what_differs_before_the_messages(
    claude: ClaudeFolder,
    path: Path,
    collector: Collector,
    store: Path,
    changed: JsonLine,
    cause: CacheCause,
    changes: list[Change],
) -> None:
    second = request("r2", 2, hashed(HI), base="r1", shapeHash="two")
    write(path, recorded(second, changed))
    collector.scan()
    miss = only_miss(claude, store)
    assert (miss.cause, list(miss.changes)) == (cause, changes)


def test_the_recorded_requests_tell_that_nothing_differs(
    claude: ClaudeFolder, path: Path, collector: Collector, store: Path
) -> None:
    write(path, recorded(request("r2", 2, hashed(HI), base="r1", shapeHash="one")))
    collector.scan()
    miss = only_miss(claude, store)
    assert (miss.cause, miss.changes) == (CacheCause.UNCHANGED, ())


def test_the_recorded_requests_tell_where_messages_differ(
    claude: ClaudeFolder, path: Path, collector: Collector, store: Path
) -> None:
    second = request("r2", 0, hashed(BYE), hashed(HI), base="r1", shapeHash="one")
    write(path, recorded(second))
    collector.scan()
    miss = only_miss(claude, store)
    assert miss.cause is CacheCause.MESSAGES
    assert miss.changes == (Change(ChangeKind.MESSAGES, "from message 1 of 2"),)


def test_a_request_after_a_compaction_refers_to_none_and_is_no_resume(
    claude: ClaudeFolder, path: Path, collector: Collector, store: Path
) -> None:
    write(path, recorded(request("r2", 0, hashed(BYE), shapeHash="one"), boundary(at=5)))
    collector.scan()
    assert only_miss(claude, store).changes == (Change(ChangeKind.COMPACTED, "auto"),)


def test_a_first_message_with_another_claude_md_names_the_file(
    claude: ClaudeFolder, path: Path, collector: Collector, store: Path
) -> None:
    head, same = "Contents of /p/CLAUDE.md:\n\n", "Contents of /p/AGENTS.md:\n\nsame"
    old, new = (said(f"{same}\n{head}{rule}") for rule in ("be brief", "be long"))
    first = request("r1", 0, hashed(old), hashed(BYE), shapeHash="one")
    second = request("r2", 0, hashed(new), hashed(BYE), shapeHash="one")
    write(
        path,
        [
            *(user(), answer("m1", 20_000, 10_000), shape("one", "You are")),
            *(blob(old), blob(BYE), first, answer("m2", 30_000, 70_000, at=3, requestRef="r1")),
            *(blob(new), second, lost(requestRef="r2")),
        ],
    )
    collector.scan()
    miss = only_miss(claude, store)
    assert miss.cause is CacheCause.MESSAGES
    assert Change(ChangeKind.INSTRUCTIONS, "/p/CLAUDE.md") in miss.changes
    assert Change(ChangeKind.RESUMED) in miss.changes


def test_a_fork_s_request_is_compared_with_the_one_in_its_parent_s_file(
    claude: ClaudeFolder, path: Path, collector: Collector, store: Path
) -> None:
    history = [user(), answer("m1", 20_000, 10_000), answer("m2", 30_000, 70_000, requestRef="r1")]
    first = request("r1", 0, hashed(HI), shapeHash="one")
    write(path, [*history[:2], shape("one", "You are", "Bash"), blob(HI), first, history[2]])
    second = request("r2", 0, hashed(HI), hashed(BYE), shapeHash="two")
    origin = {"sessionId": OTHER, "forkedFrom": {"sessionId": SESSION, "messageUuid": "x"}}
    parts = [shape("two", "You are", "Bash", "Read"), blob(HI), blob(BYE), second]
    own = [*parts, lost("m3", at=20, sessionId=OTHER, requestRef="r2")]
    write(path.with_name(f"{OTHER}.jsonl"), [*(each | origin for each in history), *own])
    collector.scan()

    (miss,) = read(claude, store, OTHER).misses
    assert miss.cause is CacheCause.TOOLS
    assert [each.kind for each in miss.changes] == [
        *(ChangeKind.FORKED, ChangeKind.RESUMED, ChangeKind.TOOLS_ADDED)
    ]


def test_a_transcript_that_is_gone_leaves_what_the_store_knows(
    claude: ClaudeFolder, path: Path, collector: Collector, store: Path
) -> None:
    write(path, [*before(), boundary(at=5), lost(at=900)])
    collector.scan()
    path.unlink()
    assert only_miss(claude, store).cause is CacheCause.LIFETIME


def test_a_fork_repeats_its_parent_s_history_and_counts_its_own_requests(
    claude: ClaudeFolder, path: Path, collector: Collector, store: Path
) -> None:
    history = [*before(), lost("m3", at=400)]
    write(path, history)
    origin = {"sessionId": OTHER, "forkedFrom": {"sessionId": SESSION, "messageUuid": "x"}}
    own = [user(at=500, sessionId=OTHER), lost("m4", at=501, sessionId=OTHER)]
    write(path.with_name(f"{OTHER}.jsonl"), [*(each | origin for each in history), *own])
    collector.scan()

    everything = add_up(read(claude, store, None))
    assert (everything.requests, everything.misses) == (4, 2)
    assert everything.written_tokens == 10_000 + 70_000 + 85_000 + 85_000
    fork = read(claude, store, OTHER)
    assert [miss.cause for miss in fork.misses] == [CacheCause.SYSTEM]
    assert len(fork.requests) == 1


def test_a_start_that_may_be_a_whole_system_prompt_is_not_trusted(
    claude: ClaudeFolder, path: Path, collector: Collector, store: Path
) -> None:
    """Sessions of another project began 4,000 tokens earlier, or at the same place."""
    write(path, [*before(), user(at=9), lost()])
    others = {"11": 16_000, "22": 20_000}
    causes = []
    for number, tokens in others.items():
        name = f"{number * 4}-2222-4333-8444-555555555555"
        first = answer(f"other-{number}", tokens, 9_000, sessionId=name)
        write(claude.projects / "-elsewhere" / f"{name}.jsonl", [user(sessionId=name), first])
        collector.scan()
        causes.append(only_miss(claude, store).cause)
    assert causes == [CacheCause.UNKNOWN, CacheCause.SYSTEM]


def test_an_agent_s_requests_are_in_its_session_s_ledger(
    claude: ClaudeFolder, path: Path, collector: Collector, store: Path
) -> None:
    write(path, before())
    folder = path.with_suffix("") / "subagents"
    write(folder / "agent-a1.jsonl", [*before(), user(at=9), lost("m9", agentId="a1")])
    collector.scan()
    miss = only_miss(claude, store)
    assert miss.request.agent_id == "a1"
    assert miss.tokens == 80_000


def test_known_misses_are_not_read_again(
    claude: ClaudeFolder, path: Path, collector: Collector, store: Path
) -> None:
    write(path, [*before(), boundary(at=5), lost()])
    collector.scan()
    first = read(claude, store)
    append(path, [user(at=400), lost("m4", at=700)])
    collector.scan()
    path.unlink()
    with closing(open_reader(store)) as db:
        second = read_cache_ledger(
            db, claude.projects, store, {}, session_ids=[SESSION], known=first.misses
        )
    assert second.misses[1] is first.misses[0]
    assert [miss.cause for miss in second.misses] == [CacheCause.LIFETIME, CacheCause.COMPACTION]


def test_only_requests_since_a_time_are_listed(
    claude: ClaudeFolder, path: Path, collector: Collector, store: Path
) -> None:
    write(path, [*before(), user(at=9), lost(at=400)])
    collector.scan()
    with closing(open_reader(store)) as db:
        ledger = read_cache_ledger(db, claude.projects, store, {}, since_ms=START_MS + 300_000)
    assert [each.written_tokens for each in ledger.requests] == [85_000]
    # What it is compared with is older, and counts all the same.
    assert [each.tokens for each in ledger.misses] == [80_000]
