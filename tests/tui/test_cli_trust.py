"""`ctxtop trust`, and how `ctxtop settings` and `ctxtop doctor` show what is ignored."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from ..transcripts import PROJECT, SESSION, assistant, user, write
from ..trusted_files import trust

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .ended import Ended

SAID = """mode = "auto"
threshold = ["0.5:notice"]
[compact]
by = "client"
[ui]
theme = "x"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    (folder / "vendor" / "evil").mkdir(parents=True)
    (folder / ".ctxtop.toml").write_text(SAID)
    return folder


@pytest.fixture
def run(
    tmp_path: Path,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    call_ctxtop: Callable[..., Ended],
) -> Callable[..., Ended]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(project)
    path = tmp_path / ".claude" / "projects" / PROJECT / f"{SESSION}.jsonl"
    evil = str(project / "vendor" / "evil")
    write(path, [user(cwd=str(project)), assistant("m1", 120_000, cwd=evil)])
    return call_ctxtop


def value(found: Any, key: str) -> Any:  # noqa: ANN401 -- any JSON
    return next(each["value"] for each in found["policy"] if each["key"] == key)


def test_it_shows_the_file_and_what_would_begin_and_writes_nothing_unasked(
    run: Callable[..., Ended], project: Path
) -> None:
    ended = run("trust")
    assert ended.code == 2
    assert "  | [compact]\n" in ended.out
    assert "  mode = auto  lets ctxtop change sessions automatically\n" in ended.out
    assert "  threshold = 0.5:notice:reassure  also applies to hooks" in ended.out
    assert "  ui.theme = x  still ignored: only your own settings can set this" in ended.out
    assert ended.err == (
        f"ctxtop: {project}/.ctxtop.toml was not trusted: not a terminal; pass --yes to confirm\n"
    )
    assert run("trust", "--json").code == 2
    assert run("trust", "--list").out == "You have not trusted any project's settings file.\n"


def test_an_invalid_value_is_told_before_it_is_trusted(
    run: Callable[..., Ended], project: Path
) -> None:
    (project / ".ctxtop.toml").write_text("mode = 'aut'\nmoed = 'auto'\n[compact]\nby = 'client'\n")
    ended = run("trust")
    assert "  mode: 'aut' is not valid; use " in ended.out
    assert "  moed: no such key; " in ended.out
    assert "compact.by = client" in ended.out
    said = run("trust", "--yes", "--json").json
    assert [(each["key"], each["what"]) for each in said["invalid"]] == [
        ("mode", "'aut' is not valid"),
        ("moed", "no such key"),
    ]


def test_trust_is_remembered_listed_and_revoked(run: Callable[..., Ended], project: Path) -> None:
    said = run("trust", str(project), "--yes", "--json").json
    assert (said["folder"], said["trust"]) == (str(project), "trusted")
    assert {each["key"]: each["effect"] for each in said["begins"]}["mode"].startswith("lets")
    assert value(run("settings", "--json").json, "mode") == "auto"
    (listed,) = run("trust", "--list", "--json").json
    assert (listed["folder"], listed["state"]) == (str(project), "trusted")
    assert listed["trusted_at"].endswith("Z")
    assert "is trusted already" in run("trust").out
    (project / ".ctxtop.toml").write_text(f"{SAID}# more\n")
    assert "changed   " in run("trust", "--list").out
    found = run("settings", "--json").json
    assert (found["trust"], value(found, "mode")) == ("changed", "suggest")
    assert run("trust", "--revoke", str(project), "--json").json["trust"] == "untrusted"
    assert run("trust", "--list", "--json").json == []
    again = run("trust", "--revoke")
    assert (again.code, again.err.count("\n")) == (1, 1)


@pytest.mark.parametrize("answer", [True, False])
def test_at_a_terminal_it_asks(
    run: Callable[..., Ended],
    monkeypatch: pytest.MonkeyPatch,
    answer: bool,
) -> None:
    asked = []

    def confirm(question: str, **_: object) -> bool:
        asked.append(question)
        return answer

    monkeypatch.setattr("ctxtop.tui.cli.printing.is_interactive", lambda: True)
    monkeypatch.setattr("click.confirm", confirm)
    assert run("trust").code == (0 if answer else 2)
    assert asked == ["Trust this file?"]
    assert len(run("trust", "--list", "--json").json) == int(answer)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "nothing to trust"),
        (b"mode = ", "is not valid TOML"),
        (b"#" * 70_000, "larger than 64"),
    ],
)
def test_what_cannot_be_trusted_is_one_line(
    run: Callable[..., Ended], project: Path, content: bytes | None, said: str
) -> None:
    (project / ".ctxtop.toml").unlink()
    if content is not None:
        (project / ".ctxtop.toml").write_bytes(content)
    ended = run("trust", "--yes")
    assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert said in ended.err


def test_what_a_terminal_could_obey_is_not_shown(run: Callable[..., Ended], project: Path) -> None:
    (project / ".ctxtop.toml").write_bytes("# \x9b31m \u202e\nmode = 'auto'\n".encode())
    out = run("trust").out
    assert "\x9b" not in out
    assert "\u202e" not in out


def test_the_policy_says_what_is_ignored_why_and_what_would_allow_it(
    run: Callable[..., Ended], project: Path
) -> None:
    found = run("settings", "--json").json
    assert found["trust"] == "untrusted"
    assert value(found, "mode") == "suggest"
    assert found["ignored"][0] == {
        "key": "mode",
        "value": "auto",
        "where": f"{project}/.ctxtop.toml",
        "why": "it lets ctxtop change sessions automatically",
        "remedy": f"the file is not trusted: `ctxtop trust {project}` shows it, and asks",
    }
    assert [each["key"] for each in found["ignored"]] == ["mode", "compact.by", "ui.theme"]
    lines = run("settings").out.splitlines()
    assert "mode = auto: it lets ctxtop change sessions automatically" in lines[-4]
    trust(project)
    assert run("settings", "--json").json["ignored"][0]["key"] == "ui.theme"


def test_the_doctor_counts_the_files_and_names_those_not_trusted(
    run: Callable[..., Ended], project: Path
) -> None:
    def check() -> dict[str, Any]:
        checks = run("doctor", "--json").json["checks"]
        return next(each for each in checks if each["name"] == "project policies")

    found = check()
    assert (found["ok"], found["detail"]) == (
        True,
        f"1 file, 0 trusted; values are ignored from {project}",
    )
    assert f"`ctxtop trust {project}`" in found["fix"]
    (project / ".ctxtop.toml").write_text("mode = 'auto'\n")
    trust(project)
    assert check()["detail"] == "1 file, 1 trusted"


def test_a_session_has_the_policy_of_its_root(run: Callable[..., Ended], project: Path) -> None:
    evil = project / "vendor" / "evil"
    (evil / ".ctxtop.toml").write_text("threshold = ['0.3:emergency']\nmode = 'auto'\n")
    trust(evil)
    (listed,) = run("sessions", "--json").json
    assert listed["level"] == "notice"
    found = run("settings", "--session", SESSION, "--json").json
    assert value(found, "threshold")[0]["at"] == 0.5
    assert value(found, "mode") == "suggest"


def test_a_file_of_another_user_is_one_line_and_says_nothing(
    run: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    own = os.getuid()
    monkeypatch.setattr("ctxtop.collectors.locations.policy_files.own_uid", lambda: own + 1)
    found = run("settings", "--json").json
    (notice,) = found["notices"]
    assert notice["where"] == f"{project}/.ctxtop.toml"
    assert notice["what"] == f"belongs to another user (uid {own})"
    assert found["ignored"] == []
    assert value(found, "threshold")[0]["at"] == 0.7


def test_a_change_that_the_person_makes_keeps_the_file_trusted(
    run: Callable[..., Ended], project: Path
) -> None:
    trust(project)
    assert run("settings", "set", "--project", "mode", "observe").err == ""
    assert run("settings", "--json").json["trust"] == "trusted"
    (project / ".ctxtop.toml").write_text(f"{SAID}# more\n")
    ended = run("settings", "set", "--project", "mode", "observe")
    assert "mode has no effect until you run `ctxtop trust`, which shows" in " ".join(
        ended.err.split()
    )
    assert run("settings", "--json").json["trust"] == "changed"
    refused = run("settings", "set", "--project", "ui.theme", "x")
    assert (refused.code, "only works in your own file" in refused.err) == (1, True)


def test_a_list_takes_no_folder(run: Callable[..., Ended]) -> None:
    assert run("trust", "--list", "--revoke").code == 2
    assert run("trust", "--list", ".").code == 2


def test_nothing_of_the_file_is_hidden_from_who_is_asked(
    run: Callable[..., Ended], project: Path
) -> None:
    hidden = "# shown \u202ehidden\u200b"
    text = f'{hidden}{chr(10) * 35}mode = "auto"{" " * 90}# far\u00a0away\n'
    (project / ".ctxtop.toml").write_text(text, encoding="utf-8")
    ended = run("trust")
    assert ended.code == 2
    lines = ended.out.splitlines()
    assert lines[1:4] == [
        "  | # shown <U+202E>hidden<U+200B>",
        "  | <34 empty lines>",
        '  | mode = "auto"<90 spaces># far<U+00A0>away',
    ]
