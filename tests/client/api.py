"""The Messages API on loopback: the prompt carries the script of the answers."""

from __future__ import annotations

import itertools
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ctxtop.core.summaries.steering import KEEP_HEADING

from .counting import count_request
from .prompt_cache import Caches
from .script import Step, next_step, texts_of, usage_of
from .thoughts import Thoughts
from .validator import refusals

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

COMPACTING: Final = "Respond with TEXT ONLY"
"""Stands in the last message of a request that asks for a compaction's summary."""

SUMMARY: Final = (
    "<analysis>Everything was looked at.</analysis>\n"
    "<summary>\n1. Primary Request and Intent: the work goes on.\n2. Files: src/shop.py\n</summary>"
)

_WAITS: Final = re.compile(r"SUMMARY TAKES (\d+) S")
"""In the instructions for the summarizer: how long it takes."""

_FAILS: Final = "SUMMARY FAILS"

BROKEN: Final = (400, "The summary was not made.")

SEARCHING: Final = "Perform a web search for the query: "
"""Begins a request of the client's own tool for the web; what is found says what was asked."""

FORGET: Final = "forgetme"
"""Stands in what the scripted summary leaves out although it was asked to keep it."""

LOOK_S: Final = 0.05
"""Between two looks for the file that lets an answer go."""

OVERLOADED: Final = (529, "Overloaded")

_KINDS: Final = {400: "invalid_request_error", 429: "rate_limit_error", 529: "overloaded_error"}


class ScriptedApi:
    """The server, and all that it was asked and answered; it lives in a thread of its own."""

    def __init__(self) -> None:
        self.exchanges: list[Json] = []
        """One a request: number, path, headers, body, status, reply, what (answer, summary, probe,
        error, count, dropped, refused), and usage where the reply is a message. `refused` lists
        what made the request invalid, `unbound` the thinking that lost what it was bound to,
        `missing` the answers of an open turn that lost it, `written_again` how many tokens were
        lost from the prompt cache."""
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._given: set[str] = set()
        self._thoughts = Thoughts()
        self._caches = Caches()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        """Answer from now on."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def respond(self, path: str, headers: Json, body: Json) -> tuple[Step, Json]:
        """Answer one request and keep it: its step, and the exchange with the whole reply."""
        with self._lock:
            number = next(self._numbers)
            exchange: Json = {"number": number, "path": path, "headers": headers, "body": body}
            self.exchanges.append(exchange)
            step = self._answer(exchange)
        # Outside: another agent's request is not held up.
        time.sleep(step.wait_s)
        while step.held and not Path(step.held).exists():
            time.sleep(LOOK_S)
        return step, exchange

    def drop(self, exchange: Json) -> None:
        """Note that nobody waited for an answer: what it says was used, no client knows."""
        with self._lock:
            exchange["what"] = "dropped"
            exchange.pop("usage", None)

    def _answer(self, exchange: Json) -> Step:
        body = exchange["body"]
        exchange["refused"] = [*refusals(body), *self._thoughts.refusals(body)]
        exchange["unbound"] = [*self._thoughts.unbound(body)]
        exchange["missing"] = [*self._thoughts.missing(body)]
        if exchange["refused"]:
            return _error(exchange, 400, exchange["refused"][0], "refused")
        if exchange["path"].endswith("/count_tokens"):
            tokens = count_request(body)
            exchange |= {"what": "count", "status": 200, "reply": {"input_tokens": tokens}}
            return Step()
        step = self._step(body, exchange)
        if step.counted:
            step.input_tokens = count_request(body)
        if step.bound and exchange["unbound"]:
            step.error = 400, exchange["unbound"][0]
        if step.error:
            _error(exchange, *step.error, "error")
            return step
        message = _message(exchange["number"], step, str(body.get("model")))
        self._thoughts.hand_out(exchange["number"], body, message["content"])
        self._caches.answer(exchange, message)
        exchange |= {"status": 200, "reply": message, "usage": message["usage"]}
        return step

    def _step(self, body: Json, exchange: Json) -> Step:
        messages: list[Json] = body.get("messages", [])
        if messages and any(COMPACTING in text for text in texts_of(messages[-1])):
            exchange["what"] = "summary"
            asked = "\n".join(texts_of(messages[-1]))
            if _FAILS in asked:
                return Step(error=BROKEN)
            waits = _WAITS.search(asked)
            block = {"type": "text", "text": _summary(asked)}
            return Step([block], 30_000, 400, wait_s=float(waits[1]) if waits else 0.0)
        # `/model` asks the new model for one token, to see whether it may be used.
        exchange["what"] = "probe" if body.get("max_tokens") == 1 else "answer"
        step, text = next_step(messages)
        if step is None:
            asked = next(iter(texts_of(messages[-1])), "") if messages else ""
            _, _, found = asked.partition(SEARCHING)
            return Step([{"type": "text", "text": found or "Understood."}])
        if step.overloaded == body.get("model"):
            step.error = OVERLOADED
        if step.error and step.once:
            if text in self._given:
                step.error = None
            self._given.add(text)
        return step


def _error(exchange: Json, status: int, words: str, what: str) -> Step:
    error = {"type": _KINDS.get(status, "api_error"), "message": words}
    exchange |= {"what": what, "status": status, "reply": {"type": "error", "error": error}}
    return Step(error=(status, words))


def _summary(asked: str) -> str:
    """Keep what ctxtop asks to keep, but for what says that it is to be forgotten."""
    _, steered, after = asked.partition(KEEP_HEADING)
    asked_for = after.partition("REMINDER")[0].splitlines() if steered else []
    kept = [line for line in asked_for if line.startswith("- ") and FORGET not in line]
    return SUMMARY.replace("</summary>", "\n".join([*kept, "</summary>"]))


def _message(number: int, step: Step, model: str) -> Json:
    blocks = [dict(block) for block in step.blocks] or [{"type": "text", "text": "Done."}]
    for place, block in enumerate(blocks):
        if block["type"] == "tool_use":
            block["id"] = f"toolu_lab{number:06d}{place:02d}"
    uses = any(block["type"] == "tool_use" for block in blocks)
    return {
        "id": f"msg_lab{number:06d}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks,
        "stop_reason": "tool_use" if uses else "end_turn",
        "stop_sequence": None,
        "usage": usage_of(step),
    }


def _events(message: Json) -> Iterator[Json]:
    """Cut a message into the events that stream it, as the real API does."""
    # The output is a placeholder until the last event.
    begun = message["usage"] | {"output_tokens": 1}
    empty = {"content": [], "stop_reason": None, "usage": begun}
    yield {"type": "message_start", "message": message | empty}
    for index, block in enumerate(message["content"]):
        start, deltas = _cut(block)
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": message["usage"]}
    yield {"type": "message_stop"}


def _cut(block: Json) -> tuple[Json, list[Json]]:
    if block["type"] == "text":
        return block | {"text": ""}, [{"type": "text_delta", "text": block["text"]}]
    if block["type"] == "thinking":
        return block | {"thinking": "", "signature": ""}, [
            {"type": "thinking_delta", "thinking": block["thinking"]},
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    given = json.dumps(block["input"])
    return block | {"input": {}}, [{"type": "input_json_delta", "partial_json": given}]


def _handler(api: ScriptedApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(size) or b"{}")
            headers = {name.lower(): value for name, value in self.headers.items()}
            path = self.path.partition("?")[0]
            if path not in {"/v1/messages", "/v1/messages/count_tokens"}:
                self._send(404, "application/json", b'{"type":"error"}')
                return
            step, exchange = api.respond(path, headers, body)
            try:
                if exchange["status"] == 200 and body.get("stream"):
                    self._stream(exchange["reply"], step)
                else:
                    reply = json.dumps(exchange["reply"]).encode()
                    self._send(exchange["status"], "application/json", reply)
            except ConnectionError:
                api.drop(exchange)
                self.close_connection = True

        def _stream(self, message: Json, step: Step) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("request-id", "req_lab")
            for name, value in step.headers.items():
                self.send_header(name, value)
            # The length is not known before the end, as with the real API.
            self.send_header("connection", "close")
            self.end_headers()
            for event in _events(message):
                self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
                self.wfile.flush()
                time.sleep(step.pause_s)
            self.close_connection = True

        def do_GET(self) -> None:
            self._send(404, "application/json", b'{"type":"error"}')

        def do_HEAD(self) -> None:
            self._send(200, "application/json", b"")

        def _send(self, status: int, kind: str, data: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.send_header("request-id", "req_lab")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- its name
            """Stay silent: all that was asked is kept."""

    return Handler
