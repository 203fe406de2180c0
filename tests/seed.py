"""The seed of all that is random in the tests: printed, and given again to repeat a run."""

from __future__ import annotations

import os
import random
from typing import Final

SEED: Final = int(os.environ.get("CTXTOP_SEED") or random.SystemRandom().randrange(10**9))
