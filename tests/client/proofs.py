"""What was proved of every strategy, as a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ctxtop.core.compaction.transcript_planning import STRATEGIES

from .pairs import LEVELS
from .ways import describe_ratios

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .pairs import Pair, Proof
    from .ways import Sizes

_ROW: Final = "{:<22}{:>6}{:>10}{:>7}{:>12}{:>14}{:>14}   {}"


@dataclass(slots=True)
class Proofs:
    """All pairs that a test run tried, and those that held."""

    tried: list[Pair] = field(default_factory=list)
    held: dict[Pair, Proof] = field(default_factory=dict)

    def table(self) -> Iterator[str]:
        """Yield a header and a row for each tried strategy, summed over its sessions and modes."""
        if not self.tried:
            return
        heads = ("strategy", "level", "sessions", "modes", "operations", "tokens freed")
        yield _ROW.format(*heads, "bytes freed", "held")
        levels = {each.name: each.level for each in STRATEGIES} | LEVELS
        for name, level in levels.items():
            pairs = [each for each in self.tried if each.strategy == name]
            held = [self.held[each] for each in pairs if each in self.held]
            if not pairs:
                continue
            yield _ROW.format(
                name,
                level.value,
                len({each.day for each in pairs}),
                len({each.mode for each in pairs}),
                sum(each.operations for each in held),
                f"{sum(each.tokens for each in held):,}",
                f"{sum(each.bytes for each in held):,}",
                f"{len(held)} of {len(pairs)}",
            )
        yield from self._ratios()
        share = len(self.held) / len(self.tried)
        yield f"{len(self.held)} of {len(self.tried)} pairs held: {share:.1%}"

    def _ratios(self) -> Iterator[str]:
        """Yield a row for each strategy and mode: how near the next request was foreseen."""
        found: dict[str, list[Sizes]] = {}
        for pair, proof in self.held.items():
            found.setdefault(f"{pair.strategy}, {pair.mode.value}", []).append(proof.sizes)
        for way, sizes in found.items():
            yield f"{way}: {describe_ratios(sizes)}"
