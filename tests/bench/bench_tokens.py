"""How well the growth of a context is predicted, beside chars/4 and plain tiktoken.

A turn is what happens from one answer to the next: the answer itself, what its tools gave
back, and what else came in. Each session is predicted by what the others of its corpus
teach: the weights are measured anew without it, and its factors learnt without it.
Usage: python -m tests.bench.bench_tokens, with CTXTOP_SHARED naming the shared folder.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
from ctxtop.core.measure.token_estimate import (
    CalibrationSample,
    choose_factors,
    is_output_reported,
    make_sample,
)
from ctxtop.core.measure.tokens import (
    TASK_REMINDERS,
    TOKENIZER_PROFILES,
    ContentKind,
    TextCount,
    Tokenizer,
    TokenizerProfile,
    content_kind_of,
    count_parts,
    count_text,
    estimate_tokens,
    model_text,
    model_tokenizer,
)
from ctxtop.core.model.conversation import PartKind

from .growth_steps import corpora
from .measure_tokens import counts_of, measure
from .recordings import shared_folder, too_few

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ctxtop.core.measure.token_estimate import GrowthStep
    from ctxtop.core.model.conversation import MessagePart

TARGET_MEDIAN: Final = 0.05
TARGET_RATIO: Final = 3.0
CHARS_PER_TOKEN: Final = 4
SMALL_SIDE: Final = 1

Turn = list["GrowthStep"]
"""Steps whose growth is taken together."""


class Predicted(msgspec.Struct, frozen=True):
    """One step as each way of counting sees it; tokens."""

    step: GrowthStep
    known: bool
    """Its output was told by the API: every way takes that as it is."""
    output: int
    sides: dict[str, tuple[float, float]]
    """By way: what was added after the answer, and the answer."""


OURS: Final = "ours"
UNLEARNT: Final = "nothing learnt"
"""Ours, where a machine has no session yet."""
STRANGE: Final = "strange model"
"""Ours, with the weights of the other generation and factors learnt all the same: what a
tokenizer that is not known yet will meet."""
SCALED: Final = "tiktoken x k"
"""Plain tiktoken by one factor for the generation."""
PLAIN: Final = "tiktoken"
CHARS: Final = "chars/4"
WAYS: Final = (OURS, UNLEARNT, STRANGE, SCALED, PLAIN, CHARS)


def counter(weights: TokenizerProfile) -> Callable[[str], TextCount]:
    """Count as `core.text_count` does, with weights that were measured without a session."""

    def count(text: str) -> TextCount:
        counts = counts_of(text)
        tokens = round(weights.tokens(counts))
        return TextCount(content_kind_of(text), sum(counts), tokens, tokens)

    return count


class Way(msgspec.Struct, frozen=True):
    """A way of counting that was prepared without the session to predict."""

    count: Callable[[str], TextCount]
    around: TokenizerProfile
    by_kind: dict[str, tuple[float, ...]]
    """Learnt factors, by model."""

    def of(self, step: GrowthStep) -> tuple[float, float]:
        """Count both sides of a step."""
        tokenizer = model_tokenizer(step.model)
        with measured_as(tokenizer, self.around):
            sides = [
                count_parts(pieces, tokenizer, self.count)
                for pieces in (step.added_parts, step.answer_parts)
            ]
        factors = self.by_kind[step.model]
        added, answer = (
            sum(map(float.__mul__, factors, map(float, side.by_kind))) + side.fixed
            for side in sides
        )
        return added, answer


@contextmanager
def measured_as(tokenizer: Tokenizer, measured: TokenizerProfile) -> Iterator[None]:
    """Replace the tokenizer's profile in this block."""
    kept = TOKENIZER_PROFILES[tokenizer]
    TOKENIZER_PROFILES[tokenizer] = measured
    try:
        yield
    finally:
        TOKENIZER_PROFILES[tokenizer] = kept


def learnt_way(
    held_out: Sequence[GrowthStep], others: Sequence[GrowthStep], around: TokenizerProfile
) -> Way:
    """Learn the factors of a session's models from other sessions."""
    count = counter(around)
    samples: dict[str, list[CalibrationSample]] = defaultdict(list)
    with measured_as(model_tokenizer(held_out[0].model), around):
        for step in others:
            sample = make_sample(step, count)
            if sample:
                samples[sample.model].append(sample)
        models = {step.model for step in held_out}
        return Way(
            count, around, {model: choose_factors(model, samples).by_kind for model in models}
        )


def predict(held_out: Sequence[GrowthStep], others: Sequence[GrowthStep]) -> list[Predicted]:
    """Predict a session's steps by what other sessions teach."""
    tokenizer = model_tokenizer(held_out[0].model)
    around = measure(others)
    ours = learnt_way(held_out, others, around)
    ones = {model: (1.0,) * len(ContentKind) for model in ours.by_kind}
    unlearnt = Way(ours.count, around, ones)
    (other,) = set(Tokenizer) - {tokenizer}
    strange = learnt_way(held_out, others, TOKENIZER_PROFILES[other])
    ratio = statistics.median(list(_ratios(others)) or [1.0])
    found = []
    for step in held_out:
        with measured_as(tokenizer, around):
            answer = count_parts(step.answer_parts, tokenizer, ours.count)
        plain = (_sum(step.added_parts, estimate_tokens), _sum(step.answer_parts, estimate_tokens))
        sides = {
            OURS: ours.of(step),
            UNLEARNT: unlearnt.of(step),
            STRANGE: strange.of(step),
            SCALED: (plain[0] * ratio, plain[1] * ratio),
            PLAIN: plain,
            CHARS: (_sum(step.added_parts, by_chars), _sum(step.answer_parts, by_chars)),
        }
        known = is_output_reported(step.output_tokens, answer)
        found.append(Predicted(step, known, step.output_tokens, sides))
    return found


def _ratios(steps: Iterable[GrowthStep]) -> Iterator[float]:
    """Yield each step's ratio of actual tokens to tiktoken's.

    Steps with thinking are skipped: the transcript does not hold all of its text.
    """
    for step in steps:
        if all(piece.kind is not PartKind.THINKING for piece in step.answer_parts):
            plain = _sum((*step.added_parts, *step.answer_parts), estimate_tokens)
            if plain:
                yield step.growth / plain


def by_chars(text: str) -> float:
    """Count as the client does where it has nothing better."""
    return len(text) / CHARS_PER_TOKEN


def _sum(pieces: Iterable[MessagePart], count: Callable[[str], float]) -> float:
    return sum(count(_whole(piece)) for piece in pieces)


def _whole(piece: MessagePart) -> str:
    # A reminder's words are not in the transcript: every way is given as many of others.
    if piece.name not in TASK_REMINDERS:
        return piece.text
    said_ = piece.text.rstrip(" ")
    return said_ + " word" * ((len(piece.text) - len(said_)) // 5)


def errors(turns: Iterable[Sequence[Predicted]], way: str) -> list[float]:
    """Return each turn's error as a share of its growth; known outputs are used as they are."""
    found = []
    for turn in turns:
        actual = sum(each.step.growth for each in turn)
        if actual <= 0:
            continue
        said_ = sum(
            each.sides[way][0] + (each.output if each.known else each.sides[way][1])
            for each in turn
        )
        found.append(abs(said_ - actual) / actual)
    return found


def errors_of_side(steps: Iterable[Predicted], way: str) -> list[float]:
    """Return the errors of the added input alone, for steps whose output tokens are known.

    Steps that added fewer than SMALL_SIDE tokens are skipped.
    """
    found = []
    for each in steps:
        actual = each.step.growth - each.output
        if each.known and actual >= SMALL_SIDE:
            found.append(abs(each.sides[way][0] - actual) / actual)
    return found


def errors_of_texts(steps: Iterable[Predicted], way: str) -> list[float]:
    """Return the errors if no output is known and all texts of a step are counted.

    Steps with thinking are skipped: the recorded text is not all that was thought.
    """
    return [
        abs(sum(each.sides[way]) - each.step.growth) / each.step.growth
        for each in steps
        if each.step.growth > 0
        and all(piece.kind is not PartKind.THINKING for piece in each.step.answer_parts)
    ]


def by_prompt(steps: Sequence[Predicted]) -> list[list[Predicted]]:
    """Group the steps into turns, each from one user prompt to the next."""
    turns: list[list[Predicted]] = [[]]
    for each in steps:
        turns[-1].append(each)
        if any(piece.kind is PartKind.PROMPT for piece in each.step.added_parts):
            turns.append([])
    return [turn for turn in turns if turn]


def line(name: str, found: dict[str, list[float]]) -> str:
    """One row of the table."""
    if not found[OURS]:
        return f"{name:34} no steps"
    cells = [
        f"{statistics.median(some):6.1%} {sorted(some)[int(0.9 * (len(some) - 1))]:7.1%}"
        for some in (found[way] for way in WAYS)
    ]
    return f"{name:34} {len(found[OURS]):5}  " + "   ".join(cells)


def speed(steps: Sequence[GrowthStep]) -> None:
    """Print the speed of counting texts, compared with plain tiktoken."""
    texts = [
        model_text(piece)[0] for step in steps for piece in (*step.answer_parts, *step.added_parts)
    ]
    size = sum(len(text.encode("utf-8", "replace")) for text in texts) / 1e6
    taken = {}
    for name, count in (("plain", estimate_tokens), ("ours", count_text)):
        runs = []
        for _ in range(3):
            start = time.perf_counter()
            for text in texts:
                count(text)
            runs.append(time.perf_counter() - start)
        taken[name] = min(runs)
    print(
        f"speed: {size / taken['ours']:.1f} MB/s, plain tiktoken {size / taken['plain']:.1f} MB/s"
        f" (ratio {taken['plain'] / taken['ours']:.2f})"
    )


def main() -> None:
    """Print the figures."""
    known = {name: some for name, some in corpora().items() if len(some) > 1}
    if not known:
        count = max((len(some) for some in corpora().values()), default=0)
        wanted = "two sessions of one tokenizer that share no answer are"
        print(too_few(shared_folder(), wanted, count))
        return
    print(__doc__)
    print(" " * 42 + "   ".join(f"{way:^14.14}" for way in WAYS))
    print(f"{'':34} turns  " + "   ".join(["median     p90"] * len(WAYS)))
    rows: dict[str, dict[str, list[float]]] = {}
    every: list[GrowthStep] = []
    shares: list[str] = []
    for corpus, some in known.items():
        predicted = []
        for place, (_, held_out) in enumerate(some):
            others = [step for at, (_, steps) in enumerate(some) if at != place for step in steps]
            predicted.append(predict(held_out, others))
            every += held_out
        steps = [each for of_one in predicted for each in of_one]
        turns = [turn for of_one in predicted for turn in by_prompt(of_one)]
        measured: dict[str, Callable[[str], list[float]]] = {
            "from answer to answer": partial(errors, [[step] for step in steps]),
            "from prompt to prompt": partial(errors, turns),
            "what was added alone": partial(errors_of_side, steps),
            "every text counted": partial(errors_of_texts, steps),
        }
        for name, ask in measured.items():
            found = rows.setdefault(name, {way: [] for way in WAYS})
            of_corpus = {way: ask(way) for way in WAYS}
            print(line(f"{corpus}: {name}", of_corpus))
            for way in WAYS:
                found[way] += of_corpus[way]
        growth = sum(each.step.growth for each in steps)
        output = sum(each.output for each in steps if each.known)
        shares.append(
            f"{corpus}: {len(some)} sessions, {len(steps)} steps; the API told the output of"
            f" {sum(each.known for each in steps)}, which is {output / growth:.0%} of all growth"
        )
    for name, found in rows.items():
        print(line(f"together: {name}", found))
    print("\n".join(shares))
    by_way = rows["from answer to answer"]
    if not by_way[OURS]:
        return
    best = {way: statistics.median(by_way[way]) for way in WAYS}
    print(
        f"median {best[OURS]:.1%} (target {TARGET_MEDIAN:.0%}),"
        f" chars/4 is off by {best[CHARS] / best[OURS]:.1f} times that (target {TARGET_RATIO:.0f})"
    )
    speed(every)


if __name__ == "__main__":
    main()
