"""The keys that a person gives to bindings, on the screen and in `ctxtop keys`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.locations.places import PolicySources
from ctxtop.core.policy.policy import Policy, PolicyOrigin
from ctxtop.core.policy.resolve import RawValue, resolve_policy
from ctxtop.tui.base.keymap import PLACE_NAMES, all_bindings, read_keymap
from msgspec.structs import replace as with_fields
from textual.app import App

from .support import opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from .ended import Ended
    from .support import Stage


def policy(**keys: str) -> Policy:
    return resolve_policy(
        RawValue(f"keys.{name}", value, PolicyOrigin.COMMAND_LINE, "--set")
        for name, value in keys.items()
    )


def staged(stage: Stage, **keys: str) -> Stage:
    said = tuple((f"keys.{name}", value) for name, value in keys.items())
    return replace(stage, places=with_fields(stage.places, policy=PolicySources(said)))


def test_every_binding_has_an_id() -> None:
    nameless = [
        f"{each.declared_in.__name__}: {each.binding}" for each in all_bindings() if not each.id
    ]
    assert nameless == []


def test_bindings_of_one_id_that_meet_are_asked_for_by_the_same_keys() -> None:
    bindings = all_bindings()
    apart = [
        (a, b)
        for a in bindings
        for b in bindings
        if a.id == b.id and a.conflicts_with(b) and not set(a.keys) & set(b.keys)
    ]
    assert apart == []


def test_no_two_bindings_that_meet_in_one_place_have_the_same_key() -> None:
    bindings = all_bindings()
    clashes = [
        (a.id, b.id, a.declared_in.__name__, b.declared_in.__name__)
        for n, a in enumerate(bindings)
        for b in bindings[n + 1 :]
        if a.id != b.id and a.declared_in is b.declared_in and set(a.keys) & set(b.keys)
    ]
    assert clashes == []


def test_what_can_hold_holds() -> None:
    found = read_keymap(policy(sort="f6,f5", help="?,Q"), all_bindings())
    assert found.notices == ()
    assert found.keys == {"sort": "f6,f5", "help": "question_mark,Q"}


def test_two_bindings_change_their_keys_with_each_other() -> None:
    found = read_keymap(policy(sort="p", pause="s"), all_bindings())
    assert found.notices == ()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"srot": "f6"}, "keys.srot: there is no binding with this id; did you mean keys.sort?"),
        ({"zzzz": "f6"}, "`ctxtop keys` lists them"),
        ({"sort": "ctrl+blob"}, "there is no key 'ctrl+blob'"),
        ({"sort": "hyperb+x"}, "there is no key 'hyperb+x'"),
        ({"sort": "p"}, "p is the key of pause; change keys.pause, too"),
        ({"sort": "t"}, "t is the key of theme"),
        ({"sort": "j"}, "j is the key of down"),
        ({"sort": "f6", "pause": "f6"}, "f6 is the key of"),
    ],
)
def test_what_cannot_hold_is_told_and_changes_nothing(said: dict[str, str], words: str) -> None:
    found = read_keymap(policy(**said), all_bindings())
    assert len(found.notices) == 1
    assert words in str(found.notices[0])
    assert len(found.keys) == len(said) - 1


def test_a_change_that_falls_takes_with_it_what_counted_on_it() -> None:
    found = read_keymap(policy(sort="p", pause="ctrl+blob"), all_bindings())
    assert found.keys == {}
    assert len(found.notices) == 2


@pytest.mark.parametrize("said", ["", "ctrl+", " , ", "ctrl x", "f6" * 99, "a,b,c,d,e,f,g,h,i"])
def test_what_is_no_key_is_a_notice_of_the_policy(said: str) -> None:
    found = resolve_policy([RawValue("keys.sort", said, PolicyOrigin.ENVIRONMENT, "X")])
    assert "1 to 8 keys" in str(found.notices[0])
    assert found.with_prefix("keys.") == {}


async def test_a_changed_key_works_and_is_shown_in_footer_and_help(demo: Stage) -> None:
    async with opened(staged(demo, sort="f6", theme="f5"), (120, 50)) as it:
        assert "f6 Sort" in it.lines[-1]
        await it.press("s")
        assert it.app.fleet.arrangement.order.value == "attention"
        await it.press("f6")
        assert it.app.fleet.arrangement.order.value == "fullest"
        await it.press("t")
        assert it.app.theme == "ctxtop-dark"
        await it.press("f5")
        assert it.app.theme == "ctxtop-light"
        await it.press("question_mark")
        await it.press("slash", *"sort")
        assert any("f6 " in line and "sort" in line for line in it.lines)
        await it.press(*["backspace"] * 4, *"high")
        assert any("f5" in line for line in it.lines)


async def test_what_does_not_hold_is_one_toast(demo: Stage) -> None:
    async with opened(staged(demo, sort="p", nothing="f6")) as it:
        told = [toast for toast in it.toasts if "keys." in toast]
        assert len(told) == 2
        assert "p is the key of pause" in "".join(told)
        await it.press("p")
        assert it.app.fleet.paused


def test_each_place_with_keys_has_a_name_for_users() -> None:
    places = {each.declared_in for each in all_bindings()}
    nameless = {
        place.__name__
        for place in places
        if not issubclass(place, App) and place.__name__ not in PLACE_NAMES
    }
    assert nameless == set()
    assert PLACE_NAMES.keys() <= {place.__name__ for place in places}


def test_the_command_lists_ids_keys_and_what_does_not_hold(
    call_ctxtop: Callable[..., Ended],
) -> None:
    ended = call_ctxtop("keys", "--json", "--set", "keys.sort=f6", "--set", "keys.quit=t")
    found = ended.json
    rows = {row["id"]: row for row in found["keys"]}
    assert rows["sort"]["keys"] == ["f6"]
    assert rows["sort"]["default_keys"] == ["s"]
    assert rows["pause"]["where"] == ["sessions", "log"]
    assert rows["quit"]["keys"] == ["q", "ctrl+c"]
    assert rows["help"]["where"] == ["everywhere"]
    assert [notice["key"] for notice in found["notices"]] == ["keys.quit"]
    assert "sort" in call_ctxtop("keys").out


def test_the_policy_lists_them_with_their_origin(
    call_ctxtop: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CTXTOP_POLICY_KEYS__PAGE_DOWN", "f7")
    monkeypatch.setenv("CTXTOP_POLICY_KEYS__NOTHING", "f8")
    found = call_ctxtop("settings", "--json").json
    row = next(row for row in found["policy"] if row["key"] == "keys.page_down")
    assert (row["value"], row["origin"]) == ("f7", "environment")
    assert [notice["key"] for notice in found["notices"]] == ["keys.nothing"]
