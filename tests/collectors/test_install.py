"""Installing into real files: what is refused, what is kept, and the way back."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop import __version__
from ctxtop.collectors.claude_code.config.config_reader import MAX_SETTINGS_BYTES
from ctxtop.collectors.install import install_plan as carrying
from ctxtop.collectors.install import install_status
from ctxtop.collectors.install.install_plan import (
    MAX_BACKUPS,
    InstallPlan,
    InstallRecords,
    apply_install,
    install_diff,
    install_folder,
    plan_install,
    plan_uninstall,
)
from ctxtop.collectors.install.install_status import (
    InstallState,
    InstallStatus,
    read_install_status,
)
from ctxtop.collectors.install.settings_file import (
    RECORDED_EVENTS,
    ChangedError,
    InstallOptions,
    NotSafeError,
    SettingsScope,
    settings_location,
)
from ctxtop.core.files.file_operations import write_file_atomically

from ..installs import FOREIGN, SETTINGS, older, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctxtop.collectors.install.settings_file import SettingsLocation


class Home:
    """A user's folders, and what a person does there."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.config = top / "home" / ".claude"
        self.settings = self.config / "settings.json"
        self.project = top / "project"
        self.store = top / "state" / "ctxtop.db"
        self.plugin = self.config / "skills" / "ctxtop"
        self.config.mkdir(parents=True)
        self.project.mkdir()

    def place(self, scope: str = "user") -> SettingsLocation:
        return settings_location(SettingsScope(scope), self.config, self.project)

    def write(self, data: str | bytes) -> bytes:
        written = data if isinstance(data, bytes) else data.encode()
        self.settings.write_bytes(written)
        return written

    def plan(self, *features: str, scope: str = "user", form: str = "hooks") -> InstallPlan:
        wanted = InstallOptions(
            self.store, features, as_plugin=form == "plugin", status_line=scope == "user"
        )
        return plan_install(self.place(scope), self.config, wanted)

    def install(self, *features: str, scope: str = "user", form: str = "hooks") -> Path | None:
        return apply_install(self.plan(*features, scope=scope, form=form), self.store)

    def plan_back(self, scope: str = "user") -> InstallPlan:
        return plan_uninstall(self.place(scope), self.config, self.store)

    def uninstall(self, scope: str = "user") -> Path | None:
        return apply_install(self.plan_back(scope), self.store)

    def status(self) -> InstallStatus:
        places = [self.place(scope) for scope in SettingsScope]
        return read_install_status(places, self.config, self.store, self.top / "managed")

    def files(self) -> set[str]:
        every = (self.top / "home", self.project)
        return {str(path.relative_to(self.top)) for one in every for path in one.rglob("*")}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    made = Home(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    yield made
    assert not list(tmp_path.rglob(".*.ctxtop")), "a temporary file was left behind"


LAYOUTS = {
    "indented": text(),
    "tabs": text(indent="\t"),
    "one line": text(indent=None),
    "crlf": text().replace("\n", "\r\n"),
    "bom": "\ufeff" + text(),
    "no final newline": text().rstrip(),
    "comments": '// mine\n{\n  "model": "opus", // for now\n  /* none */\n}\n',
    "trailing comma": '{\n    "hooks": {\n        "Stop": [],\n    },\n}\n',
    "odd spaces": '{ "a" : [ 1 , 2 ] ,\n\n\n"b":{}}',
    "empty object": "{}",
    "spaced object": "{ }\n",
    "empty": "",
    "blank": "\n\n",
    "names twice": '{"hooks": {"Stop": []}, "model": "a", "model": "b", "hooks": {}}',
    "escapes": '{"caf\\u00e9": "\\ud83d\\ude00 \\/ ü"}\n',
}


@pytest.mark.parametrize("form", ["plugin", "hooks"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_uninstall_restores_every_byte(home: Home, layout: str, form: str) -> None:
    before = home.write(LAYOUTS[layout])
    there = home.files()
    home.install("enforce", form=form)
    assert home.settings.read_bytes() != before
    home.install("inject", form=form)
    home.uninstall()
    assert home.settings.read_bytes() == before
    assert home.files() == there


@pytest.mark.parametrize("form", ["plugin", "hooks"])
@pytest.mark.parametrize("scope", ["user", "project", "local"])
def test_what_was_made_is_gone_again(home: Home, scope: str, form: str) -> None:
    if form == "plugin" and scope != "user":
        with pytest.raises(NotSafeError, match="--as hooks"):
            home.plan(scope=scope, form=form)
        return
    there = home.files()
    assert home.install(scope=scope, form=form) is None
    settings = home.place(scope).settings
    assert stat.S_IMODE(settings.stat().st_mode) == 0o600
    assert home.files() > there
    home.uninstall(scope)
    assert home.files() == there


def test_an_uninstall_from_another_form_restores_too(home: Home) -> None:
    before = home.write(text())
    home.install(form="hooks")
    home.install("steer", form="plugin")
    assert "ctxtop/collectors" not in json.dumps(json.loads(home.settings.read_text())["hooks"])
    assert home.plugin.is_dir()
    home.install(form="hooks")
    assert not home.plugin.exists()
    home.uninstall()
    assert home.settings.read_bytes() == before


def test_what_changed_since_stays_and_only_ours_goes(home: Home) -> None:
    home.write(text())
    home.install(form="hooks")
    now = json.loads(home.settings.read_text())
    now["model"] = "haiku"
    now["hooks"]["Stop"].append({"hooks": [{"type": "command", "command": "later"}]})
    home.write(text(now))
    home.uninstall()
    expected: dict[str, Any] = json.loads(text()) | {"model": "haiku"}
    expected["hooks"]["Stop"].append({"hooks": [{"type": "command", "command": "later"}]})
    assert home.settings.read_text() == text(expected)


def test_a_second_install_after_a_change_brings_back_the_change(home: Home) -> None:
    home.write(text())
    home.install(form="hooks")
    now = json.loads(home.settings.read_text()) | {"model": "haiku"}
    home.write(text(now))
    home.install("inject", form="hooks")
    home.uninstall()
    assert home.settings.read_text() == text(SETTINGS | {"model": "haiku"})


def test_a_file_that_another_made_of_ours_is_not_removed(home: Home) -> None:
    home.install(form="hooks")
    now = json.loads(home.settings.read_text()) | {"model": "haiku"}
    home.write(text(now))
    home.uninstall()
    assert json.loads(home.settings.read_text()) == {"model": "haiku"}


def test_without_receipt_and_backup_what_is_ours_is_taken_out(home: Home) -> None:
    before = home.write(text())
    home.install(form="hooks")
    for path in sorted(install_folder(home.store).rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    home.uninstall()
    assert home.settings.read_bytes() == before


def test_a_damaged_receipt_is_no_obstacle(home: Home) -> None:
    before = home.write(text())
    home.install(form="hooks")
    (receipt,) = install_folder(home.store).glob("*/receipt.json")
    receipt.write_text('{"settings": 7')
    home.uninstall()
    assert home.settings.read_bytes() == before


def test_an_older_installation_elsewhere_is_replaced(home: Home) -> None:
    group = {"matcher": "", "hooks": [FOREIGN, older("Stop", "enforce")]}
    home.write(text({"hooks": {"Stop": [group]}}))
    assert home.status().state is InstallState.FAULTY
    plan = home.plan()
    assert len(plan.removed) == 1
    assert "hook Stop: /old/bin/python" in plan.removed[0]
    home.install()
    assert home.status().state is InstallState.CLEAN
    home.uninstall()
    assert json.loads(home.settings.read_text()) == {
        "hooks": {"Stop": [{"matcher": "", "hooks": [FOREIGN]}]}
    }


def test_a_plan_writes_nothing_and_says_what_it_would(home: Home) -> None:
    before = home.write(text())
    there = home.files()
    plan = home.plan(form="plugin")
    lines = install_diff(plan)
    assert home.settings.read_bytes() == before
    assert home.files() == there
    assert not install_folder(home.store).exists()
    assert any(line.startswith("-") and "my-line --wide" in line for line in lines)
    assert sum(line.startswith("new file ") for line in lines) == len(plan.plugin_after)
    assert plan.unchanged == ("hook Stop: notify-send done", "hook PreToolUse: guard")


def test_a_terminal_obeys_nothing_that_stands_in_the_settings(home: Home) -> None:
    data = home.write('{ // \x1b[2J\u202e\n  "model": "\u009b31m"\n}\n')
    plan = home.plan()
    shown = "\n".join(install_diff(plan))
    assert "// <U+001B>[2J<U+202E>" in shown
    assert '"<U+009B>31m"' in shown
    assert not set("\x1b\u202e\u009b") & set(shown)
    apply_install(plan, home.store)
    home.uninstall()
    assert home.settings.read_bytes() == data


def test_a_secret_beside_a_change_is_not_shown(home: Home) -> None:
    home.write(text({"env": {"API_TOKEN": "sk-abcdefghijklmnop"}}))
    shown = "\n".join(install_diff(home.plan()))
    assert "env" in shown
    assert "abcdefghijklmnop" not in shown


@pytest.mark.parametrize("form", ["plugin", "hooks"])
def test_a_second_time_there_is_nothing_to_do(home: Home, form: str) -> None:
    home.write(text())
    assert home.plan_back().changes_nothing
    home.install("steer", form=form)
    assert home.plan("steer", form=form).changes_nothing
    assert not home.plan(form=form).changes_nothing
    home.uninstall()
    assert home.plan_back().changes_nothing


def test_backup_receipt_and_plugin_are_for_the_user_alone(home: Home) -> None:
    before = home.write(text())
    backup = home.install(form="plugin")
    assert backup is not None
    assert backup.read_bytes() == before
    top = install_folder(home.store)
    for path in [top, *top.rglob("*"), home.plugin, *home.plugin.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_the_file_keeps_its_mode(home: Home) -> None:
    home.write(text())
    home.settings.chmod(0o640)
    home.install()
    assert stat.S_IMODE(home.settings.stat().st_mode) == 0o640
    home.uninstall()
    assert stat.S_IMODE(home.settings.stat().st_mode) == 0o640


@pytest.mark.parametrize("is_allowed", [True, False])
def test_no_other_group_may_read_it_than_before(
    home: Home, monkeypatch: pytest.MonkeyPatch, is_allowed: bool
) -> None:
    home.write(text())
    home.settings.chmod(0o660)
    group = home.settings.stat().st_gid
    asked: list[int] = []

    def chown(_descriptor: int, _user: int, wanted: int) -> None:
        asked.append(wanted)
        if not is_allowed:
            raise PermissionError

    monkeypatch.setattr(os, "fchown", chown)
    home.install()
    assert asked == [group]
    mode = stat.S_IMODE(home.settings.stat().st_mode)
    assert mode == (0o660 if is_allowed else 0o600)


def test_a_disk_without_hard_links_is_no_obstacle(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    home.install()
    assert home.status().state is InstallState.CLEAN


def test_the_only_way_back_outlives_all_other_backups(home: Home) -> None:
    before = home.write(text())
    home.install()
    records = InstallRecords(home.store, home.settings.resolve())
    for number in range(2 * MAX_BACKUPS):
        records.save_backup(b"{%d}" % number)
        home.install("steer" if number % 2 else "inject")
    receipt = records.read_receipt()
    assert receipt is not None
    assert receipt.original is not None
    assert len(list(records.backup_path(receipt.original).parent.iterdir())) <= MAX_BACKUPS + 2
    home.uninstall()
    assert home.settings.read_bytes() == before


def refused(home: Home, words: str, scope: str = "user") -> None:
    """Neither installing nor taking out is done, and nothing is touched."""
    settings = home.place(scope).settings
    before = os.lstat(settings)
    for make in (home.plan, home.plan_back):
        with pytest.raises(NotSafeError, match=re.escape(words)):
            make(scope=scope)
    assert os.lstat(settings) == before
    assert not install_folder(home.store).exists()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (
            b'{\n  "a": 1\n  "b": 2\n}',
            "settings.json is not valid JSON (line 3, column 3: a comma or }",
        ),
        (
            b'{"a": "\xff"}',
            "settings.json is not valid JSON (line 1, column 8: a byte that is not UTF-8)",
        ),
        (b"[]", "settings.json is not a JSON object: correct it"),
        (text().encode("utf-16"), "a byte that is not UTF-8"),
        (b" " * (MAX_SETTINGS_BYTES + 1), "larger than 1024 KiB"),
    ],
)
def test_what_is_no_settings_is_refused_and_untouched(home: Home, data: bytes, words: str) -> None:
    home.write(data)
    refused(home, words)
    assert home.settings.read_bytes() == data


def test_hooks_of_a_wrong_type_are_refused(home: Home) -> None:
    data = home.write('{"hooks": {"Stop": {"x": 1}}}')
    with pytest.raises(NotSafeError, match=r"settings.json has hooks.Stop that is not a list"):
        home.plan()
    assert home.plan_back().changes_nothing
    assert home.settings.read_bytes() == data


def test_a_read_only_file_is_refused(home: Home) -> None:
    home.write(text())
    home.settings.chmod(0o400)
    refused(home, "is read-only: run chmod u+w")


def test_a_file_with_two_names_is_refused(home: Home) -> None:
    home.write(text())
    (home.top / "other").hardlink_to(home.settings)
    refused(home, "has a hard link")


def test_what_is_no_file_is_refused(home: Home) -> None:
    home.settings.mkdir()
    refused(home, "is not a regular file")
    home.settings.rmdir()
    os.mkfifo(home.settings)
    refused(home, "is not a regular file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_told(home: Home) -> None:
    home.write(text())
    home.settings.chmod(0o200)
    with pytest.raises(PermissionError):
        home.plan()


def test_a_link_into_ones_own_folders_is_written_through(home: Home) -> None:
    target = home.top / "home" / "dotfiles" / "claude.json"
    target.parent.mkdir()
    target.write_text(text())
    home.settings.symlink_to(Path("..") / "dotfiles" / "claude.json")
    plan = home.plan()
    assert plan.notes == (f"{home.settings} is a link: {target} is written instead",)
    home.install()
    assert home.settings.is_symlink()
    assert "ctxtop" in target.read_text()
    home.uninstall()
    assert home.settings.is_symlink()
    assert target.read_text() == text()


def test_a_config_folder_that_is_a_link_is_as_good_as_any(home: Home) -> None:
    elsewhere = home.top / "elsewhere"
    home.config.rename(elsewhere)
    home.config.symlink_to(elsewhere)
    before = home.write(text())
    home.install(form="plugin")
    home.uninstall()
    assert home.settings.read_bytes() == before


def test_skills_that_stand_among_the_dotfiles_are_no_obstacle(home: Home) -> None:
    target = home.top / "home" / "dotfiles" / "skills"
    target.mkdir(parents=True)
    home.plugin.parent.symlink_to(target)
    plan = home.plan(form="plugin")
    assert plan.notes == (f"{home.plugin.parent} is a link: the plugin goes to {target}",)
    apply_install(plan, home.store)
    assert (target / "ctxtop" / ".claude-plugin" / "plugin.json").is_file()
    assert home.status().state is InstallState.CLEAN
    home.uninstall()
    assert list(target.iterdir()) == []
    assert home.plugin.parent.is_symlink()


def test_skills_that_lead_out_of_ones_folders_are_refused(home: Home) -> None:
    target = home.top / "foreign"
    target.mkdir()
    home.plugin.parent.symlink_to(target)
    with pytest.raises(NotSafeError, match="outside your folders"):
        home.plan(form="plugin")
    assert list(target.iterdir()) == []


def test_a_link_out_of_ones_folders_is_refused(home: Home) -> None:
    (home.top / "foreign.json").write_text(text())
    home.settings.symlink_to(home.top / "foreign.json")
    refused(home, "outside your folders")
    assert (home.top / "foreign.json").read_text() == text()


@pytest.mark.parametrize("target", ["settings.json", "gone.json"])
def test_a_link_that_leads_nowhere_is_refused(home: Home, target: str) -> None:
    home.settings.symlink_to(home.config / target)
    refused(home, "settings.json is a")


def test_a_project_cannot_let_its_settings_lead_to_a_file_of_the_user(home: Home) -> None:
    victim = home.top / "home" / "victim.json"
    victim.write_text(text())
    (home.project / ".claude").mkdir()
    (home.project / ".claude" / "settings.json").symlink_to(victim)
    refused(home, "outside your folders", scope="project")
    (home.project / ".claude" / "settings.json").unlink()
    (home.project / ".claude").rmdir()
    (home.project / ".claude").symlink_to(home.config)
    home.write(text())
    refused(home, "outside your folders", scope="project")
    assert victim.read_text() == text()


@pytest.mark.parametrize("form", ["plugin", "hooks"])
def test_settings_that_changed_meanwhile_are_not_overwritten(home: Home, form: str) -> None:
    home.write(text())
    plan = home.plan(form=form)
    theirs = home.write(text(SETTINGS | {"model": "haiku"}))
    with pytest.raises(NotSafeError, match="was changed meanwhile: run the command again"):
        apply_install(plan, home.store)
    assert home.settings.read_bytes() == theirs
    assert not home.plugin.exists()


def test_settings_that_came_meanwhile_are_not_overwritten(home: Home) -> None:
    plan = home.plan()
    theirs = home.write(text())
    with pytest.raises(NotSafeError, match="was changed meanwhile"):
        apply_install(plan, home.store)
    assert home.settings.read_bytes() == theirs


def test_a_full_disk_leaves_everything_as_it_was(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = home.write(text())
    home.install(form="hooks")
    after = home.settings.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(carrying, "write_settings_file", fail)
        with pytest.raises(OSError, match="No space left"):
            home.install(form="plugin")
    assert home.settings.read_bytes() == after
    assert not home.plugin.exists()
    home.uninstall()
    assert home.settings.read_bytes() == before


def test_a_disk_that_is_full_halfway_leaves_no_half_a_plugin(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = home.write(text())
    there = home.files()
    written: list[str] = []

    def write(path: Path, data: bytes) -> None:
        if len(written) == 3:
            raise OSError(28, "No space left on device", str(path))
        written.append(path.name)
        write_file_atomically(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(install_status, "write_file_atomically", write)
        with pytest.raises(OSError, match="No space left"):
            home.install(form="plugin")
    assert home.settings.read_bytes() == before
    assert home.files() == there


def test_what_a_person_added_to_the_plugin_stays_and_what_they_changed_is_kept(
    home: Home,
) -> None:
    home.install(form="plugin")
    skill = home.plugin / "skills" / "compress-output" / "SKILL.md"
    skill.write_text("my own words")
    (home.plugin / "skills" / "mine").mkdir()
    (home.plugin / "skills" / "mine" / "SKILL.md").write_text("mine")
    home.uninstall()
    left = {str(path.relative_to(home.plugin)) for path in home.plugin.rglob("*")}
    assert left == {"skills", "skills/mine", "skills/mine/SKILL.md"}
    backups = install_folder(home.store).glob("*/backups/*")
    assert "my own words" in {path.read_text() for path in backups}


def test_a_file_that_the_plugin_no_longer_has_goes(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = home.files()
    now = install_status.plugin_files
    with monkeypatch.context() as patch:
        patch.setattr(install_status, "plugin_files", lambda *a: now(*a) | {"old/x.md": b"old"})
        home.install(form="plugin")
    assert (home.plugin / "old" / "x.md").is_file()
    home.install("steer", form="plugin")
    assert not (home.plugin / "old").exists()
    home.uninstall()
    assert home.files() == there


def test_another_plugin_of_our_name_is_not_touched(home: Home) -> None:
    manifest = home.plugin / ".claude-plugin" / "plugin.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text('{"name": "other"}')
    with pytest.raises(NotSafeError, match="contains another plugin"):
        home.plan(form="plugin")
    assert manifest.read_text() == '{"name": "other"}'
    assert home.status().state is InstallState.ABSENT


def test_a_link_in_the_plugins_place_is_not_followed(home: Home) -> None:
    victim = home.top / "victim"
    victim.mkdir()
    home.plugin.parent.mkdir()
    home.plugin.symlink_to(victim)
    with pytest.raises(NotSafeError, match="was not created by ctxtop"):
        home.plan(form="plugin")
    home.plugin.unlink()
    home.plugin.mkdir()
    (home.plugin / "hooks").symlink_to(victim)
    with pytest.raises(NotSafeError, match="contains a link: remove it"):
        home.plan(form="plugin")
    assert not list(victim.iterdir())


def test_a_project_that_hides_ones_own_status_line_says_so(home: Home) -> None:
    wanted = InstallOptions(home.store, status_line=True)
    plan = plan_install(home.place("local"), home.config, wanted)
    assert any("is not shown" in note for note in plan.notes)


def test_a_folder_that_was_there_before_stays(home: Home) -> None:
    home.plugin.parent.mkdir()
    home.install(form="hooks")
    home.install(form="plugin")
    home.uninstall()
    assert home.plugin.parent.is_dir()
    home.plugin.parent.rmdir()
    home.install(form="hooks")
    home.install(form="plugin")
    home.uninstall()
    assert not home.plugin.parent.exists()


def test_the_plugin_holds_what_the_client_loads(home: Home) -> None:
    home.install("steer", form="plugin")
    manifest = json.loads((home.plugin / ".claude-plugin" / "plugin.json").read_text())
    assert (manifest["name"], manifest["version"]) == ("ctxtop", __version__)
    hooks = json.loads((home.plugin / "hooks" / "hooks.json").read_text())
    assert hooks["modules"] == ["./register.js"]
    assert (home.plugin / "hooks" / "register.js").is_file()
    assert set(hooks["hooks"]) == set(RECORDED_EVENTS)
    module = json.loads((home.plugin / "hooks" / "register.json").read_text())
    assert module["command"][-1] == str(home.store)
    assert Path(module["folder"]).parent.parent == home.store.parent
    assert home.status().version == __version__


# --- status -----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["plugin", "hooks"])
def test_status_is_clean_where_all_is_right(home: Home, form: str) -> None:
    assert home.status().state is InstallState.ABSENT
    home.write(text())
    assert home.status().state is InstallState.ABSENT
    home.install("steer", form=form)
    found = home.status()
    assert found.problems == ()
    assert found.state is InstallState.CLEAN
    assert [hook.event for hook in found.hooks] == sorted(RECORDED_EVENTS, key=_order(found))
    named = {
        hook.event: hook.own_command.features for hook in found.hooks if hook.own_command.features
    }
    assert named == {"PreCompact": ("steer",)}
    assert found.status_line is not None
    assert found.status_line.own_command.wrapped == "my-line --wide"
    home.uninstall()
    assert home.status().state is InstallState.ABSENT


def _order(found: InstallStatus) -> Any:  # noqa: ANN401 -- a key function
    return [hook.event for hook in found.hooks].index


def problems(home: Home) -> str:
    found = home.status()
    assert found.state is InstallState.FAULTY
    return "\n".join(found.problems)


def test_status_tells_of_a_command_that_cannot_run(home: Home) -> None:
    home.write(text({"hooks": {"Stop": [{"hooks": [older("Stop")]}]}}))
    told = problems(home)
    assert "hook Stop: /old/bin/python no longer exists" in told
    assert "no hook for SessionStart, " in told


def test_status_tells_of_another_store(home: Home) -> None:
    home.install()
    found = read_install_status(
        [home.place()], home.config, home.top / "other.db", home.top / "managed"
    )
    assert found.state is InstallState.FAULTY
    assert f"it writes to the store {home.store}" in found.problems[0]


def test_status_tells_of_hooks_that_are_there_twice(home: Home) -> None:
    home.install(form="plugin")
    home.install(scope="local")
    assert "hook Stop is installed 2 times" in problems(home)


@pytest.mark.parametrize("form", ["plugin", "hooks"])
def test_status_tells_of_two_hooks_that_block_agents(home: Home, form: str) -> None:
    """000-13: clnode's own, and ours with the feature."""
    theirs = {"type": "command", "command": "bash scripts/force-compress.sh --key=s3cret"}
    home.write(text({"hooks": {"SubagentStop": [{"hooks": [theirs]}]}}))
    home.install(form=form)
    assert home.status().problems == ()
    home.install("enforce", form=form)
    told = problems(home)
    place = home.place().settings
    assert f"two hooks block agents whose results are not compressed: one in {place}" in told
    assert "s3cret" not in told


@pytest.mark.parametrize("key", ["disableAllHooks", "allowManagedHooksOnly"])
def test_status_tells_of_an_administrators_ban(home: Home, key: str) -> None:
    home.install()
    managed = home.top / "managed"
    (managed / "managed-settings.d").mkdir(parents=True)
    (managed / "managed-settings.d" / "x.json").write_text(f'{{"{key}": true}}')
    assert f"x.json has {key}: none of your hooks run" in problems(home)


def test_status_tells_of_what_the_user_switched_off(home: Home) -> None:
    home.write('{"disableAllHooks": true, "enabledPlugins": {"ctxtop@skills-dir": false}}')
    plan = home.plan(form="plugin")
    assert any("disableAllHooks" in note for note in plan.notes)
    apply_install(plan, home.store)
    told = problems(home)
    assert "has disableAllHooks: no hook runs" in told
    assert "turns ctxtop@skills-dir off" in told


def test_status_tells_of_settings_that_the_client_ignores(home: Home) -> None:
    home.write("// mine\n{}\n")
    plan = home.plan()
    assert any("Claude Code ignores the whole file" in note for note in plan.notes)
    apply_install(plan, home.store)
    assert "has comments or trailing commas" in problems(home)


def test_status_tells_of_settings_that_cannot_be_read(home: Home) -> None:
    home.install(form="plugin")
    home.write("{")
    assert "settings.json: line 1, column 2: a name in double quotes" in problems(home)


def test_status_tells_of_a_plugin_of_another_version(home: Home) -> None:
    home.install(form="plugin")
    manifest = home.plugin / ".claude-plugin" / "plugin.json"
    manifest.write_text(manifest.read_text().replace(__version__, "0.0.9"))
    assert f"the plugin is from ctxtop 0.0.9, but this is {__version__}" in problems(home)
    assert not home.plan(form="plugin").changes_nothing


def test_two_that_install_and_uninstall_at_once_leave_all_or_nothing(
    home: Home, child_env: dict[str, str]
) -> None:
    words = ["--config-dir", str(home.config), "--db", str(home.store), "--yes"]
    env = child_env | {"HOME": str(home.top / "home")}
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "ctxtop", "hooks", what, *words],
            env=env,
            cwd=home.project,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for what in ("install", "uninstall") * 3
    ]
    for process in running:
        _, told = process.communicate(timeout=120)
        assert b"Traceback" not in told
        assert process.returncode in {0, 2}, told

    assert home.status().state in {InstallState.CLEAN, InstallState.ABSENT}
    home.install(form="plugin") if home.status().state is InstallState.ABSENT else None
    assert home.status().state is InstallState.CLEAN
    home.uninstall()
    assert home.status().state is InstallState.ABSENT


@pytest.mark.parametrize("what", ["install", "uninstall"])
def test_half_a_plugin_that_a_crash_left_is_repaired(home: Home, what: str) -> None:
    home.install(form="plugin")
    (home.plugin / ".claude-plugin" / "plugin.json").unlink()
    (home.plugin / "hooks" / ".hooks.json.0123456789ab.ctxtop").write_bytes(b"{")
    if what == "install":
        home.install(form="plugin")
        assert home.status().state is InstallState.CLEAN
    home.uninstall()

    assert home.status().state is InstallState.ABSENT
    assert not home.plugin.exists()


def test_a_folder_with_a_strangers_file_and_no_manifest_is_not_ours(home: Home) -> None:
    (home.plugin / "hooks").mkdir(parents=True)
    (home.plugin / "hooks" / "mine.js").write_bytes(b"1")

    with pytest.raises(NotSafeError, match="another plugin"):
        home.plan(form="plugin")


def test_a_plugin_that_changed_since_it_was_planned_is_left_alone(home: Home) -> None:
    plan = home.plan(form="plugin")
    home.install(form="plugin")

    with pytest.raises(ChangedError, match="was changed meanwhile"):
        apply_install(plan, home.store)
    assert home.status().state is InstallState.CLEAN


@pytest.mark.parametrize("command", ["install", "uninstall", "status"])
def test_settings_that_are_linked_to_themselves_are_one_line(
    home: Home, child_env: dict[str, str], command: str
) -> None:
    home.settings.symlink_to(home.settings.name)
    yes = [] if command == "status" else ["--yes"]
    words = ["--config-dir", str(home.config), "--db", str(home.store), *yes]
    ended = subprocess.run(
        [sys.executable, "-m", "ctxtop", "hooks", command, *words],
        env=child_env | {"HOME": str(home.top / "home")},
        cwd=home.project,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "Traceback" not in ended.stderr
    if yes:
        assert ended.stderr == f"ctxtop: {home.settings} is a circular link: remove it\n"
        assert ended.returncode == 4


@pytest.mark.parametrize("first", ["install", "uninstall"])
def test_plans_that_were_made_at_the_same_time_leave_no_empty_folder(
    home: Home, first: str
) -> None:
    there = home.files()
    if first == "uninstall":
        home.install(form="plugin")
    plans = [home.plan(form="plugin"), home.plan_back()]
    if first == "uninstall":
        plans.reverse()
    apply_install(plans[0], home.store)
    with pytest.raises(ChangedError, match="was changed meanwhile"):
        apply_install(plans[1], home.store)
    assert home.status().state is (
        InstallState.CLEAN if first == "install" else InstallState.ABSENT
    )
    home.uninstall()

    assert not (home.config / "skills").exists()
    assert home.files() == there
