"""What hooks are asked, with nothing to say and with something: for the benchmarks of hooks."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ctxtop.collectors.plugin_files import compact_requests

from ..agents_at_work import write_agent
from ..transcripts import append, assistant, boundary, summary, text, user, write

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..transcripts import JsonLine

FEATURES: Final = ("enforce", "inject", "steer", "remember", "prompts", "confirm", "cold")
RULE: Final = "You must never push to the main branch."
Commands = dict[str, str]
"""The command that a build installs for each event."""


def install(
    program: Path, top: Path, features: tuple[str, ...], environ: dict[str, str]
) -> Commands:
    """Let a build install its hooks into a folder of their own, and read what it wrote."""
    config = top / ("+".join(features) or "record")
    (config / "projects").mkdir(parents=True, exist_ok=True)
    words = [str(program), "hooks", "install", "--as", "hooks", "--yes", "--no-statusline"]
    words += ["--config-dir", str(config), "--db", str(top / "state" / "ctxtop.db")]
    words += ["--with", ",".join(features)] if features else []
    subprocess.run(words, check=True, capture_output=True, env=environ)
    hooks = json.loads((config / "settings.json").read_text(encoding="utf-8"))["hooks"]
    return {event: entries[-1]["hooks"][-1]["command"] for event, entries in hooks.items()}


def hook_environment(top: Path) -> dict[str, str]:
    """Return the environment of a client that works in a folder; nothing of this machine's own."""
    own = {"HOME": str(top), "CLAUDE_PROJECT_DIR": str(top), "LANG": "C.UTF-8"}
    return {"PATH": os.environ["PATH"]} | own


def scan_store(program: Path, top: Path, environ: dict[str, str]) -> Path:
    """Let a build read the sessions of `make_cases`; its store."""
    store = top / "state" / "ctxtop.db"
    words = ["scan", "--config-dir", str(top / "config"), "--db", str(store)]
    subprocess.run([str(program), *words], check=True, capture_output=True, env=environ)
    return store


class HookCase(NamedTuple):
    """One call of a hook."""

    name: str
    event: str
    features: tuple[str, ...]
    given: bytes
    says: bool = False
    prepare: Callable[[Path, Commands], None] = lambda *_: None
    """Puts the store's folder into the state in which the hook is called."""


def make_cases(top: Path) -> list[HookCase]:
    """Write the sessions and describe every event, alone and with all features."""
    sessions = _Sessions(top)
    quiet = sessions.quiet
    cases = [HookCase("record", "UserPromptSubmit", (), quiet("UserPromptSubmit"))]
    for features in (*((each,) for each in FEATURES), FEATURES):
        name = features[0] if len(features) == 1 else "all features"
        for event, of_event in EVENTS.items():
            if set(features) & of_event:
                cases.append(HookCase(name, event, features, quiet(event)))
    return cases + sessions.answered()


EVENTS: Final[Mapping[str, frozenset[str]]] = {
    "SubagentStop": frozenset({"enforce"}),
    "SubagentStart": frozenset({"inject"}),
    "PreCompact": frozenset({"steer"}),
    "PostCompact": frozenset({"remember"}),
    "UserPromptSubmit": frozenset({"remember", "prompts", "confirm", "cold"}),
    "PostToolUse": frozenset({"prompts"}),
}


class _Sessions:
    """One session with nothing to say of it, and others with something."""

    def __init__(self, top: Path) -> None:
        self._root = top
        self._projects = top / "config" / "projects"
        lines = [user("What is this?"), assistant("m1", 30_000, content=[text("A shop.")])]
        self._quiet = self._session(1, lines)

    def _session(self, number: int, lines: list[JsonLine], *, old: bool = False) -> Path:
        # Each has a project of its own: an agent is given what other sessions of one found.
        path = self._projects / f"-shop-{number}" / f"{number:08}-0000-4000-8000-000000000001.jsonl"
        noise = [
            {"type": "api-request-blob", "hash": str(n), "blob": "x" * 5000} for n in range(40)
        ]
        # Ahead: the cache must not expire before a long run ends.
        now = time.time() + (-7_200 if old else 3_600)
        at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(now))
        return write(path, [*noise, *(line | {"timestamp": at} for line in lines), *noise[:20]])

    def quiet(self, event: str) -> bytes:
        """Give what the client sends of a session with nothing to say."""
        return self._given(self._quiet, event)

    def _given(self, transcript: Path, event: str, **fields: Any) -> bytes:  # noqa: ANN401
        agent = event.startswith("Subagent")
        told: dict[str, object] = {
            "session_id": transcript.stem,
            "transcript_path": str(transcript),
            "cwd": str(self._root),
            "permission_mode": "default",
            "hook_event_name": event,
            "prompt": "Go on.",
            "trigger": "auto",
            "compact_summary": "<summary>We did it.</summary>",
            "tool_name": "Bash",
            "tool_input": {"command": "make test"},
            "tool_response": {"stdout": "ok\n" * 2000, "stderr": ""},
        }
        if agent:
            own = transcript.with_suffix("") / "subagents" / "agent-new.jsonl"
            told |= {"agent_id": "new", "agent_type": "reviewer", "stop_hook_active": False}
            told |= {"agent_transcript_path": str(own), "last_assistant_message": "All is well."}
        return json.dumps(told | fields).encode()

    def answered(self) -> list[HookCase]:
        """Describe the calls that are answered."""
        full = self._session(
            3,
            [user("Go."), assistant("m2", 165_000, model=SMALL_WINDOW)],
        )
        far = self._session(2, [user("Go."), assistant("m0", 30_000)])
        expired = self._session(4, [user("Go."), assistant("m3", 150_000)], old=True)
        ruled = self._session(5, [user(RULE), assistant("m4", content=[text("Yes.")])])
        helped = self._session(6, [user("Go.")])
        write_agent(
            helped, "w1", "[COMPRESSED] agent_type: worker\nChanged files: a.py\nResult: It is."
        )
        stopped = self._session(7, [user("Go.")])
        skilled = [
            user("<command-name>/compress-output</command-name>", isMeta=True, isSidechain=True)
        ]
        own = stopped.with_suffix("") / "subagents" / "agent-new.jsonl"
        write(own, [*skilled, assistant("m7", content=[text("All is well.")], isSidechain=True)])
        lost = self._session(8, [user(RULE), assistant("m8", content=[text("Yes.")])])
        asked = self._session(9, [user("Go."), assistant("m9", 9_000)])

        def forget(of: Path, store: Path) -> None:
            for path in Path(f"{store}.logs").rglob(f"*{of.stem}*"):
                path.unlink()

        def lose_rule(store: Path, commands: Commands) -> None:
            after = self._given(lost, "PostCompact")
            subprocess.run(["sh", "-c", commands["PostCompact"]], input=after, check=True)
            if b"compact_boundary" not in lost.read_bytes():
                append(lost, [boundary(), summary("We did it.")])

        def confirm(store: Path, _commands: Commands) -> None:
            forget(asked, store)
            compact_requests.make_request_folders(str(store))
            path = compact_requests.request_path(
                str(store),
                asked.stem,
                "0" * compact_requests.REQUEST_CHARS,
                compact_requests.RESULT,
            )
            result = {"state": "done", "pre_tokens": 90_000, "post_tokens": 9_000, "at": "2026"}
            compact_requests.write_request_file(path, result)

        def case(
            feature: str,
            event: str,
            of: Path,
            prepare: Callable[[Path, Commands], None] | None = None,
        ) -> HookCase:
            given = self._given(of, event)
            prepare = prepare or (lambda store, _: forget(of, store))
            return HookCase(
                f"{feature} speaks", event, (feature,), given, says=True, prepare=prepare
            )

        first = HookCase(
            "prompts, a full check",
            "PostToolUse",
            ("prompts",),
            self._given(far, "PostToolUse"),
            prepare=lambda store, _: forget(far, store),
        )
        return [
            first,
            case("enforce", "SubagentStop", stopped),
            case("inject", "SubagentStart", helped),
            case("steer", "PreCompact", ruled),
            case("remember", "UserPromptSubmit", lost, lose_rule),
            case("prompts", "UserPromptSubmit", full),
            case("prompts", "PostToolUse", full),
            case("confirm", "UserPromptSubmit", asked, confirm),
            case("cold", "UserPromptSubmit", expired),
        ]


SMALL_WINDOW: Final = "claude-haiku-4-5"


def ask(command: str, given: bytes, environ: dict[str, str]) -> tuple[float, bytes]:
    """Run a hook as the client does; seconds and what it said."""
    began = time.perf_counter()
    ended = subprocess.run(
        ["sh", "-c", command], input=given, capture_output=True, check=True, env=environ
    )
    return time.perf_counter() - began, ended.stdout
