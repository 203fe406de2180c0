"""What a prompt asks of the scripted API: `[[say:Done.&&&usage:21000]]`, one `[[…]]` an answer."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Json = dict[str, Any]

UNTOLD_USAGE: Final = 15_000
"""Tokens of an answer whose script names none."""

UNTOLD_OUTPUT: Final = 8

_PLAIN_INPUT: Final = 10
"""Tokens of input that the cache has no part in."""

SUMMED: Final = (
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
)

_STEP: Final = re.compile(
    r"\[\[((?:say|think|bash|read|write|edit|agent|tool|error|once|wait|held|usage|loop|pause|overload|bound):.*?)\]\]",
    re.DOTALL,
)


@dataclass(slots=True)
class Step:
    """One answer: its blocks, what it reports as used, or the error instead."""

    blocks: list[Json] = field(default_factory=list)
    input_tokens: int = UNTOLD_USAGE
    output_tokens: int = UNTOLD_OUTPUT
    is_hour: bool = False
    """What is written to the cache lasts an hour."""
    counted: bool = False
    """The input is counted of the request itself, as the real API does."""
    loop: list[int] = field(default_factory=list)
    """Input of each pass of a server-side tool loop, where there was one; usage is their sum."""
    wait_s: float = 0.0
    """How long the answer takes."""
    held: str = ""
    """It is held back until there is this file."""
    pause_s: float = 0.0
    """How long each event of the stream waits for the next."""
    error: tuple[int, str] | None = None
    bound: bool = False
    """Thinking that lost what it was bound to is refused, as it is on some accounts."""
    overloaded: str | None = None
    """The model that has no room now; another one answers."""
    once: bool = False
    """The error comes the first time only; the second time the step is answered."""
    headers: dict[str, str] = field(default_factory=dict)
    """Sent with the answer beside the usual ones."""
    report: Json = field(default_factory=dict)
    """Fields that the usage has besides, or instead."""


def usage_of(step: Step) -> Json:
    """Split a step's input as a warm cache does: a tenth is written, nearly all is read."""
    plain = min(_PLAIN_INPUT, step.input_tokens)
    created = (step.input_tokens - plain) // 10
    usage: Json = {
        "input_tokens": plain,
        "cache_creation_input_tokens": created,
        "cache_read_input_tokens": step.input_tokens - plain - created,
        "cache_creation": {
            "ephemeral_5m_input_tokens": 0 if step.is_hour else created,
            "ephemeral_1h_input_tokens": created if step.is_hour else 0,
        },
        "output_tokens": step.output_tokens,
        "service_tier": "standard",
    }
    if not step.loop:
        return usage | step.report
    passes = [usage_of(Step(input_tokens=one)) for one in step.loop]
    sums: Json = {name: sum(one[name] for one in passes) for name in SUMMED}
    created = sums["cache_creation_input_tokens"]
    sums["cache_creation"] = usage["cache_creation"] | {"ephemeral_5m_input_tokens": created}
    iterations = [{"type": "message"} | one for one in passes]
    return usage | sums | {"iterations": iterations} | step.report


def steps_of(text: str) -> list[Step]:
    """Read all the steps that a text carries."""
    return [_step(found[1]) for found in _STEP.finditer(text)]


def has_script(text: str) -> bool:
    """Whether a text contains any script step."""
    return _STEP.search(text) is not None


def texts_of(message: Json) -> Iterable[str]:
    """List the texts of a message, without what tools returned."""
    content = message.get("content")
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for block in content:
            if block.get("type") == "text":
                yield str(block.get("text", ""))


def next_step(messages: list[Json]) -> tuple[Step | None, str]:
    """Find the step that answers these messages, and the text that carries the script.

    It is the one after as many steps as answers stand behind the script: nothing is
    remembered, so that a retry and a resumed session get the same answer.
    """
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].get("role") != "user":
            continue
        # Prompts that were never answered stand in one message: the last one counts.
        text = next(
            (one for one in reversed(list(texts_of(messages[place]))) if has_script(one)), ""
        )
        if text:
            steps = steps_of(text)
            answered = sum(one.get("role") == "assistant" for one in messages[place + 1 :])
            return (steps[answered] if answered < len(steps) else _after(steps), text)
    return None, ""


def _after(steps: list[Step]) -> Step:
    """Answer what no step foresaw, such as an agent's notification."""
    last = steps[-1]
    more = last.input_tokens + 500
    return Step([_text("Understood.")], more, UNTOLD_OUTPUT, counted=last.counted)


def _step(body: str) -> Step:
    step = Step()
    for part in body.split("&&&"):
        name, _, rest = part.partition(":")
        _PARTS[name.strip()](step, rest)
    return step


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _use(step: Step, name: str, given: Json) -> None:
    step.blocks.append({"type": "tool_use", "name": name, "input": given})


def _say(step: Step, rest: str) -> None:
    step.blocks.append(_text(rest))


def _think(step: Step, rest: str) -> None:
    step.blocks.append({"type": "thinking", "thinking": rest, "signature": ""})


def _bash(step: Step, rest: str) -> None:
    _use(step, "Bash", {"command": rest, "description": "Run it"})


def _read(step: Step, rest: str) -> None:
    _use(step, "Read", {"file_path": rest})


def _write(step: Step, rest: str) -> None:
    path, _, content = rest.partition("|")
    _use(step, "Write", {"file_path": path, "content": content})


def _edit(step: Step, rest: str) -> None:
    path, old, new = rest.split("|")
    _use(step, "Edit", {"file_path": path, "old_string": old, "new_string": new})


def _agent(step: Step, rest: str) -> None:
    """`agent:TYPE|PROMPT`, whose own script is written `<<say:One+++usage:20000>> <<say:Two>>`."""
    kind, _, prompt = rest.partition("|")
    prompt = prompt.replace("<<", "[[").replace(">>", "]]").replace("+++", "&&&")
    task = prompt.partition("[[")[0].strip()
    _use(step, "Agent", {"subagent_type": kind, "description": task, "prompt": prompt})


def _tool(step: Step, rest: str) -> None:
    name, _, given = rest.partition("|")
    _use(step, name, json.loads(given))


def _error(step: Step, rest: str) -> None:
    status, _, words = rest.partition(" ")
    step.error = int(status), words


def _once(step: Step, rest: str) -> None:
    _error(step, rest)
    step.once = True


def _overload(step: Step, rest: str) -> None:
    step.overloaded = rest


def _wait(step: Step, rest: str) -> None:
    step.wait_s = float(rest)


def _held(step: Step, rest: str) -> None:
    step.held = rest


def counted(script: str) -> str:
    """Let each answer report what its request held, as the real API does."""
    return script.replace("]]", "&&&usage:counted]]")


def _usage(step: Step, rest: str) -> None:
    """`usage:INPUT` or `usage:INPUT/OUTPUT`; an input of `counted` is the request's own."""
    given, _, out = rest.partition("/")
    step.counted = given == "counted"
    step.input_tokens = step.input_tokens if step.counted else int(given)
    step.output_tokens = int(out) if out else step.output_tokens


def _bound(step: Step, _rest: str) -> None:
    step.bound = True


def _hour(step: Step, _rest: str) -> None:
    step.is_hour = True


def _pause(step: Step, rest: str) -> None:
    step.pause_s = float(rest)


def _limits(step: Step, rest: str) -> None:
    """`limits:5h=0.62@1795221387,7d=0.41@1795800000`: shares used of windows, and their resets."""
    step.headers["anthropic-ratelimit-unified-status"] = "allowed"
    for window in rest.split(","):
        name, _, reading = window.partition("=")
        used, _, resets_at = reading.partition("@")
        step.headers[f"anthropic-ratelimit-unified-{name}-utilization"] = used
        step.headers[f"anthropic-ratelimit-unified-{name}-reset"] = resets_at


def _loop(step: Step, rest: str) -> None:
    step.loop = [int(one) for one in rest.split(",")]


def _report(step: Step, rest: str) -> None:
    """`report:JSON`, without two brackets in a row: they would end the step."""
    step.report = json.loads(rest)


_PARTS: Final[dict[str, Callable[[Step, str], None]]] = {
    "say": _say,
    "think": _think,
    "bash": _bash,
    "read": _read,
    "write": _write,
    "edit": _edit,
    "agent": _agent,
    "tool": _tool,
    "error": _error,
    "once": _once,
    "overload": _overload,
    "wait": _wait,
    "held": _held,
    "usage": _usage,
    "pause": _pause,
    "limits": _limits,
    "loop": _loop,
    "bound": _bound,
    "hour": _hour,
    "report": _report,
}
