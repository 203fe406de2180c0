"""Writes the command and settings references of docs/ from the program, and checks a built site.

Usage: python -m tests.documentation write | check FOLDER
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

import click
from ctxtop.core.actions.preset_steps import preset_steps
from ctxtop.core.policy.schema import DEFAULT_PRESET, KEYS, PRESETS, PolicyKey
from ctxtop.core.policy.value_types import InvalidValueError, PolicyValue, format_value
from ctxtop.tui.cli.commands import CommandGroup, ctxtop

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DOCS: Final = Path(__file__).parent.parent / "docs"

SHARED_OPTIONS: Final = (
    *("--config-dir", "--db", "--json", "--ascii", "--no-scan", "--preset", "--set", "--help"),
)
"""Described once, at the top of the reference."""

SETTING_COLUMNS: Final = ("key", "default", "description", "values")

COMMANDS_INTRO: Final = """\
# Commands

<!-- Written by `make docs` from the program. Do not edit. -->

`ctxtop` alone opens the dashboard. Every other command prints and exits. An id (SESSION,
RECEIPT, …) may be shortened to its start.

| exit code | means |
|---|---|
| 0 | done |
| 1 | error: one line on stderr says what failed and what to do |
| 2 | wrong usage, or nothing to do |
| 3 | refused: the session is live |
| 4 | refused: the change is not safe |
| 5 | verification failed; the change was rolled back |

## Common options
"""

SETTINGS_INTRO: Final = """\
# Settings

<!-- Written by `make docs` from the program. Do not edit. -->

Set a value with `ctxtop settings set KEY VALUE`, on the Settings page (`P`), or in a file; see
[Settings](guide.md#settings). `ctxtop settings` shows every value and where it comes from.
"""


def context_of(command: click.Command) -> click.Context:
    """Return a context like the program's: click keeps the first one's help option for good."""
    return click.Context(command, help_option_names=["-h", "--help"])


def options_of(command: click.Command) -> dict[str, tuple[str, str]]:
    """Return each option's name, its usage and its description."""
    context = context_of(command)
    found = {}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and record:
            found[parameter.opts[-1]] = (record[0], " ".join(record[1].split()))
    return found


def table(*rows: tuple[str, ...]) -> str:
    head, *body = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body)]
    return "\n".join(lines) + "\n"


def option_table(options: dict[str, tuple[str, str]]) -> str:
    return table(("option", "effect"), *((f"`{usage}`", text) for usage, text in options.values()))


def commands(command: click.Command, words: str) -> Iterator[tuple[str, click.Command]]:
    """Walk through a group's commands, each with the words that call it."""
    subcommands: Mapping[str, click.Command] = {}
    if isinstance(command, CommandGroup):
        subcommands = command.load_all()
    elif isinstance(command, click.Group):
        subcommands = command.commands
    for name in sorted(subcommands):
        if not subcommands[name].hidden:
            yield f"{words} {name}", subcommands[name]
            yield from commands(subcommands[name], f"{words} {name}")


def command_section(words: str, command: click.Command) -> str:
    usage = " ".join(command.collect_usage_pieces(context_of(command)))
    text = "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))
    own = {name: each for name, each in options_of(command).items() if name not in SHARED_OPTIONS}
    section = f"## {words}\n\n```text\n{words} {usage}\n```\n\n{text}\n"
    return f"{section}\n{option_table(own)}" if own else section


def command_reference() -> str:
    shared = {name: each for name, each in options_of(ctxtop).items() if name in SHARED_OPTIONS}
    sections = [command_section(words, command) for words, command in commands(ctxtop, "ctxtop")]
    return "\n".join((COMMANDS_INTRO, option_table(shared), *sections))


def accepted_values(key: PolicyKey) -> str:
    """Return what the key's own error message says that it accepts."""
    try:
        key.parse(object())
    except InvalidValueError as error:
        return str(error)
    return "anything"


def setting_row(key: PolicyKey) -> tuple[str, ...]:
    default = format_value(key.default)
    unit = f" ({key.unit})" if key.unit else ""
    values = accepted_values(key)
    return f"`{key.name}`", f"`{default}`" if default else "", f"{key.description}{unit}", values


def area_of(key: PolicyKey) -> str:
    return key.name.split(".")[0] if "." in key.name else "general"


def preset_section(name: str, values: Mapping[str, PolicyValue]) -> str:
    steps = [(each.step, each.text, each.default_text) for each in preset_steps(name)]
    keys = [(f"`{key}`", f"`{format_value(value)}`") for key, value in values.items()]
    does = table(("step", name, DEFAULT_PRESET), *steps)
    return f"### {name}\n\n{does}\n{table(('key', 'value'), *keys)}"


def settings_reference() -> str:
    areas: dict[str, list[PolicyKey]] = {}
    for area, keys in groupby(KEYS.values(), area_of):
        areas.setdefault(area, []).extend(keys)
    sections = [
        f"## {area}\n\n{table(SETTING_COLUMNS, *map(setting_row, keys))}"
        for area, keys in areas.items()
    ]
    presets = [preset_section(name, values) for name, values in PRESETS.items() if values]
    return "\n".join((SETTINGS_INTRO, *sections, "## Presets\n", *presets))


REFERENCES: Final = {
    DOCS / "commands.md": command_reference,
    DOCS / "settings.md": settings_reference,
}


class LinkParser(HTMLParser):
    """Collects the links, the images and the anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := values.get(name))}
        if tag in {"a", "img", "script", "link"}:
            self.links += [value for name in ("href", "src") if (value := values.get(name))]

    def has_anchor(self, fragment: str) -> bool:
        return not fragment or unquote(fragment) in self.anchors


def read_page(path: Path) -> LinkParser:
    page = LinkParser()
    page.feed(path.read_text())
    return page


def broken_links(site: Path) -> Iterator[str]:
    """Yield each link of a built site that leads to no file or anchor of it."""
    pages = {path: read_page(path) for path in site.rglob("*.html") if path.name != "404.html"}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{path.relative_to(site)}: {link} does not exist"
            elif target in pages and not pages[target].has_anchor(parts.fragment):
                yield f"{path.relative_to(site)}: {link} has no such anchor"


def main(words: list[str]) -> int:
    match words:
        case ["write"]:
            for path, render in REFERENCES.items():
                path.write_text(render())
            return 0
        case ["check", site]:
            broken = list(broken_links(Path(site).resolve()))
            print("\n".join(broken) or "all links of the site lead somewhere")
            return 1 if broken else 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
