"""What `/context` said: the text that it printed, and the figures that newer clients keep."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from ctxtop.collectors.claude_code.transcripts.client_output import (
    parse_context_text,
    parse_context_usage,
)
from ctxtop.core.model.context import ContextReport
from msgspec import UNSET, Raw

TEXT: Final = """\
<local-command-stdout>## Context Usage

**Model:** claude-opus-5-5  \n**Tokens:** 412k / 1m (41%)

### Estimated usage by category

| Category | Tokens | Percentage |
|----------|--------|------------|
| System prompt | 2k | 0.2% |
| System tools | 5.6k | 0.6% |
| System tools (deferred) | 3.9k | 0.4% |
| Custom agents | 80 | 0.0% |
| Messages | 402.3k | 40.2% |
| Free space | 555k | 55.5% |
| Autocompact buffer | 33k | 3.3% |

### Skills

| Skill | Source | Tokens |
|-------|--------|--------|
| dataviz | Built-in | ~480 |

</local-command-stdout>"""

ROUNDED: Final = ContextReport(
    model="claude-opus-5-5",
    total_tokens=412_000,
    window_tokens=1_000_000,
    percent=41,
    categories={
        "System prompt": 2_000,
        "System tools": 5_600,
        "Custom agents": 80,
        "Messages": 402_300,
    },
    autocompact_buffer=33_000,
)

USAGE: Final[dict[str, Any]] = {
    "model": "claude-opus-5-5",
    "total_tokens": 412_000,
    "raw_max_tokens": 1_000_000,
    "percentage": 41,
    "categories": [
        {"name": "System prompt", "tokens": 1_962, "kind": "used"},
        {"name": "System tools (deferred)", "tokens": 3_934, "kind": "deferred"},
        {"name": "Messages", "tokens": 402_263, "kind": "used"},
        {"name": "Free space", "tokens": 555_000, "kind": "free"},
    ],
}


def test_the_text() -> None:
    assert parse_context_text(TEXT) == ROUNDED


def test_the_figures() -> None:
    found = parse_context_usage(Raw(json.dumps(USAGE).encode()))
    assert found is not None
    assert found.categories == {"System prompt": 1_962, "Messages": 402_263}
    assert (found.total_tokens, found.autocompact_buffer) == (412_000, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "**Tokens:** 412k / 1m (41%)",
        TEXT.replace("412k", "4.1.2k"),
        TEXT.replace(" 1m ", " 0 "),
        TEXT.replace("| 2k |", "| 2k | x |").replace("|\n", "|x\n"),
        TEXT.replace("1m", "9" * 20 + "m"),
    ],
)
def test_another_text_is_no_report(text: str) -> None:
    assert parse_context_text(text) is None


@pytest.mark.parametrize(
    "data", [b"{}", b"[]", b"null", b'{"model":1}', b"{", json.dumps(USAGE | {"total_tokens": -1})]
)
def test_other_figures_are_no_report(data: bytes | str) -> None:
    assert parse_context_usage(Raw(data if isinstance(data, bytes) else data.encode())) is None


def test_a_line_without_figures() -> None:
    assert parse_context_usage(UNSET) is None
