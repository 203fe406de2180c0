"""Whatever happens to the files, a search finds the turns that a plain reading of them finds."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from ctxtop.collectors.claude_code import search_jobs
from ctxtop.collectors.claude_code.turn_finder import search_turns
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.writer import Writer
from ctxtop.core.transcript.turn_search import parse_turn_query
from hypothesis import HealthCheck, Phase, given, note, seed, settings
from hypothesis import strategies as st

from ..effort import tries
from ..histories import FILES, WHOLE_BLOCK, Folder, cut
from ..seed import SEED
from ..transcripts import START_MS, assistant, encode, text, tool_result, user

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..histories import Step

# Long ones begin alike for as long as the index can tell.
WORDS: Final = ("pool", "POOLS", "connection", "connections", "connect", "résumé", "id", "12")
SEPARATORS: Final = (" ", "\n", "_", "/", ' "', " – ")
BLOCK_CHARS: Final = 60
INDEXED: Final = [FILES[0], FILES[1], FILES[3], FILES[5]]

_words = st.sampled_from(WORDS)
_texts = st.lists(st.tuples(_words, st.sampled_from(SEPARATORS)), min_size=1, max_size=8).map(
    lambda pairs: "".join(word + separator for word, separator in pairs)
)
_line = st.one_of(
    st.builds(lambda words, at: user(words, at=at), _texts, st.integers(0, 99)),
    st.builds(
        lambda words, at: assistant(content=[text(words)], at=at), _texts, st.integers(0, 99)
    ),
    st.builds(lambda words: tool_result("t", words, {}), _texts),
)
_lines = st.lists(_line, min_size=1, max_size=4).map(encode)
_queries = st.one_of(
    st.builds("{} ".format, _words),
    _words.map(lambda word: word[:3]),
    st.builds("{} {} ".format, _words, _words),
    st.builds('"{} {}"'.format, _words, _words),
    st.builds('"{} {} {}"'.format, _words, _words, _words),
    st.builds("{} -{} ".format, _words, _words),
)


def step(name: str, given: st.SearchStrategy[Any] | None = None) -> st.SearchStrategy[Step]:
    return st.tuples(st.just(name), st.sampled_from(INDEXED), st.none() if given is None else given)


_steps = st.one_of(
    step("append", _lines),
    step("append", _lines),
    step("append_again", st.integers(1, 9)),
    step("tear", st.tuples(_lines, st.integers(1, 200))),
    step("complete"),
    step("rewrite", _lines),
    step("replace", _lines),
    step("remove_line", st.integers(0, 9)),
    step("truncate", st.integers(0, 900)),
    step("delete"),
    step("put_back"),
    step("fork", st.sampled_from(INDEXED)),
    step("move"),
    step("move_project"),
    step("scan"),
    step("index"),
)


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("empty") / "ctxtop.db"
    Writer(store).close()
    return store


def turns(projects: Path) -> dict[str, list[str]]:
    """Read the words of each prompt and answer, by its id."""
    return {
        line["uuid"]: re.findall(r"[a-z0-9]+", words.lower().replace("é", "e"))
        for path in projects.rglob("*.jsonl")
        for line in _whole_lines(path.read_bytes())
        if (words := _said(line["message"]["content"]))
    }


def _whole_lines(data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.split(b"\n")[:-1]:
        try:
            yield json.loads(line)
        except ValueError:
            continue


def _said(content: str | list[dict[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "".join(block["text"] for block in content if block["type"] == "text")


def is_found(words: list[str], query: str) -> bool:
    """Whether words meet a query of `_queries`."""
    folded = query.lower().replace("é", "e")
    if '"' in folded:
        phrase = folded.strip('"').split()
        return any(words[at : at + len(phrase)] == phrase for at in range(len(words)))
    *whole, last = folded.split(" ")
    return all((word[1:] not in words) if word[0] == "-" else word in words for word in whole) and (
        any(word.startswith(last) for word in words)
    )


@seed(SEED)
@settings(
    max_examples=tries(60, proving=600),
    deadline=None,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.lists(_steps, min_size=3, max_size=20), st.lists(_queries, min_size=1, max_size=8))
def test_a_search_finds_what_a_plain_reading_finds(
    empty_store: Path, steps: list[Step], queries: list[str]
) -> None:
    note(f"CTXTOP_SEED={SEED}")
    place = Path(tempfile.mkdtemp(dir=empty_store.parent))
    folder = Folder(place, empty_store)
    with pytest.MonkeyPatch.context() as patched, cut(WHOLE_BLOCK, 1):
        patched.setattr(search_jobs, "BLOCK_CHARS", BLOCK_CHARS)
        for each in [*steps, ("index", "", None)]:
            if each[0] == "index":
                folder.collector.scan_and_index_turns()
            else:
                folder.step(*each)
    try:
        expected = turns(folder.claude.projects)
        with closing(open_reader(folder.store)) as db:
            for typed in queries:
                query = parse_turn_query(typed, START_MS)
                hits = search_turns(db, folder.claude, query, {}, 1_000).hits
                assert sorted(str(hit.uuid) for hit in hits) == sorted(
                    uuid for uuid, words in expected.items() if is_found(words, typed)
                )
                assert all(hit.excerpt.matches for hit in hits)
                times = [hit.at or 0 for hit in hits]
                assert times == sorted(times, reverse=True)
    finally:
        folder.drop()
        shutil.rmtree(place)
