"""What the answers of a hook load: the client waits for them."""

from __future__ import annotations

import subprocess
import sys

import ctxtop
import pytest

ROOT = ctxtop.__path__[0].rpartition("/")[0]

SLOW = ("textual", "rich", "click", "sqlite_utils", "watchfiles", "tiktoken", "psutil", "yaml")

CALL = """
import sys
import ctxtop.collectors.plugin.hook
from ctxtop.collectors.plugin import hook_answer
call = hook_answer.{call}(sys.argv[2], {{
    "session_id": "11111111-0000-4000-8000-000000000000", "prompt": "go", "cwd": "/nowhere",
    "transcript_path": "/nowhere/projects/x/11111111-0000-4000-8000-000000000000.jsonl",
    "agent_type": "worker", "stop_hook_active": False, "agent_transcript_path": "/nowhere/a.jsonl",
}}, "/nowhere/store.db", 0)
module = __import__("ctxtop.collectors.plugin.answers." + sys.argv[1], fromlist=["answer"])
if sys.argv[1] == "prompts":
    module.is_throttled = lambda *_: True
try:
    said = module.answer(call)
except hook_answer._SlowAnswerError:
    said = "later"
print(said, *sys.modules)
"""
SLOW_EVENTS = [
    ("inject", "SubagentStart"),
    ("steer", "PreCompact"),
    ("remember", "PostCompact"),
]


def answer(call: str, feature: str, event: str, *flags: str) -> tuple[str, set[str]]:
    """Return what a feature says to a kind of call, and what it has loaded."""
    root = f"import sys; sys.path.append({ROOT!r})\n"
    words = [sys.executable, "-I", *flags, "-c", root + CALL.format(call=call), feature, event]
    ended = subprocess.run(words, capture_output=True, check=True)
    said, *loaded = ended.stdout.decode().split()
    return said, set(loaded)


@pytest.mark.parametrize(("feature", "event"), SLOW_EVENTS)
def test_an_answer_loads_nothing_that_takes_long(feature: str, event: str) -> None:
    said, loaded = answer("HookCall", feature, event)
    assert said == "None"
    assert not {name.partition(".")[0] for name in loaded} & set(SLOW)
    assert "ctxtop.core" in loaded


@pytest.mark.parametrize(
    ("feature", "event"),
    [
        ("confirm", "UserPromptSubmit"),
        ("cold", "UserPromptSubmit"),
        ("remember", "UserPromptSubmit"),
        ("prompts", "UserPromptSubmit"),
        ("enforce", "SubagentStop"),
        *SLOW_EVENTS,
    ],
)
def test_a_first_look_loads_what_a_record_loads(feature: str, event: str) -> None:
    said, loaded = answer("_FirstLook", feature, event, "-S")
    assert said == ("later" if (feature, event) in SLOW_EVENTS else "None")
    slow = {"re", "enum", "typing", "pathlib", "dataclasses", "inspect", "json", "site", "signal"}
    assert not slow & loaded
    assert not [name for name in loaded if name.startswith("ctxtop.core.") and "files" not in name]
