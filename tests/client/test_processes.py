"""What ctxtop starts: never a cloned repository's hooks, and nothing where nobody trusts it."""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.terminal.client_run import is_folder_trusted, state_file

from ..trusting import accept_trust_dialog
from .lab import SMALL, TURN_S
from .namespace import REPOSITORY
from .trusting import trust

if TYPE_CHECKING:
    from pathlib import Path

    from .lab import Lab
    from .namespace import Ended

FILLED = "Hi. [[bash:seq 1 9&&&usage:20000]] [[say:ok&&&usage:175000/12]]"
AUTOMATIC = 'mode = "auto"\ncompact.by = "client"\ncompact.min_messages = 2\n'

# What the dashboard does with a session that rests, ten minutes later.
_AUTOMATION = """
import sys, time
from contextlib import closing
from pathlib import Path
from ctxtop.core.actions.automation import default_runners
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.collectors.post_scan_jobs import make_automation
from ctxtop.collectors.locations.policy_files import PolicyFiles
from ctxtop.collectors.locations.places import PolicySources
from ctxtop.collectors.locations.places import trust_file_path
from ctxtop.core.store.writer import Writer
from tests.recorder import Recorder
config, store, *folders = sys.argv[1:]
with closing(Writer(Path(store))) as writer:
    folder = ClaudeFolder(Path(config).resolve())
    Collector(folder, writer, Recorder()).scan()
    files = PolicyFiles(PolicySources((), {}, None, trust_file_path()))
    files.refresh(folders)
    later = lambda: time.time_ns() // 1_000_000 + 600_000
    automation = make_automation(folder, writer, files, default_runners(print), later)
    automation.tick()
    automation.wait(100)
    for row in writer.connection.execute("SELECT session_id, outcome FROM automatic_run"):
        print(*row)
"""


_RUN = """
import sys
from pathlib import Path
from ctxtop.collectors.terminal import client_run
config, root, prompt, session = sys.argv[1:]
prepared = client_run.prepare_run(root, Path(config))
print(prepared.run(prompt, session, 60).output)
"""


def run(lab: Lab, *argv: str, cwd: Path | None = None) -> Ended:
    tools = lab.root / "bin"
    if not tools.exists():
        tools.mkdir()
        (tools / "claude").symlink_to(lab.client)
    env = lab.env | {"PATH": f"{tools}:{lab.env['PATH']}"}
    return lab.namespace.run([sys.executable, *argv], cwd or lab.root, env, 150.0)


def trigger(lab: Lab, session_id: str) -> Ended:
    places = ["--config-dir", str(lab.config), "--db", str(lab.store)]
    return run(lab, "-P", "-m", "ctxtop", "trigger", session_id, "--json", *places)


def automate(lab: Lab, *folders: Path) -> Ended:
    words = [str(lab.config), str(lab.store), *map(str, folders)]
    # The tests' own modules stand in the folder that the driver was started in.
    return run(lab, "-c", _AUTOMATION, *words, cwd=REPOSITORY)


def plant(lab: Lab, folder: Path) -> Path:
    """Put hooks into a project's settings, and return what they leave behind."""
    mark = lab.root / f"{folder.name}.ran"
    hook = {"hooks": [{"type": "command", "command": f"echo ran >> {mark}"}]}
    settings = {"hooks": {"SessionStart": [hook], "PreCompact": [hook]}}
    for name in ("settings.json", "settings.local.json"):
        path = folder / ".claude" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings), encoding="utf-8")
    return mark


def turn_in(lab: Lab, folder: Path) -> str:
    """Run the client for one prompt in another folder than the lab's project."""
    session_id = str(uuid.uuid4())
    words = [str(lab.client), "-p", FILLED, "--session-id", session_id, "--model", SMALL]
    ended = lab.namespace.run([*words, "--dangerously-skip-permissions"], folder, lab.env, TURN_S)
    assert ended.code == 0, ended.err
    return session_id


def rest(lab: Lab, session_id: str) -> None:
    (path,) = lab.config.glob(f"projects/*/{session_id}.jsonl")
    os.utime(path, (time.time() - 60, time.time() - 60))


def boundaries(lab: Lab, session_id: str) -> int:
    lines = lab.transcript(session_id)
    return sum(line.get("subtype") == "compact_boundary" for line in lines)


@pytest.fixture
def evil(lab: Lab) -> Path:
    """A repository that was cloned into the project."""
    folder = lab.project / "vendor" / "evil"
    (folder / ".git").mkdir(parents=True)
    return folder


def test_a_project_s_hooks_do_not_run(lab: Lab) -> None:
    mark = plant(lab, lab.project)
    turn = lab.turn(FILLED)
    assert mark.exists(), "the client itself runs them"
    mark.unlink()
    rest(lab, turn.session_id)
    accept_trust_dialog(lab.config / ".claude.json", lab.project)
    ended = trigger(lab, turn.session_id)
    assert ended.code == 0, ended.err
    assert boundaries(lab, turn.session_id) == 1
    assert not mark.exists()
    said = json.loads(ended.out)
    assert said["command"][-4:] == ["--setting-sources", "user", "--", "/compact"]
    assert said["folder"] == str(lab.project.resolve())


def test_nothing_is_started_where_the_client_trusts_nobody(lab: Lab) -> None:
    mark = plant(lab, lab.project)
    turn = lab.turn(FILLED)
    mark.unlink()
    rest(lab, turn.session_id)
    (lab.project / ".ctxtop.toml").write_text(AUTOMATIC)
    trust(lab)
    lab.new_exchanges()
    ended = trigger(lab, turn.session_id)
    (line,) = ended.err.splitlines()
    assert ended.code == 4
    assert f"does not trust {lab.project.resolve()}" in line
    automatic = automate(lab, lab.project)
    assert automatic.code == 0, automatic.err
    assert "untrusted: Claude Code does not trust" in automatic.out
    assert lab.new_exchanges() == []
    assert boundaries(lab, turn.session_id) == 0
    assert not mark.exists()


@pytest.mark.parametrize("way", ["trigger", "automation"])
def test_a_session_that_walked_into_a_clone_is_resumed_where_it_began(
    lab: Lab, evil: Path, way: str
) -> None:
    mark = plant(lab, evil)
    for folder in (lab.project, evil):
        (folder / ".ctxtop.toml").write_text(AUTOMATIC)
    trust(lab)
    turn = lab.turn(f"Go. [[bash:cd {evil}&&&usage:20000]] [[say:ok&&&usage:175000/12]]")
    assert lab.transcript(turn.session_id)[-1].get("cwd", str(evil)) == str(evil)
    assert any(line.get("cwd") == str(evil) for line in lab.transcript(turn.session_id))
    rest(lab, turn.session_id)
    accept_trust_dialog(lab.config / ".claude.json", lab.project)
    if way == "trigger":
        ended = trigger(lab, turn.session_id)
    else:
        ended = automate(lab, lab.project, evil)
        assert f"in {lab.project.resolve()}" in ended.out
    assert ended.code == 0, ended.err
    assert boundaries(lab, turn.session_id) == 1
    assert not mark.exists()


def test_a_clone_inside_a_trusted_project_is_not_trusted(lab: Lab, evil: Path) -> None:
    """A session that was begun in it: the client would ask there as well."""
    mark = plant(lab, evil)
    session_id = turn_in(lab, evil)
    mark.unlink()
    rest(lab, session_id)
    accept_trust_dialog(lab.config / ".claude.json", lab.project)
    assert trigger(lab, session_id).code == 4
    accept_trust_dialog(lab.config / ".claude.json", lab.project, evil)
    ended = trigger(lab, session_id)
    assert ended.code == 0, ended.err
    assert not mark.exists()


SILENT = 'mode = "auto"\npreset = "omo-latest"\n'


@pytest.mark.parametrize("disabled", ["", 'disabled_modules = ["auto-recovery"]\n'])
def test_a_session_that_went_silent_is_compacted_again(lab: Lab, disabled: str) -> None:
    """R002-09: three answers that only think, after the client's own compaction."""
    (lab.project / ".ctxtop.toml").write_text(SILENT + disabled)
    trust(lab)
    accept_trust_dialog(lab.config / ".claude.json", lab.project)
    session_id = lab.turn(FILLED).session_id
    lab.turn("/compact", resume=session_id)
    for _ in range(3):
        lab.turn("On. [[think:Hm.&&&usage:9000]]", resume=session_id)
    rest(lab, session_id)
    ended = automate(lab, lab.project)
    assert ended.code == 0, ended.err
    assert boundaries(lab, session_id) == (1 if disabled else 2), ended.out


def test_a_prompt_that_looks_like_an_option_is_a_prompt(lab: Lab) -> None:
    """It may come out of a transcript, and the client has an option that names hooks."""
    mark = lab.root / "option.ran"
    hook = {"hooks": [{"type": "command", "command": f"echo ran >> {mark}"}]}
    prompt = "--settings=" + json.dumps({"hooks": {"SessionStart": [hook]}})
    turn = lab.turn(FILLED)
    lab.turn(prompt, resume=turn.session_id)
    assert mark.exists(), "the client takes it for its option"
    mark.unlink()
    accept_trust_dialog(lab.config / ".claude.json", lab.project)
    lab.new_exchanges()
    words = [str(lab.config), str(lab.project), prompt, turn.session_id]
    ended = run(lab, "-P", "-c", _RUN, *words)
    assert ended.code == 0, ended.err
    assert not mark.exists()
    (asked,) = [one for one in lab.new_exchanges() if one["what"] == "answer"]
    assert "--settings=" in json.dumps(asked["body"]["messages"][-1])


@pytest.mark.usefixtures("terminal")
def test_a_person_s_answer_to_the_dialog_is_what_counts(lab: Lab, evil: Path) -> None:
    state = state_file(lab.config, {}, lab.root / "home")
    screen = lab.interactive()
    assert not is_folder_trusted(evil.resolve(), state)
    screen._tmux("new-window", "-t", "lab", "-c", str(evil), str(lab.client))
    screen.until(lambda: "❯ No, exit" in screen.text(), "the dialog")
    assert not is_folder_trusted(evil.resolve(), state)

    def is_yes() -> bool:
        # A key that comes early is lost.
        screen.press("Down")
        return "❯ Yes, I trust" in screen.text()

    screen.until(is_yes, "the other answer")
    screen.press("Enter")
    screen.until(lambda: is_folder_trusted(evil.resolve(), state), "the record")
