"""Long sessions made by rules, with needles in them: what must be found again is known.

Six kinds of work. How much of a session is read, written, run and fetched follows the real
sessions of compaction.md 1.4; that work goes back to the same files, repeats commands and now
and then refers to something old without looking at it again is what regret measures.
"""

from __future__ import annotations

import base64
import random
import re
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from .code_base import NOUNS, VERBS, CodeBase
from .probes import Kind, Probe
from .transcript_writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SEED: Final = 6
WITHOUT_CHECK: Final = "claude-sonnet-4-5-20250929"
"""Takes thoughts back after an edit of what stands before them."""
WITH_CHECK: Final = "claude-opus-5-5"
"""Binds thoughts to all that stands before them (compaction.md 2.5, rule T)."""

LOOKS_BACK: Final = 0.02
"""Share of the steps that name something old without looking at it again. Real sessions:
0 to 5 % of the references lose their source where old results are masked (compaction.md 1.4)."""
PROMPT_EVERY: Final = 14
"""Steps from one prompt of the person to the next: median of the recorded sessions, roughly."""
READ_IN_PART: Final = 0.5
"""Share of the reads of a long file that ask for some of its lines."""
AT_HAND: Final = 5
"""Steps on files after which one is read again before it is edited: nobody edits by heart."""
NEEDLE_EVERY: Final = 9
"""Steps from one needle to the next: 50 to 200 of a session (compaction.md 4.3)."""
PASTED_LINES: Final = 600
IMAGE_BYTES: Final = 60_000
"""Of a screenshot, before base64."""

BIRDS: Final = (
    "heron", "osprey", "bittern", "plover", "godwit", "wryneck", "hoopoe", "siskin", "dunlin",
    "avocet", "curlew", "fulmar",
)  # fmt: skip
STONES: Final = ("quartz", "beryl", "jasper", "garnet", "zircon", "opal", "agate", "topaz")
"""Of what needles are about: words that stand nowhere else."""

DEFINED: Final = re.compile(r"(?:def |^- )(\w+)", re.MULTILINE)
"""A function's name where code defines it, and where an agent's report begins with it."""

RULES: Final = (
    "Never touch the {noun} table of production.",
    "Always run the {noun} tests before you commit.",
    "Don't add a dependency for {noun} handling.",
    "You must keep {noun}_{number} backwards compatible.",
    "Use pnpm for the {noun} package, prefer it over npm.",
)


class Work(msgspec.Struct, frozen=True):
    """A kind of session: how large it gets, and how often each step is taken."""

    name: str
    tokens: int
    steps: dict[str, int]
    files: int = 40
    functions: tuple[int, int] = (4, 16)
    model: str = WITHOUT_CHECK
    thinks: float = 0.0
    prompt_every: int = PROMPT_EVERY
    pastes: int = 0
    """Prompts with a log of PASTED_LINES in them, the first ones."""


WORKS: Final = (
    Work(
        "web work",
        180_000,
        {"read": 34, "edit": 30, "run": 14, "search": 12, "write": 6, "todo": 5},
    ),
    Work(
        "debugging",
        260_000,
        {"read": 25, "edit": 18, "test": 36, "run": 10, "search": 11},
        thinks=0.5,
    ),
    Work("research", 220_000, {"fetch": 45, "web": 20, "read": 12, "write": 8, "todo": 5}),
    Work(
        "refactoring",
        420_000,
        {"write": 30, "read": 30, "edit": 20, "test": 10, "search": 10, "remove": 2},
        files=70,
        functions=(8, 30),
    ),
    Work("agents", 320_000, {"agent": 22, "todo": 22, "read": 26, "edit": 16, "run": 14}),
    Work("images", 150_000, {"image": 30, "edit": 26, "read": 26, "run": 14, "todo": 4}),
    Work(
        "bound thoughts",
        300_000,
        {"read": 32, "edit": 26, "test": 18, "run": 12, "search": 10, "write": 8},
        model=WITH_CHECK,
        thinks=0.4,
    ),
    Work(
        "very long",
        900_000,
        {"read": 34, "edit": 24, "test": 16, "run": 12, "search": 10, "write": 9, "todo": 4},
        files=160,
        functions=(6, 24),
    ),
)  # fmt: skip


_AGENTS: Final = {"agent": 22, "todo": 22, "read": 26, "edit": 16, "run": 14}
NEARLY_FULL: Final = (
    Work("one long turn", 150_000, _AGENTS, prompt_every=10_000),
    Work("few long turns", 150_000, _AGENTS, prompt_every=60),
    Work("short turns", 150_000, _AGENTS, prompt_every=2),
    Work("large pastes", 150_000, _AGENTS, pastes=3),
)
"""Sessions that fill a window of 200,000 tokens and that levels alone do not halve."""


class Made(msgspec.Struct, frozen=True):
    """A session, and the truth about it."""

    name: str
    path: Path
    needles: tuple[Probe, ...]
    rules: tuple[str, ...]
    """What the person forbade or asked for, word for word."""
    files: dict[str, tuple[int, int, int]]
    """Reads, edits and writes of each file that did not fail."""


def make_session(work: Work, folder: Path, seed: int = SEED, scale: float = 1.0) -> Made:
    """Write a session of a kind into a folder; the same seed gives the same bytes."""
    return _Session(work, random.Random(f"{seed} {work.name}")).make(folder, work.tokens * scale)


class _Session:
    def __init__(self, work: Work, random_: random.Random) -> None:
        self.work = work
        self.random = random_
        self.writer = Writer(random_, work.model, thinks=work.thinks)
        self.code = CodeBase(random_, work.files, work.functions)
        self.pasted = 0
        self.needles: list[Probe] = []
        self.rules: list[str] = []
        self.files: dict[str, list[int]] = {}
        self.seen: list[str] = []
        """Symbols that were shown, the newest last."""
        self.at_hand: list[str] = []
        """Files by the step that touched them, the newest last."""
        self.focus: list[str] = []
        """Files that the work is about just now."""
        self.todos: list[dict[str, str]] = []
        self.waiting: list[tuple[str, Probe]] = []
        """The needle that the next output is to hide."""
        self.steps: dict[str, Callable[[], None]] = {
            "read": self.read, "edit": self.edit, "write": self.write, "run": self.run,
            "test": self.test, "search": self.search, "fetch": self.fetch, "web": self.web,
            "todo": self.todo, "agent": self.agent, "image": self.image, "remove": self.remove,
        }  # fmt: skip

    def make(self, folder: Path, tokens: float) -> Made:
        self.writer.aside("mode", mode="normal")
        self.turn()
        kinds, often = list(self.work.steps), list(self.work.steps.values())
        step = 0
        while self.writer.tokens < tokens:
            step += 1
            if step % self.work.prompt_every == 0:
                self.writer.say(f"Done: {self.code.sentence(18)}. {self.about()}")
                self.turn()
            if step % NEEDLE_EVERY == 0:
                self.plant()
            self.steps[self.random.choices(kinds, often)[0]]()
        self.writer.say(f"All of it stands. {self.about()}")
        self.turn()
        self.read()
        self.writer.say(f"It is as you say. {self.about()}")
        return Made(
            self.work.name,
            self.writer.write(folder),
            tuple(self.needles),
            tuple(self.rules),
            {path: (counts[0], counts[1], counts[2]) for path, counts in self.files.items()},
        )

    def turn(self) -> None:
        """Write a user prompt on new files; about half of the prompts add a rule."""
        self.focus = [self.code.path() for _ in range(self.random.randint(2, 5))]
        words = (
            f"Look at {self.focus[0].removeprefix('/home/dev/shop/')}: {self.code.sentence(24)}."
        )
        if self.random.random() < 0.5:
            number = len(self.rules)
            rule = RULES[number % len(RULES)].format(noun=self.random.choice(NOUNS), number=number)
            self.rules.append(rule)
            words += f" {rule}"
        if self.pasted < self.work.pastes:
            self.pasted += 1
            lines = (f"{n:06} {self.code.sentence(8)}" for n in range(PASTED_LINES))
            words = "\n".join([words, *lines])
        self.writer.prompt(words)

    def plant(self) -> None:
        """Plant a needle to be found again: a stated decision, or a line in a later output."""
        if self.waiting:
            return
        number = len(self.needles)
        topic = f"{BIRDS[number % len(BIRDS)]}-{STONES[number // len(BIRDS) % len(STONES)]}"
        question = topic.replace("-", " ")
        if number % 3 == 0:
            answer = f"{self.random.choice(NOUNS)}_{self.random.choice(VERBS)}_{number}".upper()
            self.writer.say(
                f"I decided for {topic} to read {answer} instead of the old setting, because "
                f"{self.code.sentence(9)}."
            )
            self.needles.append(Probe(Kind.PLANTED, question, answer, self.writer.line))
        elif number % 3 == 1:
            answer = str(20_000 + self.random.randrange(40_000))
            text = f"error: service {topic} refused at localhost:{answer}"
            self.waiting.append((text, Probe(Kind.PLANTED, question, answer)))
        else:
            answer = f"{self.random.randrange(9)}.{self.random.randrange(40)}.{number}"
            text = f"installed {topic} version {answer}"
            self.waiting.append((text, Probe(Kind.PLANTED, question, answer)))

    def about(self) -> str:
        """Name something as the model does: mostly what it just saw."""
        if not self.seen:
            return ""
        named = f"Now `{self.recent()}`"
        return f"{named}: {self.code.sentence(self.random.randint(5, 40))}."

    def recent(self) -> str:
        """Pick something that was just seen, now and then something old."""
        old = self.random.random() < LOOKS_BACK
        return self.random.choice(self.seen if old else self.seen[-6:])

    def hidden(self, text: str) -> str:
        """Put the needle that waits into an output, at its middle."""
        if not self.waiting:
            return text
        needle, probe = self.waiting.pop()
        self.needles.append(replace(probe, line=self.writer.line + 2))
        lines = text.split("\n")
        lines.insert(len(lines) // 2, needle)
        return "\n".join(lines)

    def here(self) -> str:
        """Pick a file of the work at hand, or any."""
        return self.random.choice(self.focus) if self.random.random() < 0.7 else self.code.path()

    def count(self, path: str, place: int) -> None:
        self.files.setdefault(path, [0, 0, 0])[place] += 1

    def saw(self, path: str, shown: str) -> None:
        """Remember what a step showed: the file, and a function that stands there."""
        self.at_hand.append(path)
        self.seen.append(path.removeprefix("/home/dev/shop/"))
        names = DEFINED.findall(shown)
        if names:
            self.seen.append(self.random.choice(names))

    def read(self, path: str | None = None, *, whole: bool = False) -> None:
        path = path or self.here()
        lines = len(self.code.files[path])
        part = not whole and self.random.random() < READ_IN_PART and lines > 60
        offset = self.random.randrange(1, lines - 40) if part else 1
        given = {"file_path": path} | ({"offset": offset, "limit": 40} if part else {})
        shown = self.code.shown(path, offset, 40 if part else None)
        file = {"filePath": path, "content": shown, "numLines": lines, "startLine": offset}
        self.writer.call("Read", given, shown, {"type": "text", "file": file}, words=self.about())
        self.count(path, 0)
        self.saw(path, shown)

    def edit(self) -> None:
        path = self.here()
        if path not in self.at_hand[-AT_HAND:]:
            self.read(path, whole=True)
        before = "\n".join(self.code.files[path])
        if self.random.random() < 0.06:
            old = f"def {self.random.choice(VERBS)}_{self.random.choice(NOUNS)}_missing():"
            error = f"<tool_use_error>String to replace not found in file: {old}</tool_use_error>"
            given = {"file_path": path, "old_string": old, "new_string": "pass"}
            self.writer.call("Edit", given, error, f"Error: {error}", failed=True)
            return
        old, new = self.code.change(path)
        given = {"file_path": path, "old_string": old, "new_string": new}
        side = {
            "filePath": path,
            "oldString": old,
            "newString": new,
            "originalFile": before,
            "structuredPatch": [{"oldStart": 1, "lines": [f"-{each}" for each in old.split("\n")]}],
        }
        told = f"The file {path} has been updated successfully."
        self.writer.call("Edit", given, told, side, words=self.about())
        self.count(path, 1)
        self.saw(path, old)

    def write(self) -> None:
        path = self.code.create(len(self.code.files)) if self.random.random() < 0.6 else self.here()
        content = "\n".join(self.code.files[path])
        side = {"type": "create", "filePath": path, "content": content, "structuredPatch": []}
        told = f"File created successfully at: {path}"
        given = {"file_path": path, "content": content}
        self.writer.call("Write", given, told, side, words=self.about())
        self.count(path, 2)
        self.saw(path, content)
        self.focus.append(path)

    def remove(self) -> None:
        path = self.code.path()
        self.bash(f"git rm -q {path.removeprefix('/home/dev/shop/')}", "")

    def bash(self, command: str, output: str, *, failed: bool = False) -> None:
        shown = f"Exit code 1\n{output}" if failed else output
        side = (
            f"Error: {shown}" if failed else {"stdout": output, "stderr": "", "interrupted": False}
        )
        given = {"command": command, "description": self.code.sentence(4)}
        self.writer.call("Bash", given, shown, side, words=self.about(), failed=failed)

    def run(self) -> None:
        lines = [
            f"[{number:03}] {self.code.sentence(8)} {self.random.choice(NOUNS)}_{number} "
            f"in {self.random.randrange(900)} ms"
            for number in range(self.random.randint(10, 90))
        ]
        target = self.random.choice(NOUNS)
        self.bash(f"make {target} LOG=info", self.hidden("\n".join(lines)))

    def test(self) -> None:
        path = self.here().removeprefix("/home/dev/shop/")
        rows = [f"{path}::test_{self.random.choice(VERBS)}_{n} PASSED" for n in range(60)]
        failed = self.random.random() < 0.5
        if failed:
            number = self.random.randrange(60)
            rows[number] = rows[number].replace("PASSED", "FAILED")
            rows.append("=== FAILURES ===")
            rows += [f"    {self.code.sentence(9)}" for _ in range(self.random.randint(8, 40))]
            rows.append(f"E   AssertionError: expected {self.random.randrange(999)} rows")
        rows.append(
            f"=== {int(failed)} failed, {60 - failed} passed in {self.random.randrange(90)}s ==="
        )
        self.bash(f"pytest -q {path}", self.hidden("\n".join(rows)), failed=failed)

    def search(self) -> None:
        wanted = self.recent() if self.seen else self.random.choice(NOUNS)
        rows = [
            f"{path.removeprefix('/home/dev/shop/')}:{self.random.randrange(1, 300)}:"
            f"    {self.code.symbol(path)}({wanted})"
            for path in self.random.choices(list(self.code.files), k=self.random.randint(4, 40))
        ]
        found = self.hidden("\n".join(rows))
        given = {"pattern": wanted, "path": "/home/dev/shop/src", "output_mode": "content"}
        side = {"mode": "content", "numFiles": len(rows), "filenames": [], "content": found}
        self.writer.call("Grep", given, found, side, words=self.about())

    def fetch(self) -> None:
        noun, number = self.random.choice(NOUNS), self.random.randrange(60)
        url = f"https://docs.example.com/{noun}/v{number}/guide.html"
        page = "\n\n".join(
            f"## {self.code.sentence(4)}\n{self.code.sentence(70)} {noun}_{part}_option "
            f"{self.code.sentence(30)}"
            for part in range(self.random.randint(5, 22))
        )
        page = self.hidden(page)
        side = {"bytes": len(page), "code": 200, "codeText": "OK", "result": page, "url": url}
        given = {"url": url, "prompt": self.code.sentence(9)}
        self.writer.call("WebFetch", given, page, side, words=self.about())
        self.seen.append(f"{noun}_{number}_option")

    def web(self) -> None:
        query = self.code.sentence(5)
        rows = [
            f"- [{self.code.sentence(5)}](https://blog.example.org/"
            f"{self.random.choice(NOUNS)}/{n}): {self.code.sentence(26)}"
            for n in range(10)
        ]
        found = self.hidden("\n".join(rows))
        self.writer.call("WebSearch", {"query": query}, found, {"query": query, "results": rows})

    def todo(self) -> None:
        done = sum(each["status"] == "completed" for each in self.todos)
        if done == len(self.todos):
            self.todos = [
                {
                    "content": f"{self.random.choice(VERBS)} the {self.code.sentence(6)} {n}",
                    "status": "pending",
                }
                for n in range(self.random.randint(4, 12))
            ]
        for each in self.todos[done : done + 2]:
            each["status"] = "completed" if each["status"] == "in_progress" else "in_progress"
        old = [dict(each) for each in self.todos]
        now = [{**each, "activeForm": f"Doing: {each['content']}"} for each in self.todos]
        told = "Todos have been modified successfully. Continue with the current tasks."
        self.writer.call("TodoWrite", {"todos": now}, told, {"oldTodos": old, "newTodos": now})

    def agent(self) -> None:
        path = self.here()
        report = "\n".join(
            f"- {self.code.symbol(path)} in {path}: {self.code.sentence(24)}"
            for _ in range(self.random.randint(6, 24))
        )
        report = self.hidden(report)
        agent_id = f"{self.random.getrandbits(64):016x}"
        given = {
            "description": self.code.sentence(4),
            "subagent_type": self.random.choice(("Explore", "reviewer", "general-purpose")),
            "prompt": f"Look at {path}. {self.code.sentence(60)}",
        }
        side = {
            "status": "completed",
            "agentId": agent_id,
            "content": [{"type": "text", "text": report}],
        }
        self.writer.call("Agent", given, [{"type": "text", "text": report}], side)
        self.writer.chars += len(report) - 4_800
        self.saw(path, report)

    def image(self) -> None:
        path = f"/home/dev/shop/shots/{self.random.choice(NOUNS)}-{self.random.randrange(30)}.png"
        data = base64.b64encode(self.random.randbytes(IMAGE_BYTES)).decode()
        source = {"type": "base64", "media_type": "image/png", "data": data}
        file = {"base64": data, "type": "image/png", "originalSize": IMAGE_BYTES}
        self.writer.call(
            "Read",
            {"file_path": path},
            [{"type": "image", "source": source}],
            {"type": "image", "file": file},
            words=self.about(),
        )
        self.count(path, 0)
