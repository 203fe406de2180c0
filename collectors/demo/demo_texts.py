"""The demo's texts: settings, projects, remarks, summaries, and plausible tool calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .demo_transcript import DemoJson, DemoToolCall

if TYPE_CHECKING:
    from random import Random

    from .demo_transcript import DemoJson


STOP_HOOK = "/home/dev/bin/check-result"
TEST_HOOK = "/home/dev/bin/run-tests"
HOOK_EVENTS = ("SessionStart", "UserPromptSubmit", "PreCompact", "PostCompact", "SubagentStop")

SETTINGS: DemoJson = {
    "hooks": {
        event: [{"hooks": [{"type": "command", "command": "/home/dev/bin/ctx-hook"}]}]
        for event in HOOK_EVENTS
    },
    "model": "opus",
}

SKILL_BODIES = {
    "compress-output": (
        "Give your result back as [COMPRESSED] agent_type: <your type>, followed by Changed files, "
        "Result (three lines at most), Decisions and Blockers. Ten lines in all, no more."
    ),
    "compress-review": (
        "Give your review back as [COMPRESSED] agent_type: reviewer, followed by Files reviewed, "
        "Critical, Warning, Suggestion and Verdict (PASS or FAIL). Twenty lines in all, no more."
    ),
}


def _skill_text(name: str, about: str, body: str, *fields: str) -> str:
    head = "\n".join(["---", f"name: {name}", f"description: {about}", *fields, "---"])
    return f"{head}\n{body}\n"


SKILL_FILES = {
    f"skills/{name}/SKILL.md": _skill_text(name, about, SKILL_BODIES[name])
    for name, about in (
        ("compress-output", "how an agent gives its result back"),
        ("compress-review", "how a reviewer gives its findings back"),
    )
}


def _agent_text(name: str, about: str, model: str, skill: str, body: str) -> str:
    return _skill_text(name, about, body, f"model: {model}", "skills:", f"  - {skill}")


AGENT_FILES = {
    "agents/node-backend.md": _agent_text(
        "node-backend",
        "builds routes, queries and their tests",
        "haiku",
        "compress-output",
        "You build the server side. Small changes, tests first.",
    ),
    "agents/react-frontend.md": _agent_text(
        "react-frontend",
        "builds pages and components",
        "sonnet",
        "compress-output",
        "You build what people see. It works by keyboard, too.",
    ),
    "agents/reviewer.md": _agent_text(
        "reviewer",
        "reads a change and says what is wrong with it",
        "opus",
        "compress-review",
        "You review. You never edit.",
    ),
    "agents/docs-writer.md": _agent_text(
        "docs-writer",
        "writes documentation that can be tried out",
        "sonnet",
        "compress-output",
        "You write for someone in a hurry.",
    ),
}


@dataclass(frozen=True)
class DemoProject:
    """An invented project: where it is, what is in it, how it is tested."""

    cwd: str
    branch: str
    files: tuple[str, ...]
    names: tuple[str, ...]
    test: str


SHOP = DemoProject(
    "/home/dev/shop",
    "feature/checkout",
    (
        "src/checkout/session.ts",
        "src/checkout/tax.ts",
        "src/cart/price.ts",
        "src/payments/gateway.ts",
        "src/pages/Wishlist.tsx",
        "tests/checkout.spec.ts",
    ),
    ("cartTotal", "taxFor", "applyCoupon", "reserveStock", "chargeCard", "wishlistItem"),
    "npm test -- --run",
)
ATLAS = DemoProject(
    "/home/dev/atlas-api",
    "main",
    (
        "atlas/ingest/worker.py",
        "atlas/ingest/queue.py",
        "atlas/search/query.py",
        "atlas/search/index.py",
        "atlas/openapi/emit.py",
        "tests/test_search.py",
    ),
    ("claim_batch", "rank_hits", "emit_schema", "flush_index", "parse_filter", "retry_later"),
    "pytest -q",
)
NOTES = DemoProject(
    "/home/dev/notes-app",
    "offline-sync",
    (
        "app/sync/merge.ts",
        "app/sync/journal.ts",
        "app/editor/Editor.tsx",
        "app/search/tokenize.ts",
        "app/store/notes.ts",
        "app/sync/merge.test.ts",
    ),
    ("mergeNotes", "replayJournal", "tokenize", "openNote", "saveDraft", "resolveConflict"),
    "pnpm vitest run",
)
INFRA = DemoProject(
    "/home/dev/infra",
    "staging-terraform",
    (
        "envs/staging/main.tf",
        "envs/staging/network.tf",
        "modules/postgres/main.tf",
        "modules/postgres/rotation.tf",
        "scripts/drain.sh",
        "ci/plan.yml",
    ),
    ("subnet_ids", "rotation_days", "node_pool", "drain_node", "replica_count", "state_bucket"),
    "terraform validate",
)
BILLING = DemoProject(
    "/home/dev/legacy-billing",
    "master",
    (
        "cobol/INVOICE.CBL",
        "cobol/RATES.CPY",
        "bridge/ledger.java",
        "bridge/ExportJob.java",
        "jobs/nightly.jcl",
        "bridge/LedgerTest.java",
    ),
    ("invoiceTotal", "rateTable", "exportLedger", "roundHalfUp", "closeMonth", "postEntry"),
    "mvn -q test",
)

# One of these comes before a tool call; they fit any of the projects.
REMARKS = (
    "I'll look at how this is done today before I change anything.",
    "The call site passes the raw value, so the conversion belongs one level up.",
    "Two callers depend on the old order. I'll keep it and add the new one beside it.",
    "That explains the flake: both paths share one timer.",
    "Tests first, so that the change shows up as red and then green.",
    "The types are looser than the data. I'll tighten them where the value enters.",
    "One place left that still builds the query by hand.",
    "This helper is used in a single place; I'll inline it.",
    "Green. Next is the error path, which nothing covers yet.",
    "The log says the retry happens before the lock is released.",
    "I'd rather not touch the public signature. A small adapter does it.",
    "Checking what else imports this before I move it.",
)

# One of these ends a turn.
CLOSINGS = (
    "Done. The suite passes (148 tests, 3 new) and the public interface is unchanged.",
    "That's in. I left the old path behind a setting so that it can be taken back in one line.",
    "Finished: the slow case went from 1.9 s to 240 ms, mostly by asking the database once.",
    "All green. Two follow-ups are noted in the code where they belong; neither is urgent.",
)

SUMMARY_HEAD = (
    "This session is being continued from a previous conversation that ran out of context. "
    "The summary below covers the earlier portion of the conversation.\n\n"
    "<system-reminder>\n<tools-used-before-summary>{tools}</tools-used-before-summary>\n"
    "</system-reminder>\nSummary:\n"
)
SUMMARY_TAIL = (
    "\n\nThe full transcript of what came before is at: {transcript}\n"
    "Go on with the last task; there is no need to repeat this summary."
)
OLD_SUMMARY_HEAD = (
    "This session is being continued from a previous conversation that ran out of context. "
    "The summary below covers the earlier portion of the conversation.\n\n"
)

TERRAFORM_SUMMARY = """\
1. Primary request: move the staging cluster from hand-made resources to Terraform, no downtime.
2. State: backend is an encrypted bucket; `envs/staging` imports 41 of 46 resources.
3. Key files:
   - envs/staging/main.tf: node pools, now with `create_before_destroy`
   - envs/staging/network.tf: subnets imported, route tables still to come
   - modules/postgres/main.tf: new module, used by staging only
4. Decisions:
   - one state file per environment, none per service
   - node pools are replaced one at a time; scripts/drain.sh waits for the pods to leave
   - the database keeps its old name because the backups are keyed by it
5. Errors and fixes: the first plan wanted to replace the load balancer; `ignore_changes` on its
   generated name made the plan empty.
6. User feedback: "no surprises in prod, show me the plan before every apply".
7. Pending: import 5 route tables, then `terraform plan` must be empty twice in a row.
8. Next step: import `rt-public-a` and compare its routes with network.tf."""

SYNC_SUMMARY = """\
1. Primary request: make note sync conflict-free, so that two devices can edit one note offline.
2. Approach: every edit is an operation in a journal; merging replays both journals in one order.
3. Key files:
   - app/sync/journal.ts: append-only, one file per device, rotated at 2 MB
   - app/sync/merge.ts: `mergeNotes` is pure; 212 lines, no I/O
   - app/sync/merge.test.ts: 64 cases, 20 of them generated
4. Decisions:
   - Lamport clocks with the device id as the tie-break; wall clocks are only shown
   - a deleted paragraph wins over an edit inside it, and the edit is kept as a suggestion
   - the old sync stays readable for one release
5. Errors and fixes: a replayed move was applied twice; operations now carry their own id.
6. User feedback: "never lose a word someone typed".
7. Pending: the editor shows suggestions; journal rotation while a merge runs is untested.
8. Next step: write the test for rotation during a merge, then wire `resolveConflict`."""

COBOL_SUMMARY = """\
1. Primary request: explain the whole invoice run, from the COBOL export to the ledger.
2. Read so far: INVOICE.CBL (4,180 lines), RATES.CPY, nightly.jcl, bridge/ExportJob.java.
3. Findings:
   - amounts are packed decimals with two digits; the bridge reads them as doubles
   - the month closes on the last banking day, not on the last day
   - 14 rate codes are in the table, 9 are still in use
4. Decisions: none yet, this is a reading session.
5. Errors: the export of 1997 has no trailer record and stops the reader.
6. User feedback: "I need every rule in words an accountant understands".
7. Pending: the discount paragraphs 3100 to 3400 and the dunning letters.
8. Next step: read paragraphs 3100 to 3400."""

TAX_SUMMARY = """\
1. Primary request: replace the old tax table by the new tax API in checkout, behind a setting.
2. State: the client is written and cached for ten minutes; checkout calls it in two places.
3. Key files:
   - src/checkout/tax.ts: `taxFor` asks the API and falls back to the table
   - src/checkout/session.ts: one call per cart instead of one per line
   - tests/checkout.spec.ts: 38 cases, 6 of them for the fallback
4. Decisions:
   - money stays in whole cents everywhere; the API's decimals are parsed as text
   - a timeout of 800 ms, then the table, and a line in the log
   - refunds use the tax that was charged, never a new question
5. Errors and fixes: rounding per line and per cart differed by a cent; the cart decides now.
6. User feedback: "the customer must never see an error because of tax".
7. Pending: remove the table for countries that have been on the API for a month.
8. Next step: run the checkout against the sandbox and compare 500 old orders."""

QUERY_SUMMARY = """\
1. Primary request: cut the p95 of the search endpoint below 120 ms without changing its results.
2. State: p95 went from 410 ms to 164 ms on the replayed traffic of one day.
3. Key files: atlas/search/query.py, atlas/search/index.py, tests/test_search.py.
4. Decisions: filters are applied before ranking; the ranking itself is untouched.
5. Errors and fixes: an early version dropped hits without a date; they sort last now.
6. User feedback: "same results, in the same order, or it does not count".
7. Pending: the second query for facets can run beside the first.
8. Next step: measure `rank_hits` with the facet query moved out."""

OPENAPI_PLAN = """\
# Make the schema and the code agree

The schema says what callers rely on: where both disagree, the code follows it.

1. `atlas/openapi/emit.py`: write `nullable` where a column may be empty (14 fields).
2. `atlas/api/search.py`: answer 422 and not 400 where a filter is unknown.
3. `atlas/api/jobs.py`: the time of a job is UTC with an offset; three routes leave it out.
4. Add one test that compares every route with the schema, so that it stays so.

Left as it is: `GET /v1/export`, which nobody has called since spring.
"""


READ_LINE = '{number}\texport function {name}{number}(input) {{ return check("{name}", input); }}'
GREP_LINE = "{path}:{number}:  const value = {name}(input, options);"
TEST_LINE = "  ok {number} - {name} keeps what it was given ({millis} ms)"


def read_call(rng: Random, project: DemoProject, size: int) -> DemoToolCall:
    """Read a file of the project, about `size` characters of it."""
    path = f"{project.cwd}/{rng.choice(project.files)}"
    names = project.names
    count = max(4, size // 80)
    rows = [
        READ_LINE.format(number=number, name=names[number % len(names)])
        for number in range(1, count + 1)
    ]
    content = "\n".join(rows)
    result: DemoJson = {
        "type": "text",
        "file": {
            "filePath": path,
            "content": content,
            "numLines": count,
            "startLine": 1,
            "totalLines": count,
        },
    }
    return DemoToolCall("Read", {"file_path": path}, content, result)


def test_call(rng: Random, project: DemoProject, size: int) -> DemoToolCall:
    """Run the project's tests."""
    count = max(4, size // 60)
    rows = [
        TEST_LINE.format(number=number, name=rng.choice(project.names), millis=rng.randrange(2, 90))
        for number in range(1, count + 1)
    ]
    output = "\n".join([*rows, f"{count} passed in {rng.randrange(14, 97) / 10} s"])
    result: DemoJson = {
        "stdout": output,
        "stderr": "",
        "interrupted": False,
        "isImage": False,
        "noOutputExpected": False,
    }
    return DemoToolCall(
        "Bash", {"command": project.test, "description": "Run the tests"}, output, result
    )


def search_call(rng: Random, project: DemoProject, size: int) -> DemoToolCall:
    """Search the project for a name."""
    name = rng.choice(project.names)
    count = max(3, size // 90)
    rows = [
        GREP_LINE.format(path=rng.choice(project.files), number=rng.randrange(4, 400), name=name)
        for _ in range(count)
    ]
    output = "\n".join(rows)
    result: DemoJson = {
        "stdout": output,
        "stderr": "",
        "interrupted": False,
        "isImage": False,
        "noOutputExpected": False,
    }
    command = {"command": f"rg -n {name}", "description": f"Find the callers of {name}"}
    return DemoToolCall("Bash", command, output, result)


def edit_call(rng: Random, project: DemoProject, _size: int) -> DemoToolCall:
    """Change one line of a file."""
    path = f"{project.cwd}/{rng.choice(project.files)}"
    name = rng.choice(project.names)
    old, new = f"return {name}(input);", f"return {name}(input, {{ strict: true }});"
    result: DemoJson = {
        "filePath": path,
        "oldString": old,
        "newString": new,
        "originalFile": None,
        "structuredPatch": [
            {
                "oldStart": 40,
                "oldLines": 1,
                "newStart": 40,
                "newLines": 1,
                "lines": [f"-{old}", f"+{new}"],
            }
        ],
        "userModified": False,
        "replaceAll": False,
    }
    arguments = {"file_path": path, "old_string": old, "new_string": new, "replace_all": False}
    return DemoToolCall(
        "Edit", arguments, f"The file {path} has been updated successfully.", result
    )


CALL_MAKERS = (read_call, search_call, edit_call, test_call)


def make_tool_call(rng: Random, project: DemoProject, number: int, size: int) -> DemoToolCall:
    """Return the `number`th call of a believable round: read, search, change, test."""
    return CALL_MAKERS[number % len(CALL_MAKERS)](rng, project, size)
