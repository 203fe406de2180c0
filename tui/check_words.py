"""The checks of compaction.md 7.6 in a few words each: what a tick beside a receipt means."""

from __future__ import annotations

from typing import Final

WORDS: Final = {
    "V1": "every changed line is JSON",
    "V2": "no line too many",
    "V3": "untouched lines byte for byte",
    "V4": "ids, roles and calls stay",
    "V5": "the same lines are sent",
    "V6": "no new roots or orphans",
    "V7": "every call has its result",
    "V8": "the API's own tools in pairs",
    "V9": "nothing empty, types stay",
    "V10": "thinking whole or gone",
    "V11": "the last compaction stands",
    "V12": "title and mode stand",
    "V13": "roles in turn",
    "V14": "prompts as the plan says",
    "V15": "what is protected stays",
    "V16": "what is sent is as planned",
    "V17": "file no larger than planned",
    "V18": "no character cut in half",
    "V19": "images whole or a word",
    "V20": "files beside it are there",
    "V21": "taken back, the same bytes",
    "V22": "done twice is done once",
    "V23": "owner and rights kept",
    "V24": "nobody wrote meanwhile",
}
"""By their codes, as receipts name them."""


def words_of(check: str) -> str:
    """Say what a check found to be so; its code alone where it is a newer one."""
    return WORDS.get(check, check)
