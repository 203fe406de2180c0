"""Our hooks and status line in the text of settings: put in, changed, taken out."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from ctxtop.collectors.claude_code.own_log_records import HOOK_EVENTS
from ctxtop.collectors.install.settings_file import (
    RECORDED_EVENTS,
    HookHandler,
    InstallOptions,
    NotSafeError,
    hook_handlers,
    parse_hook_settings,
    with_hooks,
    with_status_line,
    without_hooks,
    without_status_line,
)
from ctxtop.collectors.plugin import answers
from ctxtop.collectors.plugin.installed_commands import (
    FEATURE_EVENTS,
    parse_command,
    statusline_command,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ..installs import FOREIGN, SETTINGS, older, text
from ..json_texts import comments, documents, value

STORE = Path("/state dir/it's.db")


def wanted(*features: str) -> dict[str, HookHandler]:
    return hook_handlers(InstallOptions(STORE, features))


def line(wrapped: str | None) -> str:
    return statusline_command(STORE, wrapped)


def of_event(settings: str, event: str) -> list[Any]:
    groups = json.loads(settings)["hooks"].get(event, [])
    return [handler for group in groups for handler in group["hooks"]]


def test_only_events_of_the_client_are_wanted_and_no_answer_unasked() -> None:
    asked = {event for events in FEATURE_EVENTS.values() for event in events}
    assert set(RECORDED_EVENTS) | asked <= HOOK_EVENTS
    assert "WorktreeCreate" not in wanted(*FEATURE_EVENTS)
    for event, handler in wanted().items():
        found = parse_command(handler["command"])
        assert found is not None
        assert (found.event, found.features) == (event, ())
    assert "timeout" not in wanted()["SessionEnd"]


def test_a_feature_is_named_at_its_events_alone() -> None:
    made = wanted("steer", "prompts")
    named = {event: parse_command(one["command"]) for event, one in made.items()}
    assert {
        event: found.features for event, found in named.items() if found and found.features
    } == {
        "PreCompact": ("steer",),
        "UserPromptSubmit": ("prompts",),
        "PostToolUse": ("prompts",),
    }


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])), st.booleans())
@example(wrapped=";", is_wrapped=True)
@example(wrapped="else", is_wrapped=True)
def test_our_commands_are_known_again(wrapped: str, is_wrapped: bool) -> None:
    command = statusline_command(STORE, wrapped if is_wrapped else None)
    found = parse_command(command)
    assert found is not None
    assert (found.interpreter, found.store) == (sys.executable, str(STORE))
    assert (found.event, found.wrapped) == ("", wrapped if is_wrapped else None)
    assert Path(found.script).is_file()


@given(st.text())
def test_no_other_command_is_taken_for_ours(command: str) -> None:
    assert parse_command(command) is None


@pytest.mark.parametrize(
    "command",
    [
        "ctxtop-notify",
        "python run.py hook a b",
        "cat /x/ctxtop/collectors/plugin/run.py",
        "tail -f /x/ctxtop/collectors/plugin/run.py hook",
        "echo 'unclosed",
    ],
)
def test_what_only_looks_like_ours_is_not(command: str) -> None:
    assert parse_command(command) is None


def test_hooks_are_added_beside_those_that_are_there() -> None:
    after = with_hooks(text(), wanted())
    value = json.loads(after)
    assert of_event(after, "Stop") == [FOREIGN, wanted()["Stop"]]
    assert value["hooks"]["PreToolUse"] == SETTINGS["hooks"]["PreToolUse"]
    assert {name: value[name] for name in value if name != "hooks"} == {
        name: SETTINGS[name] for name in SETTINGS if name != "hooks"
    }
    assert set(value["hooks"]) == {"PreToolUse", *RECORDED_EVENTS}


def test_a_second_time_changes_nothing() -> None:
    once = with_status_line(with_hooks(text(), wanted("inject")), line)
    assert with_status_line(with_hooks(once, wanted("inject")), line) == once


@pytest.mark.parametrize("indent", [2, 4, "\t", None])
def test_what_was_put_in_is_taken_out_again(indent: int | str | None) -> None:
    cases: list[dict[str, Any]] = [
        SETTINGS,
        {"model": "opus"},
        {"hooks": {"Stop": [{"hooks": [FOREIGN]}]}},
    ]
    for before in cases:
        settings = text(before, indent)
        after = with_status_line(with_hooks(settings, wanted(*FEATURE_EVENTS)), line)
        assert without_status_line(without_hooks(after, before)) == settings


def test_other_features_change_our_commands_where_they_stand() -> None:
    once = with_hooks(text(), wanted())
    twice = with_hooks(once, wanted("enforce"))
    assert with_hooks(twice, wanted()) == once
    changed = [a for a, b in zip(once.splitlines(), twice.splitlines(), strict=True) if a != b]
    assert len(changed) == 1
    assert "SubagentStop" in changed[0]


def test_an_event_that_is_no_longer_wanted_goes() -> None:
    once = with_hooks(text(), wanted("prompts"))
    assert "PostToolUse" in json.loads(once)["hooks"]
    assert with_hooks(once, wanted()) == with_hooks(text(), wanted())


def test_hooks_of_an_older_ctxtop_elsewhere_are_brought_up_to_date_in_place() -> None:
    mine = older("Stop") | {"timeout": 3, "statusMessage": "noting"}
    group = {"matcher": "x", "hooks": [FOREIGN, mine, older("Stop", "enforce")]}
    settings = copy.deepcopy(SETTINGS) | {"hooks": {"Stop": [group, {"hooks": [older("Stop")]}]}}
    after = with_hooks(text(settings), wanted())
    # One is kept as a person moved and changed it; two would record everything twice.
    expected = {**mine, "command": wanted()["Stop"]["command"]}
    groups = json.loads(after)["hooks"]["Stop"]
    assert groups == [{"matcher": "x", "hooks": [FOREIGN, expected]}]
    taken = json.loads(without_hooks(after, {}))
    assert taken["hooks"] == {"Stop": [{"matcher": "x", "hooks": [FOREIGN]}]}


def test_a_group_that_says_more_than_its_matcher_stays() -> None:
    group = {"hooks": [older("Stop")], "note": "mine"}
    taken = json.loads(without_hooks(text({"hooks": {"Stop": [group]}}), {}))
    assert taken == {"hooks": {"Stop": [{"hooks": [], "note": "mine"}]}}


def test_what_was_empty_before_stays() -> None:
    cases: list[dict[str, Any]] = [{"hooks": {}}, {"hooks": {"Stop": []}}]
    for before in cases:
        after = without_hooks(with_hooks(text(before), wanted()), before)
        assert json.loads(after) == before


def test_a_status_line_is_wrapped_with_all_that_it_has_and_given_back() -> None:
    after = with_status_line(text(), line)
    value = json.loads(after)["statusLine"]
    assert value == {**SETTINGS["statusLine"], "command": line("my-line --wide")}
    found = parse_command(value["command"])
    assert found is not None
    assert found.wrapped == "my-line --wide"
    assert without_status_line(after) == text()


def test_a_status_line_is_made_where_there_is_none() -> None:
    before = text({"model": "opus"})
    after = with_status_line(before, line)
    assert json.loads(after)["statusLine"] == {"type": "command", "command": line(None)}
    assert without_status_line(after) == before


def test_the_status_line_that_a_person_chose_after_us_stays() -> None:
    theirs = text({"statusLine": {"type": "command", "command": "new one"}})
    assert without_status_line(theirs) == theirs


@pytest.mark.parametrize("given_line", ["text", {"type": "static", "command": "x"}, {}, None])
def test_a_status_line_of_another_kind_is_refused(given_line: object) -> None:
    with pytest.raises(NotSafeError, match="--no-statusline"):
        with_status_line(text({"statusLine": given_line}), line)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("[]", "is not a JSON object"),
        ('{"hooks": []}', "hooks that are not a JSON object"),
        ('{"hooks": null}', "hooks that are not a JSON object"),
        ('{"hooks": {"Stop": {}}}', "hooks.Stop that is not a list"),
    ],
)
def test_settings_of_another_form_are_refused(settings: str, words: str) -> None:
    with pytest.raises(NotSafeError, match=words):
        with_hooks(settings, wanted())


@pytest.mark.parametrize(
    "odd",
    [
        {"Stop": [7, {"hooks": 7}, {"hooks": [7, {"command": 7}]}]},
        {"SomethingNew": {"of": "theirs"}},
        {"PreToolUse": "nothing"},
    ],
)
def test_what_is_odd_and_not_ours_is_left_alone(odd: dict[str, Any]) -> None:
    settings = text({"hooks": odd})
    after = with_hooks(settings, wanted())
    kept = json.loads(after)["hooks"]
    for event, groups in odd.items():
        assert kept[event][: len(groups)] == groups if isinstance(groups, list) else kept[event]
    assert without_hooks(after, {"hooks": odd}) == settings


@pytest.mark.parametrize("empty", ["", "\n", "\ufeff", "\ufeff \n"])
def test_an_empty_file_is_one_without_settings(empty: str) -> None:
    assert parse_hook_settings(empty).value == {}
    after = with_hooks(empty, wanted())
    assert after.startswith("\ufeff") == empty.startswith("\ufeff")
    assert set(parse_hook_settings(after).value["hooks"]) == set(RECORDED_EVENTS)


def test_comments_line_ends_and_the_byte_order_mark_stay() -> None:
    before = '\ufeff{\r\n\t// mine\r\n\t"model": "opus", /* too */\r\n\t"hooks": {},\r\n}'
    after = with_hooks(before, wanted())
    assert after.startswith('\ufeff{\r\n\t// mine\r\n\t"model": "opus", /* too */\r\n\t"hooks": {')
    assert after.endswith("\r\n\t},\r\n}")
    assert "\n" not in after.replace("\r\n", "")
    assert without_hooks(after, {"hooks": {}}) == before


@settings(deadline=None)
@given(documents())
def test_whatever_is_there_is_there_afterwards(text_of_it: str) -> None:
    before = value(text_of_it)
    try:
        after = with_hooks(text_of_it, wanted(*FEATURE_EVENTS))
    except NotSafeError:
        assert without_hooks(text_of_it, {}) == text_of_it
        return
    assert comments(after) == comments(text_of_it)
    assert set(RECORDED_EVENTS) <= {
        hook.event for hook in parse_hook_settings(after).hooks if hook.own_command
    }
    taken = without_hooks(after, before)
    assert value(taken) == before
    assert comments(taken) == comments(text_of_it)
    assert value(with_hooks(taken, wanted(*FEATURE_EVENTS))) == value(after)
    assert with_hooks(after, wanted(*FEATURE_EVENTS)) == after


def test_every_feature_has_its_module_and_every_module_is_a_feature() -> None:
    modules = Path(answers.__file__).parent.glob("[!_]*.py")
    assert {path.stem for path in modules} == set(FEATURE_EVENTS)
