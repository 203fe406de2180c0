"""One key of a policy's file is changed, and nothing else of it."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.install.settings_file import NotSafeError
from ctxtop.collectors.policy_editing import (
    MAX_KEPT_CHANGES,
    PolicyChangeHistory,
    diff_policy_change,
    plan_value_change,
)
from ctxtop.core.policy.resolve import flatten_tables
from ctxtop.core.policy.schema import KEYS
from hypothesis import given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.core.policy.value_types import PolicyValue

FORMS = (
    "",
    "# only a comment\n",
    "mode = 'auto'\ncompact.by = 'plan'\n[policy.notify]\nbell = true\n",
    "[policy]\ncompact.by = 'plan' # who\n\n# retries\n[recovery]\n[recovery.retry]\nmax = 3\n",
    "[compact]\r\nby = 'plan'\r\n\r\n# end\r\n[notify]\r\ntoast = true\r\n",
    "[other]\nx = 1\n[[list]]\na = 1\n[[list]]\na = 2\n",
    "[policy]\nprompts.suggest = '''\n[notify]\nbell = 1\n'''\n",
)
VALUES: tuple[tuple[str, PolicyValue], ...] = (
    ("mode", "observe"),
    ("compact.by", "client"),
    ("recovery.retry.max", 4),
    ("notify.bell", True),
    ("threshold", KEYS["threshold"].default),
    ("limit.override", {"claude-haiku-4.5": 200_000}),
    ("compact.target_reduction", (0.4, 0.6)),
    ("recovery.confirm", ()),
    ("importance.anchor_marker", '" # ]'),
)


def changed(path: Path, text: str, key: str, value: PolicyValue | None) -> str:
    path.write_bytes(text.encode())
    return plan_value_change(path, [path.parent], key, value).after.decode()


def comments(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.lstrip().startswith("#")]


@pytest.mark.parametrize("text", FORMS, ids=range(len(FORMS)))
@pytest.mark.parametrize(("key", "value"), VALUES, ids=[key for key, _ in VALUES])
def test_a_key_is_said_and_taken_out_again(
    tmp_path: Path, text: str, key: str, value: PolicyValue
) -> None:
    path = tmp_path / "config.toml"
    before = flatten_tables(tomllib.loads(text))
    after = changed(path, text, key, value)
    said = flatten_tables(tomllib.loads(after))
    assert KEYS[key].parse(said[key]) == value
    assert {name: each for name, each in said.items() if name != key} == {
        name: each for name, each in before.items() if name != key
    }
    assert comments(after) == comments(text)
    assert ("\r\n" in text) == ("\r\n" in after)
    back = changed(path, after, key, None)
    assert flatten_tables(tomllib.loads(back)) == {
        name: each for name, each in before.items() if name != key
    }


def test_a_difference_names_what_is_not_seen(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("# a\u202eb\u2028c\n[recovery]\nauto = true\n", encoding="utf-8")
    change = plan_value_change(path, (tmp_path,), "recovery.auto", None)
    assert diff_policy_change(change)[0] == " # a<U+202E>b<U+2028>c"


def test_a_new_key_stands_before_what_is_said_of_the_next_table(tmp_path: Path) -> None:
    text = "[compact]\nby = 'plan'\n\n# of retries\n[recovery]\nauto = true\n"
    after = changed(tmp_path / "c.toml", text, "compact.min_tokens", 1)
    assert after.startswith("[compact]\nby = 'plan'\nmin_tokens = 1\n\n# of retries\n")


@given(st.sampled_from(FORMS), st.lists(st.sampled_from(VALUES), max_size=6))
@settings(max_examples=60, deadline=None)
def test_many_changes_after_each_other(
    tmp_path_factory: pytest.TempPathFactory, text: str, changes: list[tuple[str, PolicyValue]]
) -> None:
    path = tmp_path_factory.mktemp("many") / "config.toml"
    for key, value in changes:
        text = changed(path, text, key, value)
    said = flatten_tables(tomllib.loads(text))
    for key, value in dict(changes).items():
        assert KEYS[key].parse(said[key]) == value


@pytest.mark.parametrize(
    "text", ["mode = ", "\xff\x00", "compact = 3\n", "[policy]\nmode = 'a'\nmode = 'b'\n"]
)
def test_what_cannot_be_changed_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(NotSafeError):
        plan_value_change(path, [tmp_path], "compact.by", "client")
    assert path.read_text(encoding="latin-1") == text


def test_a_link_out_of_the_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "theirs.toml").write_text("")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / ".ctxtop.toml").symlink_to(tmp_path / "theirs.toml")
    with pytest.raises(NotSafeError, match="is a link"):
        plan_value_change(folder / ".ctxtop.toml", [folder], "mode", "observe")


def test_a_change_is_written_kept_and_taken_back(tmp_path: Path) -> None:
    path, store = tmp_path / "config.toml", tmp_path / "store.db"
    changes = PolicyChangeHistory(store)
    assert changes.last() is None
    first = plan_value_change(path, [tmp_path], "mode", "observe")
    assert diff_policy_change(first) == ["+[policy]", '+mode = "observe"']
    changes.apply(first)
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    changes.apply(plan_value_change(path, [tmp_path], "mode", "auto"))
    assert path.stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "store.db.policy.json").stat().st_mode & 0o777 == 0o600
    for text in ('[policy]\nmode = "observe"\n', None):
        last = changes.last()
        assert last is not None
        changes.undo(last, changes.plan_undo(last, [tmp_path]))
        assert (path.read_text() if path.exists() else None) == text
    assert changes.last() is None


def test_what_somebody_changed_since_is_not_taken_back(tmp_path: Path) -> None:
    path, changes = tmp_path / "config.toml", PolicyChangeHistory(tmp_path / "store.db")
    changes.apply(plan_value_change(path, [tmp_path], "mode", "observe"))
    path.write_text("mode = 'auto' # mine")
    last = changes.last()
    assert last is not None
    with pytest.raises(NotSafeError, match="changed since"):
        changes.plan_undo(last, [tmp_path])


def test_a_file_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    path, changes = tmp_path / "config.toml", PolicyChangeHistory(tmp_path / "store.db")
    change = plan_value_change(path, [tmp_path], "mode", "observe")
    path.write_text("# made meanwhile\n")
    with pytest.raises(NotSafeError):
        changes.apply(change)
    assert path.read_text() == "# made meanwhile\n"
    assert changes.last() is None


def test_the_last_changes_are_kept(tmp_path: Path) -> None:
    path, changes = tmp_path / "config.toml", PolicyChangeHistory(tmp_path / "store.db")
    for number in range(MAX_KEPT_CHANGES + 3):
        changes.apply(plan_value_change(path, [tmp_path], "compact.min_tokens", number))
    assert len(changes.all()) == MAX_KEPT_CHANGES
