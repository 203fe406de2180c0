"""What the demo's agents are asked, and what they return."""

from __future__ import annotations

from dataclasses import dataclass

from .demo_transcript import HAIKU, OPUS, SONNET, DemoModel


@dataclass(frozen=True)
class AgentTask:
    """One agent's work: who does it, what for, and how it ends."""

    kind: str
    model: DemoModel
    description: str
    prompt: str
    result: str
    calls: int
    skill: str | None = None
    rejected_result: str | None = None  # the first result, when a hook did not accept it
    replaced_result: str | None = None  # a result that its last words replaced
    helpers: tuple[AgentTask, ...] = ()  # whom it starts itself
    status: str = "completed"  # as the client names how it ended


WISHLIST_API = AgentTask(
    "node-backend",
    HAIKU,
    "Build the wishlist API",
    "Add GET, POST and DELETE /api/wishlist to the shop. One wishlist per customer, at most 200 "
    "items, newest first. Use the session middleware that the cart uses. Cover it with tests.",
    "[COMPRESSED] agent_type: node-backend\n"
    "Changed files: src/api/wishlist.ts, src/db/wishlist.sql, tests/wishlist.spec.ts\n"
    "Result: three routes behind the cart's session check; 17 tests pass.\n"
    "A 201st item answers 409 with the limit in the body.\n"
    "Decisions: cursor pagination (id, not offset); deletes are idempotent\n"
    "Blockers: none",
    4,
    "compress-output",
)
WISHLIST_PAGE = AgentTask(
    "react-frontend",
    SONNET,
    "Build the wishlist page",
    "Build src/pages/Wishlist.tsx: a grid of saved items, a heart on every product card, an empty "
    "state. Optimistic updates, undo for ten seconds. Works with the keyboard alone.",
    "[COMPRESSED] agent_type: react-frontend\n"
    "Changed files: src/pages/Wishlist.tsx, src/cart/HeartButton.tsx, src/pages/Wishlist.test.tsx\n"
    "Result: grid, heart and empty state work by mouse and keyboard; 11 tests pass.\n"
    "Decisions: undo lives in the toast, not in the store\n"
    "Blockers: the API must return the price with the item",
    3,
    "compress-output",
    "I built the wishlist page. First I looked at the product card and noticed that it already had "
    "a place for an icon. Then I wrote the grid, tried two layouts and kept the second one, added "
    "the heart, the toast and the tests, and finally tidied up the imports.",
)
WISHLIST_REVIEW = AgentTask(
    "reviewer",
    OPUS,
    "Review the wishlist",
    "Review the wishlist branch: the API, the page and their tests. Look for missing permission "
    "checks, lost updates and anything a customer would notice.",
    "[COMPRESSED] agent_type: reviewer\n"
    "Files reviewed: src/api/wishlist.ts, src/db/wishlist.sql, src/pages/Wishlist.tsx, "
    "src/cart/HeartButton.tsx\n"
    "Critical: src/api/wishlist.ts:48 — DELETE trusts the customer id in the body\n"
    "Warning: src/pages/Wishlist.tsx:112 — undo after a failed delete adds the item twice\n"
    "Warning: src/db/wishlist.sql:9 — no index on (customer_id, created_at)\n"
    "Suggestion: src/api/wishlist.ts:12 — name the limit of 200 once, import it in both places\n"
    "Verdict: FAIL (1 critical, 2 warnings)",
    3,
    "compress-review",
)
WISHLIST_SURVEY = AgentTask(
    "general-purpose",
    OPUS,
    "Survey wishlist analytics",
    "Find every place where the shop reports product events and say what a wishlist event should "
    "look like so that the existing dashboards keep working.",
    """\
I went through the analytics code of the shop. Here is everything that I found.

## Where events are sent today
- src/analytics/client.ts: the queue, flushed every five seconds
- src/analytics/events.ts: 23 event names, typed by hand
- src/cart/price.ts: sends `cart_priced` on every change
- src/checkout/session.ts: sends `checkout_started` and `checkout_paid`
- src/payments/gateway.ts: sends `payment_retry` with the attempt

## What the events have in common
1. `name`: snake case, a noun and a verb in the past
2. `at`: milliseconds, taken in the browser
3. `customer`: a hash, never the id
4. `items`: a list of product numbers, at most fifty
5. `source`: the page that sent it

## What the dashboards read
- "Funnel" reads `cart_priced`, `checkout_started`, `checkout_paid`
- "Products" groups everything by `items`
- "Health" counts events without a `source`

## What a wishlist event should look like
- `wishlist_added` with `items` of one number
- `wishlist_removed` with the same
- `wishlist_moved_to_cart`, followed by the usual `cart_priced`
- `source` is `wishlist` or `product_card`

## What would break otherwise
- a new field outside `items` is dropped by the collector
- names in camel case end up in the "other" bucket
- events before consent are thrown away without a message

## Open questions
- should undo send `wishlist_added` again?
- is fifty items enough for a wishlist of two hundred?
- who owns the "Products" dashboard today?
- may events wait for consent instead of being dropped?

## What I did not look at
The mobile app; it has its own client.
I changed nothing.""",
    3,
)
WISHLIST = (WISHLIST_API, WISHLIST_PAGE, WISHLIST_REVIEW, WISHLIST_SURVEY)

SEARCH_PROFILE = AgentTask(
    "node-backend",
    HAIKU,
    "Profile the facet query",
    "Profile /search with the replayed traffic and say where the time goes. Change nothing.",
    "[COMPRESSED] agent_type: node-backend\n"
    "Changed files: none\n"
    "Result: 61 % of the time is the facet query, 22 % ranking, 9 % JSON.\n"
    "Decisions: measured on 40,000 requests of one afternoon",
    3,
    "compress-output",
)
SEARCH_REVIEW = AgentTask(
    "reviewer",
    OPUS,
    "Review the parallel facets",
    "Review the change that runs the facet query beside the main one. Same results, same order.",
    "[COMPRESSED] agent_type: reviewer\n"
    "Files reviewed: atlas/search/query.py, atlas/search/index.py, tests/test_search.py\n"
    "Warning: atlas/search/query.py:203 — a cancelled request leaves the facet query running\n"
    "Suggestion: atlas/search/query.py:88 — give the pool a name, it shows in the profile\n"
    "Verdict: PASS (0 critical, 1 warning)",
    3,
    "compress-review",
)
SEARCH_DOCS = AgentTask(
    "docs-writer",
    SONNET,
    "Describe the search limits",
    "Write docs/search.md: what the endpoint promises, its limits, how to ask for facets.",
    "[COMPRESSED] agent_type: docs-writer\n"
    "Changed files: docs/search.md, mkdocs.yml\n"
    "Result: one page, 640 words, every example was run against staging.\n"
    "Decisions: limits are a table at the top, not a footnote",
    2,
    "compress-output",
)
SEARCH_PANEL = AgentTask(
    "react-frontend",
    SONNET,
    "Show facets as they come",
    "Show the hits at once and the facets when they arrive. The page must not move under the user.",
    "[COMPRESSED] agent_type: react-frontend\n"
    "Changed files: web/search/Results.tsx, web/search/Facets.tsx, web/search/Facets.test.tsx\n"
    "Result: the panel keeps its height from the last search; 9 tests pass.\n"
    "Decisions: counts fade in, nothing jumps\n"
    "Blockers: none",
    3,
    "compress-output",
    "The facets are now loaded later. I also renamed a few things on the way and moved the styles, "
    "because the panel jumped when the counts arrived, which looked bad on a phone.",
)
SEARCH_LOAD = AgentTask(
    "node-backend",
    HAIKU,
    "Replay the traffic twice as fast",
    "Replay the afternoon's traffic at twice its rate and say what gives first.",
    "I have completed the load test.\n"
    "[COMPRESSED] agent_type: node-backend\n"
    "Changed files: none\n"
    "Result: the connection pool gives first, at 212 requests a second.",
    2,
    "compress-output",
)
SEARCH_NOTES = AgentTask(
    "docs-writer",
    SONNET,
    "Note what the profile says",
    "Put the numbers of the profile into docs/search-profile.md, for whoever asks in a year.",
    "Sorry about that. The page says where the time goes, and how to measure it again.\n"
    "\n"
    "The facet query takes 61 % of the time. Most of it is the join with the product table, "
    "which is done once for every facet although the products are the same.\n"
    "Ranking takes 22 %. It sorts all hits, and the page shows twenty.\n"
    "JSON takes 9 %. Half of that are fields that no client reads any more.\n"
    "\n"
    "The traffic was replayed from the log of one afternoon, 40,000 requests, against a copy of "
    "the index of the same day, on a machine of its own, three times, with the caches cold.\n"
    "The tables hold the median, the 95th and the 99th percentile of each of the three runs, so "
    "that the next one who asks sees how far they are apart.",
    2,
    "compress-output",
    "I wrote docs/search-profile.md. It has a table for the facet query, one for ranking and one "
    "for JSON, and below them how the traffic was replayed.",
)
SEARCH_POOL = AgentTask(
    "node-backend",
    HAIKU,
    "Size the connection pool",
    "Find the size of the connection pool from which the wait does not shrink any more.",
    "Mended the two tests that failed.",
    3,
    "compress-output",
    replaced_result="[COMPRESSED] agent_type: node-backend\n"
    "Changed files: atlas/search/pool.py\n"
    "Result: 24 connections; from there on the wait stays at 3 ms.",
)
SEARCH_FIRST = (SEARCH_PROFILE, SEARCH_LOAD, SEARCH_NOTES, SEARCH_POOL)
"""Sent out before the session goes on; three of them do not comply."""

SEARCH = (SEARCH_PROFILE, SEARCH_REVIEW, SEARCH_DOCS, SEARCH_PANEL)

LEDGER_AUDIT = AgentTask(
    "general-purpose",
    OPUS,
    "Audit the rounding rules",
    "Find every place where the bridge rounds money and say which rule it follows.",
    "## Rounding in the bridge\n\n"
    "- bridge/ledger.java:71 rounds half up, two digits, after adding\n"
    "- bridge/ExportJob.java:140 truncates, because the export has no third digit\n"
    "- bridge/LedgerTest.java pins both, so the difference is on purpose\n\n"
    "The three amounts that differ by a cent in March come from line 140. 31 tests read, none run.",
    4,
)
WORKER_MAP = AgentTask(
    "Explore",
    HAIKU,
    "Map the ingest worker",
    "List what the ingest worker imports from the API package and which of it is really used.",
    "atlas/ingest/worker.py imports 11 names from the API package and uses 4 of them:\n"
    "`claim_batch`, `retry_later`, `Settings` and `log`.\n"
    "The other seven came with a refactoring in spring and are never called.\n"
    "Nothing in the API imports the worker, so the cut is clean.",
    3,
)
INVENTORY = AgentTask(
    "Explore",
    HAIKU,
    "Find unused shop routes",
    "Which routes of the shop does no page and no test call? Give file and line.",
    "Four routes have no caller:\n"
    "- src/api/compare.ts:12 GET /api/compare\n"
    "- src/api/compare.ts:40 POST /api/compare\n"
    "- src/api/legacy-cart.ts:8 GET /cart.json\n"
    "- src/api/ping.ts:3 GET /ping (but the load balancer may use it)",
    4,
)


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
