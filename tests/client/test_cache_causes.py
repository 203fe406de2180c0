"""Why the real client's prompt cache was lost: each cause planted, named with and without a word.

The API of the lab keeps a cache like the real one's, so that the stories are true from end to end:
what it counts as written again is what the ledger has to say.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from .cached import CachedLab
from .lab import LARGE
from .prompt_cache import FORGETS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .lab import Turn
    from .namespace import Namespace
    from .screen import Screen

Json = dict[str, Any]

OTHER: Final = "claude-sonnet-5-5"
LONG: Final = "Begin. [[bash:seq 1 4000]] [[bash:seq 1 3000]] [[say:ok]]"

LEAST_LOST: Final = 2_000
"""Fewer tokens are no miss."""

FIVE_MINUTES_S: Final = 300
HOUR_S: Final = 3_600

EVERY_TOOL: Final = {"ENABLE_TOOL_SEARCH": "false"}
"""Tools are sent as such, and not searched for."""

ASKS_WHY: Final = {"_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL": "1"}
"""Only the vendor's own API is told what it shall compare a request with; without a screen such a
client first waits long for settings that it cannot fetch here."""

LIVE_PROMPT: Final = ("--system-prompt-snapshot", "off")
"""The system prompt is made anew for each process, as all clients did before."""

SERVER: Final = Path(__file__).with_name("mcp_server.py")


@pytest.fixture
def lab(tmp_path: Path, namespace: Namespace, client: Path) -> Iterator[CachedLab]:
    opened = CachedLab(tmp_path, namespace, client)
    yield opened
    opened.close()
    opened.new_exchanges()
    assert opened.refused() == []


def begin(lab: CachedLab, *more: str) -> str:
    """Make a session with some 40,000 tokens in the cache."""
    return lab.turn(LONG, model=LARGE, more=more).session_id


def go_on(lab: CachedLab, session_id: str, *more: str, model: str = LARGE) -> Json:
    """Send one prompt by another process; give the exchange."""
    return asked_of(lab.turn(next_prompt(lab), resume=session_id, model=model, more=more))


def next_prompt(lab: CachedLab) -> str:
    """Write a prompt that was not sent before."""
    return f"Next, after {len(lab.exchanges)}. [[say:ok]]"


def asked_of(turn: Turn) -> Json:
    (asked,) = (one for one in turn.exchanges if one["what"] == "answer")
    return asked


def word_of(asked: Json) -> str | None:
    reason = (asked["reply"]["diagnostics"] or {}).get("cache_miss_reason") or {}
    word: str | None = reason.get("type")
    return word


def changes_of(miss: Json) -> dict[str, str]:
    return {each["kind"]: each["what"] for each in miss["changed"]}


def newest_miss(lab: CachedLab, session_id: str, asked: Json, cause: str) -> Json:
    """Return the newest miss, which has to be this exchange's, and named rightly in both ways."""
    usage = asked["reply"]["usage"]
    miss = misses(lab, session_id)[0]
    assert miss["client_reason"] == word_of(asked)
    assert (miss["cause"], miss["inferred_cause"]) == (cause, cause)
    assert miss["written_tokens"] == usage["cache_creation_input_tokens"]
    assert miss["read_tokens"] == usage["cache_read_input_tokens"]
    unsaid = lab.ledger_without_words(session_id)["misses"][0]
    assert (unsaid["cause"], unsaid["cause_source"]) == (cause, "inferred")
    assert unsaid["client_reason"] is None
    assert unsaid["rewritten_tokens"] == miss["rewritten_tokens"]
    assert unsaid["changed"] == miss["changed"]
    # By where reading ended and by the transcript alone, it is named rightly or not at all.
    unrecorded = lab.ledger_without_records(session_id)["misses"][0]
    assert unrecorded["cause"] in {cause, "unknown"}
    return miss


def misses(lab: CachedLab, session_id: str) -> list[Json]:
    found: list[Json] = lab.ledger(session_id)["misses"]
    return found


def shop(lab: CachedLab) -> tuple[str, str]:
    """Make a file that adds a tool server; give the options that name it."""
    path = lab.root / "mcp.json"
    server = {"command": sys.executable, "args": [str(SERVER)]}
    path.write_text(json.dumps({"mcpServers": {"shop": server}}), encoding="utf-8")
    return "--mcp-config", str(path)


def test_a_request_that_reads_what_the_one_before_wrote_is_no_miss(lab: CachedLab) -> None:
    session = begin(lab)
    asked = go_on(lab, session)
    ledger = lab.ledger(session)
    assert ledger["misses"] == []
    assert len(ledger["requests"]) == len(lab.exchanges)
    usages = [one["reply"]["usage"] for one in lab.exchanges]
    for name, key in (
        ("written_tokens", "cache_creation_input_tokens"),
        ("read_tokens", "cache_read_input_tokens"),
        ("input_tokens", "input_tokens"),
    ):
        assert ledger["totals"][name] == sum(one[key] for one in usages)
    assert asked["written_again"] == 0


def test_another_model(lab: CachedLab) -> None:
    session = begin(lab)
    asked = go_on(lab, session, model=OTHER)
    assert word_of(asked) == "model_changed"
    miss = newest_miss(lab, session, asked, "model_changed")
    assert miss["cause_source"] == "client"
    assert changes_of(miss)["model"] == f"{LARGE} → {OTHER}"
    assert miss["rewritten_tokens"] == asked["written_again"]


def test_a_tool_server_that_was_added(lab: CachedLab) -> None:
    lab.variables |= EVERY_TOOL
    session = begin(lab)
    asked = go_on(lab, session, *shop(lab))
    assert word_of(asked) == "tools_changed"
    miss = newest_miss(lab, session, asked, "tools_changed")
    assert changes_of(miss)["tools_added"] == "mcp__shop__price, mcp__shop__stock"
    assert changes_of(miss)["servers_announced"] == "shop"
    assert miss["rewritten_tokens"] == asked["written_again"]


@pytest.mark.only_all_pairs
def test_a_word_without_a_loss_is_no_miss(lab: CachedLab) -> None:
    lab.variables |= EVERY_TOOL
    session = begin(lab)
    go_on(lab, session, *shop(lab))
    # The prefix without the server's tools is still kept.
    asked = go_on(lab, session)
    assert word_of(asked) == "tools_changed"
    assert asked["written_again"] < LEAST_LOST
    assert len(misses(lab, session)) == 1


def test_what_the_client_only_announces_loses_nothing(lab: CachedLab) -> None:
    session = begin(lab)
    (lab.project / "CLAUDE.md").write_text("# Rules\nBe brief.\n", encoding="utf-8")
    lab.define_agent("reviewer")
    asked = go_on(lab, session, *shop(lab))
    kinds = {line.get("attachment", {}).get("type") for line in lab.transcript(session)}
    assert {"instructions", "mcp_instructions_delta"} <= kinds
    assert (word_of(asked), asked["written_again"]) == (None, 0)
    assert misses(lab, session) == []


def test_another_system_prompt(lab: CachedLab) -> None:
    session = begin(lab, *LIVE_PROMPT)
    asked = go_on(lab, session, *LIVE_PROMPT, "--append-system-prompt", "Speak like a pirate.")
    assert word_of(asked) == "system_changed"
    miss = newest_miss(lab, session, asked, "system_changed")
    assert "system_prompt" in changes_of(miss)
    # The blocks that changed were not there before.
    assert 0 < miss["rewritten_tokens"] - asked["written_again"] < LEAST_LOST


@pytest.mark.parametrize(
    ("seconds", "word"), [(2 * FIVE_MINUTES_S, None), (2 * HOUR_S, "previous_message_not_found")]
)
def test_a_pause_past_the_lifetime_is_foreseen(
    lab: CachedLab, seconds: int, word: str | None
) -> None:
    session = begin(lab)
    lab.pass_time(session, seconds)
    cache = lab.ctxtop().sessions[session].cache
    (lab.project / "CLAUDE.md").write_text("# Rules\nBe brief.\n", encoding="utf-8")
    asked = go_on(lab, session)
    assert word_of(asked) == word
    miss = newest_miss(lab, session, asked, "lifetime_passed")
    assert miss["idle_ms"] >= seconds * 1000
    assert miss["lifetime_ms"] == FIVE_MINUTES_S * 1000
    assert miss["rewritten_tokens"] == asked["written_again"] == cache.tokens
    assert cache.is_warm(miss["idle_ms"] + (cache.expires_at or 0) - miss["lifetime_ms"]) is False


@pytest.mark.only_all_pairs
def test_a_cache_that_lasts_an_hour_is_warm_after_ten_minutes(lab: CachedLab) -> None:
    lab.variables["CLAUDE_CODE_PROMPT_CACHE_TTL"] = "1h"
    session = begin(lab)
    lab.pass_time(session, 2 * FIVE_MINUTES_S)
    assert go_on(lab, session)["written_again"] == 0
    assert misses(lab, session) == []
    lab.pass_time(session, 2 * HOUR_S)
    asked = go_on(lab, session)
    miss = newest_miss(lab, session, asked, "lifetime_passed")
    assert miss["lifetime_ms"] == HOUR_S * 1000
    assert miss["rewritten_tokens"] == asked["written_again"]


@pytest.mark.only_all_pairs
def test_instructions_that_were_edited_in_a_pause_are_named_beside_it(lab: CachedLab) -> None:
    rules = lab.project / "CLAUDE.md"
    rules.write_text("# Rules\nBe brief.\n", encoding="utf-8")
    session = begin(lab)
    rules.write_text("# Rules\nBe thorough.\n", encoding="utf-8")
    lab.pass_time(session, 2 * FIVE_MINUTES_S)
    asked = go_on(lab, session)
    miss = newest_miss(lab, session, asked, "lifetime_passed")
    assert changes_of(miss)["instructions_edited"] == str(rules)
    assert miss["rewritten_tokens"] == asked["written_again"]


def test_a_service_that_loses_its_cache(lab: CachedLab) -> None:
    session = begin(lab)
    asked = asked_of(lab.turn(f"{FORGETS} {next_prompt(lab)}", resume=session, model=LARGE))
    assert word_of(asked) is None
    miss = newest_miss(lab, session, asked, "nothing_changed")
    assert miss["rewritten_tokens"] == asked["written_again"]


def test_a_compaction(lab: CachedLab) -> None:
    session = begin(lab)
    lab.turn("/compact", resume=session, model=LARGE)
    asked = go_on(lab, session)
    assert word_of(asked) == "messages_changed"
    miss = newest_miss(lab, session, asked, "compaction")
    assert changes_of(miss)["compacted"] == "manual"
    # The summary was never sent before: most of what is written is new.
    assert asked["written_again"] < miss["rewritten_tokens"] == miss["written_tokens"]


@pytest.mark.only_all_pairs
def test_a_compaction_because_the_prompt_was_too_long(lab: CachedLab) -> None:
    session = begin(lab)
    too_long = "400 prompt is too long: 210000 tokens > 200000 maximum"
    turn = lab.turn(f"More. [[once:{too_long}&&&say:ok]]", resume=session, model=LARGE)
    asked = [one for one in turn.exchanges if one["what"] == "answer"][-1]
    miss = newest_miss(lab, session, asked, "compaction")
    assert changes_of(miss)["compacted"] == "auto"


def test_a_fork_reads_what_its_parent_wrote(lab: CachedLab) -> None:
    session = begin(lab)
    turn = lab.turn(next_prompt(lab), resume=session, model=LARGE, more=("--fork-session",))
    assert asked_of(turn)["written_again"] == 0
    ledger = lab.ledger(turn.session_id)
    assert ledger["misses"] == []
    # The history was the parent's to pay.
    assert ledger["totals"]["requests"] == 1


@pytest.mark.only_all_pairs
def test_a_fork_after_a_pause(lab: CachedLab) -> None:
    session = begin(lab)
    lab.pass_time(session, 2 * FIVE_MINUTES_S)
    turn = lab.turn(next_prompt(lab), resume=session, model=LARGE, more=("--fork-session",))
    asked = asked_of(turn)
    miss = newest_miss(lab, turn.session_id, asked, "lifetime_passed")
    assert "forked" in changes_of(miss)
    assert miss["rewritten_tokens"] == asked["written_again"]


def test_every_token_counts_once_over_sessions_forks_and_agents(lab: CachedLab) -> None:
    lab.define_agent("worker")
    session = begin(lab)
    work = "agent:worker|Build it <<bash:seq 1 3000>> <<say:Built.>>"
    lab.turn(f"Delegate. [[{work}]] [[say:It runs.]]", resume=session, model=LARGE)
    lab.turn(next_prompt(lab), resume=session, model=LARGE, more=("--fork-session",))
    go_on(lab, session, model=OTHER)
    usages = [one["reply"]["usage"] for one in lab.exchanges if one["what"] == "answer"]
    totals = lab.command("cache")["totals"]
    assert totals["requests"] == len(usages)
    for name, key in (
        ("written_tokens", "cache_creation_input_tokens"),
        ("read_tokens", "cache_read_input_tokens"),
    ):
        assert totals[name] == sum(one[key] for one in usages)
    agents = {each["agent_id"] for each in lab.ledger(session)["requests"]}
    assert len(agents) == 2
    assert totals["misses"] == 1


def test_another_version_of_the_client(lab: CachedLab) -> None:
    session = begin(lab, *LIVE_PROMPT)
    lines = lab.transcript(session)
    for line in lines:
        if "version" in line:
            line["version"] = "2.1.300"
    lab.write(session, lines)
    # A new version has another prompt.
    asked = go_on(lab, session, *LIVE_PROMPT, "--append-system-prompt", "All is new.")
    assert word_of(asked) == "system_changed"
    miss = lab.ledger(session)["misses"][0]
    assert (miss["cause"], miss["inferred_cause"]) == ("system_changed", "version_changed")
    assert changes_of(miss)["version"] == f"2.1.300 → {miss['client_version']}"
    unsaid = lab.ledger_without_words(session)["misses"][0]
    assert (unsaid["cause"], unsaid["cause_source"]) == ("version_changed", "inferred")


@pytest.mark.only_all_pairs
def test_a_session_of_an_older_client_is_sent_in_another_form(lab: CachedLab) -> None:
    (lab.project / "CLAUDE.md").write_text("# Rules\nBe brief.\n", encoding="utf-8")
    session = begin(lab)
    kept, parent = [], None
    for line in lab.transcript(session):
        # Such a client wrote down neither what it added to the conversation nor what it sent.
        if line["type"] in {"user", "assistant", "system"}:
            kept.append(line | {"version": "2.1.200", "parentUuid": parent})
            parent = line["uuid"]
    lab.write(session, kept)
    asked = go_on(lab, session)
    assert word_of(asked) == "messages_changed"
    miss = newest_miss(lab, session, asked, "version_changed")
    assert changes_of(miss)["version"] == f"2.1.200 → {miss['client_version']}"
    assert 0 <= miss["rewritten_tokens"] - asked["written_again"] < LEAST_LOST


def test_our_own_edit(lab: CachedLab) -> None:
    session = begin(lab)
    for lines in (3500, 3600, 3700):
        lab.turn(f"More. [[bash:seq 1 {lines}]] [[say:ok]]", resume=session, model=LARGE)
    options = ("--level", "4", "--keep", "1", "--apply", "--in-place")
    receipt = lab.command("compact", session, *options)["receipt_id"]
    asked = go_on(lab, session)
    assert word_of(asked) == "messages_changed"
    miss = newest_miss(lab, session, asked, "own_edit")
    assert changes_of(miss)["edited"] == f"receipt {receipt}"
    # What stands in the place of what was taken away is new.
    assert 0 <= miss["rewritten_tokens"] - asked["written_again"] < LEAST_LOST


def test_the_client_asks_why(lab: CachedLab) -> None:
    lab.variables |= ASKS_WHY
    turn = lab.turn("Begin. [[bash:seq 1 9]] [[say:ok]]", model=LARGE)
    first, second = turn.exchanges
    assert first["body"]["diagnostics"] == {"previous_message_id": None}
    assert second["body"]["diagnostics"] == {"previous_message_id": first["reply"]["id"]}
    assert "cache-diagnosis-2026-04-07" in second["headers"]["anthropic-beta"]


def opened(lab: CachedLab) -> Screen:
    """Open a client in a terminal, with some 40,000 tokens in the cache."""
    screen = lab.interactive(model=OTHER)
    screen.ask(LONG)
    return screen


def counted_alike(lab: CachedLab, session_id: str, status: Json) -> Json:
    """Return the ledger after what it says was compared with the client's own status line."""
    ledger, told = lab.ledger(session_id), status["prompt_cache"]
    # A compaction is a loss that the client expects.
    expected = [miss for miss in ledger["misses"] if miss["cause"] == "compaction"]
    lost = [miss for miss in ledger["misses"] if miss["cause"] != "compaction"]
    assert told["requests"] == ledger["totals"]["requests"]
    assert told["cache_write_tokens"] == ledger["totals"]["written_tokens"]
    assert told["hit_ratio"] == pytest.approx(ledger["totals"]["read_ratio"])
    assert told["misses"] == len(lost)
    assert told["expected_rebuilds"] == len(expected)
    assert told["miss_recache_tokens"] == sum(miss["written_tokens"] for miss in lost)
    assert told["recache_tokens_if_cold"] == ledger["cached_tokens"]
    return ledger


@pytest.mark.usefixtures("terminal")
def test_the_client_counts_as_the_ledger_does(lab: CachedLab) -> None:
    screen = opened(lab)
    session = screen.session_id
    assert counted_alike(lab, session, screen.ask(next_prompt(lab)))["misses"] == []

    screen.type("/model opus")
    screen.until(lambda: "Switch model?" in screen.text(), "the question")
    screen.press("Enter")
    screen.settle()
    status = screen.ask(next_prompt(lab))
    asked = lab.new_exchanges()[-1]
    counted_alike(lab, session, status)
    miss = newest_miss(lab, session, asked, "model_changed")
    assert status["prompt_cache"]["miss_causes"] == {"model_changed": 1}
    assert miss["rewritten_tokens"] == asked["written_again"]

    screen.compact()
    status = screen.ask(next_prompt(lab))
    asked = lab.new_exchanges()[-1]
    # A compaction also renders the system prompt anew.
    assert word_of(asked) == "system_changed"
    counted_alike(lab, session, status)
    newest_miss(lab, session, asked, "compaction")


@pytest.mark.usefixtures("terminal")
@pytest.mark.only_all_pairs
def test_the_client_blames_the_service_where_the_ledger_finds_nothing_changed(
    lab: CachedLab,
) -> None:
    screen = opened(lab)
    status = screen.ask(f"{FORGETS} {next_prompt(lab)}")
    (miss,) = counted_alike(lab, screen.session_id, status)["misses"]
    assert miss["cause"] == "nothing_changed"
    assert status["prompt_cache"]["miss_causes"] == {"likely_server_side": 1}


@pytest.mark.usefixtures("terminal")
def test_what_is_lost_before_a_resume_is_in_no_number_of_the_client(lab: CachedLab) -> None:
    first = opened(lab)
    session = first.session_id
    first.leave()
    first.close()
    lab.pass_time(session, 2 * FIVE_MINUTES_S)
    screen = lab.interactive("--resume", session, model=OTHER)
    status = screen.ask(next_prompt(lab))["prompt_cache"]
    # It counts from its own start, and its first request is none.
    assert (status["requests"], status["misses"], status["miss_recache_tokens"]) == (1, 0, 0)
    asked = lab.new_exchanges()[-1]
    assert asked["written_again"] > LEAST_LOST
    newest_miss(lab, session, asked, "lifetime_passed")


@pytest.mark.usefixtures("terminal")
def test_a_conversation_that_was_taken_back_is_still_kept(lab: CachedLab) -> None:
    lab.variables |= ASKS_WHY
    screen = opened(lab)
    first = next_prompt(lab)
    screen.ask(first)
    screen.ask("More. [[bash:seq 1 2000]] [[say:ok]]")
    lab.new_exchanges()
    rewind(screen, "Restore conversation")
    status = screen.ask("Another way. [[say:ok]]")
    (asked,) = lab.new_exchanges()
    assert (word_of(asked), asked["written_again"]) == (None, 0)
    assert counted_alike(lab, screen.session_id, status)["misses"] == []


def rewind(screen: Screen, choice: str) -> None:
    """Go back to before the newest prompt."""
    screen.press("Escape", "Escape")
    screen.until(lambda: "Restore the code" in screen.text(), "the list of prompts")
    screen.press("Up", "Enter")
    screen.until(lambda: "1. Restore conversation" in screen.text(), "the choices")
    while f"❯ 1. {choice}" not in screen.text() and f"❯ 2. {choice}" not in screen.text():
        screen.press("Down")
    screen.press("Enter")
    screen.settle()
    screen.press("C-u")


@pytest.mark.usefixtures("terminal")
@pytest.mark.only_all_pairs
def test_a_summary_of_what_was_taken_back_loses_nothing(lab: CachedLab) -> None:
    screen = opened(lab)
    screen.ask(next_prompt(lab))
    screen.ask("More. [[bash:seq 1 2000]] [[say:ok]]")
    rewind(screen, "Summarize from here")
    screen.ask("Another way. [[say:ok]]")
    asked = lab.new_exchanges()[-1]
    lines = lab.transcript(screen.session_id)
    assert any(line.get("subtype") == "compact_boundary" for line in lines)
    assert asked["written_again"] < LEAST_LOST
    assert misses(lab, screen.session_id) == []


def test_where_reading_ended_tells_that_the_system_prompt_changed(lab: CachedLab) -> None:
    """Without the API's word and without records, by the numbers of a real client's requests."""
    sailor, soldier, pirate = (
        (*LIVE_PROMPT, "--append-system-prompt", f"Speak like a {who}.")
        for who in ("sailor", "soldier", "pirate")
    )
    begin(lab, *sailor)
    session = begin(lab, *soldier)
    asked = go_on(lab, session, *pirate)
    assert word_of(asked) == "system_changed"
    miss = lab.ledger_without_records(session)["misses"][0]
    assert (miss["cause"], miss["cause_source"]) == ("system_changed", "inferred")
    assert miss["read_end"] == "shared_start"
