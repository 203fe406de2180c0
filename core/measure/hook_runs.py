"""How long the client's Stop hooks took, how long they may take, and what they objected to."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from ..model.config_records import HookHandler
from ..model.stored_rows import HookRun
from .token_estimate import nearest_rank

DEFAULT_TIMEOUT_S: Final = 600.0  # of a command (claude-code-formats 4.5)
DEFAULT_TIMEOUTS_S: Final[Mapping[str, float]] = {"prompt": 30.0, "agent": 60.0}

PLUGIN_ROOT_VARIABLE: Final = "${CLAUDE_PLUGIN_ROOT}"  # a run names the folder instead


def timeout_ms(hook: HookHandler) -> int:
    """Return how long a hook may take, by its settings or by the client's default."""
    default_s = DEFAULT_TIMEOUTS_S.get(hook.kind, DEFAULT_TIMEOUT_S)
    return round(1000 * (default_s if hook.timeout_s is None else hook.timeout_s))


class HookTiming(msgspec.Struct, frozen=True):
    """The runs of one command at one event."""

    event: str
    command: str
    kind: str  # command, http, mcp_tool, prompt or agent
    timeout_ms: int
    has_default_timeout: bool  # no settings file names one
    runs: int
    median_ms: int
    longest_ms: int
    last: HookRun
    reason: str | None  # of the newest run that gave one

    @property
    def timed_out(self) -> bool:
        """Whether its longest run took all the time that it may take."""
        return self.longest_ms >= self.timeout_ms


def time_hooks(runs: Iterable[HookRun], handlers: Sequence[HookHandler]) -> list[HookTiming]:
    """Measure the runs of each command; the newest run first. `runs` are oldest first."""
    by_hook: dict[tuple[str, str], list[HookRun]] = {}
    for run in runs:
        by_hook.setdefault((run.event, run.command), []).append(run)
    timings = [_time_hook(each, handlers) for each in by_hook.values()]
    return sorted(timings, key=lambda each: -(each.last.at or 0))


def _time_hook(runs: Sequence[HookRun], handlers: Sequence[HookHandler]) -> HookTiming:
    last = runs[-1]
    unknown = HookHandler(last.event, "command", last.command)
    handler = find_handler(last, handlers) or unknown
    durations = sorted(run.duration_ms for run in runs)
    return HookTiming(
        event=last.event,
        command=last.command,
        kind=handler.kind,
        timeout_ms=timeout_ms(handler),
        has_default_timeout=handler.timeout_s is None,
        runs=len(runs),
        median_ms=nearest_rank(durations, 0.5),
        longest_ms=durations[-1],
        last=last,
        reason=next((run.reason for run in reversed(runs) if run.reason), None),
    )


def find_handler(run: HookRun, handlers: Sequence[HookHandler]) -> HookHandler | None:
    """Return the hook of the settings that a run is of; None if none is found."""
    return next(
        (each for each in handlers if each.event == run.event and _is_command(each, run)), None
    )


def _is_command(handler: HookHandler, run: HookRun) -> bool:
    if handler.status_message is not None:
        return handler.status_message == run.command
    root, variable, below = handler.command.rpartition(PLUGIN_ROOT_VARIABLE)
    if not variable:
        return handler.command == run.command
    return run.command.endswith(below) and run.command.startswith(root)
