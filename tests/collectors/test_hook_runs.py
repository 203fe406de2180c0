"""Runs of Stop hooks, from the client's summary of them, with the timeouts of plugins."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from ctxtop.core.measure.hook_runs import time_hooks
from ctxtop.core.model.config_records import HookHandler
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries.config_queries import hook_handlers, hook_runs

from ..surroundings import put
from ..transcripts import PROJECT, SESSION, JsonLine, chained, user, write
from .test_definition_files import install

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.model.stored_rows import HookRun


def stopped(at: int, *hooks: dict[str, Any], **fields: Any) -> JsonLine:  # noqa: ANN401
    return chained("system", at, subtype="stop_hook_summary", hookInfos=list(hooks), **fields)


def runs_of(store: Path) -> list[HookRun]:
    with closing(open_reader(store)) as db:
        return hook_runs(db, SESSION)


def test_each_hook_with_a_duration_is_a_run(
    claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    check = {"command": "check  --token=hunter2 \x1b[2J", "durationMs": 12}
    write(
        claude.projects / PROJECT / f"{SESSION}.jsonl",
        [
            user(),
            stopped(1, check, {"command": "callback"}, hookErrors=["no tests", 7]),
            stopped(2, check, stopReason="enough", hookLabel="SubagentStop"),
            stopped(3, hookErrors="odd"),
            stopped(4, {"command": "check", "durationMs": "long"}),
        ],
    )
    collector.scan()
    first, second = runs_of(store)
    assert (first.event, first.duration_ms, first.reason) == ("Stop", 12, "no tests")
    assert (second.event, second.reason) == ("SubagentStop", "enough")
    assert first.command.startswith("check --token=…")
    assert "\x1b" not in first.command


def test_a_hook_of_several_lines_is_found_with_its_timeout(
    claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    """As client 2.1.329 writes them; `tests/client/test_hooks.py` has its own lines."""
    words = "Decide what to save, token: abc\nGiven: $ARGUMENTS"
    agent = {"type": "agent", "prompt": words, "timeout": 180}
    named = {"type": "command", "command": "x", "timeout": 9, "statusMessage": "Saving …"}
    put(claude.root / "settings.json", {"hooks": {"Stop": [{"hooks": [agent, named]}]}})
    recorded = [words.replace("\n", "\u2424"), "Saving …"]
    runs = [{"command": each, "durationMs": 1} for each in recorded]
    write(claude.projects / PROJECT / f"{SESSION}.jsonl", [user(), stopped(1, *runs)])
    collector.scan()
    with closing(open_reader(store)) as db:
        timings = time_hooks(hook_runs(db, SESSION), hook_handlers(db))
    assert {(each.kind, each.timeout_ms, each.has_default_timeout) for each in timings} == {
        ("agent", 180_000, False),
        ("command", 9_000, False),
    }


def test_the_hooks_of_an_installed_plugin(
    claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    kit = claude.root / "plugins/cache/market/kit0/1.0.0"
    hook = {"type": "command", "command": "${CLAUDE_PLUGIN_ROOT}/t.py", "timeout": 60}
    put(kit / "hooks/hooks.json", {"model": "opus", "hooks": {"Stop": [{"hooks": [hook]}]}})
    install(claude, kit)

    def handlers() -> list[HookHandler]:
        collector.scan()
        with closing(open_reader(store)) as db:
            return hook_handlers(db)

    assert handlers() == [HookHandler("Stop", "command", "${CLAUDE_PLUGIN_ROOT}/t.py", 60.0)]
    install(claude)
    assert handlers() == []
