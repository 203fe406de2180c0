"""Whose policy files count, and what the person's list of trusted ones withstands."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.locations import policy_files
from ctxtop.collectors.locations.places import PolicySources
from ctxtop.collectors.locations.places import trust_file_path as own_trust_file
from ctxtop.collectors.locations.policy_files import (
    PROJECT_POLICY_NAME,
    PolicyFiles,
    TrustFile,
    TrustFileError,
    list_trusted,
    preview_trust,
)
from ctxtop.core.policy.policy import ProjectTrust

from ..trusted_files import trust, write_trusted

if TYPE_CHECKING:
    from pathlib import Path

SAID = 'mode = "auto"\nthreshold = ["0.5:notice"]\n'


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_files, "REFRESH_INTERVAL_S", 0.0)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / PROJECT_POLICY_NAME).write_text(SAID)
    return folder


@pytest.fixture
def files() -> PolicyFiles:
    return PolicyFiles(PolicySources(trust_file=own_trust_file()))


def mode(files: PolicyFiles, project: Path) -> str:
    files.refresh([str(project)])
    return files.policies.acting.for_project(str(project)).text("mode")


def test_a_file_acts_once_it_is_trusted_and_no_more_once_it_changed(
    files: PolicyFiles, project: Path
) -> None:
    assert mode(files, project) == "suggest"
    assert [each.at for each in files.policies.for_project(str(project)).thresholds] == [0.5]
    trust(project)
    assert mode(files, project) == "auto"
    (project / PROJECT_POLICY_NAME).write_text(f"{SAID}# later\n")
    assert mode(files, project) == "suggest"
    assert files.policies.for_project(str(project)).trust is ProjectTrust.CHANGED
    (project / PROJECT_POLICY_NAME).write_text(SAID)
    assert mode(files, project) == "auto"
    TrustFile(own_trust_file()).revoke(str(project))
    assert mode(files, project) == "suggest"


def test_a_trusted_folder_does_not_vouch_for_the_folders_below_it(
    files: PolicyFiles, project: Path
) -> None:
    trust(project)
    below = project / "vendor"
    below.mkdir()
    (below / PROJECT_POLICY_NAME).write_text(SAID)
    assert mode(files, below) == "suggest"


def test_a_folder_is_the_same_by_a_link_to_it(
    files: PolicyFiles, project: Path, tmp_path: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(project)
    trust(link)
    assert mode(files, project) == "auto"
    assert mode(files, link) == "auto"


def test_a_file_of_another_user_is_not_obeyed(
    files: PolicyFiles, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy_files, "own_uid", lambda: os.getuid() + 1)
    files.refresh([str(project)])
    assert files.policies.for_project(str(project)).thresholds[0].at == 0.7
    (notice,) = files.notices
    assert (notice.location, notice.what) == (
        str(project / PROJECT_POLICY_NAME),
        f"belongs to another user (uid {os.getuid()})",
    )
    with pytest.raises(TrustFileError, match="belongs to another user"):
        preview_trust(PolicySources(), project)


def test_a_file_that_everybody_can_write_is_not_obeyed(files: PolicyFiles, project: Path) -> None:
    (project / PROJECT_POLICY_NAME).chmod(0o666)
    files.refresh([str(project)])
    assert [notice.what for notice in files.notices] == ["everyone can write it"]
    (project / PROJECT_POLICY_NAME).chmod(0o664)
    files.refresh([str(project)])
    assert files.notices == ()
    assert [each.at for each in files.policies.for_project(str(project)).thresholds] == [0.5]


def test_the_list_is_the_person_s_alone(project: Path) -> None:
    trust(project)
    path = own_trust_file()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [path.name for path in path.parent.iterdir() if "ctxtop" in path.suffix] == []


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_list_that_others_could_have_written_trusts_nothing(
    files: PolicyFiles, project: Path, mode: int
) -> None:
    trust(project)
    own_trust_file().chmod(mode)
    files.refresh([str(project)])
    assert files.policies.acting.for_project(str(project)).text("mode") == "suggest"
    assert "other users can write it" in files.notices[0].what
    with pytest.raises(TrustFileError, match="chmod 600"):
        trust(project)


def test_a_list_of_another_user_or_by_a_link_trusts_nothing(
    files: PolicyFiles, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust(project)
    monkeypatch.setattr(policy_files, "check_project_file", lambda *_: None)
    with monkeypatch.context() as other:
        other.setattr(policy_files, "own_uid", lambda: os.getuid() + 1)
        assert mode(files, project) == "suggest"
    path = own_trust_file()
    path.rename(tmp_path / "elsewhere.json")
    path.symlink_to(tmp_path / "elsewhere.json")
    assert mode(files, project) == "suggest"


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"form":2,"projects":{}}', b'{"form":1,"projects":[1]}', b"\xff\xfe"],
)
def test_a_damaged_list_trusts_nothing_and_is_told(
    files: PolicyFiles, project: Path, content: bytes
) -> None:
    trust(project)
    own_trust_file().write_bytes(content)
    files.refresh([str(project)])
    assert files.policies.acting.for_project(str(project)).text("mode") == "suggest"
    (notice,) = files.notices
    assert "remove it" in notice.what
    with pytest.raises(TrustFileError):
        list_trusted(own_trust_file())


def test_the_list_says_how_each_file_stands_now(tmp_path: Path) -> None:
    for name in ("same", "changed", "gone"):
        (tmp_path / name).mkdir()
        write_trusted(tmp_path / name, SAID)
    (tmp_path / "changed" / PROJECT_POLICY_NAME).write_text("")
    (tmp_path / "gone" / PROJECT_POLICY_NAME).unlink()
    found = {each.folder: each.state for each in list_trusted(own_trust_file())}
    assert found == {
        str(tmp_path / "changed"): "changed",
        str(tmp_path / "gone"): "gone",
        str(tmp_path / "same"): "trusted",
    }


def test_two_that_trust_at_a_time_both_remain(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    for number in range(12):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / PROJECT_POLICY_NAME).write_text(SAID)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda number: trust(tmp_path / str(number)), range(12)))
    assert len(list_trusted(own_trust_file())) == 12
