"""Each pair of features answers at least what each of the two answers without the other."""

from __future__ import annotations

import json
import time
from itertools import combinations
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest
from ctxtop.collectors.plugin import hook_answer
from ctxtop.collectors.plugin.installed_commands import FEATURE_EVENTS
from ctxtop.collectors.plugin_files import compact_requests, plugin_log
from ctxtop.core.summaries.steering import KEEP_HEADING, RULES_HEADING

from ..agents_at_work import write_agent
from ..transcripts import (
    PROJECT,
    SESSION,
    START_MS,
    append,
    assistant,
    attachment,
    boundary,
    summary,
    text,
    usage,
    user,
    write,
)
from ..trusted_files import write_trusted

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

RULE: Final = "You must never push to the main branch."
DECISIONS: Final = [f"We decided to keep part number {n} {'of the shop ' * 20}" for n in range(9)]
MODEL: Final = "claude-opus-5-5"
NOW_MS: Final = START_MS + 3 * 3_600_000
REQUEST: Final = "0123456789abcdef"


class Story:
    """A session in which every feature has something to answer, seen by the hooks of some."""

    def __init__(self, root: Path, features: Iterable[str]) -> None:
        self.root = root
        self.store = root / "state" / "ctxtop.db"
        self.features = frozenset(features)
        self.session = root / "claude" / "projects" / PROJECT / f"{SESSION}.jsonl"
        self.answered: dict[str, list[str]] = {}
        """Texts by step: what the model is told, what the person is told, why an agent goes on."""

    def tell(self) -> dict[str, list[str]]:
        """Go through the story; returns the answers by step."""
        counts = usage(cache_creation_input_tokens=5_000, cache_read_input_tokens=845_000)
        said = [text(each) for each in DECISIONS]
        write(
            self.session,
            [
                user(RULE),
                attachment("model", identity={"modelId": MODEL}),
                assistant("m1", model=MODEL, counts=counts, content=said, version="2.1.329"),
            ],
        )
        self._write_agents()
        write_result(self.store)
        self.hear("UserPromptSubmit", "full", prompt="Go on.")
        self.hear("SubagentStart", "agent starts", agent_id="new", agent_type="worker")
        self._stop_agent()
        self.hear("PreCompact", "before", trigger="manual")
        self.hear("PostCompact", "after", compact_summary="Nothing was kept.")
        append(self.session, [boundary(), summary("Nothing was kept."), *self._echo()])
        self.hear("UserPromptSubmit", "next", prompt="More.")
        return self.answered

    def hear(self, event: str, step: str, **fields: object) -> None:
        given = {
            "hook_event_name": event,
            "session_id": SESSION,
            "transcript_path": str(self.session),
            "cwd": str(self.root),
        }
        named = [name for name, events in FEATURE_EVENTS.items() if event in events]
        asked = [name for name in named if name in self.features]
        printed: list[bytes] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(plugin_log, "write_stdout", printed.append)
            data = json.dumps(given | fields).encode()
            hook_answer.answer_event(str(self.store), event, data, asked)
        if printed:
            said = b"".join(printed).decode().replace(str(self.root), "ROOT")
            self.answered[step] = [said] if event == "PreCompact" else texts_of(json.loads(said))

    def _write_agents(self) -> None:
        write_agent(self.session, "w1", "[COMPRESSED] agent_type: worker\nResult: The cart rounds.")
        skill = self.root / "claude" / "skills" / "compress-output" / "SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text("Begin with [COMPRESSED].\n", encoding="utf-8")

    def _stop_agent(self) -> None:
        words = "I built it, and this is how."
        path = write_agent(self.session, "a1", "", finished=None)
        head = "<command-message>compress-output</command-message>"
        named = f"{head}\n<command-name>compress-output</command-name>"
        body = "Base directory for this skill: /x\n\nDo."
        skill = user([text(named), text(body)], isMeta=True, isSidechain=True)
        append(path, [skill, assistant("m2", content=[text(words)], isSidechain=True)])
        self.hear(
            "SubagentStop",
            "agent stops",
            agent_id="a1",
            agent_type="worker",
            agent_transcript_path=str(path),
            stop_hook_active=False,
            last_assistant_message=words,
        )

    def _echo(self) -> list[dict[str, Any]]:
        """The client shows the model what a hook at PreCompact printed, after `/compact`."""
        if "before" not in self.answered:
            return []
        shown = f"PreCompact [hook] completed successfully: {self.answered['before'][0]}"
        return [user(f"<local-command-stdout>Compacted\n{shown}</local-command-stdout>")]


def write_result(store: Path) -> None:
    """Leave how a request to compact the session ended."""
    compact_requests.make_request_folders(str(store))
    path = compact_requests.request_path(str(store), SESSION, REQUEST, compact_requests.RESULT)
    result = {"state": "done", "pre_tokens": 850_000, "estimated_next_tokens": 20_000}
    compact_requests.write_request_file(path, result)


def texts_of(said: dict[str, Any]) -> list[str]:
    found = (
        said.get("hookSpecificOutput", {}).get("additionalContext"),
        said.get("systemMessage"),
        said.get("reason"),
    )
    return [each for each in found if each]


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    for name in ("CLAUDE_PROJECT_DIR", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    clock = SimpleNamespace(time_ns=lambda: NOW_MS * 1_000_000, monotonic=time.monotonic)
    monkeypatch.setattr(hook_answer, "time", clock)


def told(root: Path, *features: str) -> dict[str, list[str]]:
    root.mkdir()
    return Story(root, features).tell()


ALONE: Final = {
    "enforce": {"agent stops": "V01: No line starts with the marker."},
    "inject": {"agent starts": "The cart rounds."},
    "steer": {"before": KEEP_HEADING},
    "remember": {"next": f'{RULES_HEADING}\n- "{RULE}"'},
    "prompts": {"full": "context"},
    "confirm": {"full": "ctxtop compacted this session: 850k → 20k tokens."},
    "cold": {"full": "the prompt cache expired"},
}
"""What each feature answers, and at which step of the story."""


def test_the_story_has_something_for_every_feature(tmp_path: Path) -> None:
    assert ALONE.keys() == FEATURE_EVENTS.keys()
    for feature, steps in ALONE.items():
        answered = told(tmp_path / feature, feature)
        assert answered.keys() == steps.keys(), feature
        for step, words in steps.items():
            assert words in "\n".join(answered[step]), (feature, step)


@pytest.mark.parametrize("pair", [*combinations(FEATURE_EVENTS, 2)], ids="+".join)
def test_no_feature_answers_less_beside_another(tmp_path: Path, pair: tuple[str, str]) -> None:
    together = told(tmp_path / "both", *pair)
    for feature in pair:
        for step, texts in told(tmp_path / feature, feature).items():
            for each in texts:
                assert any(each in other for other in together[step]), (feature, step)


def test_a_long_answer_leaves_room_for_a_short_one(tmp_path: Path) -> None:
    many = [f"You must never touch part number {n} {'or its tests ' * 30}" for n in range(70)]
    root = tmp_path / "both"
    root.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLAUDE_PROJECT_DIR", str(root))
        write_trusted(root, "[steering]\nagain = 50000\n")
        story = Story(root, ("remember", "confirm"))
        write(story.session, [user(each) for each in many])
        story.hear("PostCompact", "after", compact_summary="Nothing was kept.")
        append(story.session, [boundary(), summary("Nothing was kept.")])
        write_result(story.store)
        story.hear("UserPromptSubmit", "next", prompt="More.")
    (said,) = story.answered["next"]
    assert len(said) == hook_answer.MAX_REPLY_CHARS
    assert "[cut]\n\n" in said
    assert said.endswith("850k → 20k tokens.")
