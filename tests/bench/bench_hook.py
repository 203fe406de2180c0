"""Our hook beside an empty Python script: what Claude Code waits for at every event.

First what records and the status line, through `sh -c`, as the client runs it, and without; then
the answers of every event with every feature, with nothing to say and with something: while a
process stands by, as after the first slow one of a session, and alone, as that one. Runs alternate,
so that all meet the same machine. Ends with 1 if a target is missed; those of answers are for the
former. Usage: python -m tests.bench.bench_hook [runs]
"""

from __future__ import annotations

import json
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ctxtop.collectors.plugin import installed_commands, standby

from .hook_cases import ask, hook_environment, install, make_cases, scan_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .hook_cases import HookCase

TARGET = 1.6
QUIET_TARGET = 2.5
"""Of an answer when there is nothing to say."""
SPEAKING_TARGET = 5.0

STATUS_LINE_TARGET_S = 0.060
STANDBY_S = 0.3

SESSION = "0a000000-0000-4000-8000-000000000001"

GIVEN = {
    "session_id": SESSION,
    "transcript_path": "/home/dev/.claude/projects/-home-dev-x/" + SESSION + ".jsonl",
    "cwd": "/home/dev/x",
    "permission_mode": "default",
    "tool_name": "Bash",
    "tool_input": {"command": "make test"},
    "tool_response": {"stdout": "ok\n" * 2000, "stderr": ""},
    "model": {"id": "claude-opus-5-5"},
    "context_window": {
        "context_window_size": 1_000_000,
        "current_usage": {"input_tokens": 10, "cache_read_input_tokens": 150_000},
    },
}


def call(command: str) -> list[str]:
    """Return the call inside a hook command's shell guard, to run it without a shell."""
    return shlex.split(command.partition("; then ")[2].partition("; else")[0])


def run(words: Sequence[str], given: bytes) -> float:
    """Run a program with this stdin; seconds to its end."""
    start = time.perf_counter()
    subprocess.run(words, input=given, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def transcript(top: Path) -> Path:
    """A session whose last answer saw 150,000 of 1,000,000 tokens, and some noise behind it."""
    usage = {"input_tokens": 10, "cache_read_input_tokens": 150_000, "output_tokens": 9}
    message = {"id": "m", "role": "assistant", "model": "claude-opus-5-5", "usage": usage}
    lines = [
        {"type": "assistant", "uuid": "u", "message": message | {"content": []}},
        *({"type": "api-request-blob", "hash": str(n), "blob": "x" * 5000} for n in range(20)),
    ]
    path = top / f"{SESSION}.jsonl"
    path.write_text(
        "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines), encoding="utf-8"
    )
    return path


def print_answers(runs: int) -> int:
    """Print what each answer takes, as a ratio to an empty script; how many miss their target."""
    program = Path(sys.executable).with_name("ctxtop")
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        cases, environ = make_cases(top), hook_environment(top)
        sets = {each.features for each in cases}
        commands = {each: install(program, top, each, environ) for each in sets}
        store = scan_store(program, top, environ)
        socket = Path(standby.socket_path(str(store)))

        def answer(case: HookCase) -> float:
            seconds, said = ask(commands[case.features][case.event], case.given, environ)
            if bool(said) != case.says:
                sys.exit(f"{case.name}, {case.event}: said {said!r}")
            return seconds

        taken: list[list[float]] = [[] for _ in cases]
        alone: list[list[float]] = [[] for _ in cases]
        empty: list[float] = []
        for _ in range(runs + 1):
            empty.append(run([sys.executable, "-I", "-c", ""], b""))
            for case, times, first_times in zip(cases, taken, alone, strict=True):
                case.prepare(store, commands[case.features])
                socket.unlink(missing_ok=True)
                first_times.append(answer(case))
                wait_for(socket)
                case.prepare(store, commands[case.features])
                times.append(answer(case))
    base = statistics.median(empty[1:])
    slow = 0
    print(f"answers, by sh -c: medians of {runs} runs, of an empty script's {1000 * base:.1f} ms")
    for case, times, first_times in zip(cases, taken, alone, strict=True):
        # The first run of each is left out: later ones find what it noted.
        ratio, first = (statistics.median(each[1:]) / base for each in (times, first_times))
        target = SPEAKING_TARGET if case.says else QUIET_TARGET
        slow += ratio > target
        mark = f"   above {target}" if ratio > target else ""
        print(f"  {case.name:<24} {case.event:<17} {ratio:6.2f}  alone {first:6.2f}{mark}")
    print(f"{slow} of {len(cases)} above their target: {QUIET_TARGET}, speaking {SPEAKING_TARGET}")
    return slow


def wait_for(path: Path) -> None:
    """Wait until a process stands by; not where the answer was fast, and left none."""
    until = time.perf_counter() + STANDBY_S
    while not path.exists() and time.perf_counter() < until:
        time.sleep(0.01)


def main() -> None:
    """Print the figures."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    with tempfile.TemporaryDirectory() as top:
        store = Path(top) / "ctxtop.db"
        empty = Path(top) / "empty.py"
        empty.write_text("", encoding="utf-8")
        given = json.dumps(GIVEN | {"transcript_path": str(transcript(Path(top)))}).encode()
        hook = installed_commands.hook_command(store, "PostToolUse")
        programs = {
            "an empty script, python -I": [sys.executable, "-I", str(empty)],
            "record": call(hook),
            "record, by sh -c": ["sh", "-c", hook],
            "record, python -I -m": [
                *(sys.executable, "-I", "-m", "ctxtop.collectors.plugin.hook"),
                *(str(store), "PostToolUse"),
            ],
            "status line": call(installed_commands.statusline_command(store)),
            "status line, by sh -c": ["sh", "-c", installed_commands.statusline_command(store)],
            "status line around `cat`": call(installed_commands.statusline_command(store, "cat")),
        }
        for words in programs.values():
            run(words, given)
        taken: dict[str, list[float]] = {name: [] for name in programs}
        for _ in range(runs):
            for name, words in programs.items():
                taken[name].append(run(words, given))
    medians = {name: statistics.median(times) for name, times in taken.items()}
    base = medians["an empty script, python -I"]
    print(f"medians of {runs} runs, and the ratio to the first")
    for name, median in medians.items():
        print(f"  {name:<28} {1000 * median:6.1f} ms  {median / base:5.2f}")
    slow = max(medians["record"], medians["record, by sh -c"]) / base
    print(f"record: {slow:.2f} of an empty script (target {TARGET})")
    missed = print_answers(max(3, runs // 6))
    line = medians["status line, by sh -c"]
    print(f"status line: {1000 * line:.1f} ms (target {1000 * STATUS_LINE_TARGET_S:.0f})")
    if missed or slow > TARGET or line > STATUS_LINE_TARGET_S:
        sys.exit(1)


if __name__ == "__main__":
    main()
