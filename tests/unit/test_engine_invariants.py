"""Each of the 24 invariants (compaction 7.6) is broken by itself, and the refusal names it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest
from ctxtop.core.compaction import apply
from ctxtop.core.compaction.apply import apply_plan
from ctxtop.core.compaction.plan import (
    AppendLine,
    CompactionRefusedError,
    Operation,
    RefusalKind,
    RemoveLine,
    ReplaceValue,
    Severity,
)
from ctxtop.core.compaction.receipts import ApplyMode, ReceiptStore
from ctxtop.core.compaction.strategies.summary_and_cut import BoundarySizes, make_boundary_lines
from ctxtop.core.compaction.undo import undo
from ctxtop.core.compaction.verify import PASSED_CHECKS, check_prompt
from ctxtop.core.files.file_operations import write_temporary

from ..sessions_on_disk import (
    at_rest,
    encoded,
    masks,
    operation,
    place,
    plan_of,
    result_lines,
    said,
    turns,
)
from ..transcripts import SESSION, assistant, boundary, chained, summary, tool, user

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ctxtop.core.compaction.compaction_target import CompactionTarget

JsonLine = dict[str, Any]


def _session() -> list[JsonLine]:
    """Turns, and whatever else a transcript may hold; the turns alone lead to the newest line."""
    lines = turns(4)
    first, last = lines[3]["uuid"], lines.pop()
    aside = [chained("system", 93, subtype="note", content="a") for _ in range(2)]
    aside[0]["parentUuid"], aside[1]["parentUuid"] = first, aside[0]["uuid"]
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    found = _result("srvtoolu_1", []) | {"type": "web_search_tool_result"}
    served = [
        assistant("msg_srv", content=[block], at=94, isSidechain=True, parentUuid=first)
        for block in (search, found)
    ]
    end = [
        assistant("msg_agent", content=[tool("Agent", "toolu_agent", prompt="Look.")], at=95),
        user([_result("toolu_agent", "What the agent found.")], 96),
        assistant("msg_end", content=[{"type": "text", "text": "So it is."}], at=97),
        user("And now?", 98),
        user("I mean the tests.", 99),
        chained("system", 99, subtype="turn_duration"),
    ]
    parent = last["leafUuid"]
    for line in end:
        line["parentUuid"], parent = parent, line["uuid"]
    note = {"type": "note", "x": 1, "sessionId": SESSION}
    return [*lines, *aside, *served, note, *end, last | {"leafUuid": parent}]


def _result(call: str, content: object) -> JsonLine:
    return {"type": "tool_result", "tool_use_id": call, "content": content}


def _compacted() -> list[JsonLine]:
    """The session with a compaction that keeps the last answers."""
    *lines, last = LINES
    kept = [line["uuid"] for line in lines if line.get("message", {}).get("id") == "msg_3b"]
    kept = [LINES[RESULT - 1]["uuid"], *kept]
    end = summary()
    meta = {"anchorUuid": end["uuid"], "uuids": kept, "allUuids": kept}
    middle = boundary(preservedMessages=meta, logicalParentUuid=last["leafUuid"])
    return [*lines, middle, end | {"parentUuid": middle["uuid"]}, last | {"leafUuid": end["uuid"]}]


LINES: Final = _session()
DATA: Final = encoded(LINES)


def _line(text: str, lines: Sequence[JsonLine] = LINES) -> int:
    return next(n for n, line in enumerate(lines, 1) if text in json.dumps(line))


MODE, PROMPT = 1, 2
THOUGHT = _line('"thinking": "Hm 1"')
CALL = _line('"command": "ls 1"')
RESULT = result_lines(LINES)[1]
TEXT = _line("Done 1.")
AGENT = _line("What the agent found.")
LAST = _line("So it is.")
SECOND = _line("And now?")
END = _line("turn_duration")
ASIDE = _line('"subtype": "note"')
SERVED = _line("web_search_tool_result")
NOTE = _line('"type": "note"')
CONTENT = "/message/content/0/content"


def _uuid(number: int) -> str:
    return str(LINES[number - 1]["uuid"])


def edit(number: int, pointer: str, value: object, level: Severity = Severity.MASKED) -> Operation:
    change = ReplaceValue(*place(DATA, number), pointer, json.dumps(value))
    return operation(change, line=number, level=level)


def free(done: Operation) -> Operation:
    """An operation that promises to free nothing."""
    return msgspec.structs.replace(done, tokens_saved=0)


def gone(number: int, *, child: int | None = None, level: Severity = Severity.MASKED) -> Operation:
    """Leave a line out; its child is hung behind its parent."""
    edits: list[RemoveLine | ReplaceValue] = [RemoveLine(*place(DATA, number))]
    if child is not None:
        above = json.dumps(LINES[number - 1]["parentUuid"])
        edits.append(ReplaceValue(*place(DATA, child), "/parentUuid", above))
    return operation(*edits, line=number, level=level)


def kept(*numbers: int) -> Operation:
    """A summary that keeps these lines, in this order."""
    envelope = {"sessionId": SESSION, "uuid": _uuid(END), "timestamp": "2026-11-20T12:00:00.000Z"}
    uuids, sizes = [_uuid(each) for each in numbers], BoundarySizes(1000, 100, 120)
    return operation(
        *make_boundary_lines(envelope, "boundary", "summary", "SUMMARY", uuids, sizes),
        level=Severity.SUMMARY,
    )


def again(number: int) -> Operation:
    """Append a line with a uuid that is there already, where it leads nowhere."""
    return operation(AppendLine(json.dumps(LINES[number - 1])), level=Severity.SUMMARY)


IMAGE: Final = {
    "type": "image",
    "source": {"type": "base64", "data": "", "media_type": "image/png"},
}
MISSING: Final = "[see /home/dev/.claude/projects/-p/s/tool-results/away.txt]"

WRONG_PLANS: Final[dict[str, Operation]] = {
    "V1 every line is a JSON object": free(edit(NOTE, "", [], Severity.FILE_ONLY)),
    "V4 a line is who it was": free(edit(CALL, "/timestamp", "2027-01-01T00:00:00.000Z")),
    "V5 the same lines are sent in their order": edit(
        CALL, "/parentUuid", _uuid(PROMPT), Severity.PROSE
    ),
    "V6 no new root": free(edit(ASIDE, "/parentUuid", None)),
    "V6 no new orphan": free(edit(ASIDE, "/parentUuid", "nowhere")),
    "V6 no new circle": free(edit(ASIDE, "/parentUuid", _uuid(ASIDE + 1))),
    "V6 no second line with one uuid": free(again(ASIDE)),
    "V7 every call has its result behind it": kept(RESULT, CALL),
    "V8 what the API called stays with its result": free(gone(SERVED)),
    "V9 content keeps its JSON type": edit(RESULT, CONTENT, []),
    "V9 a call keeps its keys": edit(CALL, "/message/content/0/input", {}),
    "V10 thinking goes whole or stays": edit(
        THOUGHT, "/message/content/0/thinking", "H", Severity.REASONING
    ),
    "V12 the session's state stays": free(gone(MODE)),
    "V12 the line stays that the client goes on from": free(gone(END)),
    "V13 a person begins": gone(PROMPT, child=PROMPT + 1, level=Severity.PROSE),
    "V14 a person's words stay": edit(PROMPT, "/message/content", "Hi"),
    "V14 no prompt is left out": gone(SECOND, child=SECOND + 1),
    "V15 an agent's result stays": edit(AGENT, CONTENT, "[cut]", Severity.SUPERSEDED),
    "V16 what frees context makes it smaller": edit(RESULT, CONTENT, "y" * 2000),
    "V16 what is for the file changes nothing sent": edit(RESULT, CONTENT, "x", Severity.FILE_ONLY),
    "V17 the file does not grow": edit(
        RESULT, "/toolUseResult/stdout", "y" * 9000, Severity.FILE_ONLY
    ),
    "V18 no character is cut in half": edit(RESULT, CONTENT, "\ud83d"),
    "V19 no text becomes an image": free(edit(TEXT, "/message/content/0", IMAGE, Severity.PROSE)),
    "V20 what is named beside a session is there": edit(RESULT, CONTENT, MISSING),
}  # fmt: skip


def refusals(error: CompactionRefusedError) -> set[str]:
    """Name the checks that said no; each of them says what to do."""
    assert all(each.why and each.what_to_do for each in error.refusals)
    return {each.check for each in error.refusals}


def refused(
    subject: CompactionTarget, data: bytes, done: Sequence[Operation], mode: ApplyMode
) -> set[str]:
    """Try to carry a plan out; nothing of it comes about."""
    before = sorted(path.name for path in subject.transcript.parent.iterdir())
    with pytest.raises(CompactionRefusedError) as found:
        apply_plan(plan_of(data, done), mode, subject)
    assert subject.transcript.read_bytes() == data
    assert sorted(path.name for path in subject.transcript.parent.iterdir()) == before
    assert ReceiptStore(subject.state_folder).all() == []
    assert found.value.kind is RefusalKind.UNVERIFIED
    return refusals(found.value)


@pytest.mark.parametrize("mode", [ApplyMode.FORK, ApplyMode.IN_PLACE])
@pytest.mark.parametrize("invariant", WRONG_PLANS)
def test_a_wrong_plan(tmp_path: Path, invariant: str, mode: ApplyMode) -> None:
    subject = at_rest(tmp_path, DATA)
    code, _, _ = invariant.partition(" ")
    assert refused(subject, DATA, [WRONG_PLANS[invariant]], mode) == {code}


def test_v10_the_newest_thoughts_stay_while_their_call_is_open(tmp_path: Path) -> None:
    until = result_lines(LINES)[1]
    data = encoded(LINES[:until])
    away = gone(THOUGHT, child=CALL, level=Severity.REASONING)
    subject = at_rest(tmp_path, data)
    assert refused(subject, data, [away], ApplyMode.FORK) == {"V10"}
    closed = encoded(LINES[: until + 1])
    subject.transcript.write_bytes(closed)
    receipt = apply_plan(plan_of(closed, [away]), ApplyMode.FORK, subject)
    assert _uuid(THOUGHT) not in dict(said(subject.transcript.with_name(_file(receipt.target))))


def _file(path: str) -> str:
    return path.rpartition("/")[2]


@pytest.mark.parametrize("pointer", [CONTENT, "/toolUseResult/stdout"])
def test_v11_what_a_compaction_keeps_stays(tmp_path: Path, pointer: str) -> None:
    lines = _compacted()
    data = encoded(lines)
    change = ReplaceValue(*place(data, RESULT), pointer, '"[masked]"')
    done = free(operation(change, line=RESULT))
    assert refused(at_rest(tmp_path, data), data, [done], ApplyMode.IN_PLACE) == {"V11"}


DAMAGES: Final[dict[str, Callable[[bytes], bytes]]] = {
    "V2 the number of lines": lambda data: data + b'{"type":"note"}\n',
    "V3 every other line's bytes": lambda data: data.replace(b'"x":1', b'"x":2'),
}


@pytest.mark.parametrize("invariant", DAMAGES)
def test_a_damaged_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invariant: str) -> None:
    def damaged(*given: Any) -> Path:  # noqa: ANN401 -- as it is given
        path = write_temporary(*given)
        path.write_bytes(DAMAGES[invariant](path.read_bytes()))
        return path

    monkeypatch.setattr(apply, "write_temporary", damaged)
    code, _, _ = invariant.partition(" ")
    found = refused(at_rest(tmp_path, DATA), DATA, masks(DATA, [RESULT]), ApplyMode.IN_PLACE)
    assert found == {code}


def test_v21_what_is_taken_back_is_what_it_was(tmp_path: Path) -> None:
    subject = at_rest(tmp_path, DATA)
    receipt = apply_plan(plan_of(DATA, masks(DATA, [RESULT])), ApplyMode.IN_PLACE, subject)
    masked = subject.transcript.read_bytes()
    other = msgspec.structs.replace(receipt.plan, base_sha256="0" * 64)
    ReceiptStore(subject.state_folder).write(msgspec.structs.replace(receipt, plan=other))
    with pytest.raises(CompactionRefusedError) as found:
        undo(receipt.receipt_id, None, subject)
    assert refusals(found.value) == {"V21"}
    assert found.value.kind is RefusalKind.UNVERIFIED
    assert subject.transcript.read_bytes() == masked


def test_v22_an_edit_holds(tmp_path: Path) -> None:
    """What a fork writes over is no change of the plan's: it would come back every time."""
    wrong = edit(RESULT, "/sessionId", "other")
    subject = at_rest(tmp_path, DATA)
    done = [*masks(DATA, [result_lines(LINES)[0]]), free(wrong)]
    assert refused(subject, DATA, done, ApplyMode.FORK) == {"V22"}


@pytest.mark.parametrize("mode", [ApplyMode.IN_PLACE, ApplyMode.APPEND])
def test_v22_a_second_run_changes_nothing(tmp_path: Path, mode: ApplyMode) -> None:
    subject = at_rest(tmp_path, DATA)
    done = masks(DATA, [RESULT]) if mode is ApplyMode.IN_PLACE else [kept(LAST)]
    apply_plan(plan_of(DATA, done), mode, subject)
    changed = subject.transcript.read_bytes()
    with pytest.raises(CompactionRefusedError) as found:
        apply_plan(plan_of(DATA, done), mode, subject)
    assert refusals(found.value) == {"V22"}
    assert found.value.kind is RefusalKind.NOTHING
    assert subject.transcript.read_bytes() == changed
    assert len(ReceiptStore(subject.state_folder).all()) == 1


def test_v22_a_plan_of_what_is_there_already(tmp_path: Path) -> None:
    subject = at_rest(tmp_path, DATA)
    same = free(edit(NOTE, "/x", 1, Severity.FILE_ONLY))
    with pytest.raises(CompactionRefusedError) as found:
        apply_plan(plan_of(DATA, [same]), ApplyMode.IN_PLACE, subject)
    assert refusals(found.value) == {"V22"}
    assert ReceiptStore(subject.state_folder).all() == []


def test_v23_who_may_read_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = at_rest(tmp_path, DATA)
    subject.transcript.chmod(0o640)
    monkeypatch.setattr(os, "fchmod", lambda *_: None)
    assert refused(subject, DATA, masks(DATA, [RESULT]), ApplyMode.IN_PLACE) == {"V23"}


@pytest.mark.parametrize("mode", list(ApplyMode))
def test_v23_what_a_receipt_says_of_the_time_of_the_last_change(
    tmp_path: Path, mode: ApplyMode
) -> None:
    subject = at_rest(tmp_path, DATA)
    before = subject.transcript.stat().st_mtime_ns
    done = [kept(LAST)] if mode is ApplyMode.APPEND else masks(DATA, [RESULT])
    receipt = apply_plan(plan_of(DATA, done), mode, subject)
    now = os.stat(receipt.target).st_mtime_ns  # noqa: PTH116 -- a receipt's path
    assert receipt.mtime == ("kept" if now == before else "new")
    assert (now == before) is (mode is ApplyMode.IN_PLACE)


def test_v24_the_transcript_is_still_what_was_read(tmp_path: Path) -> None:
    """A rewriting of the same length that says it is as old is seen by the bytes alone."""
    subject = at_rest(tmp_path, DATA)
    status = subject.transcript.stat()
    other = DATA.replace(b'"x":1', b'"x":7')

    def read(path: Path) -> Any:  # noqa: ANN401 -- entries
        found = subject.read_entries(path)
        if path != subject.transcript:
            subject.transcript.write_bytes(other)
            os.utime(subject.transcript, ns=(status.st_atime_ns, status.st_mtime_ns))
        return found

    with pytest.raises(CompactionRefusedError) as error:
        apply_plan(
            plan_of(DATA, masks(DATA, [RESULT])),
            ApplyMode.IN_PLACE,
            replace(subject, read_entries=read),
        )
    assert refusals(error.value) == {"V24"}
    assert subject.transcript.read_bytes() == other
    assert ReceiptStore(subject.state_folder).all() == []


def test_all_of_them_are_broken_here() -> None:
    """The table has no hole."""
    tests = [name.removeprefix("test_").partition("_")[0].upper() for name in globals()]
    broken = {each.partition(" ")[0] for each in (*WRONG_PLANS, *DAMAGES, *tests)}
    assert set(PASSED_CHECKS) == {f"V{number}" for number in range(1, 25)}
    assert set(PASSED_CHECKS) <= broken


@pytest.mark.parametrize(
    ("severity", "is_refused"), [(Severity.SUPERSEDED, True), (Severity.MASKED, False)]
)
def test_an_agents_message_in_the_persons_role_is_shortened_from_level_3_on(
    severity: Severity, is_refused: bool
) -> None:
    words = "<task-notification><status>completed</status><result>{}</result></task-notification>"
    before, after = (
        {"type": "user", "message": {"role": "user", "content": words.format(text)}}
        for text in ("All of it. " * 300, "All of it.")
    )
    assert (check_prompt(before, after, severity) is not None) is is_refused
    # What a person wrote beside it is theirs.
    theirs = {"type": "user", "message": {"role": "user", "content": "shorter"}}
    assert check_prompt(theirs, after, severity)
