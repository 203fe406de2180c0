"""More of the demo's agents: reviews of several days, helpers of helpers, and how some ended."""

from __future__ import annotations

from .agent_texts import AgentTask
from .model import HAIKU, OPUS, SONNET

PAYMENT_FIX = AgentTask(
    "node-backend",
    HAIKU,
    "Stop the double charge",
    "A payment that times out is tried again, and both go through. Send the same idempotency key "
    "with every try of one order.",
    "[COMPRESSED] agent_type: node-backend\n"
    "Changed files: src/payments/gateway.ts, src/payments/retry.ts, tests/payments.spec.ts\n"
    "Result: one key an order, kept until the order is closed; 9 tests pass.\n"
    "Decisions: the key is the order's number and its version\n"
    "Blockers: none",
    4,
    "compress-output",
)
PAYMENT_REVIEW = AgentTask(
    "reviewer",
    OPUS,
    "Review the retry of payments",
    "Review the payment branch: what happens when the answer of the gateway is lost?",
    "[COMPRESSED] agent_type: reviewer\n"
    "Files reviewed: src/payments/gateway.ts, src/payments/retry.ts, src/api/wishlist.ts\n"
    "Critical: src/payments/retry.ts:31 — a lost answer is tried again without the key\n"
    "Critical: src/payments/gateway.ts:77-84 — the amount is read again after it was authorised\n"
    "Warning: src/payments/retry.ts:12 — the wait has no upper limit\n"
    "Suggestion: src/api/wishlist.ts:12 — name the limit of 200 once, import it in both places\n"
    "Verdict: FAIL (2 critical, 1 warning)",
    4,
    "compress-review",
)
PAYMENT_AGAIN = AgentTask(
    "reviewer",
    OPUS,
    "Review it again",
    "The retry was changed. Is what you found gone?",
    "[COMPRESSED] agent_type: reviewer\n"
    "Files reviewed: src/payments/gateway.ts, src/payments/retry.ts\n"
    "Critical: src/payments/gateway.ts:77-84 — the amount is read again after it was authorised\n"
    "Suggestion: src/payments/retry.ts:40 — a counter would show how often this happens\n"
    "Verdict: FAIL (1 critical, 0 warnings)",
    2,
    "compress-review",
)
PAYMENT_LOG = AgentTask(
    "node-backend",
    HAIKU,
    "Log every try",
    "Write a line for every try of a payment: order, try, what the gateway said.",
    "[COMPRESSED] agent_type: node-backend\n"
    "Changed files: src/payments/log.ts, src/payments/retry.ts\n"
    "Result: every try is a line now.\n"
    "The line has the order, the try and the answer.\n"
    "It has no card number and no name.\n"
    "It goes to the same file as before.\n"
    "I looked at the old lines as well.\n"
    "They had the time in two formats.\n"
    "Both are read now.\n"
    "Decisions: one line a try, not one an order\n"
    "Blockers: none\n"
    "There is one more thing that I noticed on the way.",
    3,
    "compress-output",
)

TAG_INDEX = AgentTask(
    "node-backend",
    HAIKU,
    "Index the marks of vowels",
    "Index every note twice: as it is written, and without the marks.",
    "[COMPRESSED] agent_type: node-backend\n"
    "Changed files: src/search/normal.ts, src/search/index.ts\n"
    "Result: both forms are found; the index grows by 11 %.\n"
    "Decisions: the marks are taken out at search time, too\n"
    "Blockers: none",
    3,
    "compress-output",
)
TAG_SPEED = AgentTask(
    "node-backend",
    HAIKU,
    "Measure the search again",
    "Measure the search of 20,000 notes before and after.",
    "[COMPRESSED] agent_type: node-backend\n"
    "Changed files: none\n"
    "Result: 38 ms before, 41 ms after, the median of 200 searches.",
    2,
    "compress-output",
)
TAG_REVIEW = AgentTask(
    "reviewer",
    OPUS,
    "Review the index",
    "Review how notes are indexed now. Nothing that was found before may be lost.",
    "[COMPRESSED] agent_type: reviewer\n"
    "Files reviewed: src/search/normal.ts, src/search/index.ts\n"
    "Warning: src/search/index.ts:58 — an old index is read without being made anew\n"
    "Suggestion: src/search/normal.ts:9 — say which marks they are\n"
    "Suggestion: src/search/normal.ts:22 — this is Unicode's own NFKD\n"
    "Verdict: FAIL (0 critical, 1 warning)",
    3,
    "compress-review",
)

LOG_ESCAPE = AgentTask(
    "node-backend",
    HAIKU,
    "Show escapes as they are",
    "Write the log view's own renderer: what stands in a line is shown, never obeyed.",
    "I have escaped everything.\n\n## What I did\n\n- brackets are shown\n- colours are shown",
    2,
    "compress-output",
    "I have escaped everything, see the page.",
)
LOG_FUZZ = AgentTask(
    "Explore",
    HAIKU,
    "Collect lines that break it",
    "Search the logs of a month for lines with brackets, escapes and bidi marks.",
    "1,204 lines hold a bracket, 31 an escape sequence, 2 a bidi mark. They are in /tmp/lines.txt.",
    2,
)
LOG_PLAN = AgentTask(
    "general-purpose",
    OPUS,
    "Plan the log view anew",
    "Say what the log view must show, send out whom you need, and put it together.",
    "The view needs its own renderer: 1,204 lines of a month hold a bracket, and each of them was "
    "markup to it. The renderer is written; what is missing is a review of it.",
    3,
    helpers=(LOG_FUZZ, LOG_ESCAPE),
)
LOG_LIMIT = AgentTask(
    "node-backend",
    HAIKU,
    "Cut lines that are too long",
    "A line of more than 4,000 characters is cut in its middle, and says so.",
    "[COMPRESSED] agent_type: node-backend\n"
    "Changed files: logs/view.py, tests/test_view.py\n"
    "Result: cut in the middle, with the length; 6 tests pass.\n"
    "Decisions: the length is of characters, not of bytes",
    2,
    "compress-output",
)
LOG_DOCS = AgentTask(
    "docs-writer",
    SONNET,
    "Describe the log view",
    "Write docs/logs.md: what is shown, and what is not.",
    "",
    1,
    "compress-output",
    status="killed",
)
