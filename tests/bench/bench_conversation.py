"""The Conversation tab of a 100 MB transcript: opening, paging and searching, and memory.

Milliseconds from a key to the frame that shows what it did, at 120x40, each beside the same
measurement of an empty Textual screen that is pushed (the ratio). Peak memory is that of the
process. Usage: python -m tests.bench.bench_conversation [megabytes] [rounds]
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from textual.app import App
from textual.screen import Screen
from textual.widgets import Static

from tests import transcripts

from .bench_burst import SIZE, Frames, press, quantile, watched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ctxtop.tui.app import CtxtopApp
    from ctxtop.tui.screens.session.conversation_pane import ConversationPane

MEGABYTE: Final = 1_000_000
TARGET_MS: Final = 150
PAGES: Final = 60
NEEDLE: Final = "quetzalcoatlus"
NEEDLE_EVERY: Final = 2_000  # turns
WORDS: Final = (
    "the parser reads one line at a time and keeps its offset so that a test can fail when the"
    " buffer is empty or the index points behind the last block of a file that was rewritten"
).split()
ANSWER: Final = """\
I looked at **{words}** and found two causes:

1. `{code}` is called before the lock is taken
2. the [index](https://example.org/{code}) is stale

```python
def {code}(line: bytes) -> int:
    return len(line)
```
"""


def turn_lines(number: int, chance: random.Random) -> Iterator[transcripts.JsonLine]:
    """A turn of the kind that long sessions have: a prompt, tool calls, an answer."""
    words = " ".join(chance.choices(WORDS, k=20))
    needle = NEEDLE if number % NEEDLE_EVERY == 0 else ""
    context = 20_000 + number * 97 % 150_000
    yield transcripts.user(f"{words} {needle}", at=number)
    for call in range(chance.randint(1, 4)):
        name = f"toolu_{number}_{call}"
        asked = transcripts.tool("Bash", name, command=f"grep -rn {WORDS[call]} src | head -200")
        yield transcripts.assistant(f"msg_{number}_{call}", context, content=[asked], at=number)
        rows = (" ".join(chance.choices(WORDS, k=9)) for _ in range(chance.randint(5, 120)))
        yield transcripts.tool_result(name, "\n".join(rows), {}, at=number)
    text = ANSWER.format(words=words, code=chance.choice(WORDS))
    content = [transcripts.text(text)]
    yield transcripts.assistant(f"msg_{number}", context + 900, content=content, at=number)


def write_transcript(path: Path, size: int) -> None:
    """Write turns until the file has `size` bytes."""
    chance, number = random.Random(7), 0
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < size:
            number += 1
            for line in turn_lines(number, chance):
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
