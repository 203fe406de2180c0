"""Tool calls with output that looks like work: reads, searches, edits, test runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .model import Json, ToolCall

if TYPE_CHECKING:
    from random import Random

    from .texts import Project

READ_LINE = '{number}\texport function {name}{number}(input) {{ return check("{name}", input); }}'
GREP_LINE = "{path}:{number}:  const value = {name}(input, options);"
TEST_LINE = "  ok {number} - {name} keeps what it was given ({millis} ms)"


def read(rng: Random, project: Project, size: int) -> ToolCall:
    """Read a file of the project, about `size` characters of it."""
    path = f"{project.cwd}/{rng.choice(project.files)}"
    names = project.names
    count = max(4, size // 80)
    rows = [
        READ_LINE.format(number=number, name=names[number % len(names)])
        for number in range(1, count + 1)
    ]
    content = "\n".join(rows)
    result: Json = {
        "type": "text",
        "file": {
            "filePath": path,
            "content": content,
            "numLines": count,
            "startLine": 1,
            "totalLines": count,
        },
    }
    return ToolCall("Read", {"file_path": path}, content, result)


def run_tests(rng: Random, project: Project, size: int) -> ToolCall:
    """Run the project's tests."""
    count = max(4, size // 60)
    rows = [
        TEST_LINE.format(number=number, name=rng.choice(project.names), millis=rng.randrange(2, 90))
        for number in range(1, count + 1)
    ]
    output = "\n".join([*rows, f"{count} passed in {rng.randrange(14, 97) / 10} s"])
    result: Json = {
        "stdout": output,
        "stderr": "",
        "interrupted": False,
        "isImage": False,
        "noOutputExpected": False,
    }
    return ToolCall(
        "Bash", {"command": project.test, "description": "Run the tests"}, output, result
    )


def search(rng: Random, project: Project, size: int) -> ToolCall:
    """Search the project for a name."""
    name = rng.choice(project.names)
    count = max(3, size // 90)
    rows = [
        GREP_LINE.format(path=rng.choice(project.files), number=rng.randrange(4, 400), name=name)
        for _ in range(count)
    ]
    output = "\n".join(rows)
    result: Json = {
        "stdout": output,
        "stderr": "",
        "interrupted": False,
        "isImage": False,
        "noOutputExpected": False,
    }
    command = {"command": f"rg -n {name}", "description": f"Find the callers of {name}"}
    return ToolCall("Bash", command, output, result)


def edit(rng: Random, project: Project, _size: int) -> ToolCall:
    """Change one line of a file."""
    path = f"{project.cwd}/{rng.choice(project.files)}"
    name = rng.choice(project.names)
    old, new = f"return {name}(input);", f"return {name}(input, {{ strict: true }});"
    result: Json = {
        "filePath": path,
        "oldString": old,
        "newString": new,
        "originalFile": None,
        "structuredPatch": [
            {
                "oldStart": 40,
                "oldLines": 1,
                "newStart": 40,
                "newLines": 1,
                "lines": [f"-{old}", f"+{new}"],
            }
        ],
        "userModified": False,
        "replaceAll": False,
    }
    arguments = {"file_path": path, "old_string": old, "new_string": new, "replace_all": False}
    return ToolCall("Edit", arguments, f"The file {path} has been updated successfully.", result)


KINDS = (read, search, edit, run_tests)


def work(rng: Random, project: Project, number: int, size: int) -> ToolCall:
    """Return the `number`th call of a believable round: read, search, change, test."""
    return KINDS[number % len(KINDS)](rng, project, size)
