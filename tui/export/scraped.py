"""A place on this machine where Prometheus finds the metrics."""

from __future__ import annotations

import hmac
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Final

from ...core.loopback import LOOPBACK, own_hosts
from .as_prometheus import CONTENT_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable

PATH: Final = "/metrics"

PATIENCE_S: Final = 10.0
"""How long a client may take to say what it wants: Prometheus' own limit of a scrape."""

UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403


class MetricsServer(ThreadingHTTPServer):
    """Answers scrapes, one at a time, until it is shut down."""

    daemon_threads = True

    def __init__(
        self,
        port: int,
        token: str | None,
        make_text: Callable[[], str],
        report: Callable[[str], None],
    ) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self._token: Final = token
        self._make: Final = make_text
        self._tell: Final = report
        self._turn: Final = threading.Lock()

    @property
    def address(self) -> str:
        """Give the address that a scraper is told."""
        return f"http://{LOOPBACK}:{self.server_address[1]}{PATH}"

    def refusal_status(self, host: str, authorization: str) -> int | None:
        """Give the status of a refusal, or None."""
        if host not in own_hosts(self.server_address[1]):
            return FORBIDDEN
        if self._token is None:
            return None
        expected = f"Bearer {self._token}".encode()
        is_known = hmac.compare_digest(authorization.encode("utf-8", "replace"), expected)
        return None if is_known else UNAUTHORIZED

    def handle_error(self, request: object, client_address: object) -> None:
        """Say in one line what went wrong; a scraper that went away is nothing."""
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, (ConnectionError, TimeoutError)):
            self._tell(str(error))

    def metrics(self) -> str:
        """Make the text of one scrape; two at once wait for each other."""
        with self._turn:
            return self._make()


class _Handler(BaseHTTPRequestHandler):
    timeout = PATIENCE_S
    server_version = "ctxtop"
    sys_version = ""

    def do_GET(self) -> None:
        metrics = self.server
        if not isinstance(metrics, MetricsServer):
            raise TypeError(type(metrics))
        host, said = self.headers.get("Host", ""), self.headers.get("Authorization", "")
        refused = metrics.refusal_status(host, said)
        if refused is not None:
            self._answer(refused, "refused\n")
        elif self.path.partition("?")[0] != PATH:
            self._answer(404, f"look at {PATH}\n")
        else:
            try:
                text = metrics.metrics()
            except Exception as error:
                # The scraper shows what it is told; the server goes on.
                self._answer(500, f"{error}\n")
                raise
            self._answer(200, text)

    def _answer(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        if status == UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base's name
        """Say nothing of each scrape."""
