"""The client as a writer of summaries: it answers once, has no tools, and leaves no session."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .lab import Lab

_ASK = """\
import os, sys
from ctxtop.core.summaries.model_providers import ClaudeCli
from ctxtop.core.summaries.model_summary import SummaryRequest
print(ClaudeCli(os.environ).generate(SummaryRequest(sys.argv[1], "claude-haiku-4-5"), 60))
"""


def test_the_client_writes_a_summary_and_keeps_no_session(lab: Lab) -> None:
    folder = lab.root / "bin"
    folder.mkdir()
    (folder / "claude").symlink_to(lab.client)
    env = lab.env | {"PATH": f"{folder}:{lab.env['PATH']}", "CLAUDECODE": "1"}
    words = [sys.executable, "-c", _ASK, "Sum it up. [[say:<summary>All is well.</summary>]]"]
    ended = lab.namespace.run(words, lab.project, env, 90)
    assert ended.out.strip() == "<summary>All is well.</summary>", ended.err
    asked = [one for one in lab.new_exchanges() if one["what"] == "answer"]
    assert len(asked) == 1
    assert not asked[0]["body"].get("tools")
    assert "concise summaries" in str(asked[0]["body"]["system"])
    assert not list(lab.config.glob("projects/*/*.jsonl"))
    assert lab.hooks("Stop") == []
