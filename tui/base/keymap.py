"""Key bindings: how screens declare them, the list of all, and the user's own keys for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
from textual.app import App
from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import Keys, key_to_character
from textual.screen import ModalScreen, Screen

if TYPE_CHECKING:
    from ...core.policy.policy import Policy, PolicyNotice

# The policy is imported by the functions that read it: every widget imports this module.


def bind(
    keys: str,
    action: str,
    title: str,
    tooltip: str,
    id: str,  # noqa: A002 -- Textual's
    *,
    show: bool = True,
    key_display: str | None = None,
    priority: bool = False,
) -> Binding:
    """Declare a binding: `tooltip` is its help, and `id` its name in the `keys.ID` of a policy."""
    display = key_display or ("Esc" if keys == "escape" else None)
    return Binding(keys, action, title, show, display, priority, tooltip, id)


def with_own_display(binding: Binding) -> Binding:
    """Return a binding that is displayed as its one key: the key line shows ←→ for two."""
    return replace(binding, key_display="Esc" if binding.key == "escape" else None)


bind_hidden = partial(bind, show=False)  # not shown in the key line, only in the help


class DeclaredBinding(msgspec.Struct, frozen=True):
    binding: Binding
    declared_in: type[DOMNode]

    @property
    def id(self) -> str:
        return self.binding.id or ""

    @property
    def keys(self) -> tuple[str, ...]:
        """The default keys."""
        return tuple(key.strip() for key in self.binding.key.split(","))

    def conflicts_with(self, other: DeclaredBinding) -> bool:
        """Whether the same key could trigger both bindings at the same time."""
        places = (self.declared_in, other.declared_in)
        if issubclass(*places) or issubclass(*reversed(places)):
            return True
        if any(issubclass(place, App) for place in places):
            # A modal screen takes every key.
            return not any(issubclass(place, ModalScreen) for place in places)
        # Two screens are never on top at once, and two widgets never have the focus.
        return issubclass(places[0], Screen) is not issubclass(places[1], Screen)


_FOLDERS_WITH_KEYS: Final = ("screens", "conversation", "page_kit", "widgets")


def all_bindings() -> tuple[DeclaredBinding, ...]:
    """Return the bindings of the app and of every screen and widget; imports all of them."""
    import pkgutil
    from importlib import import_module

    # By name, because all of them import this module.
    root = __name__.rpartition(".base.")[0]
    names = [f"{root}.app", f"{root}.navigation"]
    for package in (import_module(f"{root}.{folder}") for folder in _FOLDERS_WITH_KEYS):
        modules = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        names += [module.name for module in modules]
    classes = [each for name in names for each in _declared_classes(import_module(name).__dict__)]
    return tuple(
        DeclaredBinding(binding, declared_in)
        for declared_in in classes
        for binding in declared_in.__dict__.get("BINDINGS", ())
        if isinstance(binding, Binding)
    )


def _declared_classes(names: dict[str, object]) -> Iterator[type[DOMNode]]:
    module = names["__name__"]
    for value in names.values():
        if isinstance(value, type) and issubclass(value, DOMNode) and value.__module__ == module:
            yield value


MODIFIERS: Final = frozenset({"ctrl", "shift", "alt", "super", "hyper", "meta"})

_KEY_NAMES: Final = frozenset(key.value.rpartition("+")[2] for key in Keys)


class Keymap(msgspec.Struct, frozen=True):
    """The user's valid keys by binding id, and a notice for each setting that was rejected."""

    keys: Mapping[str, str]
    notices: tuple[PolicyNotice, ...] = ()


def read_keymap(policy: Policy, bindings: Sequence[DeclaredBinding]) -> Keymap:
    """Return the valid key bindings; an unknown id, an unknown key or a conflict gives a notice."""
    from ...core.policy.policy import PolicyNotice
    from ...core.policy.schema import KEY_BINDING_PREFIX

    settings, by_id = policy.with_prefix(KEY_BINDING_PREFIX), _group_by_id(bindings)
    keys = {name: _normalize_keys(str(setting.value)) for name, setting in settings.items()}
    notices: list[PolicyNotice] = []

    def reject(name: str, error: tuple[str, str]) -> None:
        setting = settings[name]
        key = f"{KEY_BINDING_PREFIX}{name}"
        notices.append(PolicyNotice(key, setting.where, setting.origin, *error))
        del keys[name]

    for name in settings:
        if error := _find_unknown(name, keys[name], by_id):
            reject(name, error)
    # A rejected binding keeps its default keys, which may conflict with another setting.
    while conflict := next(_conflicts(keys, by_id), None):
        reject(*conflict)
    return Keymap({name: ",".join(each) for name, each in keys.items()}, tuple(notices))


def _group_by_id(bindings: Iterable[DeclaredBinding]) -> dict[str, list[DeclaredBinding]]:
    by_id: dict[str, list[DeclaredBinding]] = {}
    for each in bindings:
        by_id.setdefault(each.id, []).append(each)
    return by_id


def _normalize_keys(keys: str) -> list[str]:
    """Write ? as question_mark, as bindings have it."""
    normal = App._normalize_keymap({"": keys})  # noqa: SLF001 -- what set_keymap itself does
    return normal[""].split(",")


def _find_unknown(
    name: str, keys: Sequence[str], by_id: Mapping[str, object]
) -> tuple[str, str] | None:
    """Return what is wrong with a setting by itself, and what to do."""
    if name not in by_id:
        near = get_close_matches(name, by_id, 1)
        fix = f"did you mean keys.{near[0]}?" if near else "`ctxtop keys` lists them"
        return "there is no binding with this id", fix
    for key in keys:
        *modifiers, last = key.split("+")
        known = last in _KEY_NAMES or len(last) == 1 or key_to_character(last) is not None
        if not known or not set(modifiers) <= MODIFIERS:
            return f"there is no key {key!r}", "use e.g. o, ctrl+o or f5"
    return None


def _conflicts(
    keys: Mapping[str, Sequence[str]], by_id: Mapping[str, Sequence[DeclaredBinding]]
) -> Iterator[tuple[str, tuple[str, str]]]:
    for name, wanted in keys.items():
        for other, bindings in by_id.items():
            if other == name or not any(a.conflicts_with(b) for a in by_id[name] for b in bindings):
                continue
            taken = keys.get(other) or [key for each in bindings for key in each.keys]
            if shared := [key for key in wanted if key in taken]:
                fix = f"change keys.{other}, too"
                yield name, (f"{shared[0]} is the key of {other}", fix)


EVERYWHERE: Final = "everywhere"
PLACE_NAMES: Final = {
    "ActionPage": "compaction and recovery",
    "AgentScreen": "agent",
    "AgentsScreen": "agents",
    "AnswerScreen": "dialogs",
    "ArchiveModeScreen": "dialogs",
    "Chips": "filters",
    "Choice": "choices",
    "CommonPane": "common settings",
    "CompactScreen": "compaction",
    "CompactionDetailScreen": "compaction: kept and lost",
    "CompareScreen": "comparison",
    "ConversationPane": "conversation",
    "ConversationView": "conversation",
    "CoverageScreen": "what a summary replaced",
    "Dialog": "dialogs",
    "DoctorScreen": "doctor",
    "ExportScreen": "export",
    "FilteredPage": "pages with a filter",
    "FleetScreen": "sessions",
    "HelpScreen": "help",
    "LevelControl": "warning levels in the settings",
    "LogScreen": "log",
    "Page": "all pages",
    "Pager": "texts",
    "PolicyScreen": "settings",
    "QuestionScreen": "dialogs",
    "Reader": "texts",
    "ReadingScreen": "texts",
    "ReceiptScreen": "change",
    "ReceiptsScreen": "history",
    "RecoverScreen": "recovery",
    "ResumeScreen": "dialogs",
    "Rows": "lists",
    "SavesScreen": "memory saves",
    "SearchScreen": "search",
    "SessionScreen": "session",
    "SetControl": "features in the settings",
    "SettingControl": "common settings",
    "Slider": "sliders",
    "StepTextScreen": "texts",
    "SummariesScreen": "summaries",
    "SummaryList": "lists",
    "SummaryScreen": "summary",
    "TextPane": "texts",
    "TimelineView": "timeline",
    "ValueScreen": "a setting's value",
    "WelcomeScreen": "first steps",
    "YesNoScreen": "dialogs",
}
"""What users call the place in which a class's keys work; tests look for classes without one."""


class KeyRow(msgspec.Struct, frozen=True):
    id: str
    keys: tuple[str, ...]
    default_keys: tuple[str, ...]
    title: str
    what: str
    where: tuple[str, ...]


def key_rows(bindings: Iterable[DeclaredBinding], keymap: Mapping[str, str]) -> tuple[KeyRow, ...]:
    """Return one row for each binding id, in the order of declaration."""
    rows = []
    for name, same in _group_by_id(bindings).items():
        first = same[0].binding
        default_keys = tuple(dict.fromkeys(key for each in same for key in each.keys))
        keys = tuple(keymap[name].split(",")) if name in keymap else default_keys
        where = tuple(dict.fromkeys(_where_name(each.declared_in) for each in same))
        what = first.tooltip or first.description.lower()
        rows.append(KeyRow(name, keys, default_keys, first.description, what, where))
    return tuple(rows)


def _where_name(declared_in: type[DOMNode]) -> str:
    """Return what users call a place, as "help" for HelpScreen."""
    if issubclass(declared_in, App):
        return EVERYWHERE
    return PLACE_NAMES.get(declared_in.__name__, EVERYWHERE)
