"""A transcript's lines as the conversation's entries: what each kind of line is for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ctxtop.core.model.conversation import PartKind
from ctxtop.core.transcript.entry_decoder import read_entries
from ctxtop.core.transcript.visible_messages import is_result, visible_entries

from ..transcripts import (
    JsonLine,
    assistant,
    attachment,
    chained,
    encode,
    refusal,
    text,
    tool,
    tool_result,
    user,
    uuid,
    write,
)
from ..worked import Session

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.core.model.conversation import Entry


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


def read(file: Path, *lines: JsonLine) -> list[Entry]:
    return read_entries(write(file, lines))


def test_an_error_is_hidden_and_what_the_client_says_for_the_model_is_not(file: Path) -> None:
    counts = dict.fromkeys(("input_tokens", "output_tokens"), 0)
    said = assistant(
        "m", content=[text("No response requested.")], model="<synthetic>", counts=counts
    )
    error, silence = read(file, refusal("Overloaded"), said)
    assert (error.hidden, silence.hidden) == (True, False)
    assert (silence.context_tokens, silence.output_tokens) == (None, None)


def test_the_line_that_the_client_remembers(file: Path) -> None:
    prompt = user("hi")
    remembered: JsonLine = {"type": "last-prompt", "lastPrompt": "hi", "leafUuid": prompt["uuid"]}
    legacy: JsonLine = {"type": "summary", "summary": "a title", "leafUuid": "other"}
    rewound: JsonLine = {"type": "last-prompt", "leafUuid": None, "explicit": True}
    unknown: JsonLine = {"type": "last-prompt", "lastPrompt": "hi"}
    found = read(file, prompt, remembered, legacy, unknown, rewound)
    assert [each.leaf_uuid for each in found] == [None, prompt["uuid"], None, ""]


def test_progress_keeps_the_chain_and_says_nothing(file: Path) -> None:
    prompt = user("hi")
    between = chained("progress", parentUuid=prompt["uuid"], data={"type": "hook_progress"})
    answer = assistant("m", parentUuid=between["uuid"])
    found = read(file, prompt, between, answer)
    assert found[1].role is None
    assert [each.type for each in visible_entries(found)] == ["user", "assistant"]


def test_each_text_of_an_attachment_is_a_piece(file: Path) -> None:
    line = attachment("file", filename="/p/a.py")
    line["rendered"] = [{"content": "Called Read"}, {"content": [text("x = 1")]}]
    (found,) = read(file, line)
    assert [(each.text, each.path) for each in found.parts] == [
        ("Called Read", "/p/a.py"),
        ("x = 1", "/p/a.py"),
    ]


def test_memory_files_are_told_apart(file: Path) -> None:
    files = [{"path": "/b/CLAUDE.md"}, {"path": "/a/CLAUDE.md"}, {"path": 7}, "x"]
    line = attachment("instructions", files=files)
    words = "Obey.\nContents of /a/CLAUDE.md (project):\none\nContents of /b/CLAUDE.md:\ntwo"
    line["rendered"] = [{"content": words}]
    (found,) = read(file, line)
    assert [each.path for each in found.parts] == [None, "/a/CLAUDE.md", "/b/CLAUDE.md"]
    assert "".join(each.text for each in found.parts) == words
    assert {each.kind for each in found.parts} == {PartKind.ATTACHMENT}


def test_a_snapshot_holds_each_tool_once(file: Path) -> None:
    whole = {"name": "Read", "description": "reads", "input_schema": {}}
    beside = {"name": "Read", "description": "reads", "schema": whole}
    bare = {"name": "Old", "schema": {"type": "object"}}
    (found,) = read(file, attachment("prompt_snapshot", systemPrompt=["s"], tools=[beside, bare]))
    assert found.snapshot is not None
    assert found.snapshot.tools == (
        ("Read", '{"name": "Read", "description": "reads", "input_schema": {}}'),
        ("Old", '{"name": "Old", "schema": {"type": "object"}}'),
    )


def test_what_replaced_a_result(file: Path) -> None:
    replaced = {"type": "content-replacement", "sessionId": uuid()}
    told = [{"kind": "tool-result", "toolUseId": "t1", "replacement": "less"}, {"toolUseId": "t2"}]
    (found,) = read(file, replaced | {"replacements": told})
    assert found.replaced_results == (("t1", "less"), ("t2", ""))


def test_a_result_that_an_older_client_cleared_is_sent_whole(file: Path) -> None:
    session = Session()
    session.ask()
    session.use("Bash", "all of it", command="make")
    cleared = {"trigger": "auto", "preTokens": 1000, "compactedToolIds": ["toolu_0001"]}
    session.add(chained("system", subtype="microcompact_boundary", microcompactMetadata=cleared))
    session.ask()
    sent = visible_entries(read_entries(session.write(file)))
    results = [piece.text for each in sent for piece in each.parts if is_result(piece)]
    assert results == ["all of it"]


TASK = "<task-notification>\n<task-id>a1</task-id>\n<status>completed</status>\n"
DONE = f'{TASK}<summary>Agent "look" finished</summary>\n<result>found</result>'
SHELL = f'{TASK}<summary>Background command "make" completed (exit code 0)</summary>'
MESSAGE = (
    "Another Claude session sent a message:\n"
    '<teammate-message teammate_id="scout">\nfound\n</teammate-message>'
)
BRINGS = {
    "an agent": (DONE, PartKind.AGENT_RETURN),
    "a teammate": (MESSAGE, PartKind.AGENT_RETURN),
    "a shell": (SHELL, PartKind.META),
    "its lead": (MESSAGE.partition("\n")[2], PartKind.META),
}


@pytest.mark.parametrize("who", BRINGS)
def test_what_the_client_brings_is_told_apart_by_who_says_it(file: Path, who: str) -> None:
    words, kind = BRINGS[who]
    told = user(words, origin={"kind": "task-notification"})
    queued = attachment("queued_command", prompt=words, commandMode="task-notification")
    (first, second) = read(file, told, queued)
    assert [piece.kind for piece in first.parts] == [kind]
    assert [piece.kind for piece in second.parts] == [kind]


@pytest.mark.parametrize("name", ["TaskOutput", "AgentOutputTool"])
@pytest.mark.parametrize(
    ("task", "kind"),
    [("local_agent", PartKind.AGENT_RETURN), ("local_bash", PartKind.TOOL_RESULT)],
)
def test_a_result_that_was_asked_for_is_the_agents(
    file: Path, name: str, task: str, kind: PartKind
) -> None:
    words = (
        "<retrieval_status>success</retrieval_status>\n\n<task_id>a1</task_id>\n\n"
        f"<task_type>{task}</task_type>\n\n<status>completed</status>\n\n<output>\nfound\n</output>"
    )
    asked = assistant(content=[tool(name, "t1", task_id="a1")])
    (_, answered) = read(file, asked, tool_result("t1", words, {}))
    assert [piece.kind for piece in answered.parts] == [kind]


@pytest.mark.parametrize(
    ("line", "unread"),
    [
        (user("hi") | {"timestamp": 5}, "timestamp"),
        (user("hi") | {"isMeta": "yes"}, "isMeta"),
        (user("hi") | {"parentUuid": ["a"]}, "parentUuid"),
        (user("hi") | {"message": "hi"}, "message"),
        (user([{"type": "text", "text": ["hi"]}]), "message.content"),
        (
            user([{"type": "tool_result", "tool_use_id": "t", "content": [{"text": 5}]}]),
            "message.content",
        ),
        (assistant("m", counts="none"), "message.usage"),
        (attachment("file") | {"attachment": "file"}, "attachment"),
        (attachment("file") | {"rendered": "file"}, "rendered"),
        (user("hi") | {"type": 5}, "type"),
    ],
)
def test_a_line_with_a_field_of_another_kind_is_an_entry_that_names_it(
    file: Path, line: JsonLine, unread: str
) -> None:
    entry, after = read(file, line, user("after"))
    assert entry.uuid == line["uuid"]
    assert entry.unread_fields == (unread,)
    assert after.unread_fields == ()


@pytest.mark.parametrize(
    ("line", "unread"),
    [
        (attachment("file", content="@"), ("attachment",)),
        (attachment("file") | {"rendered": ["@"]}, ("rendered",)),
        (chained("system", subtype="local_command", content=["@"]), ()),
        (assistant(content=[tool("Bash", "t1", timeout="@")]), ()),
    ],
)
def test_a_line_with_a_number_that_no_float_holds_is_an_entry_all_the_same(
    file: Path, line: JsonLine, unread: tuple[str, ...]
) -> None:
    file.write_bytes(encode([line]).replace(b'"@"', b"1e999") + encode([user("after")]))
    entry, after = read_entries(file)
    assert (entry.uuid, entry.unread_fields) == (line["uuid"], unread)
    assert after.parts[0].text == "after"


def test_a_field_that_no_entry_has_may_be_of_any_kind(file: Path) -> None:
    system = chained("system", subtype="note", message="words", cwd=5)
    (entry,) = read(file, system)
    assert entry.unread_fields == ()


def test_what_can_be_read_of_a_message_counts(file: Path) -> None:
    (entry,) = read(file, assistant("m", content=[text("done")]) | {"uuid": {}})
    assert (entry.uuid, entry.message_id, entry.parts[0].text) == (None, "m", "done")
