"""What the hook tells of a prompt that finds an expired prompt cache: once, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.plugin.answers import cold
from ctxtop.collectors.plugin.answers.cold import answer
from ctxtop.collectors.plugin.hook_answer import HookCall, HookReply, render_replies
from ctxtop.core.model import claude_models

from ..transcripts import (
    MODEL,
    PROJECT,
    SESSION,
    START_MS,
    assistant,
    boundary,
    text,
    usage,
    user,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.locations.discover import ClaudeFolder

MINUTE_MS = 60_000
ANSWERED_MS = START_MS + 1000  # the time of an answer's line, unless it says another
COLD_MS = ANSWERED_MS + 5 * MINUTE_MS
WARM_MS = COLD_MS - 1


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))


@pytest.fixture
def transcript(claude: ClaudeFolder) -> Path:
    path = claude.projects / PROJECT / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    return path


def told(store: Path, transcript: Path, now_ms: int = COLD_MS, **given: object) -> str:
    fields = {"transcript_path": str(transcript), "cwd": "/home/dev/proj", "prompt": "go"} | given
    reply = answer(HookCall("UserPromptSubmit", fields, store, now_ms))
    if reply is None:
        return ""
    assert reply == HookReply(message=reply.message)
    return reply.message


def counts(tokens: int = 225_000, *, hour: bool = False) -> dict[str, Any]:
    written = 5_000
    lives = ("ephemeral_1h_input_tokens", "ephemeral_5m_input_tokens")
    return usage(
        cache_creation_input_tokens=written,
        cache_read_input_tokens=tokens - written,
        cache_creation=dict(zip(lives, (written, 0) if hour else (0, written), strict=True)),
    )


def last(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- any field may be named
    return assistant(**{"counts": counts(), "content": [text("ok")]} | fields)


def test_an_expired_cache_is_told_once_with_its_size_its_price_and_what_to_do(
    store: Path, transcript: Path
) -> None:
    write(transcript, [user(), last()])
    assert told(store, transcript, WARM_MS) == ""
    assert told(store, transcript, COLD_MS + 61 * MINUTE_MS) == (
        "ctxtop: the prompt cache expired 61 min ago: this prompt writes ≈225k tokens again,"
        " ≈$0.28. To avoid that, use /compact before a long pause, while the cache is warm, or"
        " start a new session with a hand-off."
    )
    assert told(store, transcript) == ""

    write(transcript, [user(), last(), last(message_id="m2", at=3600)])
    assert told(store, transcript, START_MS + 3600_000 + 4 * MINUTE_MS) == ""
    later = START_MS + 3600_000 + 5 * MINUTE_MS
    assert told(store, transcript, later).startswith("ctxtop: the prompt cache expired 0 min ago")
    assert told(store, transcript, later) == ""


@pytest.mark.parametrize(
    ("answers", "lives_ms"),
    [
        ([last(counts=counts(hour=True))], 60 * MINUTE_MS),
        # What was only read lives as long as what was written before it.
        (
            [
                last(message_id="m0", at=0, counts=counts(hour=True)),
                last(counts=usage(225_000, cache_creation_input_tokens=0)),
            ],
            60 * MINUTE_MS,
        ),
        # Older clients do not say for how long it was written.
        ([last(counts=usage(225_000))], 5 * MINUTE_MS),
        # Where nothing says when it was written, it may last an hour.
        ([last(counts=usage(225_000, cache_creation_input_tokens=0))], 60 * MINUTE_MS),
    ],
)
def test_a_cache_is_warm_for_as_long_as_it_was_written_for(
    store: Path, transcript: Path, answers: list[dict[str, Any]], lives_ms: int
) -> None:
    write(transcript, [user(), *answers])
    assert told(store, transcript, ANSWERED_MS + lives_ms - 1) == ""
    assert told(store, transcript, ANSWERED_MS + lives_ms) != ""


def test_another_model_finds_nothing_in_a_warm_cache(store: Path, transcript: Path) -> None:
    chosen = "<local-command-stdout>Set model to `Opus 5.5`</local-command-stdout>"
    write(transcript, [user(), last(), user(chosen, 2)])
    assert told(store, transcript, WARM_MS).startswith("ctxtop: another model was chosen, and")
    same = "<local-command-stdout>Set model to `Haiku 4.5`</local-command-stdout>"
    write(transcript, [user(), last(at=9), user(same, 10)])
    assert told(store, transcript, WARM_MS) == ""
    write(transcript, [user(), last(at=9), user("Set model to `Opus 5.5`, he said.", 10)])
    assert told(store, transcript, WARM_MS) == ""


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [user()],
        [user(), last(counts=counts(19_999))],
        [user(), last(), boundary(3)],
        [user(), last(isSidechain=True)],
        [user(), last(model="<synthetic>")],
        [user(), last(timestamp="yesterday")],
        [user(), last(counts={"input_tokens": 7})],
        [user(), last(counts=["usage"])],
        [user(), b'{"type":"assistant","message":{"usage":{"cache_read_input_tokens":99999}'],
    ],
)
def test_where_nothing_is_lost_or_known_nothing_is_told(
    store: Path, transcript: Path, lines: list[Any]
) -> None:
    write(transcript, lines)
    assert told(store, transcript, COLD_MS + 60 * MINUTE_MS) == ""


def test_a_text_about_compactions_is_no_compaction(store: Path, transcript: Path) -> None:
    write(transcript, [user(), last(), user('what is a "compact_boundary"?', 3)])
    assert told(store, transcript) != ""


def test_what_nobody_typed_and_other_events_are_not_answered(store: Path, transcript: Path) -> None:
    write(transcript, [user(), last()])
    assert told(store, transcript, prompt="<task-notification>done") == ""
    fields = {"transcript_path": str(transcript), "prompt": "go"}
    assert answer(HookCall("Stop", fields, store, COLD_MS)) is None
    assert answer(HookCall("UserPromptSubmit", {"prompt": "go"}, store, COLD_MS)) is None
    assert told(store, transcript) != ""


def test_the_policy_says_from_which_size_on_and_at_which_price(
    store: Path, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CTXTOP_POLICY_COLD__MIN_TOKENS", "225001")
    write(transcript, [user(), last()])
    assert told(store, transcript) == ""
    monkeypatch.setenv("CTXTOP_POLICY_COLD__MIN_TOKENS", "225000")
    monkeypatch.setenv("CTXTOP_POLICY_PRICE", f"{MODEL}=100/1")
    assert "≈$28.12" in told(store, transcript)


def test_only_the_end_of_a_large_transcript_is_read(store: Path, transcript: Path) -> None:
    write(transcript, [user(), last(), *(user("x" * 1000, 2) for _ in range(300))])
    assert told(store, transcript) == ""


def test_the_client_is_told_in_a_field_that_the_model_never_sees(tmp_path: Path) -> None:
    call = HookCall("UserPromptSubmit", {}, tmp_path, 0)
    message, context = HookReply(message="cold"), HookReply(context="more")
    assert render_replies(call, [message]) == '{"systemMessage":"cold"}'
    assert render_replies(call, [context, message]) == (
        '{"systemMessage":"cold","hookSpecificOutput":{"hookEventName":"UserPromptSubmit",'
        '"additionalContext":"more"}}'
    )
    # A compaction reads plain text, all of which is for the model.
    assert render_replies(HookCall("PreCompact", {}, tmp_path, 0), [message, context]) == "more"


def test_its_lifetimes_are_those_of_the_measure() -> None:
    assert cold.FIVE_MINUTES_MS == claude_models.FIVE_MINUTES_MS
    assert cold.HOUR_MS == claude_models.HOUR_MS
