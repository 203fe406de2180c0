"""Mutated transcripts: what a broken disk, another program or an attacker may leave behind."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING, Any, Final

from .transcripts import (
    agent_result,
    assistant,
    attachment,
    boundary,
    chained,
    encode,
    launch,
    launched,
    notification,
    notification_text,
    refusal,
    summary,
    text,
    time,
    tool,
    tool_result,
    user,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .transcripts import JsonLine

HUGE: Final = 3_000
"""Characters of a string that a field of one word never has; now and then 100 times as many."""

DEEP: Final = 1_500
"""Levels of nesting: more than Python's recursion limit."""

_ODD_TEXTS: Final = (
    "",
    "\x1b[31m\x07\x00",
    "\u202eright\u2066\u200b\u200d\ufeff\U000e0041",
    "\ud800",
    "\udfff\ud800",
    "=cmd()|' /C calc'!A0",
    "[bold red]markup[/]",
    "../../../../etc/passwd",
    "\u2028\u2029\r\n\t",
    "9999-12-31T23:59:59.999+14:00",
    "0001-01-01T00:00:00.000+14:00",
    "1969-12-31T23:59:59.999Z",
    "2026-11-20T10:00:00",
    "%s%n{0}{x.__class__}",
    "nan",
    "<task-notification><task-id>a1</task-id></task-notification>",
    "e\u0301" * 40,
    "\u0600" * 9,
)
_ODD_NUMBERS: Final = (
    0,
    -1,
    1,
    1 << 31,
    1 << 40,
    (1 << 40) + 1,
    (1 << 63) - 1,
    1 << 63,
    1 << 64,
    10**400,
    -(10**30),
    0.5,
    -0.0,
    1e308,
    5e-324,
)
_ODD_VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    False,
    [],
    {},
    [None],
    [[]],
    {"": None},
    [1, "a", {}],
)


def story(chance: random.Random) -> list[JsonLine]:
    """A short session in which every kind of line stands that becomes rows."""
    prompt = user("fix the parser", at=1)
    edit = {"file_path": "/home/dev/proj/parser.py", "old_string": "a", "new_string": "b"}
    step = assistant("p1", 700, at=9, content=[tool("Bash", "toolu_p", command="ls")])
    lines: list[JsonLine] = [
        {"type": "ai-title", "aiTitle": "Fix the parser"},
        {"type": "summary", "summary": "An older title", "leafUuid": prompt["uuid"]},
        prompt,
        assistant("m1", 9_000, at=2, content=[text("I look."), tool("Edit", "t1", **edit)]),
        tool_result("t1", "done", {"filePath": "/home/dev/proj/parser.py"}, at=3),
        launch("t2", "reviewer", at=4),
        launched("t2", "a1", at=5),
        notification("a1", "[COMPRESSED] agent_type: reviewer\nResult: fine", at=6),
        launch("t3", "tester", at=7),
        agent_result("t3", "a2", "two tests fail", at=8),
        chained(
            "progress",
            9,
            data={"type": "agent_progress", "agentId": "a3", "message": step},
            parentToolUseID="t3",
        ),
        user("look aside", at=9, isSidechain=True),
        assistant("s1", 800, at=10, isSidechain=True),
        assistant("m2", 180_000, at=11, requestRef="r1", counts=_steps(180_000)),
        boundary(
            12, postTokens=20_000, durationMs=900, preservedMessages={"uuids": [prompt["uuid"]]}
        ),
        summary("We fixed parser.py.\n\nNext: the tests.", at=13),
        attachment("model", identity={"modelId": "claude-opus-4-6"}),
        attachment("queued_command", prompt=notification_text("a1", "found a third")),
        attachment("file", filename="/home/dev/proj/x.py", content="x = 1"),
        attachment(
            "hook_success", content="<memory-note>\nMemories saved: 1\n</memory-note>", stdout=""
        ),
        assistant("m3", 21_000, at=14, content=[tool("TodoWrite", "t4", todos=_todos())]),
        tool_result("t4", "ok", {"oldTodos": [], "newTodos": _todos()}, at=15),
        assistant("m4", 22_000, at=16, content=[tool("ExitPlanMode", "t5", plan="1. fix")]),
        chained(
            "system",
            17,
            subtype="stop_hook_summary",
            hookCount=1,
            hookInfos=[{"command": "check", "durationMs": 12}],
            hookErrors=["no"],
        ),
        chained(
            "system",
            18,
            subtype="local_command",
            content="ran",
            contextUsage={
                "model": "claude-haiku-4-5",
                "totalTokens": 22_000,
                "rawMaxTokens": 200_000,
                "percentage": 11,
                "categories": [{"name": "Messages", "tokens": 20_000}],
            },
        ),
        {
            "type": "api-request",
            "id": "r1",
            "timestamp": time(18),
            "querySource": "repl_main_thread",
            "shapeHash": "s1",
            "params": {"model": "claude-haiku-4-5"},
            "keep": 0,
            "tail": ["h1", "h2"],
        },
        {"type": "api-request-shape", "sessionId": "x", "shapeHash": "s1", "system": []},
        {"type": "api-request-blob", "sessionId": "x", "hash": "h1", "message": {"content": "x"}},
        {"type": "cost-state", "totalCostUSD": 1.25},
        {"type": "derived-from", "sessions": [{"id": "2" * 8, "via": "fork"}], "timestamp": time()},
        {"type": "last-prompt", "lastPrompt": "go on", "leafUuid": prompt["uuid"]},
        user("<command-name>/clear</command-name>", at=19),
        user("Stop hook feedback:\n[check]: again", isMeta=True, at=20),
        refusal("prompt is too long: 201000 tokens > 200000 maximum", at=21),
        user("and now?", at=22, forkedFrom={"sessionId": "3" * 8, "messageUuid": "u"}),
        assistant("m5", 23_000, at=23, content=[tool("Bash", "t6", command="make test")]),
    ]
    # Some of the lines, in their order: a fault should not always meet the same neighbours.
    return _renamed([line for line in lines if chance.random() < 0.8] or lines, chance)


_UUID: Final = re.compile(r"00000000-0000-4000-8000-\d{12}")
"""As `tests.transcripts` makes them: by a number that counts on."""


def _renamed(lines: list[JsonLine], chance: random.Random) -> list[JsonLine]:
    """Assign the lines ids that depend only on the seed."""
    data = json.dumps(lines)
    mark = chance.randrange(10**8)
    numbers = {name: n for n, name in enumerate(dict.fromkeys(_UUID.findall(data)))}
    data = _UUID.sub(lambda each: f"{mark:08}-0000-4000-8000-{numbers[each[0]]:012}", data)
    for line in lines:
        if "message" in line and "id" in line["message"]:
            # Sessions that have answers or calls in common are copies of one another.
            name = line["message"]["id"]
            data = data.replace(f'"{name}"', f'"{name}_{mark:08}"')
    data = data.replace("toolu_x", f"toolu_{mark:08}_x")
    # The answer inside the agent's progress line.
    data = data.replace('"p1"', f'"p1_{mark:08}"')
    for number in range(1, 7):
        data = data.replace(f'"t{number}"', f'"toolu_{mark:08}_{number}"')
    renamed: list[JsonLine] = json.loads(data)
    return renamed


def _steps(context: int) -> JsonLine:
    step = {"type": "message", "input_tokens": context, "output_tokens": 5}
    return {"input_tokens": context, "output_tokens": 9, "iterations": [step]}


def _todos() -> list[JsonLine]:
    return [{"content": "test it", "status": "in_progress", "activeForm": "Testing it"}]


def mutated(seed: int) -> bytes:
    """The bytes of one transcript with one to four faults; the same seed gives the same bytes."""
    chance = random.Random(seed)
    lines = story(chance)
    for _ in range(chance.randint(0, 3)):
        change_a_field(chance, lines)
    data = b"".join(_written(chance, line) for line in lines)
    if chance.random() < 0.55:
        data = chance.choice(OF_BYTES)(chance, data)
    return data


def _written(chance: random.Random, line: JsonLine) -> bytes:
    if chance.random() < 0.985:
        return encode([line])
    return chance.choice(_OF_LINES)(chance, line) + b"\n"


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401
    if path:
        yield path
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _places(each, (*path, name))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _places(each, (*path, number))


def change_a_field(chance: random.Random, lines: list[JsonLine]) -> None:
    number = chance.randrange(len(lines))
    line = json.loads(json.dumps(lines[number]))
    *above, last = chance.choice(list(_places(line)))
    around: Any = line
    for step in above:
        around = around[step]
    if chance.random() < 0.1:
        del around[last]
    else:
        around[last] = _odd(chance, around[last])
    lines[number] = line


def _odd(chance: random.Random, before: Any) -> Any:  # noqa: ANN401 -- any JSON
    """Another value: of the same kind more often, since of another kind it is soon refused."""
    if isinstance(before, str) and chance.random() < 0.7:
        odd = chance.choice(_ODD_TEXTS)
        huge = "\u65e5x" * (HUGE if chance.random() < 0.9 else 100 * HUGE)
        return chance.choice([odd, before + odd, odd + before, huge, before * HUGE])
    if isinstance(before, (int, float)) and chance.random() < 0.7:
        return chance.choice(_ODD_NUMBERS)
    return chance.choice((*_ODD_VALUES, *_ODD_NUMBERS, *_ODD_TEXTS, "z" * HUGE))


def _deep(chance: random.Random, line: JsonLine) -> bytes:
    name = chance.choice(list(line))
    nested = chance.choice([b"[" * DEEP + b"]" * DEEP, b'{"a":' * DEEP + b"1" + b"}" * DEEP])
    return encode([line | {name: "@"}]).strip().replace(b'"@"', nested, 1)


def _twice(chance: random.Random, line: JsonLine) -> bytes:
    name = chance.choice(list(line))
    other = json.dumps({name: _odd(chance, line[name])}).encode()
    return encode([line]).strip()[:-1] + b"," + other[1:]


def _not_a_number(chance: random.Random, line: JsonLine) -> bytes:
    name = chance.choice(list(line))
    word = chance.choice([b"NaN", b"Infinity", b"-Infinity", b"1e999", b"00", b"-"])
    return encode([line | {name: "@"}]).strip().replace(b'"@"', word, 1)


def _half_pair(chance: random.Random, line: JsonLine) -> bytes:
    data = encode([line]).strip()
    place = data.find(b'"', chance.randrange(len(data)))
    return data[: place + 1] + rb"\ud83d\u0000" + data[place + 1 :] if place >= 0 else data


def _other_encoding(chance: random.Random, line: JsonLine) -> bytes:
    words = json.dumps(line | {"note": "ünï"}, ensure_ascii=False)
    return words.encode(chance.choice(["utf-16", "latin-1", "utf-32-le", "utf-8-sig"]), "replace")


def _own_bytes(chance: random.Random, line: JsonLine) -> bytes:
    return chance.choice([b"", b"[]", b"null", b"\0" * 300, b"{", b"}", b'"text"', b"{}", b"\xff"])


_OF_LINES: Final[tuple[Callable[[random.Random, Any], bytes], ...]] = (
    _deep,
    _twice,
    _not_a_number,
    _half_pair,
    _other_encoding,
    _own_bytes,
)


def _flip(chance: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randint(1, 30)):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _cut(chance: random.Random, data: bytes) -> bytes:
    return data[: chance.randrange(len(data))]


def _swap(chance: random.Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    chance.shuffle(lines)
    return b"".join(lines)


def _repeat(chance: random.Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    return b"".join(each * chance.choice([1, 1, 1, 9]) for each in lines)


def _put_in(chance: random.Random, data: bytes) -> bytes:
    place = chance.randrange(len(data))
    odd = chance.choice(
        [b"\0" * 600, b"\n", b"\r\n", b"\xff\xfe", b'"', b"{", b"\\", b"\xed\xa0\x80"]
    )
    return data[:place] + odd + data[place:]


def _encode_all(chance: random.Random, data: bytes) -> bytes:
    return data.decode("utf-8", "replace").encode(chance.choice(["utf-16", "utf-8-sig"]), "replace")


OF_BYTES: Final[tuple[Callable[[random.Random, bytes], bytes], ...]] = (
    _flip,
    _flip,
    _cut,
    _swap,
    _repeat,
    _put_in,
    _encode_all,
)
