"""How many of the sentences that are told as rules and decisions are such.

Candidates are all sentences of the recorded sessions that hold a word of a rule (in a person's
prompts) or of a decision (in prompts and answers), as they are shown. Each was read and
labeled; as the sessions' texts are not in the repository, `stated_labels.json` has the
label by the SHA-256 of the sentence in small letters with single spaces. A sentence without a
label counts as none, and is counted. Those of the public repositories entireio/cli,
FSM1/cipher-box, PackmindHub/context-evaluator (half of whose sessions the patterns were written
on), dayhaysoos/nimbus and JanDeDobbeleer/oh-my-posh (none) are labeled where they are told;
fetch their branch `entire/checkpoints/v1` and name the folder. The patterns were also mended on
the exported sessions (`.specstory/history`) of daviswhitehead/chef-chopsky,
MichaelPaulukonis/polychrome.p5, FlorpyDorpinator/StationpediaAscendedWorkspace,
AmbidextrousCoatie/league_analyzer, michalhorcic/cozy-checkout, Firedogs2x/Houdoku-2 and
learnwithcc/focuslab: a fresh sample has to come from elsewhere.
Usage: python -m tests.bench.bench_stated, with CTXTOP_SHARED naming the shared folder.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from ctxtop.core.model.conversation import PartKind
from ctxtop.core.summaries.decision_patterns import (
    DECISION_PATTERN,
    REASON_PATTERN,
    RULE_PATTERN,
    find_decisions,
    find_rules,
    find_sentences,
    quote_line,
)
from ctxtop.core.summaries.key_messages import persons_words
from ctxtop.core.summaries.mentions import find_names
from ctxtop.core.transcript.entry_decoder import read_entries

from .recordings import recordings, shared_folder, too_few

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

LABELS: Final = Path(__file__).with_name("stated_labels.json")

RULE, DECIDED = "rule", "decision"


def key_of(sentence: str) -> str:
    """Return the key by which a sentence has its label."""
    return hashlib.sha256(" ".join(sentence.casefold().split()).encode()).hexdigest()


def read_labels() -> dict[str, dict[str, bool]]:
    """Read the labels by kind and key: whether it is a rule, or a decision that was taken."""
    return msgspec.json.decode(LABELS.read_bytes(), type=dict[str, dict[str, bool]])


def candidates(kind: str, text: str) -> Iterator[str]:
    """List the sentences that hold a word of a kind."""
    if kind == RULE:
        yield from find_sentences(RULE_PATTERN, text)
        return
    yield from find_sentences(DECISION_PATTERN, text)
    for sentence in find_sentences(REASON_PATTERN, text):
        if "`" in sentence or find_names(sentence):
            yield sentence


def spoken(kind: str, paths: Iterable[Path]) -> Iterator[str]:
    """Yield the texts in which a kind is looked for."""
    for path in paths:
        for entry in read_entries(path):
            if not entry.sidechain:
                yield from persons_words(entry)
                if kind == DECIDED:
                    yield from (piece.text for piece in entry.parts if piece.kind is PartKind.TEXT)


def show(name: str, kind: str, paths: list[Path], find: Callable[[str], Iterator[str]]) -> None:
    """Print precision and recall of one kind in one project's sessions."""
    labels = read_labels()[kind]
    every: set[str] = set()
    found: set[str] = set()
    for text in spoken(kind, paths):
        every |= {key_of(quote_line(each)) for each in candidates(kind, text)}
        found |= {key_of(quote_line(each)) for each in find(text)}
    true = {key for key in every | found if labels.get(key)}
    right = found & true
    unlabeled = (every | found) - labels.keys()
    print(
        f"{name[:24]:24} {kind:8} {len(every):4} candidates, {len(true):3} are such;"
        f" told {len(found):3},"
        f" right {len(right):3}: precision {_share(len(right), len(found))},"
        f" recall {_share(len(right), len(true))}; without a label {len(unlabeled)}"
    )


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "–"


def main() -> None:
    """Print the figures."""
    shared = shared_folder()
    paths = recordings(shared)
    if not paths:
        print(too_few(shared, "a recorded session is", 0))
        return
    projects = dict.fromkeys(path.parent.name for path in paths)
    for kind, find in ((RULE, find_rules), (DECIDED, find_decisions)):
        for project in projects if len(projects) > 1 else ():
            of_it = [path for path in paths if path.parent.name == project]
            show(project, kind, of_it, find)
        show("all", kind, paths, find)


if __name__ == "__main__":
    main()
