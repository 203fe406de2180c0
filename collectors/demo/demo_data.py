"""What the demo is about: demo.toml's texts, shapes.json's lines, and plausible tool calls."""

import json
import tomllib
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from random import Random
from typing import Any

import msgspec

DemoJson = dict[str, Any]


class DemoModel(msgspec.Struct, frozen=True):
    """A model as the client names it, with the numbers that its requests carry."""

    id: str
    name: str
    window: int
    max_output: int
    cutoff: str
    usd_per_million: float
    effort: str | None = None


class DemoProject(msgspec.Struct, frozen=True):
    cwd: str
    branch: str
    files: tuple[str, ...]
    names: tuple[str, ...]  # of functions in its files
    test: str  # the command that runs its tests


@dataclass(frozen=True)
class DemoToolCall:
    """One use of a tool and its result, before it has an id."""

    name: str
    input: DemoJson
    output: str
    result: DemoJson  # the structured result

    def block(self, tool_use_id: str) -> DemoJson:
        return {"type": "tool_use", "id": tool_use_id, "name": self.name, "input": self.input}


class AgentTask(msgspec.Struct, frozen=True):
    kind: str
    model: DemoModel
    description: str
    prompt: str
    result: str
    calls: int
    skill: str | None = None
    rejected_result: str | None = None  # the first result, when a hook did not accept it
    replaced_result: str | None = None  # a result that a later one replaced
    helpers: tuple[str, ...] = ()  # the tasks of the agents that it starts itself
    status: str = "completed"  # the client's name for how it ended

    def call(self) -> DemoToolCall:
        arguments = {
            "description": self.description,
            "subagent_type": self.kind,
            "prompt": self.prompt,
        }
        return DemoToolCall("Agent", arguments, self.result, {})


class DemoTexts(msgspec.Struct, frozen=True):
    """What fits any project, and what the growing sessions are asked again and again."""

    remarks: tuple[str, ...]
    closings: tuple[str, ...]
    tax_prompts: tuple[str, ...]
    password_prompts: tuple[str, ...]
    sibling_note: str


class DemoClient(msgspec.Struct, frozen=True):
    tools: list[str]
    deferred_tools: list[str]
    agent_types: list[str]
    built_in_agents: list[str]
    skills: list[str]
    instructions: list[str]
    hooks: list[str]


_FOLDER = Path(__file__).parent
RAW: DemoJson = tomllib.loads((_FOLDER / "demo.toml").read_text(encoding="utf-8"))
for _item in (*RAW["tasks"].values(), *RAW["sessions"]):
    _item["model"] = RAW["models"][_item["model"]]
    if "project" in _item:
        _item["project"] = RAW["projects"][_item["project"]]
MODELS = msgspec.convert(RAW["models"], dict[str, DemoModel])
TASKS = msgspec.convert(RAW["tasks"], dict[str, AgentTask])
CLIENT = msgspec.convert(RAW["client"], DemoClient)
TEXTS = msgspec.convert(RAW["texts"], DemoTexts)
SUMMARIES = msgspec.convert(RAW["summaries"], dict[str, str])
FILES = msgspec.convert(RAW["files"], dict[str, str])
MODEL_OF_ID = {model.id: model for model in MODELS.values()}

CURRENT_VERSION = "2.1.329"

SHAPES: dict[str, DemoJson] = json.loads((_FOLDER / "shapes.json").read_text(encoding="utf-8"))
"""What the client writes, by name; "$name.field" is filled in. Key order is the client's."""


def shape(kind: str, /, **values: object) -> DemoJson:
    return {key: _fill(value, values) for key, value in SHAPES[kind].items()}


def _fill(template: object, values: dict[str, object]) -> object:
    if isinstance(template, dict):
        return {key: _fill(value, values) for key, value in template.items()}
    if isinstance(template, list):
        return [_fill(value, values) for value in template]
    if isinstance(template, str) and template.startswith("$"):
        name, *path = template[1:].split(".")
        return reduce(getattr, path, values[name])
    return template


def client_text(kind: str, /, **values: object) -> str:
    text: str = RAW["client_texts"][kind]
    return text.format(**values)


READ_LINE = '{number}\texport function {name}{number}(input) {{ return check("{name}", input); }}'
GREP_LINE = "{path}:{number}:  const value = {name}(input, options);"
TEST_LINE = "  ok {number} - {name} keeps what it was given ({millis} ms)"


def read_call(rng: Random, project: DemoProject, size: int) -> DemoToolCall:
    path = f"{project.cwd}/{rng.choice(project.files)}"
    names = project.names
    count = max(4, size // 80)
    content = "\n".join(
        READ_LINE.format(number=number, name=names[number % len(names)])
        for number in range(1, count + 1)
    )
    result = shape("read", path=path, content=content, count=count)
    return DemoToolCall("Read", {"file_path": path}, content, result)


def bash_call(command: str, description: str, output: str) -> DemoToolCall:
    arguments = {"command": command, "description": description}
    return DemoToolCall("Bash", arguments, output, shape("bash", output=output))


def test_call(rng: Random, project: DemoProject, size: int) -> DemoToolCall:
    count = max(4, size // 60)
    rows = [
        TEST_LINE.format(number=number, name=rng.choice(project.names), millis=rng.randrange(2, 90))
        for number in range(1, count + 1)
    ]
    output = "\n".join([*rows, f"{count} passed in {rng.randrange(14, 97) / 10} s"])
    return bash_call(project.test, "Run the tests", output)


def search_call(rng: Random, project: DemoProject, size: int) -> DemoToolCall:
    name = rng.choice(project.names)
    rows = [
        GREP_LINE.format(path=rng.choice(project.files), number=rng.randrange(4, 400), name=name)
        for _ in range(max(3, size // 90))
    ]
    return bash_call(f"rg -n {name}", f"Find the callers of {name}", "\n".join(rows))


def edit_call(rng: Random, project: DemoProject, _size: int) -> DemoToolCall:
    path = f"{project.cwd}/{rng.choice(project.files)}"
    name = rng.choice(project.names)
    old, new = f"return {name}(input);", f"return {name}(input, {{ strict: true }});"
    result = shape("edit", path=path, old=old, new=new, lines=[f"-{old}", f"+{new}"])
    arguments = {"file_path": path, "old_string": old, "new_string": new, "replace_all": False}
    output = f"The file {path} has been updated successfully."
    return DemoToolCall("Edit", arguments, output, result)


CALL_MAKERS = (read_call, search_call, edit_call, test_call)


def make_tool_call(rng: Random, project: DemoProject, number: int, size: int) -> DemoToolCall:
    """Return the `number`th call of a round of reading, searching, changing and testing.

    `size` is about how many characters its output has.
    """
    return CALL_MAKERS[number % len(CALL_MAKERS)](rng, project, size)
