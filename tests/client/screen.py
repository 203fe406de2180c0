"""The client in a terminal: tmux with a socket of its own, inside the namespace."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .lab import Lab

Json = dict[str, Any]

SOON_S: Final = 60.0
"""The client answers within a second or two; a test that waits longer fails."""

KEYS_APART_S: Final = 0.4
"""Enter that comes with the text is taken for a part of what was pasted."""

SHOWN_S: Final = (0.4, 1.0, 2.0, 4.0, 8.0, 16.0)
"""How long each try to type something is waited for: a busy machine shows it late."""

_BEGINNING: Final = 12
"""Characters that tell what was typed; a long line is wrapped."""

_KEY_END: Final = 20
"""Characters by which the client remembers that a key was approved."""


class ScreenError(Exception):
    """What was waited for did not come; the message shows the screen."""


class Screen:
    """One pane with the client in it."""

    def __init__(self, lab: Lab, argv: Sequence[str], name: str = "lab") -> None:
        """`name` is the session's in tmux: a lab with several screens tells them apart by it."""
        self._lab: Final = lab
        self._name: Final = name
        self._socket: Final = str(lab.root / f"{name}.sock")
        self._env: Final = lab.env | {"TERM": "xterm-256color"}
        self._session: str | None = None
        _welcome(lab)
        self._server = lab.namespace.start(
            ["tmux", "-S", self._socket, "-f", "/dev/null", "-D"], lab.project, self._env
        )
        self._open = True
        self.until(lambda: self._tmux("start-server") == "", "tmux")
        refused = self._tmux("new-session", "-d", "-s", name, "-x", "160", "-y", "50", *argv)
        if refused:
            raise ScreenError(f"tmux opened nothing: {refused}")
        self.until(lambda: bool(self.entry()), "the registry's entry")
        self.until(lambda: "❯" in self.text(), "the prompt")

    @property
    def session_id(self) -> str:
        """The session that is open now."""
        return str(self.entry()["sessionId"])

    def entry(self) -> Json:
        """The client's own entry in its registry; empty before and after it runs."""
        for path in self._lab.config.glob("sessions/*.json"):
            try:
                found: Json = json.loads(path.read_text(encoding="utf-8"))
            except (FileNotFoundError, ValueError):
                continue
            place = str(found.get("tmux") or self._name)
            if found.get("kind") == "interactive" and place.startswith(self._name):
                return found
        return {}

    def text(self) -> str:
        """What stands on the screen."""
        return self._tmux("capture-pane", "-p", "-t", self._name)

    def type(self, text: str) -> None:
        """Type a line and send it off."""
        # What is typed while the client still starts can be lost, in part or whole.
        for seconds in SHOWN_S:
            self._tmux("send-keys", "-t", self._name, "-l", text)
            time.sleep(KEYS_APART_S)
            end = time.monotonic() + seconds
            while not (shown := self._shows(text)) and time.monotonic() < end:
                time.sleep(0.1)
            if shown:
                break
            self.press("C-u")
        else:
            raise ScreenError(f"typed in vain: {text}\n{self.text()}")
        self.press("Enter")

    def _shows(self, text: str) -> bool:
        """Whether the input line begins with `text`; a leading `!` is shown in the margin."""
        typed = self.text().rpartition("❯")[2]
        return text.lstrip("!")[:_BEGINNING] in typed

    def press(self, *keys: str) -> None:
        """Press keys by their names in tmux."""
        for key in keys:
            self._tmux("send-keys", "-t", self._name, key)
            time.sleep(KEYS_APART_S)

    def paste(self, typed: str, pasted: str) -> None:
        """Type a beginning, paste a text as a terminal does, and send both off."""
        path = self._lab.root / "pasted.txt"
        path.write_text(pasted, encoding="utf-8")
        self._tmux("send-keys", "-t", self._name, "-l", typed)
        self.until(lambda: self._shows(typed), "what was typed")
        self._tmux("load-buffer", str(path))
        self._tmux("paste-buffer", "-p", "-t", self._name)
        time.sleep(KEYS_APART_S)
        self.press("Enter")

    def ask(self, prompt: str) -> Json:
        """Send a prompt, wait until it is answered; give what the status line was told then."""
        stops = len(self._lab.hooks("Stop", self.session_id))
        self.type(prompt)
        self.until(lambda: len(self._lab.hooks("Stop", self.session_id)) > stops, "the answer")
        return self.settle()

    def compact(self) -> Json:
        """Compact by hand; give what the status line was told then."""
        done = len(self._lab.hooks("PostCompact"))
        self.type("/compact keep the plan")
        self.until(lambda: len(self._lab.hooks("PostCompact")) > done, "the compaction")
        return self.settle()

    def until_status(self, status: str) -> None:
        """Wait until the client's registry says that it is busy, idle or waiting."""
        self.until(lambda: self.entry().get("status") == status, status)

    def settle(self) -> Json:
        """Wait until the client is idle and its status line has had its last word: give it."""
        self.until_status("idle")
        seen = -1
        while seen != len(self._lab.statuses()):
            seen = len(self._lab.statuses())
            # The client gathers changes for 300 ms before it runs the status line.
            time.sleep(0.8)
        return self._lab.statuses(self.session_id)[-1]

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until something is so; raise ScreenError with the screen where it never is."""
        end = time.monotonic() + SOON_S
        while not condition():
            if time.monotonic() > end:
                raise ScreenError(f"waited {SOON_S:.0f} s for {what}:\n{self.text()}")
            time.sleep(0.1)

    def leave(self) -> None:
        """End the client as a person does."""
        self.type("/exit")
        self.until(lambda: not self.entry(), "the end")

    def close(self) -> None:
        """End the terminal and what is in it."""
        if self._open:
            self._tmux("kill-server")
            self._lab.namespace.stop(self._server)
            self._open = False

    def _tmux(self, *args: str) -> str:
        # Without -N a command that comes before the server is up starts one of its own, which ends
        # with it and leaves no server at all.
        ended = self._lab.namespace.run(
            ["tmux", "-N", "-S", self._socket, *args], self._lab.project, self._env
        )
        return ended.out if ended.code == 0 else ended.err


def _welcome(lab: Lab) -> None:
    """Answer beforehand what the client asks when it starts for the first time."""
    trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    key = lab.env["ANTHROPIC_API_KEY"][-_KEY_END:]
    state = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "lastOnboardingVersion": "2.1.329",
        "customApiKeyResponses": {"approved": [key], "rejected": []},
        "bypassPermissionsModeAccepted": True,
        "projects": {str(lab.project): trusted | {"allowedTools": []}},
    }
    path = lab.config / ".claude.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps(before | state), encoding="utf-8")
