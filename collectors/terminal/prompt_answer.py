"""Answer a permission prompt in the tmux pane of its client.

A key in the wrong place answers a question that nobody has read. So a prompt is proved first: one
client has the session open, waits for permission and has its terminal's keys; its pane shows that
prompt alone, whole, with the cursor on an option; and what it shows is the one open call of the
transcript. All of it is proved again before the key, and the screen once more as the last: the key
is sent only within MAX_SCREEN_AGE_S, and tmux sends it only if the cursor has not moved. It is the
number of "Yes" or "No": in any other place a digit does nothing but appear. "Don't ask again" is
never chosen.
"""

from enum import StrEnum
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

import msgspec

from ...core.compaction.compaction_target import SESSION_LOCK_KIND
from ...core.files.file_operations import LockHeldError, user_lock
from ...core.model.transcript_records import LiveSession
from ...core.policy.policy import Policy
from ...core.transcript.stored_paths import find_folder
from ..claude_code.registry import read_session_registry
from .pending_calls import PendingCall
from .permission_prompt import PermissionPrompt, PromptRefusedError, read_permission_prompt
from .request_receipts import wait_for
from .shown_calls import find_shown_call
from .tmux_panes import PaneError, TmuxPane, find_pane, is_in_foreground

if TYPE_CHECKING:
    from ..locations.discover import ClaudeFolder

ANSWER_KEY: Final = "terminal.answer"  # the policy key that allows it
PERMISSION_WORDS: Final = "permission prompt"  # the registry's, of a session that waits for one
GONE_TIMEOUT_S: Final = 1.5  # the client removes the prompt within 50 ms
MAX_SCREEN_AGE_S: Final = 0.1  # no person reads and answers another prompt in less
MAX_PRESSES: Final = 3  # the client ignores a key in the first moments of a prompt (seen)


class Answer(StrEnum):
    YES = "yes"
    NO = "no"


class PromptTarget(msgspec.Struct, frozen=True):
    session_id: str
    transcript: Path
    folder: "ClaudeFolder"
    policy: Policy  # the acting one of the session's project


class ProvedPrompt(msgspec.Struct, frozen=True):
    pid: int
    pane: TmuxPane
    prompt: PermissionPrompt
    call: PendingCall


def answering_obstacle(policy: Policy) -> str | None:
    """Return why the policy forbids answering prompts; None if it allows it."""
    if policy.flag(ANSWER_KEY):
        return None
    return f"{ANSWER_KEY} is off: answer it in its terminal"


def prove_prompt(target: PromptTarget) -> ProvedPrompt:
    """Prove which prompt a session shows; raises PromptRefusedError with the reason."""
    if obstacle := answering_obstacle(target.policy):
        raise PromptRefusedError(obstacle)
    live = _waiting_client(target)
    pane = find_pane(live.pid)
    if pane is None:
        raise PromptRefusedError(
            f"process {live.pid} is not in one of your tmux panes: answer it there"
        )
    if is_in_foreground(live.pid) is False:
        raise PromptRefusedError(
            "Claude Code is suspended there, or another program is using its terminal"
        )
    try:
        prompt = read_permission_prompt(pane.read_screen())
        call = find_shown_call(prompt, target.transcript, _folder_of(live))
    except PaneError as error:
        raise PromptRefusedError(str(error)) from error
    except OSError as error:
        raise PromptRefusedError(f"its transcript cannot be read: {error.strerror}") from error
    return ProvedPrompt(live.pid, pane, prompt, call)


def answer_prompt(target: PromptTarget, shown: ProvedPrompt, answer: Answer) -> None:
    """Answer the prompt that a person was shown, and wait until the client accepts it.

    Raises PromptRefusedError, before a key was sent or if the prompt stays.
    """
    try:
        with user_lock(SESSION_LOCK_KIND, target.transcript.parent, target.session_id):
            key = shown.prompt.yes_key if answer is Answer.YES else shown.prompt.no_key
            why = ""
            for _ in range(MAX_PRESSES):
                if prove_prompt(target) != shown:
                    raise PromptRefusedError(CHANGED)
                why = _press(shown, key)
                if not why and wait_for(lambda: _is_gone(target, shown), GONE_TIMEOUT_S):
                    return
            raise PromptRefusedError(why or "its prompt is still open: check its terminal")
    except LockHeldError:
        raise PromptRefusedError(
            "another ctxtop is working on this session: wait until it is done"
        ) from None
    except PaneError as error:
        raise PromptRefusedError(str(error)) from error


CHANGED: Final = "its prompt has changed since it was shown"


def _press(shown: ProvedPrompt, key: str) -> str:
    """Press a key if the pane still shows the prompt; return why nothing was pressed, if so.

    The transcript was read before: nothing takes time between this look at the screen and the key.
    """
    began = monotonic()
    screen = shown.pane.read_screen()
    if read_permission_prompt(screen) != shown.prompt:
        raise PromptRefusedError(CHANGED)
    age = monotonic() - began
    if age > MAX_SCREEN_AGE_S:
        limit = round(MAX_SCREEN_AGE_S * 1000)
        return f"this machine is busy: its screen was {age * 1000:.0f} ms old, more than {limit} ms"
    if not shown.pane.press_at(screen.cursor, key):
        raise PromptRefusedError(CHANGED)
    return ""


def _is_gone(target: PromptTarget, shown: ProvedPrompt) -> bool | None:
    """Return True once the prompt is gone; None while it is there."""
    live = _client_of(target)
    if live is None or live.status != "waiting":
        return True
    screen = shown.pane.read_screen()
    try:
        prompt = read_permission_prompt(screen)
        if prompt == shown.prompt:
            call = find_shown_call(prompt, target.transcript, _folder_of(live))
            return True if call != shown.call else None
    except (PromptRefusedError, OSError):
        return True if shown.prompt.question not in screen.text else None
    return True


def _folder_of(live: LiveSession) -> str:
    return (find_folder(live.cwd) if live.cwd else None) or ""


def _client_of(target: PromptTarget) -> LiveSession | None:
    clients = [
        live
        for live in read_session_registry(target.folder).clients
        if live.session_id == target.session_id
    ]
    if len(clients) > 1:
        raise PromptRefusedError(f"it is open {len(clients)} times: answer it there")
    return clients[0] if clients else None


def _waiting_client(target: PromptTarget) -> LiveSession:
    live = _client_of(target)
    if live is None:
        raise PromptRefusedError("it is not open in Claude Code")
    if live.status != "waiting":
        raise PromptRefusedError(f"it is no longer waiting: it is {live.status}")
    if live.waiting_for != PERMISSION_WORDS:
        what = live.waiting_for or "something unspecified"
        raise PromptRefusedError(f"it is waiting for {what}, not for permission: answer it there")
    return live
