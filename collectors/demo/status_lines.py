"""Writes what the demo's status lines were told: contexts, caches, and a subscriber's limits."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from ...core.measure.plan_limits import FIVE_HOURS, WEEK, WINDOW_LENGTHS_MS
from ...core.model.claude_models import MILLION, find_price, prompt_rate
from .conversation_writer import AnswerUsage
from .demo_data import MODEL_OF_ID, DemoJson, shape
from .demo_transcript import DemoSession, set_time, to_millis, write_file

FIVE_HOURS_PERCENT = 62.0
WEEK_PERCENT = 41.0
FIVE_HOURS_BEGAN = timedelta(hours=2, minutes=50)  # before now
WEEK_BEGAN = timedelta(days=4, hours=3)
CACHE_LIFETIME = timedelta(minutes=5)

WORKDAY = timedelta(hours=10)
WORKED = timedelta(hours=5)  # of it, by now
ELSEWHERE_EVERY = timedelta(minutes=7)
ELSEWHERE_SHARE = 0.8  # of the plan's use: by sessions of another folder
ELSEWHERE_SESSION = "5d1f0a52-9c3e-4b7a-8e44-2f6b1c0d7a93"
"""One of those, whose transcripts the demo does not have."""


class _Answer(NamedTuple):
    at: datetime
    session_id: str
    model: str
    usage: AnswerUsage
    is_shown: bool  # a status line was told of it: not an agent's, nor a program's

    @property
    def dollars(self) -> float:
        tokens, usage = self.usage.context, self.usage
        price = find_price(self.model, prompt_rate(tokens))
        if price is None:
            return 0.0
        sent = usage.uncached * price.input + usage.read * price.read
        made = usage.written * price.write_5m + usage.output * price.output
        return (sent + made) / MILLION


class _Window(NamedTuple):
    """A window of the plan, and those before it, as if each followed on the last."""

    name: str
    began: datetime
    length: timedelta
    percent: float  # used now, since it began

    def readings(self, moments: list[_Moment]) -> Iterator[DemoJson]:
        """Yield what is used at each moment: a plan counts about as list prices do."""
        now_used = sum(each.used for each in moments if each.at >= self.began)
        turn, used = 0, 0.0
        for each in moments:
            if (its_turn := (each.at - self.began) // self.length) != turn:
                turn, used = its_turn, 0.0
            used += each.used
            percent = min(100.0, round(self.percent * used / now_used, 1))
            resets = to_millis(self.began + (turn + 1) * self.length) // 1000
            yield {self.name: {"used_percentage": percent, "resets_at": resets}}


def _window(name: str, began: datetime, percent: float) -> _Window:
    length = timedelta(milliseconds=WINDOW_LENGTHS_MS[name])
    return _Window(name, began, length, percent)


class _Moment(NamedTuple):
    """When some of the plan was used, and by what."""

    at: datetime
    used: float  # in any unit
    answer: _Answer | None  # None: elsewhere


def write_status_lines(sessions: Iterable[DemoSession], path: Path, now: datetime) -> None:
    """Write the log of the status lines of this week."""
    windows = (
        _window(FIVE_HOURS, now - FIVE_HOURS_BEGAN, FIVE_HOURS_PERCENT),
        _window(WEEK, now - WEEK_BEGAN, WEEK_PERCENT),
    )
    moments = _find_moments(sessions, now)
    limits = zip(*(window.readings(moments) for window in windows), strict=True)
    lines = []
    for moment, (five_hours, week) in zip(moments, limits, strict=True):
        answer = moment.answer
        if answer is None or answer.is_shown:
            given = {"session_id": ELSEWHERE_SESSION} if answer is None else _given(answer)
            record = {
                "v": 1,
                "at": to_millis(moment.at),
                "pid": 4711,
                "event": "StatusLine",
                "given": given | {"rate_limits": five_hours | week},
            }
            lines.append(f"\n{json.dumps(record)}\n")
    write_file(path, "".join(lines).encode())
    set_time(path, now)


def _find_moments(sessions: Iterable[DemoSession], now: datetime) -> list[_Moment]:
    found: dict[str, _Answer] = {}
    for session in sessions:
        for message_id, answer in _read_answers(session):
            found.setdefault(message_id, answer)
    answers = [each for each in found.values() if each.at >= now - WEEK_BEGAN]
    today = sum(each.dollars for each in answers if each.at >= now - WORKED)
    a_moment = today * ELSEWHERE_SHARE / (1 - ELSEWHERE_SHARE) / (WORKED // ELSEWHERE_EVERY)
    moments = [_Moment(each.at, each.dollars, each) for each in answers]
    moments += [_Moment(at, a_moment, None) for at in _workdays(now)]
    return sorted(moments, key=lambda each: each.at)


def _workdays(now: datetime) -> Iterator[datetime]:
    for day in range(WEEK_BEGAN.days + 1):
        began = now - WORKED - timedelta(days=day)
        for number in range(WORKDAY // ELSEWHERE_EVERY):
            at = began + number * ELSEWHERE_EVERY
            if now - WEEK_BEGAN <= at <= now:
                yield at


def _read_answers(session: DemoSession) -> Iterator[tuple[str, _Answer]]:
    below = session.transcript.with_suffix("") / "subagents"
    for path in (session.transcript, *sorted(below.glob("*.jsonl"))):
        for row in path.read_bytes().splitlines():
            if b'"usage"' not in row:
                continue
            line = json.loads(row)
            message = line.get("message", {})
            if line["type"] == "assistant" and message["model"] in MODEL_OF_ID:
                is_shown = path == session.transcript and line.get("entrypoint") == "cli"
                yield (
                    message["id"],
                    _Answer(
                        datetime.fromisoformat(line["timestamp"]),
                        session.session_id,
                        message["model"],
                        AnswerUsage.of_fields(message["usage"]),
                        is_shown,
                    ),
                )


def _given(answer: _Answer) -> DemoJson:
    """Return what the client says after an answer, without its limits."""
    return shape(
        "status line",
        session=answer.session_id,
        model=MODEL_OF_ID[answer.model],
        usage=answer.usage,
        percent=round(100 * answer.usage.context / MODEL_OF_ID[answer.model].window),
        context=answer.usage.context,
        expires=to_millis(answer.at + CACHE_LIFETIME) // 1000,
    )
