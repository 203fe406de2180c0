"""A made-up code base that a session works on: files with functions, that change as it edits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random

AREAS: Final = (
    "orders", "billing", "search", "accounts", "carts", "shipping", "reviews", "stock",
    "coupons", "exports", "webhooks", "sessions", "invoices", "refunds", "themes", "alerts",
)  # fmt: skip
VERBS: Final = (
    "load", "store", "merge", "check", "render", "parse", "count", "retry", "lock", "sort",
    "index", "quote", "split", "apply", "fetch", "drop", "audit", "batch", "cache", "match",
)  # fmt: skip
NOUNS: Final = (
    "cursor", "ledger", "basket", "address", "tariff", "voucher", "shard", "token", "receipt",
    "variant", "window", "batch", "label", "parcel", "rate", "report", "session", "profile",
)  # fmt: skip
SAID: Final = (
    "the route answers with a cursor and the test that failed reads it twice because the "
    "migration renamed a column while an older caller still asked for the old one and nobody "
    "noticed until the nightly export came back empty for every tenant with more than one shard"
)
WORDS: Final = tuple(SAID.split(" "))


class CodeBase:
    """Files by path, each a list of lines; all of it follows from the random numbers."""

    def __init__(self, random_: random.Random, files: int, functions: tuple[int, int]) -> None:
        self._random: Final = random_
        self._functions: Final = functions
        self.files: Final[dict[str, list[str]]] = {}
        for number in range(files):
            self.create(number)

    def create(self, number: int) -> str:
        """Add a file and give its path."""
        area = AREAS[number % len(AREAS)]
        name = f"{self._random.choice(VERBS)}_{self._random.choice(NOUNS)}_{number}"
        folder = self._random.choice(("src/api", "src/core", "src/web", "tests"))
        path = f"/home/dev/shop/{folder}/{area}/{name}.py"
        count = self._random.randint(*self._functions)
        self.files[path] = [line for _ in range(count) for line in self.function(area)]
        return path

    def function(self, area: str) -> list[str]:
        """Write one function."""
        pick = self._random.choice
        name = f"{pick(VERBS)}_{pick(NOUNS)}_{pick(NOUNS)}"
        owner = f"{pick(NOUNS).title()}{pick(NOUNS).title()}"
        lines = [f"def {name}(self, {pick(NOUNS)}: {owner}, limit={self._random.randint(2, 900)}):"]
        lines.append(f'    """{self.sentence(self._random.randint(6, 14)).capitalize()}."""')
        for _ in range(self._random.randint(4, 12)):
            one, other = pick(NOUNS), pick(VERBS)
            lines.append(
                f"    {one}_{self._random.randint(1, 99)} = self.{area}.{other}_{pick(NOUNS)}"
                f"({one}, {pick(NOUNS)}={self._random.randint(0, 4000)})"
            )
        return [*lines, f"    return {pick(NOUNS)}_{self._random.randint(1, 99)}", ""]

    def sentence(self, words: int) -> str:
        """Return a random sentence without identifiers."""
        return " ".join(self._random.choices(WORDS, k=words))

    def path(self) -> str:
        """Pick any file; the later ones more often, as work moves on."""
        paths = list(self.files)
        return paths[int(len(paths) * self._random.random() ** 0.8)]

    def shown(self, path: str, offset: int = 1, limit: int | None = None) -> str:
        """Return a file with line numbers, as the Read tool shows it."""
        lines = self.files[path][offset - 1 : None if limit is None else offset - 1 + limit]
        return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines, offset))

    def change(self, path: str) -> tuple[str, str]:
        """Change some lines that follow each other; give what was there and what is."""
        lines = self.files[path]
        at = self._random.randrange(max(1, len(lines) - 8))
        size = self._random.randint(3, 8)
        old = lines[at : at + size]
        area = path.split("/")[-2]
        new = [f"    {line}" for line in self.function(area)[2 : 2 + size]]
        lines[at : at + size] = new
        return "\n".join(old), "\n".join(new)

    def symbol(self, path: str) -> str:
        """Name a function of a file."""
        names = [line[4:].split("(")[0] for line in self.files[path] if line.startswith("def ")]
        return self._random.choice(names) if names else path.rsplit("/", 1)[-1]
