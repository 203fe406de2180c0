"""The lab, or the reason why there is none here."""

from __future__ import annotations

import shutil
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from .lab import Lab
from .ledger import Judge, Ledger
from .namespace import Namespace, find_client, why_not
from .proofs import Proofs
from .ways import Sizes, describe_ratios

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


_LEDGER = pytest.StashKey[Ledger]()
_PROOFS = pytest.StashKey[Proofs]()
_TABLE = pytest.StashKey["Table"]()
_RATIOS = pytest.StashKey[dict[str, list[Sizes]]]()

INVALID = "invalid_requests"
"""Marks a test that lets the client send what the API refuses."""


ONLY_ALL_PAIRS = "only_all_pairs"
"""Marks a test that `make prove` runs and CI leaves out."""


class Table:
    """Rows that the end of a run shows."""

    def __init__(self) -> None:
        self.titles: dict[str, list[str]] = {}

    def add(self, title: str, *cells: object) -> None:
        """Add a row below a title."""
        self.titles.setdefault(title, []).append("  ".join(map(str, cells)))

    def lines(self) -> list[str]:
        return [line for title, rows in self.titles.items() for line in (title, *rows)]


def pytest_addoption(parser: pytest.Parser) -> None:
    words = "prove every pair of the lab's sessions, strategies, steps and modes, which takes long"
    parser.addoption("--all-pairs", action="store_true", help=words)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_LEDGER] = Ledger()
    config.stash[_PROOFS] = Proofs()
    config.stash[_TABLE] = Table()
    config.stash[_RATIOS] = {}
    config.addinivalue_line("markers", f"{ONLY_ALL_PAIRS}: runs with --all-pairs only")
    config.addinivalue_line("markers", f"{INVALID}: lets the client send what the API refuses")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--all-pairs"):
        for item in items:
            if ONLY_ALL_PAIRS in item.keywords:
                item.add_marker(pytest.mark.skip(reason="run by `make prove`"))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    terminalreporter.write_line(str(config.stash[_LEDGER]))
    for line in (*config.stash[_PROOFS].table(), *config.stash[_TABLE].lines()):
        terminalreporter.write_line(line)
    for way, found in config.stash[_RATIOS].items():
        terminalreporter.write_line(f"{way}: {describe_ratios(found)}")


@pytest.fixture
def ratios(pytestconfig: pytest.Config) -> dict[str, list[Sizes]]:
    """Sizes of what was sent as they were foreseen, by the way in which a plan was carried out."""
    return pytestconfig.stash[_RATIOS]


@pytest.fixture(scope="session")
def client() -> Path:
    """The real client's program."""
    found = find_client()
    if found is None:
        pytest.skip("no client here: `make test-client` installs it")
    return found


@pytest.fixture(scope="session")
def namespace() -> Iterator[Namespace]:
    """A network of loopback alone, with the scripted API in it."""
    reason = why_not()
    if reason:
        pytest.skip(f"the client is only run where it can reach nothing: {reason}")
    with closing(Namespace()) as opened:
        yield opened


@pytest.fixture
def lab(
    tmp_path: Path, namespace: Namespace, client: Path, request: pytest.FixtureRequest
) -> Iterator[Lab]:
    """Folders in which the client has not run yet; whatever it sends has to be valid."""
    with closing(Lab(tmp_path, namespace, client)) as opened:
        yield opened
    if not request.node.get_closest_marker(INVALID):
        opened.new_exchanges()
        assert opened.refused() == []


@pytest.fixture(scope="module")
def new_lab(
    tmp_path_factory: pytest.TempPathFactory, namespace: Namespace, client: Path
) -> Iterator[Callable[[type[Lab]], Lab]]:
    """Labs in which a module's tests share sessions; whatever a turn sends has to be valid."""
    labs: list[Lab] = []

    def make(kind: type[Lab]) -> Lab:
        labs.append(kind(tmp_path_factory.mktemp("shared") / "lab", namespace, client))
        return labs[-1]

    yield make
    for each in labs:
        each.close()
    assert [refused for each in labs for refused in each.refused()] == []


@pytest.fixture
def judge(lab: Lab, pytestconfig: pytest.Config) -> Iterator[Judge]:
    """Who compares ctxtop with the client in this lab."""
    found = Judge(lab, pytestconfig.stash[_LEDGER])
    yield found
    found.anew()


@pytest.fixture
def proofs(pytestconfig: pytest.Config) -> Proofs:
    """What was proved of strategies in this run."""
    return pytestconfig.stash[_PROOFS]


@pytest.fixture
def terminal() -> None:
    """Tests of the interactive client need tmux."""
    if shutil.which("tmux") is None:
        pytest.skip("there is no `tmux`")


@pytest.fixture
def table(pytestconfig: pytest.Config) -> Table:
    """What the end of the run shows."""
    return pytestconfig.stash[_TABLE]
