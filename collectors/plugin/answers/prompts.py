"""Feature `prompts`: tell the model once when its context reaches a threshold.

At 70 % that there is room, at 80 % to save what matters; again after a compaction, as the policy
says (002-20 to 002-36). A full check takes ten times what a hook may take, and most calls are
nowhere near a threshold: after one, a small file says up to which size none is needed.
"""

from __future__ import annotations

import os
import time
from binascii import crc32

from ...plugin_files.plugin_log import (
    FOLDER_MODE,
    decode_object,
    encode_json,
    log_folder,
    open_safely,
)
from ..hook_answer import find_hook_project, session_of, text_field, transcript_path

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from typing import Any, Final

    from ....core.model.context import Context
    from ....core.policy.policy import Policy
    from ...claude_code.current_context import LatestAnswer
    from ..hook_answer import HookCall, HookReply


THROTTLE_S: Final = 60.0  # then a full check is due: a policy or a window may have changed
LONG_THROTTLE_S: Final = 1800.0
"""The same below the size at which a threshold of the smallest window is reached, while the model,
the files of the policy and the variables are the same."""

NO_THRESHOLD_LEFT: Final = 1 << 40  # tokens, where no threshold is left
_TAIL_BYTES: Final = 256 * 1024
_USAGE_KEY: Final = b'"usage":{'
_MODEL_KEY: Final = b'"model":"'
_VARIABLES: Final = ("CTXTOP_", "CLAUDE_", "XDG_", "HOME")
MAX_THROTTLE_BYTES: Final = 32 * 1024  # three paths
NO_USAGE: Final = -1  # the size of a context without an answer
_INPUT_FIELDS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def estimate_context_tokens(transcript: str | Path) -> int | None:
    """Sum up the input of the last usage in a file's end, of any context; None without one."""
    return _last_usage(transcript)[0]


def _last_usage(transcript: str | Path) -> tuple[int | None, str]:
    """Return the last usage's input, and the name of its model as far as its line has it."""
    try:
        with open_safely(transcript, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            tail = os.pread(file.fileno(), _TAIL_BYTES, max(0, size - _TAIL_BYTES))
    except OSError:
        return None, ""
    place = tail.rfind(_USAGE_KEY)
    end = tail.find(b"\n", place)
    if place < 0 or end < 0:
        return None, ""
    usage = _first_object(tail[place + len(_USAGE_KEY) - 1 : end].decode("utf-8", "replace"))
    counts = [usage.get(name) for name in _INPUT_FIELDS]
    line = tail[tail.rfind(b"\n", 0, place) + 1 : place]
    model = line.partition(_MODEL_KEY)[2].partition(b'"')[0]
    return sum(count for count in counts if type(count) is int), model.decode("utf-8", "replace")


def is_throttled(
    store: str | Path, session_id: str, tokens: int | None, model: str | None = None
) -> bool:
    """Whether no threshold can be due at this estimate of the context's tokens."""
    size = NO_USAGE if tokens is None else tokens
    try:
        with open_safely(_throttle_path(store, session_id), "rb") as file:
            age_s = time.time() - os.fstat(file.fileno()).st_mtime
            data = file.read(MAX_THROTTLE_BYTES) or b""
    except OSError:
        return False
    limits = decode_object(data.decode("utf-8", "replace")) or {}
    low, high = limits.get("from"), limits.get("below")
    if type(low) is not int or type(high) is not int or not low <= size < high:
        return False
    if 0 <= age_s < THROTTLE_S:
        return True
    sources, calm_below = limits.get("sources"), limits.get("calm_below")
    if not 0 <= age_s < LONG_THROTTLE_S or type(calm_below) is not int or size >= calm_below:
        return False
    return bool(sources and sources == _sources(model, [each[0] for each in sources["files"]]))


def throttle(
    store: str | Path,
    session_id: str,
    tokens: int | None,
    tokens_left: int,
    calm: Mapping[str, Any] | None = None,
) -> None:
    """Note that nothing is due for this many more tokens; raises OSError.

    `calm` has the size below which that holds for LONG_THROTTLE_S, and on what that depends.
    """
    size = NO_USAGE if tokens is None else tokens
    path = _throttle_path(store, session_id)
    os.makedirs(os.path.dirname(path), FOLDER_MODE, exist_ok=True)
    limits = {"from": size, "below": size + (1 if tokens is None else tokens_left)}
    with open_safely(path, "wb") as file:
        file.write(encode_json(limits | dict(calm or {})).encode("utf-8", "replace"))


def _sources(model: str | None, files: Iterable[str]) -> dict[str, Any]:
    """Describe what a full check depends on; the variables by a sum, because some are secret."""
    variables = sorted(
        f"{name}={value}" for name, value in os.environ.items() if name.startswith(_VARIABLES)
    )
    return {
        "model": model,
        "variables": crc32("\0".join(variables).encode("utf-8", "surrogateescape")),
        "files": [[path, _changed_at(path)] for path in files],
    }


def _changed_at(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _first_object(text: str) -> dict[str, Any]:
    """Decode the object that a text begins with; it must have no braces in its strings."""
    depth = 0
    for place, sign in enumerate(text):
        depth += (sign == "{") - (sign == "}")
        if not depth:
            return decode_object(text[: place + 1]) or {}
    return {}


def _throttle_path(store: str | Path, session_id: str) -> str:
    name = "".join(sign if sign.isalnum() or sign == "-" else "_" for sign in session_id[:64])
    return f"{log_folder(str(store))}/said/{name}.quiet"


def answer(call: HookCall) -> HookReply | None:
    """Report the thresholds that the session has newly reached."""
    transcript = transcript_path(call.fields)
    if call.event not in {"UserPromptSubmit", "PostToolUse"} or transcript is None:
        return None
    if text_field(call.fields, "agent_id"):
        # In an agent the client names the session's transcript: that is another context.
        return None
    session_id = session_of(transcript)
    tokens, model = _last_usage(transcript)
    if is_throttled(call.store, session_id, tokens, model):
        return None
    call.begin_slow()
    reply, left, calm_below = _check_thresholds(call, transcript, session_id)
    calm = {"calm_below": calm_below, "sources": _sources(model, _policy_files(call.fields))}
    throttle(call.store, session_id, tokens, left, calm if calm_below else None)
    return reply


def _policy_files(fields: Mapping[str, Any]) -> list[str]:
    from ...locations.places import trust_file_path, user_policy_path
    from ...locations.policy_files import PROJECT_POLICY_NAME

    project = find_hook_project(fields)
    own = [str(user_policy_path()), str(trust_file_path())]
    return [*own, os.path.join(project, PROJECT_POLICY_NAME)] if project else own


def _check_thresholds(
    call: HookCall, path: str, session_id: str
) -> tuple[HookReply | None, int, int]:
    """Return the reply that is due, the tokens left until another can be, and `_calm_below`."""
    # Most calls end before this: the slow imports are only here.
    from pathlib import Path

    from ...claude_code.current_context import read_latest_answer
    from ...claude_code.transcripts.transcript_ends import read_tail_lines
    from ..hook_inputs import resolve_hook_policy

    transcript, store = Path(path), Path(call.store)
    try:
        end = read_latest_answer(read_tail_lines(transcript))
    except FileNotFoundError:
        # The session's first prompt.
        return None, 0, 0
    cwd = text_field(call.fields, "cwd")
    policy = resolve_hook_policy(call.fields)
    context = None
    if end.tokens is not None:
        from ...claude_code.current_context import measure_current_context

        context = measure_current_context(transcript, cwd, store, policy, end, call.now_ms)
    reply = _announce(call, session_id, policy, context, end)
    return reply, _tokens_to_next_threshold(context), _calm_below(context)


def _calm_below(context: Context | None) -> int:
    """Return the size below which no threshold is reached in any window; 0 if one is reached."""
    from ....core.model.claude_models import SMALL_WINDOW

    if context is None or context.ratio is None:
        return 0
    lowest = min((line.at for line in context.thresholds), default=1.0)
    return int(lowest * SMALL_WINDOW) if context.ratio < lowest else 0


def _tokens_to_next_threshold(context: Context | None) -> int:
    if context is None or context.ratio is None or context.tokens is None:
        return NO_THRESHOLD_LEFT
    ahead = [line.at for line in context.thresholds if not line.is_reached(context.ratio)]
    if not ahead:
        return NO_THRESHOLD_LEFT
    # The throttle sees the whole input. What a policy leaves out of it may be counted next time,
    # and what it adds to it may be of any size.
    most = max(context.tokens, context.token_counts.fill or 0) + context.counting.margin
    return max(1, int(min(ahead) * context.window.tokens) - most)


def _announce(
    call: HookCall, session_id: str, policy: Policy, context: Context | None, end: LatestAnswer
) -> HookReply | None:
    from ....core.injection import injected_text
    from ...plugin_files.state_files import (
        ThresholdAnnouncement,
        record_answer,
        remove_old_announcements,
    )
    from ..hook_answer import HookReply

    thresholds = injected_text.prompt_thresholds(policy)
    due = injected_text.reached_actions(context, thresholds) if context else {}
    levels = {level.name: level.at for level in context.thresholds} if context else {}
    actions = []
    for threshold in thresholds:
        record = ThresholdAnnouncement(call.store, session_id, threshold.name)
        announced_at = record.announced_at()
        if announced_at is not None and injected_text.is_rearmed(
            policy.rearm,
            levels.get(threshold.name),
            context.ratio if context else None,
            prompted_at=announced_at,
            compacted_at=end.compacted_at,
            now_ms=call.now_ms,
        ):
            record.rearm()
            announced_at = None
        if threshold.name in due and announced_at is None and record.claim():
            actions.append(due[threshold.name])
    text = injected_text.choose_prompt(actions, policy)
    if not text:
        return None
    remove_old_announcements(call.store)
    record_answer(call.store, "prompts", session_id=session_id, kind=" ".join(actions), text=text)
    return HookReply(context=text)
