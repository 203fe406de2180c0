"""Long patterns, compiled when they are first used: most commands and hooks use none of them."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, Final, cast


def lazy_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return what behaves as `re.compile(pattern, flags)`; only its first use compiles it."""
    return cast("re.Pattern[str]", _LazyPattern(pattern, flags))


class _LazyPattern:
    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern: Final = pattern
        self._flags: Final = flags

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern, self._flags)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- search, sub, finditer and the others
        method = getattr(self._compiled, name)
        # Found without this detour from now on.
        self.__dict__[name] = method
        return method
