"""The places of the policy: variables, the user's file, and the projects' own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.locations import policy_files
from ctxtop.collectors.locations.places import PolicySources, trust_file_path
from ctxtop.collectors.locations.policy_files import (
    MAX_POLICY_BYTES,
    PROJECT_POLICY_NAME,
    PolicyFiles,
)
from ctxtop.core.policy.policy import Policy, PolicyOrigin

from ..trusted_files import trust

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_files, "REFRESH_INTERVAL_S", 0.0)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def user(tmp_path: Path) -> Path:
    return tmp_path / "config" / "config.toml"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def files(user: Path | None = None, /, *, words: Any = (), **environ: str) -> PolicyFiles:  # noqa: ANN401
    return PolicyFiles(PolicySources(tuple(words), environ, user, trust_file_path()))


def held(policy: Policy, key: str) -> tuple[object, PolicyOrigin, str]:
    found = policy.values[key]
    return found.value, found.origin, found.where


def test_every_layer_says_where(project: Path, user: Path) -> None:
    write(user, "[compact]\nmin_tokens = 1\nmin_messages = 1\ncooldown_s = 1\ntimeout_s = 1\n")
    own = write(
        project / PROJECT_POLICY_NAME,
        "[compact]\nmin_tokens = 2\nmin_messages = 2\ncooldown_s = 2\n",
    )
    trust(project)
    found = files(
        user,
        words=[("compact.min_tokens", "4")],
        CTXTOP_POLICY_COMPACT__MIN_TOKENS="3",
        CTXTOP_POLICY_COMPACT__MIN_MESSAGES="3",
        CTXTOP_POLICY_MODE="",
        OTHER="x",
    )
    assert found.refresh([str(project)])
    policy = found.policies.for_project(str(project))

    assert held(policy, "compact.min_tokens") == (4, PolicyOrigin.COMMAND_LINE, "--set")
    assert held(policy, "compact.min_messages") == (
        3,
        PolicyOrigin.ENVIRONMENT,
        "CTXTOP_POLICY_COMPACT__MIN_MESSAGES",
    )
    assert held(policy, "compact.cooldown_s") == (2, PolicyOrigin.PROJECT_FILE, str(own))
    assert held(policy, "compact.timeout_s") == (1, PolicyOrigin.USER_FILE, str(user))
    assert held(policy, "mode") == ("suggest", PolicyOrigin.BUILT_IN, "")
    assert found.notices == ()


def test_another_project_is_not_concerned(project: Path, tmp_path: Path) -> None:
    write(project / PROJECT_POLICY_NAME, "mode = 'observe'\n")
    trust(project)
    found = files()
    found.refresh([str(project), str(tmp_path)])

    assert found.policies.for_project(str(project)).text("mode") == "observe"
    assert found.policies.for_project(str(tmp_path)).text("mode") == "suggest"
    assert set(found.policies.projects) == {str(project)}


def test_thresholds_of_a_variable() -> None:
    policy = files(None, CTXTOP_POLICY_THRESHOLD="0.5:notice,0.6:warning").policies.common

    assert [(each.at, each.level.value) for each in policy.thresholds] == [
        (0.5, "notice"),
        (0.6, "warning"),
    ]


def test_a_file_that_changes_and_goes(project: Path, user: Path) -> None:
    found = files(user)
    assert not found.refresh([str(project)])
    write(user, "mode = 'auto'\n")
    assert found.refresh([str(project)])
    assert found.policies.for_project(str(project)).text("mode") == "auto"
    own = write(project / PROJECT_POLICY_NAME, "[policy]\nmode = 'observe'\n")
    trust(project)
    assert found.refresh([str(project)])
    assert not found.refresh([str(project)])
    assert found.policies.for_project(str(project)).text("mode") == "observe"
    own.unlink()
    user.unlink()
    assert found.refresh([str(project)])
    assert found.policies.for_project(str(project)).text("mode") == "suggest"
    assert found.policies.projects == {}


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"mode = ", "is not valid TOML"),
        (b"\xff\xfe", "is not valid TOML"),
        (b"x = " + b"[" * 30_000, "is not valid TOML"),
        (b"x = " + b"9" * 10_000, "is not valid TOML"),
        (b"#" * (MAX_POLICY_BYTES + 1), "larger than 64 KiB"),
    ],
)
def test_a_broken_file_is_one_notice(project: Path, data: bytes, what: str) -> None:
    path = project / PROJECT_POLICY_NAME
    path.write_bytes(data)
    found = files()
    found.refresh([str(project)])
    found.refresh([str(project)])

    (notice,) = found.notices
    assert (notice.location, what in notice.what) == (str(path), True)
    assert found.policies.for_project(str(project)).text("mode") == "suggest"
    path.write_text("mode = 'auto'\n")
    trust(project)
    found.refresh([str(project)])
    assert found.notices == ()
    assert found.policies.for_project(str(project)).text("mode") == "auto"


def test_a_link_and_a_pipe_are_not_read(project: Path, tmp_path: Path) -> None:
    outside = write(tmp_path / "secret.toml", "mode = 'auto'\n")
    path = project / PROJECT_POLICY_NAME
    path.symlink_to(outside)
    found = files()
    found.refresh([str(project)])

    assert found.policies.for_project(str(project)).text("mode") == "suggest"
    assert [notice.location for notice in found.notices] == [str(path)]
    path.unlink()
    os.mkfifo(path)
    found.refresh([str(project)])
    assert ["not a regular file" in notice.what for notice in found.notices] == [True]


def test_the_users_own_file_may_be_a_link(user: Path, tmp_path: Path) -> None:
    user.parent.mkdir()
    user.symlink_to(write(tmp_path / "dotfiles.toml", "mode = 'auto'\n"))

    assert files(user).policies.common.text("mode") == "auto"


def test_a_bad_value_of_the_user_is_told_once_for_all_projects(project: Path, user: Path) -> None:
    write(user, "[rearm]\nhysteresis = 'much'\n")
    write(project / PROJECT_POLICY_NAME, "mode = 'auto'\n")
    found = files(user)
    found.refresh([str(project)])

    (notice,) = found.notices
    assert (notice.key, notice.where, notice.origin) == (
        "rearm.hysteresis",
        str(user),
        PolicyOrigin.USER_FILE,
    )


def test_what_a_terminal_could_obey_is_taken_out(project: Path) -> None:
    write(project / PROJECT_POLICY_NAME, 'mode = "\\u001b[31mred"\n"\\u001b]0;x" = 1\n')
    found = files()
    found.refresh([str(project)])

    assert len(found.notices) == 2
    assert all(str(notice).isprintable() for notice in found.notices)


def test_a_relative_folder_is_no_project(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    write(project / PROJECT_POLICY_NAME, "mode = 'auto'\n")
    monkeypatch.chdir(project)
    found = files()
    found.refresh(["."])

    assert found.policies.projects == {}
