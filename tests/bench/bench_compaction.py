"""What a compaction frees and what it keeps, without a model to judge it (compaction.md 4.2).

Over the recorded sessions of the shared corpus and long sessions that are made here, with
needles in them: each level of harm with all that is below it, the client's own summaries at the
boundaries that were recorded, and cozempic. Regret is found by compacting a session as it
stood at several moments of its history and looking at what the model really said next.
Usage: python -m tests.bench.bench_compaction, with CTXTOP_SHARED naming the shared folder.
"""

from __future__ import annotations

import sys
import tempfile
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ctxtop.core.compaction.plan import default_target
from ctxtop.core.compaction.strategies.summary_and_cut import newest_entry
from ctxtop.core.model.claude_models import LARGE_WINDOW, SMALL_WINDOW
from ctxtop.core.transcript.entry_decoder import read_entries

from .evaluation.boundaries import compactions_of, newest_within, with_summary
from .evaluation.cozempic import PRESCRIPTIONS, VERSION, Cozempic
from .evaluation.faults import contaminated, stale
from .evaluation.figures import (
    Figures,
    case_of,
    counter_of,
    judge,
    sent_from,
    total,
    untouched,
)
from .evaluation.ledgers import context_tokens
from .evaluation.ours import compact_by, our_ways, plan_condensing, plan_level_4, summary_within
from .evaluation.replay import RefusedError, Replayed, judge_moment, replay
from .evaluation.sessions import NEARLY_FULL, WORKS, make_session
from .growth_steps import CORPORA
from .recordings import shared_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ctxtop.core.compaction.plan import CompactionPlan
    from ctxtop.core.model.conversation import Entry

    from .evaluation.figures import Case
    from .evaluation.replay import Compact
    from .evaluation.sessions import Work
    from .evaluation.share import Share

CORPUS: Final = shared_folder() / "corpus"

SMALLEST: Final = 20_000
"""Tokens of a recorded conversation that is worth a plan."""

WORTH_COMPACTING: Final = 80_000
"""Tokens of a conversation from which on compacting is worth while; medians are over those."""

COLUMNS: Final[tuple[tuple[str, Callable[[Figures], Share]], ...]] = (
    ("context", lambda all_: all_.context),
    ("file", lambda all_: all_.file),
    ("user", lambda all_: all_.user),
    ("rules", lambda all_: all_.rules),
    ("decided", lambda all_: all_.decisions),
    ("things", lambda all_: all_.entities),
    ("3 refs", lambda all_: all_.heavy),
    ("files", lambda all_: all_.artifacts),
    ("precise", lambda all_: all_.precision),
    ("probes", lambda all_: all_.probes),
    ("needles", lambda all_: all_.needles),
    ("leaks", lambda all_: all_.leaks),
)


class Judged(NamedTuple):
    """One session under one way to compact."""

    size: int
    """Tokens before."""
    figures: Figures
    replayed: Replayed = Replayed()


class Result(NamedTuple):
    """All sessions under one way to compact."""

    sessions: tuple[Judged, ...]

    def figures(self, floor: int = 0) -> Figures:
        """Add up the sessions above a floor."""
        return total([each.figures for each in self.sessions if each.size > floor])

    def replayed(self, floor: int = 0) -> Replayed:
        """Add up the moments of the sessions above a floor."""
        some = (each.replayed for each in self.sessions if each.size > floor)
        return sum(some, Replayed())


class Target(NamedTuple):
    """What the issue asks for (compaction.md 7.8 and 4.2)."""

    level: int
    name: str
    of: Callable[[Result, int], Share]
    floor: int
    """Tokens that a session must have."""
    bound: float
    at_most: bool = False


def _targets() -> Iterator[Target]:
    yield Target(2, "context freed, > 150k", _figure("context"), 150_000, 0.10)
    yield Target(4, "context freed, > 80k", _figure("context"), WORTH_COMPACTING, 0.45)
    yield Target(4, "of the whole, median", _figure("median_of_whole"), WORTH_COMPACTING, 0.40)
    yield Target(
        4, "of the conversation, median", _figure("median_of_conversation"), WORTH_COMPACTING, 0.53
    )
    for level in (2, 3, 4):
        yield Target(level, "the person's words", _figure("user"), 0, 1.0)
        yield Target(level, "rules", _figure("rules"), 0, 1.0)
        yield Target(level, "decisions", _figure("decisions"), 0, 1.0)
        yield Target(level, "files touched", _figure("artifacts"), 0, 1.0)
        yield Target(level, "things by weight", _figure("entities"), 0, 0.98)
        yield Target(level, "regret", _regret, 0, 0.01, at_most=True)
        yield Target(level, "fetched again", _again, 0, 0.05, at_most=True)
        yield Target(level, "questions answered", _figure("probes"), 0, 0.97)


def _figure(name: str) -> Callable[[Result, int], Share]:
    def of(result: Result, floor: int) -> Share:
        share: Share = getattr(result.figures(floor), name)
        return share

    return of


def _regret(result: Result, floor: int) -> Share:
    return result.replayed(floor).regret


def _again(result: Result, floor: int) -> Share:
    return result.replayed(floor).refetched


TARGETS: Final = tuple(_targets())

LEGEND: Final = (
    "freed: context tokens, file bytes; the medians over sessions above 80,000 tokens: of the whole"
    " context with the system prompt and the tools, and of the conversation alone."
    " Kept: the person's words, rules, decisions, things named by weight,"
    " those referred to twice or more, files touched and those rightly said to be, questions"
    " answered, planted needles. Leaks: things of another session that are answered. Regret:"
    " references whose only source is gone. Edits: old texts of the next Edits that are gone;"
    " unnamed: those in files that nothing says to read again. Again: tokens fetched again, of"
    " those saved. Pays:"
    " requests until a warm cache has paid. Denser: things named per token against before."
)


def main() -> None:
    """Print the figures."""
    print(__doc__)
    with tempfile.TemporaryDirectory(prefix="ctxtop-bench-") as name:
        folder = Path(name)
        made, recorded = made_cases(folder), recorded_cases(folder)
        for group, cases in (("made sessions", made), ("recorded sessions", recorded)):
            if cases:
                print_cases(group, cases)
        print_boundaries(folder)
        ways = [*our_ways(), *peer_ways(folder)]
        full = made_cases(folder, NEARLY_FULL)
        for group, cases in (
            ("made sessions", made),
            ("made sessions that nearly fill their window", full),
            ("recorded sessions", recorded),
        ):
            if cases:
                print(f"\n== {group}\n{head()}", flush=True)
                done = {}
                for way, compact in ways:
                    done[way] = of_way(cases, compact, folder)
                    print(row(way, done[way]), flush=True)
                print_targets(done)
                print_reached(cases)
        print(f"\n{LEGEND}")


def made_cases(folder: Path, works: Sequence[Work] = WORKS) -> list[Case]:
    """Make the long sessions, and read them."""
    made_in = folder / "made"
    made_in.mkdir(exist_ok=True)
    found: list[Case] = []
    other: Sequence[Entry] = ()
    for work in works:
        made = make_session(work, made_in)
        found.append(
            case_of(
                made.name,
                made.path,
                needles=made.needles,
                rules=made.rules,
                other=other,
            )
        )
        other = found[-1].original
    return found


def recorded_cases(folder: Path) -> list[Case]:
    """Read the recorded sessions that are large enough, and those that were compacted before."""
    if not CORPUS.is_dir():
        print(f"no corpus at {CORPUS} (CTXTOP_SHARED names it): made sessions alone are measured")
        return []
    found: list[Case] = []
    other: Sequence[Entry] = ()
    before = folder / "before"
    before.mkdir()
    for path in transcripts():
        cut = [(each.name, each.written_before(before)) for each in compactions_of(path)]
        for name, file in [(f"{path.parent.name} {path.stem[:8]}", path), *cut]:
            case = case_of(name, file, other=other)
            if case.size >= SMALLEST:
                found.append(case)
                other = case.original
    return found


def transcripts() -> list[Path]:
    """List the sessions that people really had; `current` was made by a scripted API."""
    return sorted(path for corpus in CORPORA for path in (CORPUS / corpus).glob("*.jsonl"))


def peer_ways(folder: Path) -> Iterable[tuple[str, Compact]]:
    """Yield cozempic's prescriptions; nothing if it cannot be installed."""
    try:
        peer = Cozempic(folder / "cozempic")
    except RefusedError as error:
        print(f"{error}: it is not compared", file=sys.stderr)
        return
    treats = {name: lru_cache(maxsize=None)(partial(_treat, peer, name)) for name in PRESCRIPTIONS}
    for prescription, treat in treats.items():
        yield f"cozempic {VERSION} {prescription}", treat
    strongest = treats[PRESCRIPTIONS[-1]]
    yield "by levels, as far as that", partial(compact_as_far, strongest, folder / "treated.jsonl")


def _treat(peer: Cozempic, prescription: str, path: Path) -> bytes:
    return peer.treat(path, prescription)


def compact_as_far(peer: Compact, after: Path, path: Path) -> bytes:
    """Compact by levels until as much is freed as another tool frees, whose file is `after`."""
    before = sent_from(path)
    after.write_bytes(peer(path))
    count = counter_of(before).tokens
    return compact_by(path, context_tokens(before, count) - context_tokens(sent_from(after), count))


def of_way(cases: Sequence[Case], compact: Compact, folder: Path) -> Result:
    """Judge one way to compact over sessions."""
    found: list[Judged] = []
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    for case in cases:
        try:
            data = compact(case.path)
        except RefusedError:
            found.append(Judged(case.size, untouched(case)))
            continue
        after = scratch / case.path.name
        after.write_bytes(data)
        figures = judge(case, sent_from(after), data)
        found.append(Judged(case.size, figures, replay(case, compact, scratch)))
    return Result(tuple(found))


def print_boundaries(folder: Path) -> None:
    """Compare with the client's own summaries, each at the tokens that it left."""
    ways: dict[str, list[Judged]] = {}
    faults: list[str] = []
    for path in transcripts():
        for each in compactions_of(path):
            case = case_of(each.name, each.written_before(folder))
            budget = context_tokens(each.after, case.tokens.tokens)
            contexts = {"the client's summary": each.after}
            contexts["ours, by rules"] = with_summary(our_summary(budget, case), ())
            contexts["the newest alone"] = newest_within(each.before, budget, case.tokens)
            for way, after in contexts.items():
                replayed = judge_moment(each.before, after, each.later, case)
                judged = Judged(case.size, judge(case, after, b""), replayed)
                ways.setdefault(way, []).append(judged)
            faults.append(
                f"  {each.name}: {case.size:,} to {budget:,} tokens; the client's summary holds"
                f" {len(stale(each.summary, each.before))} done things to be pending and"
                f" {len(contaminated(each.summary, each.before))} foreign lines to be the person's"
            )
    if ways:
        print(f"\n== at the client's own boundaries, at equal budget\n{head()}")
        for way, found in ways.items():
            print(row(way, Result(tuple(found))))
        print("\n".join(faults))


def our_summary(budget: int, case: Case) -> str:
    """Sum up what stood before a compaction, in the tokens that the client's left."""
    entries = read_entries(case.path)
    data = case.path.read_bytes()
    line = newest_entry(entries)
    last = b"{}" if line is None else data[line.offset : line.offset + line.length]
    return summary_within(entries, last, budget, case.tokens)


def print_cases(group: str, cases: Sequence[Case]) -> None:
    print(f"\n{group}: {len(cases)}")
    for case in cases:
        print(
            f"  {case.name:24} {case.size:9,} tokens {case.path.stat().st_size / 1e6:6.2f} MB"
            f"  {len(case.weighed):6,} things {len(case.probes):4} questions"
            f" {len(case.rules):3} rules"
        )


def head() -> str:
    """Name the columns."""
    names = [f"{name:>8}" for name in ("whole~", "talk~", *(name for name, _ in COLUMNS))]
    more = [
        f"{name:>7}"
        for name in (
            *("regret", "again", "edits", "unnamed"),
            *("pays", "denser", "refused", "grown", "empty"),
        )
    ]
    more[6] = f"{'refused':>8}"
    return f"{'':30}" + "".join(names) + "".join(more)


def row(name: str, result: Result) -> str:
    figures, replayed = result.figures(), result.replayed()
    large = result.figures(WORTH_COMPACTING)
    shares = (
        large.median_of_whole,
        large.median_of_conversation,
        *(of(figures) for _, of in COLUMNS),
    )
    cells = "".join(f"{percent(share):>8}" for share in shares)
    paid, denser = figures.paid_after, figures.denser
    return (
        f"{name:30}{cells}{percent(replayed.regret):>7}{percent(replayed.refetched):>7}"
        f"{percent(replayed.edits):>7}{percent(replayed.unnamed):>8}"
        f"{'–' if paid is None else f'{paid:.0f}':>7}"
        f"{'–' if denser is None else f'{denser:.2f}':>7}"
        f"{figures.refused:>5}/{figures.sessions:<2}{figures.grown:>7}{figures.empty:>7}"
    )


def print_targets(done: Mapping[str, Result]) -> None:
    """Print which targets of the issue are met, each over the sessions it applies to."""
    for target in TARGETS:
        for way, result in done.items():
            if not way.startswith("level ") or int(way.split()[1]) != target.level:
                continue
            share = target.of(result, target.floor)
            ratio = share.ratio
            said = "not measured" if ratio is None else f"{ratio:.2%}"
            met = ratio is not None and (
                ratio <= target.bound if target.at_most else ratio >= target.bound
            )
            sign = "at most" if target.at_most else "at least"
            print(
                f"  level {target.level} {target.name:28} {said:>12}  {sign} {target.bound:.0%}:"
                f" {'met' if met else 'not met'}"
            )


REACHING: Final = (("level 4", plan_level_4), ("condense", plan_condensing))
LARGE: Final = 120_000
"""Tokens of a context, with the system prompt and the tools, that is to be halved."""


def print_reached(cases: Sequence[Case]) -> None:
    """Print for how many large sessions a plan reaches half of the window."""
    for way, plan_for in REACHING:
        plans = [plan_for(case.path) for case in cases]
        large = [each for each in plans if each.before_tokens > LARGE]
        above = [each for each in large if [one.check for one in each.refused] != ["target"]]
        reached = [each for each in above if each.after_tokens <= _half_of_window(each)]
        print(
            f"  target of 50 % reached with {way:8} {len(reached):3} of {len(above)} sessions above"
            f" {LARGE:,} tokens; {len(large) - len(above)} more are below it already"
        )


def _half_of_window(plan: CompactionPlan) -> int:
    is_small = plan.before_tokens <= SMALL_WINDOW
    return default_target(SMALL_WINDOW if is_small else LARGE_WINDOW).tokens


def percent(share: Share) -> str:
    """Write a share; with two digits where it is nearly all."""
    ratio = share.ratio
    return "–" if ratio is None else f"{ratio:.2%}"


if __name__ == "__main__":
    main()
