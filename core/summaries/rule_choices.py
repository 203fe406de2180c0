"""What the person chose for single rules: a file of ours, read by commands, screens and hooks."""

import math
from pathlib import Path
from typing import Final

import msgspec

from ..files.safe_open import open_regular
from ..model.rule import RuleMark
from .session_rules import NO_RULE_CHOICES, RuleChoices

FILE_NAME: Final = "rules.json"
MAX_FILE_BYTES: Final = 1 << 20  # 50,000 choices; a larger file is not ours


def read_rule_choices(state_folder: Path) -> RuleChoices:
    """Read the choices; none if the file is missing or damaged, so that every rule is kept."""
    try:
        with open_regular(state_folder / FILE_NAME) as file:
            return msgspec.json.decode(file.read(MAX_FILE_BYTES), type=RuleChoices)
    except (OSError, msgspec.DecodeError):
        return NO_RULE_CHOICES


def mark_rule(state_folder: Path, rule_id: str, mark: RuleMark) -> None:
    """Store a choice in place of the rule's earlier one; raises OSError."""
    from ..files.file_operations import file_lock, write_file_atomically  # hooks only read

    path = state_folder / FILE_NAME
    with file_lock(path.with_suffix(".lock"), math.inf):
        before = read_rule_choices(state_folder)
        chosen = {RuleMark.DROPPED: before.dropped, RuleMark.PINNED: before.pinned}
        after = {
            each: ids | {rule_id} if each is mark else ids - {rule_id}
            for each, ids in chosen.items()
        }
        choices = RuleChoices(after[RuleMark.DROPPED], after[RuleMark.PINNED])
        write_file_atomically(path, msgspec.json.encode(choices, order="deterministic"))
