"""Who may see the dashboard in a browser: whoever holds its address, on this machine."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import web

from ...core.loopback import LOOPBACK, own_hosts

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler, Middleware

TOKEN_BYTES: Final = 24
"""192 bits: nobody guesses them, and the address still fits a line."""

_POLICY: Final = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline';"
    " font-src 'self'; img-src 'self' data:; connect-src 'self' {sockets};"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Nothing from elsewhere is loaded, and nothing is told to anybody."""


class Guard(msgspec.Struct, frozen=True):
    """The port that is listened to, and the secret part of the address."""

    port: int
    token: str

    @property
    def origin(self) -> str:
        """Give the start of every address of ours."""
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def address(self) -> str:
        """Give the address that a person opens."""
        return f"{self.origin}/{self.token}/"

    @property
    def middleware(self) -> Middleware:
        """Let in who knows the token and came here by this machine's own name."""

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            if not self.allows(request.host, request.headers.get("Origin"), request.path):
                raise web.HTTPNotFound(text="not found\n", headers=self._headers)
            try:
                response = await handler(request)
            except web.HTTPException as refused:
                refused.headers.update(self._headers)
                raise
            if not response.prepared:
                response.headers.update(self._headers)
            return response

        return check

    def allows(self, host: str, origin: str | None, path: str) -> bool:
        """Say whether a request is of the person at this machine.

        A page of another site may open a socket to here, and names itself.
        """
        hosts = own_hosts(self.port)
        token = path.split("/", 2)[1] if path.startswith("/") else ""
        return (
            host in hosts
            and (origin is None or origin in {f"http://{each}" for each in hosts})
            and secrets.compare_digest(token.encode(), self.token.encode())
        )

    @property
    def _headers(self) -> dict[str, str]:
        sockets = " ".join(f"ws://{host}" for host in own_hosts(self.port))
        return {
            "Content-Security-Policy": _POLICY.format(sockets=sockets),
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
        }


def new_token() -> str:
    """Make a token for one run."""
    return secrets.token_urlsafe(TOKEN_BYTES)
