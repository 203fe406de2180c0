"""When the real client compacts an idle session by itself, and what ctxtop says of it before.

The client's clock goes on by 54 minutes at once: what it does then is its own. Clients of version
2.1.329 that were really left alone for 54 minutes did the same, 0.1 s after what ctxtop had said.
"""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import pytest
from ctxtop.collectors.claude_code.own_files import own_log_folder
from ctxtop.core.actions.pause_rules import IDLE_COMPACTION_LATE_MS
from ctxtop.core.model.transcript_records import LogKind

from .lab import LARGE
from .test_limits import log_in
from .test_pause import boundaries
from .test_registry import ctxtop

if TYPE_CHECKING:
    from pathlib import Path

    from .lab import Lab
    from .screen import Screen

pytestmark = pytest.mark.usefixtures("terminal")

# The client's runtime loads this first. A timer of 54 minutes ends when the file is there; its
# clock has gone on by as long, and by as much more as the file says.
_CLOCK: Final = """\
const { readFileSync, writeFileSync } = require("node:fs");
const file = process.env.LAB_CLOCK, now = Date.now, minute = 60_000;
let skipped = 0;
Date.now = () => now() + skipped;
globalThis.Date = new Proxy(Date, {
  construct: (real, given, as) => Reflect.construct(real, given.length ? given : [Date.now()], as),
});
const ready = () => { try { return readFileSync(file, "utf8"); } catch { return ""; } };
globalThis.setTimeout = new Proxy(setTimeout, {
  apply(real, self, [act, wait, ...given]) {
    if (!(wait > 53 * minute && wait <= 54 * minute)) return real(act, wait, ...given);
    const due = Date.now() + wait;
    const timer = setInterval(() => {
      const late = ready();
      if (!late) return;
      clearInterval(timer);
      skipped += due + Number(late) - Date.now();
      act(...given);
      writeFileSync(file + ".done", "");
    }, 100);
    return timer;
  },
});
"""


HOUR: Final = {"CLAUDE_CODE_PROMPT_CACHE_TTL": "1h"}
"""A client with an API key asks for five minutes; a subscriber's asks for an hour by itself."""


SETTLED_S: Final = 1.5
"""A compaction is in the transcript 0.4 s after the timer's end."""


@dataclass(frozen=True, slots=True)
class Idle:
    """A client that is left alone after its answer."""

    lab: Lab
    screen: Screen
    foreseen: str | None  # when ctxtop says that it compacts

    def let_time_pass(self, late_s: float = 0) -> None:
        clock_of(self.lab).write_text(f"{late_s * 1000:.0f}")
        self.screen.until(_done(self.lab).exists, "the end of the timer")

    def is_compacted_as_foreseen(self, late_s: float = 0) -> bool:
        self.let_time_pass(late_s)
        self.screen.until(lambda: bool(boundaries(self.lab, self.screen)), "the compaction")
        (boundary,) = boundaries(self.lab, self.screen)
        assert boundary["compactMetadata"]["trigger"] == "auto"
        if self.foreseen is None:
            return False
        due = datetime.fromisoformat(self.foreseen) + timedelta(seconds=late_s)
        # The status line has whole seconds.
        soon = timedelta(seconds=-1), timedelta(seconds=5)
        took = timedelta(milliseconds=boundary["compactMetadata"]["durationMs"])
        return soon[0] < datetime.fromisoformat(boundary["timestamp"]) - took - due < soon[1]

    def stays_as_it_is(self, late_s: float = 0) -> bool:
        self.let_time_pass(late_s)
        time.sleep(SETTLED_S)
        return not boundaries(self.lab, self.screen)

    def again(self, prompt: str) -> Idle:
        clock_of(self.lab).unlink()
        _done(self.lab).unlink(missing_ok=True)
        self.screen.ask(prompt)
        return look(self.lab, self.screen)


def clock_of(lab: Lab) -> Path:
    return lab.root / "clock"


def _done(lab: Lab) -> Path:
    return lab.root / "clock.done"


def fill(tokens: int, more: str = "") -> str:
    return f"Hi. [[bash:seq 1 3&&&usage:21000&&&hour:]] [[say:ok&&&usage:{tokens}&&&hour:{more}]]"


SMALLER_FILL: Final = fill(150_000)
LARGE_FILL: Final = fill(250_000)


def hold_clock(lab: Lab, **variables: str) -> None:
    program = lab.root / "clock.js"
    program.write_text(_CLOCK)
    clock = {"BUN_OPTIONS": f"--preload={program}", "LAB_CLOCK": str(clock_of(lab))}
    lab.variables |= clock | variables


def leave_idle(lab: Lab, prompt: str, **variables: str) -> Idle:
    hold_clock(lab, **variables)
    screen = lab.interactive(model=LARGE)
    screen.ask(prompt)
    return look(lab, screen)


def look(lab: Lab, screen: Screen) -> Idle:
    if lab.status_log.exists():
        log = own_log_folder(lab.store) / LogKind.STATUS_LINE
        log.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(lab.status_log, log)
    ended = ctxtop(lab, "pause", screen.session_id, "--dry-run")
    (session,) = json.loads(ended.out)["sessions"]
    assert (session["check"] == "idle-compaction") == bool(session["idle_compaction_at"])
    return Idle(lab, screen, session["idle_compaction_at"])


def test_a_large_session_is_compacted_when_ctxtop_says(lab: Lab) -> None:
    smaller = leave_idle(lab, SMALLER_FILL, **HOUR)
    assert smaller.foreseen is None
    assert smaller.stays_as_it_is()
    assert smaller.again(LARGE_FILL).is_compacted_as_foreseen()


def test_a_smaller_session_is_compacted_where_a_variable_says_so(lab: Lab) -> None:
    idle = leave_idle(lab, SMALLER_FILL, **HOUR, CLAUDE_CODE_IDLE_COMPACT_MIN_TOKENS="120000")
    assert idle.is_compacted_as_foreseen()


def test_a_setting_turns_it_off(lab: Lab) -> None:
    lab.write_settings({"idleCompaction": False})
    idle = leave_idle(lab, LARGE_FILL, **HOUR)
    assert idle.foreseen is None
    assert idle.stays_as_it_is()


def test_a_subscribers_session_is_not_compacted_while_a_limit_is_near(lab: Lab) -> None:
    log_in(lab)
    now = int(time.time())
    idle = leave_idle(lab, fill(250_000, f"&&&limits:5h=0.95@{now + 3 * 3600}"))
    assert idle.foreseen is None
    assert idle.stays_as_it_is()
    # Four of the five hours are over.
    over = fill(250_000, f"&&&limits:5h=0.95@{now + 3600}")
    assert idle.again(over).is_compacted_as_foreseen()


def test_a_client_whose_timer_is_late_by_a_minute_does_not_compact(lab: Lab) -> None:
    last_s = IDLE_COMPACTION_LATE_MS / 1000
    idle = leave_idle(lab, LARGE_FILL, **HOUR)
    assert idle.stays_as_it_is(last_s + 5)
    assert idle.again(LARGE_FILL).is_compacted_as_foreseen(last_s - 5)


def test_a_session_that_was_resumed_is_not_compacted_before_its_next_answer(lab: Lab) -> None:
    first = lab.turn(LARGE_FILL, model=LARGE)
    assert first.code == 0, first.err
    hold_clock(lab, **HOUR)
    idle = look(lab, lab.interactive("--resume", first.session_id, model=LARGE))
    assert idle.foreseen is None
    clock_of(lab).write_text("0")
    time.sleep(SETTLED_S)
    assert not _done(lab).exists()  # it has set no timer
    assert idle.again(LARGE_FILL).is_compacted_as_foreseen()
