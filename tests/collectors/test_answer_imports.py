"""What the answers of a hook load: the client waits for them."""

from __future__ import annotations

import subprocess
import sys

import ctxtop
import pytest

ROOT = ctxtop.__path__[0].rpartition("/")[0]

SLOW = ("textual", "rich", "click", "sqlite_utils", "watchfiles", "tiktoken", "psutil", "yaml")

SHOW = "import sys; import ctxtop.collectors.plugin.answers.{0} as it; print(*sys.modules)"


@pytest.mark.parametrize("feature", ["inject", "steer", "remember"])
def test_an_answer_loads_nothing_that_takes_long(feature: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-I", "-c", SHOW.format(feature)], capture_output=True, check=True
    )
    loaded = {name.partition(".")[0] for name in ended.stdout.decode().split()}
    assert not loaded & set(SLOW)
    assert "ctxtop" in loaded


@pytest.mark.parametrize("feature", ["remember", "cold"])
def test_a_prompt_after_which_nothing_is_left_to_say_loads_hardly_anything(feature: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-I", "-c", SHOW.format(feature)], capture_output=True, check=True
    )
    loaded = set(ended.stdout.decode().split())
    assert not {"msgspec", "sqlite3", "ctxtop.core.summaries"} & loaded


QUIET = """
import sys
import ctxtop.collectors.plugin.hook
from ctxtop.collectors.plugin import hook_answer
call = hook_answer.HookCall(sys.argv[2], {
    "session_id": "11111111-0000-4000-8000-000000000000", "prompt": "go", "cwd": "/nowhere",
    "transcript_path": "/nowhere/projects/x/11111111-0000-4000-8000-000000000000.jsonl",
    "agent_type": "worker", "stop_hook_active": False, "agent_transcript_path": "/nowhere/a.jsonl",
}, "/nowhere/store.db", 0)
module = __import__("ctxtop.collectors.plugin.answers." + sys.argv[1], fromlist=["answer"])
if sys.argv[1] == "prompts":
    module.is_throttled = lambda *_: True
print(module.answer(call), *sys.modules)
"""


@pytest.mark.parametrize(
    ("feature", "event"),
    [
        ("confirm", "UserPromptSubmit"),
        ("cold", "UserPromptSubmit"),
        ("remember", "UserPromptSubmit"),
        ("prompts", "UserPromptSubmit"),
        ("enforce", "SubagentStop"),
    ],
)
def test_an_answer_with_nothing_to_say_loads_what_a_record_loads(feature: str, event: str) -> None:
    words = [sys.executable, "-I", "-S", "-c"]
    root = f"import sys; sys.path.append({ROOT!r})\n"
    ended = subprocess.run([*words, root + QUIET, feature, event], capture_output=True, check=True)
    said, *loaded = ended.stdout.decode().split()
    assert said == "None"
    slow = {"re", "enum", "typing", "pathlib", "dataclasses", "inspect", "json", "site", "signal"}
    assert not slow & set(loaded)
    assert not [name for name in loaded if name.startswith("ctxtop.core.") and "files" not in name]
