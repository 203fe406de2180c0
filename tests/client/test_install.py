"""The real client runs what ctxtop installs, and its settings are as they were afterwards."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.claude_code.own_log_records import HOOK_EVENTS
from ctxtop.collectors.plugin.installed_commands import FEATURE_EVENTS
from ctxtop.collectors.plugin_files import plugin_log
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import log_queries
from ctxtop.tui.cli import main

from tests.log_rows import log_rows

if TYPE_CHECKING:
    from .lab import Lab

TURN = (
    "SessionStart",
    "UserPromptSubmit",
    "SubagentStart",
    "SubagentStop",
    "Stop",
    "SessionEnd",
)
"""What a turn with an agent brings; the lab's own hooks hear all of it but the end."""

SPOKEN = (
    "Go. [[agent:general-purpose|Do it. <<say:done+++usage:21000>>&&&usage:20000]]"
    " [[say:ok&&&usage:22000]]"
)

AGENTS = 20


class Command:
    """`ctxtop` on the lab's folder."""

    def __init__(
        self, lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self._lab = lab
        self._patch = monkeypatch
        self._capsys = capsys
        monkeypatch.setenv("HOME", str(lab.root / "home"))
        monkeypatch.chdir(lab.project)

    def __call__(self, *words: str, code: int = 0) -> Any:  # noqa: ANN401 -- any JSON
        places = ["--config-dir", str(self._lab.config), "--db", str(self._lab.store)]
        self._patch.setattr("sys.argv", ["ctxtop", *words, *places, "--json"])
        with pytest.raises(SystemExit) as ended:
            main()
        told = self._capsys.readouterr()
        assert ended.value.code == code, told.out + told.err
        return json.loads(told.out)


@pytest.fixture
def command(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    return Command(lab, monkeypatch, capsys)


def recorded(store: Path, session: str) -> list[str]:
    with closing(open_reader(store)) as db:
        return [row.event for row in log_rows(db, "hook_event", session)]


@pytest.mark.parametrize("form", ["hooks", "plugin"])
def test_foreign_hooks_run_ours_record_and_the_settings_are_as_they_were(
    lab: Lab, command: Command, form: str
) -> None:
    settings = lab.config / "settings.json"
    before = settings.read_bytes()
    done = command("hooks", "install", "--as", form, "--no-statusline", "--yes")
    assert len(done["kept"]) >= len(lab.hooks("none")) + 8
    installed = settings.read_bytes()
    turn = lab.turn(SPOKEN)
    assert turn.code == 0, turn.err
    assert settings.read_bytes() == installed, "the client wrote the settings itself"

    status = command("hooks", "status")
    assert status["problems"] == []
    assert status["state"] == "clean"
    events = recorded(lab.store, turn.session_id)
    assert set(events) == set(TURN)
    for event in set(TURN) - {"SessionEnd"}:
        assert len(lab.hooks(event, turn.session_id)) == events.count(event), event
    told = Path(plugin_log.log_path(str(lab.store), plugin_log.PLUGIN_LOG))
    assert told.exists() == (form == "plugin"), "only the plugin has the module"
    heard = {hook["event"] for hook in status["hooks"] if hook["last_record_at"]}
    assert heard == set(TURN)

    command("hooks", "uninstall", "--yes")
    assert settings.read_bytes() == before
    assert command("hooks", "status")["state"] == "absent"
    again = lab.turn("Hi. [[say:ok&&&usage:20000]]")
    assert again.code == 0
    command("scan")
    assert recorded(lab.store, again.session_id) == []
    assert lab.hooks("Stop", again.session_id)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("form", ["hooks", "plugin"])
def test_a_foreign_status_line_goes_on_beside_ours(lab: Lab, command: Command, form: str) -> None:
    settings = lab.config / "settings.json"
    own = json.loads(settings.read_text(encoding="utf-8"))
    shown = f"{own['statusLine']['command']}; echo THEIR LINE"
    own["statusLine"] |= {"command": shown, "padding": 1}
    settings.write_text(json.dumps(own, indent=3), encoding="utf-8")
    # The first time it has a screen, the client writes the settings anew, in an order of its own.
    screen = lab.interactive()
    screen.ask("Hi. [[say:ok&&&usage:20000]]")
    screen.close()
    before = settings.read_bytes()
    command("hooks", "install", "--as", form, "--yes")
    wrapped = json.loads(settings.read_text(encoding="utf-8"))["statusLine"]
    assert wrapped["padding"] == 1
    installed = settings.read_bytes()

    screen = lab.interactive()
    screen.ask("Hi. [[say:ok&&&usage:21000]]")
    screen.settle()
    text = screen.text()
    session = screen.session_id
    screen.close()
    assert "THEIR LINE" in text
    status = command("hooks", "status")
    assert (status["state"], status["problems"]) == ("clean", [])
    assert status["status_line"]["last_record_at"] is not None
    assert lab.statuses(session), "the status line that was there is run no more"
    with closing(open_reader(lab.store)) as db:
        assert log_rows(db, "status_snapshot", session)
    assert settings.read_bytes() == installed, "the client wrote the settings itself"
    command("hooks", "uninstall", "--yes")
    assert settings.read_bytes() == before
    listed = {path.name for path in (lab.config / "skills").glob("*")}
    assert listed == set()


def test_the_plugin_is_valid_as_shipped_and_as_installed(lab: Lab, command: Command) -> None:
    command("hooks", "install", "--yes", "--with", "enforce,inject,steer,remember,prompts")
    from ctxtop.collectors import plugin

    shipped = plugin.__path__[0] + "/shipped"
    for folder in (shipped, str(lab.config / "skills" / "ctxtop")):
        words = [str(lab.client), "plugin", "validate", folder]
        ended = lab.namespace.run(words, lab.project, lab.env, 60)
        assert ended.code == 0, ended.out + ended.err
        assert "Validation passed" in ended.out
    words = [str(lab.client), "plugin", "list"]
    listed = lab.namespace.run(words, lab.project, lab.env, 60)
    assert "ctxtop@skills-dir" in listed.out
    assert "loaded" in listed.out


def test_the_skills_are_offered_and_given_to_an_agent_that_declares_one(
    lab: Lab, command: Command
) -> None:
    command("hooks", "install", "--yes", "--no-statusline")
    (lab.config / "agents").mkdir(exist_ok=True)
    for name, skill in (("plain", "compress-output"), ("scoped", "ctxtop:compress-review")):
        lines = f"---\nname: {name}\ndescription: d\nskills: {skill}\n---\nYou are {name}.\n"
        (lab.config / "agents" / f"{name}.md").write_text(lines, encoding="utf-8")
    for name, words in (("plain", "End with a compressed result"), ("scoped", "compressed review")):
        turn = lab.turn(SPOKEN.replace("general-purpose", name))
        bodies = [json.dumps(each["body"]) for each in turn.exchanges]
        assert "ctxtop:compress-output: How to end a task that another agent gave you" in bodies[0]
        assert "ctxtop:compress-review: How to end a code review" in bodies[0]
        assert any(words in body and "Do it." in body for body in bodies), name


@pytest.mark.parametrize("form", ["hooks", "plugin"])
def test_with_every_feature_the_client_and_ctxtop_are_content(
    lab: Lab, command: Command, form: str
) -> None:
    every = ",".join(FEATURE_EVENTS)
    command("hooks", "install", "--as", form, "--yes", "--with", every)
    turn = lab.turn(SPOKEN)
    assert turn.code == 0
    assert lab.turn("/compact", resume=turn.session_id).code == 0
    assert lab.turn("On. [[bash:seq 1 3&&&usage:150000]] [[say:ok]]", resume=turn.session_id).said
    status = command("hooks", "status")
    assert (status["state"], status["problems"]) == ("clean", [])
    named = {hook["event"]: hook["features"] for hook in status["hooks"] if hook["features"]}
    assert sorted({name for names in named.values() for name in names}) == sorted(every.split(","))
    heard = {hook["event"] for hook in status["hooks"] if hook["last_record_at"]}
    assert {*TURN, "PreCompact", "PostCompact", "PostToolUse"} <= heard


@pytest.mark.parametrize("form", ["hooks", "plugin"])
def test_twenty_agents_at_once_lose_no_record_and_leave_all_clean(
    lab: Lab, command: Command, form: str
) -> None:
    command("hooks", "install", "--as", form, "--yes", "--with", "enforce,inject")
    calls = "&&&".join(
        f"agent:general-purpose|Part {number} <<say:Built {number}.+++usage:{9000 + number}>>"
        for number in range(AGENTS)
    )
    turn = lab.turn(f"Delegate. [[{calls}&&&usage:30000]] [[say:All run.&&&usage:35000]]")
    assert turn.code == 0, turn.err

    status = command("hooks", "status")
    assert (status["state"], status["problems"]) == ("clean", [])
    with closing(open_reader(lab.store)) as db:
        assert log_queries.bad_log_lines(db) == []
        rows = log_rows(db, "hook_event", turn.session_id)
    kept = Counter(row.event for row in rows)
    for event in set(TURN) - {"SessionEnd"}:
        assert kept[event] == len(lab.hooks(event, turn.session_id)), event
    for event in ("SubagentStart", "SubagentStop"):
        agents = [row.agent_id for row in rows if row.event == event and row.agent_type]
        assert len(agents) == len(set(agents)) == AGENTS
        assert len(agents) == len([one for one in lab.hooks(event) if one["agent_type"]])


def test_the_preset_clnode_blocks_an_agent_that_only_its_skill_gave_the_marker(
    lab: Lab, command: Command
) -> None:
    """The client writes the preloaded SKILL.md, which has the marker, into its transcript."""
    head = "---\nname: {0}\ndescription: the {0}\n{1}---\n{2}\n"
    for path, name, more, body in (
        ("agents/node-backend.md", "node-backend", "skills: [compress-output]\n", "Build."),
        ("skills/compress-output/SKILL.md", "compress-output", "", "Begin with [COMPRESSED]."),
    ):
        file = lab.project / ".claude" / path
        file.parent.mkdir(parents=True)
        file.write_text(head.format(name, more, body), encoding="utf-8")
    command("hooks", "install", "--yes", "--no-statusline", "--with", "enforce,inject")
    lab.variables = {"CTXTOP_POLICY_PRESET": "clnode"}
    good = "[COMPRESSED] agent_type: node-backend\nChanged files: none\nResult: It runs."
    seen = []
    for answers in (("free text result", "free text result"), ("free text result", good), (good,)):
        said = " ".join(f"<<say:{each}+++usage:20000>>" for each in answers)
        agent = f"[[agent:node-backend|Build it. {said}&&&usage:30000]]"
        turn = lab.turn(f"Go. {agent} [[say:ok&&&usage:31000]]")
        (told,) = command("agents", "--session", turn.session_id, "--preset", "clnode")
        seen.append((told["verdict"], told["blocked"], told["marker_origin"], told["grep_passes"]))
    assert seen == [
        ("exhausted", True, "skill_text", True),
        ("forced", True, "final_assistant", True),
        ("compliant", False, "final_assistant", True),
    ]


def test_an_agent_with_the_skill_of_the_plugin_is_held_up_where_that_was_asked_for(
    lab: Lab, command: Command
) -> None:
    (lab.config / "agents").mkdir(exist_ok=True)
    agent = "---\nname: worker\ndescription: d\nskills: compress-output\n---\nYou are worker.\n"
    (lab.config / "agents" / "worker.md").write_text(agent, encoding="utf-8")
    good = "[COMPRESSED] agent_type: worker\nChanged files: none\nResult: It runs."
    said = " ".join(f"<<say:{words}+++usage:20000>>" for words in ("I did it all.", good))
    prompt = f"Go. [[agent:worker|Build it. {said}&&&usage:30000]] [[say:ok&&&usage:31000]]"
    verdicts = []
    for features in ((), ("--with", "enforce")):
        command("hooks", "install", "--yes", "--no-statusline", *features)
        session = lab.turn(prompt).session_id
        verdicts += [one["verdict"] for one in command("agents", "--session", session)]
    assert verdicts == ["non_compliant", "forced"]


def test_a_plugin_without_ctxtop_harms_nobody(lab: Lab, command: Command) -> None:
    command("hooks", "install", "--yes", "--no-statusline")
    for name in ("hooks/hooks.json", "hooks/register.json"):
        path = lab.config / "skills" / "ctxtop" / name
        gone = path.read_text(encoding="utf-8").replace("/bin/python", "/gone/python")
        path.write_text(gone, encoding="utf-8")
    turn = lab.turn(SPOKEN)
    assert turn.code == 0
    assert not turn.said["is_error"]
    assert command("hooks", "status", code=1)["state"] == "faulty"


def test_the_client_ignores_settings_with_comments(lab: Lab, command: Command) -> None:
    """Why installing into such a file is told of."""
    settings = lab.config / "settings.json"
    plain = settings.read_text(encoding="utf-8")
    for odd in ("// mine\n" + plain, plain.rstrip().rstrip("}") + ",}\n"):
        settings.write_text(odd, encoding="utf-8")
        turn = lab.turn("Hi. [[say:ok&&&usage:20000]]")
        assert lab.hooks("Stop", turn.session_id) == []
    settings.write_text("\ufeff" + plain.replace("\n", "\r\n"), encoding="utf-8", newline="")
    command("hooks", "install", "--as", "hooks", "--yes", "--no-statusline")
    turn = lab.turn("Hi. [[say:ok&&&usage:20000]]")
    assert lab.hooks("Stop", turn.session_id)
    command("scan")
    assert set(recorded(lab.store, turn.session_id)) <= HOOK_EVENTS
    assert "Stop" in recorded(lab.store, turn.session_id)


def test_hooks_of_a_project_run_in_it(lab: Lab, command: Command) -> None:
    done = command("hooks", "install", "--scope", "local", "--yes")
    assert done["settings"] == str(lab.project / ".claude" / "settings.local.json")
    turn = lab.turn("Hi. [[say:ok&&&usage:20000]]")
    assert command("hooks", "status")["state"] == "clean"
    assert "Stop" in recorded(lab.store, turn.session_id)
    command("hooks", "uninstall", "--scope", "local", "--yes")
    assert not (lab.project / ".claude").exists()
