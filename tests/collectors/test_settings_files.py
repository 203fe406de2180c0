"""Settings files: found in every scope, read without secrets, and followed."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.claude_code.config import config_files, config_reader
from ctxtop.collectors.claude_code.config.hook_settings import mask_secrets
from ctxtop.core.measure.effective_config import resolve_settings
from ctxtop.core.model.config_records import ConfigScope, HookHandler

from ..surroundings import project, put, settings_of

if TYPE_CHECKING:
    from ctxtop.collectors.claude_code.config.save_files import SystemFolders
    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder

    from ..recorder import Recorder

SECRET = "hunter2-Geheimnis"


def test_every_scope_is_found_and_the_first_wins(
    claude: ClaudeFolder, collector: Collector, store: Path, machine: SystemFolders, tmp_path: Path
) -> None:
    here = project(claude, tmp_path / "a")
    places = [
        machine.managed_folder / "managed-settings.d" / "10.json",
        machine.managed_folder / "managed-settings.json",
        here / ".claude" / "settings.local.json",
        here / ".claude" / "settings.json",
        claude.root / "settings.json",
    ]
    for number, place in enumerate(places):
        put(place, {"autoCompactWindow": number})
    put(machine.managed_folder / "managed-settings.d" / "readme.txt", "x")
    for number, place in enumerate(places):
        collector.scan()
        found = settings_of(store)
        assert set(found) == {str(each) for each in places[number:]}
        assert resolve_settings(found.values(), str(here))["autoCompactWindow"].value == number
        place.unlink()
    collector.scan()
    assert settings_of(store) == {}


def test_what_is_kept_of_a_file(claude: ClaudeFolder, collector: Collector, store: Path) -> None:
    put(
        claude.root / "settings.json",
        {
            "model": "opus[1m]",
            "autoCompactEnabled": False,
            "autoCompactWindow": "auto",
            "modelSettings": {"claude-opus-5-5": {"autoCompactWindow": 150_000}, "x": 1},
            "precomputeCompactionEnabled": True,
            "idleCompaction": False,
            "disableAllHooks": True,
            "cleanupPeriodDays": 90,
            "outputStyle": "Explanatory\x1b[2J",
            "statusLine": {"type": "command", "command": "/x/sl.sh", "padding": 0},
            "enabledPlugins": {"kit@market": False},
            "env": {"DISABLE_COMPACT": "1", "CLAUDE_CODE_AUTO_COMPACT_WINDOW": 120_000},
            "permissions": {"allow": ["Bash(*)"]},
            "unknownOne": "kept by nobody",
            "hooks": {
                "PreCompact": [
                    {
                        "matcher": "manual|auto",
                        "hooks": [
                            {"type": "command", "command": "/x/h", "args": ["--y"], "timeout": 10},
                            {"type": "command", "command": "/x/h", "async": True},
                        ],
                    }
                ],
                "Stop": [{"hooks": [{"type": "prompt", "prompt": "Is it\ndone?"}]}],
            },
        },
    )
    collector.scan()
    (fact,) = settings_of(store).values()

    assert (fact.scope, fact.project, fact.problem) == (ConfigScope.USER, None, None)
    assert fact.values == {
        "model": "opus[1m]",
        "autoCompactEnabled": False,
        "autoCompactWindow": "auto",
        "modelSettings.claude-opus-5-5.autoCompactWindow": 150_000,
        "precomputeCompactionEnabled": True,
        "idleCompaction": False,
        "disableAllHooks": True,
        "cleanupPeriodDays": 90,
        "outputStyle": "Explanatory[2J",
        "statusLine.type": "command",
        "statusLine.command": "/x/sl.sh",
        "enabledPlugins.kit@market": False,
        "env.DISABLE_COMPACT": "1",
        "env.CLAUDE_CODE_AUTO_COMPACT_WINDOW": 120_000,
    }
    assert fact.hooks == (
        HookHandler("PreCompact", "command", "/x/h --y", 10.0, matcher="manual|auto"),
        HookHandler("PreCompact", "command", "/x/h", matcher="manual|auto"),
        HookHandler("Stop", "prompt", "Is it done?"),
    )


def test_no_secret_reaches_the_store(
    claude: ClaudeFolder, collector: Collector, store: Path, tmp_path: Path
) -> None:
    env = dict.fromkeys(
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "MY_VALUE", "DISABLE_COMPACT_X"), SECRET
    )
    handlers: list[dict[str, Any]] = [
        {
            "type": "command",
            "command": f"API_KEY={SECRET} run --token {SECRET} --auth-token={SECRET}",
        },
        {"type": "command", "command": f'curl -H "Authorization: Bearer {SECRET}"'},
        {"type": "http", "url": f"https://u:{SECRET}@h/x?k={SECRET}", "headers": {"X": SECRET}},
        {"type": "command", "command": f"echo sk-ant-{SECRET}"},
    ]
    said = {
        "env": env | {"DISABLE_COMPACT": "1"},
        "apiKeyHelper": SECRET,
        "statusLine": {"type": "command", "command": f"PASSWORD={SECRET} x"},
        "hooks": {"Stop": [{"hooks": handlers}]},
        "mcpServers": {"a": {"env": {"K": SECRET}}},
    }
    here = project(claude, tmp_path / "a")
    put(claude.root / "settings.json", said)
    put(here / ".claude/settings.local.json", said)
    put(here / ".claude/settings.json", json.dumps(said)[:-20])
    collector.scan()

    assert len(settings_of(store)) == 3
    for path in store.parent.iterdir():
        assert SECRET.encode() not in path.read_bytes()


@pytest.mark.parametrize(
    "command",
    [
        "/home/dev/bin/hook --level 3",
        "python3 -m tokenise key.txt",
        "echo done > /tmp/x",
        "node a.js",
    ],
)
def test_a_command_without_secrets_stays_as_it_is(command: str) -> None:
    assert mask_secrets(command) == command


BAD = [
    (b'{"model":', "is not JSON"),
    (b"[1]", "is not a JSON object"),
    (b"\xff\xfe{}", "is not JSON"),
    (b'{"model":"\xff"}', "is not"),
    (b'{"a":' * 3000 + b"1" + b"}" * 3000, "is nested too deeply"),
    (b'{"model":"x"} // comment', "is not JSON"),
    (b"{" + b" " * config_reader.MAX_SETTINGS_BYTES + b"}", "is larger than 1024 KiB"),
]


@pytest.mark.parametrize(("data", "reason"), BAD)
def test_a_file_that_is_not_valid_says_nothing_and_is_told(
    claude: ClaudeFolder,
    collector: Collector,
    recorder: Recorder,
    store: Path,
    data: bytes,
    reason: str,
) -> None:
    path = put(claude.root / "settings.json", {"model": "opus"})
    collector.scan()
    put(path, data)
    for _ in range(2):
        collector.scan()
    (fact,) = settings_of(store).values()

    assert fact.values == {}
    assert fact.problem is not None
    assert reason in fact.problem
    assert [trouble.where for trouble in recorder.troubles] == [str(path)]
    assert "\n" not in str(recorder.troubles[0])

    put(path, {"model": "haiku"})
    collector.scan()
    (fact,) = settings_of(store).values()
    assert (fact.values, fact.problem) == ({"model": "haiku"}, None)
    assert recorder.ended == [str(path)]


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b" \n",
        b"\xef\xbb\xbf{}",
        b'{"env":[],"hooks":[],"statusLine":3,"modelSettings":[],"enabledPlugins":"x"}',
        b'{"hooks":{"Stop":{"a":1},"X":[1,null,{"hooks":2},{"hooks":[3,"x"]}]}}',
        b'{"model":{"a":1},"autoCompactWindow":[1],"cleanupPeriodDays":null}',
        b'{"cleanupPeriodDays":' + b"9" * 40 + b"}",
    ],
)
def test_fields_of_another_shape_are_passed_over(
    claude: ClaudeFolder, collector: Collector, store: Path, said: bytes
) -> None:
    put(claude.root / "settings.json", said)
    collector.scan()
    (fact,) = settings_of(store).values()

    assert (fact.hooks, fact.problem) == ((), None)
    assert set(fact.values) <= {"cleanupPeriodDays"}


def test_a_fifo_and_a_folder_are_no_settings(
    claude: ClaudeFolder, collector: Collector, store: Path, tmp_path: Path
) -> None:
    here = project(claude, tmp_path / "a")
    (here / ".claude" / "settings.local.json").mkdir(parents=True)
    os.mkfifo(here / ".claude" / "settings.json")
    os.mkfifo(claude.root / "settings.json")
    collector.scan()
    found = settings_of(store).values()

    assert [fact.problem for fact in found] == ["is not a regular file"] * 3


def test_a_file_that_may_not_be_read_is_read_when_it_may(
    claude: ClaudeFolder,
    collector: Collector,
    recorder: Recorder,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = put(claude.root / "settings.json", {"model": "opus"})

    def refuse(*_: object) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as shut:
        shut.setattr(config_files, "read_config_file", refuse)
        collector.scan()
        assert settings_of(store) == {}
        assert [trouble.where for trouble in recorder.troubles] == [str(path)]
    collector.scan()

    assert len(settings_of(store)) == 1
    assert recorder.ended == [str(path)]


CORPUS = os.environ.get("CTXTOP_SHARED")


@pytest.mark.skipif(not CORPUS, reason="CTXTOP_SHARED does not name the shared folder")
def test_the_settings_of_the_real_clients_folder(
    claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    real = Path(CORPUS or "") / "corpus" / "current" / "config" / "settings.json"
    put(claude.root / "settings.json", real.read_bytes())
    collector.scan()
    (fact,) = settings_of(store).values()

    assert fact.problem is None
    assert fact.values["statusLine.type"] == "command"
    assert len(fact.hooks) == len(json.loads(real.read_bytes())["hooks"])
