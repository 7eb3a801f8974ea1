"""One request and its answer, between the protocol and the application.

It differs from uvicorn's in what it tells: how many bytes went out, an error of ours by a log line and a 500, and a
client that went away by an exception in `send`, as ASGI 2.4 has it: an answer that nobody reads is not made to its end.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.protocols.utils import ClientDisconnected

log = logging.getLogger("holdfast.replay")

App = Callable[[Any, Any, Any], Awaitable[None]]
_PROBLEM = b"The server failed to answer; its log tells why.\n"


class Cycle(RequestResponseCycle):
    """Lives on the event loop."""

    status = 0  # of the answer; 0: none was begun
    sent = 0  # bytes of its body
    failed = False
    begun = 0.0

    async def run_asgi(self, app: App) -> None:
        try:
            await app(self.scope, self.receive, self.send)
        except ClientDisconnected:
            pass
        except Exception as error:
            await self._fail(error)
        else:
            if not self.response_complete and not self.disconnected:
                await self._fail(RuntimeError("the application did not finish its answer"))
        finally:
            self.on_response = _nothing

    async def _fail(self, error: Exception) -> None:
        if self.disconnected:  # and the application stumbled over it
            return
        self.failed = True
        log.error("cannot answer %s %r", self.scope["method"], self.scope["raw_path"][:200], exc_info=error)
        if self.status:
            self.transport.close()  # before the end that was announced: the client can tell
            return
        self.response_started, self.chunked_encoding = False, None  # of a head that could not be sent
        headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(_PROBLEM))]
        await self.send(
            {"type": "http.response.start", "status": 500, "headers": [*headers, (b"connection", b"close")]}
        )
        await self.send({"type": "http.response.body", "body": _PROBLEM, "more_body": False})

    async def send(self, message: Any) -> None:
        if self.disconnected:
            raise ClientDisconnected
        await super().send(message)
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif self.scope["method"] != "HEAD":
            self.sent += len(message.get("body", b""))


def _nothing() -> None:
    pass
