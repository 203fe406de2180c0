"""Agents' ends and tokens beside a count of its own, which reads the lines with json alone.

Every end that ctxtop stores has to be one of an agent that a tool call, an agent's own file or
a progress line names; the sums with and without progress lines have to equal those counted
here. Reads the corpus of the folder that CTXTOP_SHARED names (../shared beside the repository
where it names none), or the folders given, and changes nothing there.
Usage: python -m tests.bench.bench_agents [FOLDER...]
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries.agent_queries import RUNNING_STATUSES
from ctxtop.core.store.writer import Writer

from ..recorder import Recorder
from ..usage import progress_usage, usage_of_sessions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Json = dict[str, Any]

STARTERS: Final = frozenset({"Agent", "Task"})
COUNTS: Final = (
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
)


class Sums(NamedTuple):
    """Tokens by kind, and how many answers they are of."""

    tokens: tuple[int, ...]
    answers: int


class Counted(NamedTuple):
    """What was found in a folder, by ctxtop or by the count of its own."""

    ends: int
    """Stored ends of agents; of the count: notifications, results and failures of agents."""
    wrong: tuple[str, ...]
    """Stored ids that name no agent."""
    plain: Sums
    with_progress: Sums


def main() -> None:
    """Print the figures of each folder."""
    for folder in _folders(sys.argv[1:]):
        files = sorted(folder.rglob("*.jsonl"))
        if files:
            show(folder, files)


def show(folder: Path, files: list[Path]) -> None:
    """Print one folder's figures; raises AssertionError where they differ."""
    independent, stored = count(files), measure(files)
    print(f"\n{folder}: {len(files)} files")
    print(f"  ends of agents: {stored.ends} stored, {len(stored.wrong)} of no agent {stored.wrong}")
    for name in ("plain", "with_progress"):
        ours, theirs = getattr(stored, name), getattr(independent, name)
        same = "equal" if ours == theirs else f"DIFFERENT: {theirs}"
        print(f"  {name.replace('_', ' '):14} {ours.answers:>6} answers {ours.tokens}  {same}")
        assert ours == theirs
    assert not stored.wrong


def count(files: Iterable[Path]) -> Counted:
    """Count what the lines say, by rules of this script alone."""
    answers: dict[str, tuple[int, ...]] = {}
    progress: dict[str, tuple[int, ...]] = {}
    for file in files:
        for line in _lines(file):
            if line.get("type") == "assistant":
                _add(answers, line)
            data = line.get("data")
            if line.get("type") == "progress" and isinstance(data, dict):
                step = data.get("message")
                if data.get("agentId") and isinstance(step, dict):
                    _add(progress, step)
    more = {name: tokens for name, tokens in progress.items() if name not in answers}
    return Counted(0, (), _sums(answers), _sums(answers | more))


def measure(files: Iterable[Path]) -> Counted:
    """Read the same files as ctxtop does, and look for ids that no agent has."""
    with tempfile.TemporaryDirectory() as name:
        store = Path(name) / "ctxtop.db"
        projects = Path(name) / "claude" / "projects"
        known: set[str] = set()
        for file in files:
            known |= agents_in(file)
            to = projects / _place(file)
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(file.read_bytes())
        with closing(Writer(store)) as writer:
            Collector(ClaudeFolder(projects.parent.resolve()), writer, Recorder()).scan()
        with closing(open_reader(store)) as db:
            rows = db.execute(
                f"SELECT agent_id FROM agent_return WHERE status NOT IN ({RUNNING_STATUSES})"
            )
            ends = [str(row[0]) for row in rows]
            plain, more = usage_of_sessions(db), progress_usage(db)
    wrong = tuple(sorted({each for each in ends if each not in known}))
    return Counted(len(ends), wrong, _of_rows(plain), _of_rows([*plain, *more]))


def agents_in(file: Path) -> set[str]:
    """Name the agents of a file: by calls that start them, their results, steps and own files."""
    calls: set[str] = set()
    found = {file.stem.removeprefix("agent-")} if file.stem.startswith("agent-") else set()
    for line in _lines(file):
        for block in _blocks(line):
            if block.get("type") == "tool_use" and block.get("name") in STARTERS:
                calls.add(str(block.get("id")))
            result = line.get("toolUseResult")
            if block.get("tool_use_id") in calls and isinstance(result, dict):
                found |= {str(result[name]) for name in ("agentId", "taskId") if name in result}
        data = line.get("data")
        if isinstance(data, dict) and data.get("agentId"):
            found.add(str(data["agentId"]))
    return found | calls


def _folders(named: list[str]) -> list[Path]:
    if named:
        return [Path(name) for name in named]
    repository = Path(__file__).resolve().parents[2]
    shared = Path(os.environ.get("CTXTOP_SHARED") or repository.parent / "shared")
    found = sorted(each for each in shared.glob("corpus/*") if each.is_dir())
    if not found:
        print(f"no recorded sessions below {shared}: CTXTOP_SHARED names the folder that has them")
    return found


def _place(file: Path) -> Path:
    """Where a transcript stands below projects/; those that lie loose are put into one project."""
    parts = file.parts
    if "projects" in parts:
        return Path(*parts[len(parts) - parts[::-1].index("projects") :])
    return Path("-corpus", file.name)


def _lines(file: Path) -> Iterator[Json]:
    for data in file.read_bytes().splitlines():
        try:
            line = json.loads(data)
        except ValueError:
            continue
        if isinstance(line, dict):
            yield line


def _blocks(line: Json) -> list[Json]:
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []


def _add(into: dict[str, tuple[int, ...]], line: Json) -> None:
    message = line.get("message")
    usage = message.get("usage") if isinstance(message, dict) else None
    if not isinstance(message, dict) or not isinstance(usage, dict):
        return
    if line.get("isApiErrorMessage") or message.get("model") == "<synthetic>":
        return
    name = str(message.get("id") or line.get("uuid"))
    tokens = tuple(int(usage.get(each) or 0) for each in COUNTS)
    # The last line is whole but for its output, of which the most counts.
    output = max(tokens[-1], into.get(name, (0,))[-1])
    into[name] = (*tokens[:-1], output)


def _sums(answers: dict[str, tuple[int, ...]]) -> Sums:
    columns = zip(*answers.values(), strict=True)
    return Sums(tuple(map(sum, columns)) if answers else (0,) * len(COUNTS), len(answers))


def _of_rows(rows: list[Any]) -> Sums:
    names = ("input_tokens", "cache_creation_tokens", "cache_read_tokens", "output_tokens")
    tokens = tuple(sum(getattr(row, name) for row in rows) for name in names)
    return Sums(tokens, sum(row.responses for row in rows))


if __name__ == "__main__":
    main()
