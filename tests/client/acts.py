"""What a model does in a session that strategies find something in, as steps of a script.

An act makes the files it needs, and gives its answers' parts in their order; `number` makes its
contents others than those of the same act elsewhere.
"""

from __future__ import annotations

import json
import random
import shlex
from typing import TYPE_CHECKING, Final

from .images import noise
from .talks import LONG_OUTPUT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Act = Callable[[Path, int], list[str]]

TOOLS: Final = ("--tools", "Agent,Bash,Edit,Glob,Grep,Read,Skill,TodoWrite,WebSearch,Write")
"""Also those that this client gives a model only where they are named."""

VARIABLES: Final = {"CLAUDE_CODE_ENABLE_TASKS": "0"}
"""With which the client has TodoWrite."""

_WORDS: Final = [
    "harbour",
    "ledger",
    "market",
    "basket",
    "lantern",
    "orchard",
    "pepper",
    "saddle",
    "timber",
    "velvet",
    "walnut",
    "anchor",
    "bramble",
    "copper",
    "drizzle",
    "ember",
    "feather",
    "granite",
    "hollow",
    "ivory",
]


def source(number: int, lines: int = 180) -> str:
    """Write a file's text, the same for the same number."""
    chosen = random.Random(number)
    return "".join(
        f"{chosen.choice(_WORDS)}_{number}_{line} = {chosen.randrange(10_000)}\n"
        for line in range(lines)
    )


def sentences(number: int, count: int = 40) -> str:
    """Write prose, the same for the same number."""
    chosen = random.Random(number)
    picked = (chosen.choices(_WORDS, k=9) for _ in range(count))
    return " ".join(f"{' '.join(words).capitalize()}." for words in picked)


def read_in_part(at: Path, number: int) -> list[str]:
    """Read some lines, then the whole file, which holds them as they were."""
    file = _file(at, "part", number)
    return [_some(file, 10, 120), f"read:{file}"]


def read_twice(at: Path, number: int) -> list[str]:
    file = _file(at, "twice", number)
    return [f"read:{file}", f"read:{file}"]


def read_again_changed(at: Path, number: int) -> list[str]:
    file = _file(at, "changed", number)
    return [
        _some(file, 5, 100),
        f"bash:sed -i 's/ = / == /' {shlex.quote(str(file))}",
        f"read:{file}",
    ]


def overwritten(at: Path, number: int) -> list[str]:
    file = _file(at, "overwritten", number)
    return [f"read:{file}", f"write:{file}|{source(number + 1_000)}"]


def edited_and_read(at: Path, number: int) -> list[str]:
    file = _file(at, "reread", number)
    return [f"read:{file}", _edit(file), f"read:{file}"]


def only_edited(at: Path, number: int) -> list[str]:
    file = _file(at, "edited", number)
    return [f"read:{file}", _edit(file)]


def todos(_at: Path, number: int) -> list[str]:
    """Keep a list of todos, and write it anew as it gets done."""
    return [f"tool:TodoWrite|{json.dumps({'todos': _todos(number, done)})}" for done in range(3)]


def failing(at: Path, number: int) -> list[str]:
    """Fail with much input; what runs beside it would be cancelled."""
    missing = "\n".join(f"absent_{number}_{line} = {line}" for line in range(90))
    return [
        f"edit:{_file(at, 'failing', number)}|{missing}|{missing.upper()}",
        f"bash:{_heredoc('wc -l; exit 3', number)}",
    ]


def repeated(at: Path, number: int) -> list[str]:
    """Ask a log twice, which has grown meanwhile."""
    log = shlex.quote(str(_file(at, "log", number)))
    return [f"bash:cat {log}", f"bash:echo done >> {log}", f"bash:cat {log}"]


def said_twice(_at: Path, number: int) -> list[str]:
    """Run two different commands that print the same."""
    return [f"bash:seq {number} {number + 500}", f"bash:seq {number} 1 {number + 500}"]


def lengthy(_at: Path, number: int) -> list[str]:
    """A result that is longer than the first characters that `long-results` keeps."""
    return [f"bash:seq {number} {number + 3000}"]


def listings(at: Path, number: int) -> list[str]:
    folder = at / f"listed_{number}"
    folder.mkdir()
    for place in range(80):
        name = f"{_WORDS[place % len(_WORDS)]}_module_{place}.py"
        (folder / name).write_text(f"total_{place} = 1\n", encoding="utf-8")
    grep = {"pattern": "total_", "path": str(folder), "output_mode": "content"}
    glob = {"pattern": "*.py", "path": str(folder)}
    return [f"tool:Grep|{json.dumps(grep)}", f"tool:Glob|{json.dumps(glob)}"]


def shell(_at: Path, number: int) -> list[str]:
    """Print many lines with an error among them, a very long line, and more than is shown."""
    loop = f"for i in $(seq 150); do echo step $i of build_{number}_$i.c; done"
    return [
        f"bash:{loop}; echo error: no rule; {loop}",
        f"bash:for i in $(seq 500); do printf 'field_{number}_%s ' $i; done",
        f"bash:{LONG_OUTPUT}",
    ]


def colored(_at: Path, number: int) -> list[str]:
    """Print colors, lines that are overwritten, blanks at lines' ends, and indented JSON."""
    rows = json.dumps([{"name": f"row_{number}_{row}", "count": row} for row in range(60)])
    green = f"\\033[1;32mok\\033[0m test_{number}_%s   \\n"
    return [
        f"bash:for i in $(seq 90); do printf '{green}' $i; done",
        "bash:for i in $(seq 200); do printf 'got %s of 200\\r' $i; done; echo all",
        f"bash:echo '{rows}' | python3 -m json.tool --indent 8",
    ]


def searched(_at: Path, number: int) -> list[str]:
    """Search the web, where the API finds what the query says."""
    return [f"tool:WebSearch|{json.dumps({'query': sentences(number)})}"]


def pictures(at: Path, number: int) -> list[str]:
    first, second = at / f"first_{number}.png", at / f"second_{number}.png"
    first.write_bytes(noise(number))
    second.write_bytes(noise(number + 500))
    return [f"read:{first}", f"read:{second}", f"read:{first}"]


def written(at: Path, number: int) -> list[str]:
    return [f"write:{at / f'written_{number}.py'}|{source(number + 2_000)}"]


def heredocs(at: Path, number: int) -> list[str]:
    file = shlex.quote(str(at / f"heredoc_{number}.py"))
    return [f"bash:{_heredoc(f'cat > {file}', number)}"]


def talked(_at: Path, number: int) -> list[str]:
    return [f"say:{sentences(number)}&&&bash:seq {number % 7}"]


def delegated(_at: Path, number: int) -> list[str]:
    """Delegate to a subagent with a long prompt; the subagent has its own transcript."""
    report = f"Built {_built(number)}. {sentences(number + 4_000, 60)}"
    return [f"agent:worker|{sentences(number, 120)} <<say:{report}>>"]


def taken_up(number: int) -> list[str]:
    """Go on with what the subagent built."""
    return [f"say:I go on with {_built(number)}.&&&bash:seq {number % 5}"]


def _built(number: int) -> str:
    return ", ".join(f"src/worker_{number}/part_{place}.py" for place in range(5))


SIDE_BY_SIDE: Final[tuple[Act, ...]] = (
    talked,
    read_in_part,
    read_twice,
    read_again_changed,
    overwritten,
    edited_and_read,
    only_edited,
    todos,
    repeated,
    said_twice,
    lengthy,
    listings,
    shell,
    colored,
    searched,
    pictures,
    written,
    heredocs,
)
"""Acts that may be done at the same time."""


def _file(at: Path, name: str, number: int) -> Path:
    file = at / f"{name}_{number}.py"
    file.write_text(source(number), encoding="utf-8")
    return file


def _some(file: Path, offset: int, limit: int) -> str:
    asked = {"file_path": str(file), "offset": offset, "limit": limit}
    return f"tool:Read|{json.dumps(asked)}"


def _edit(file: Path) -> str:
    old = "".join(file.read_text(encoding="utf-8").splitlines(keepends=True)[20:110])
    return f"edit:{file}|{old}|{old.upper()}"


def _heredoc(command: str, number: int) -> str:
    first, *others = command.split("; ")
    return "\n".join([f"{first} <<'EOF'", source(number + 3_000).strip(), "EOF", *others])


def _todos(number: int, done: int) -> list[dict[str, str]]:
    chosen = random.Random(number)
    return [
        {
            "content": f"Mend the {' '.join(chosen.choices(_WORDS, k=6))} of {number}",
            "status": "completed" if place < done else "pending",
            "activeForm": f"Mending {place}",
        }
        for place in range(12)
    ]
