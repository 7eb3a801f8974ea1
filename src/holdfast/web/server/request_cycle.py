"""One request and its answer, between the protocol and the application.

It differs from uvicorn's in what it tells: how many bytes went out, an error of ours by a log line and a 500, and a
client that went away by an exception in `send`, as ASGI 2.4 has it: an answer that nobody reads is not made to its end.

Most answers are there as a whole before the first byte is sent. An application may send such a one in one message,
which becomes one write: an extension of ASGI, named WHOLE in the scope's extensions.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle
from uvicorn.protocols.utils import ClientDisconnected

log = logging.getLogger("holdfast.web")

WHOLE = "holdfast.response.whole"  # with status, headers and body, as the two messages have them
_BODILESS = frozenset((204, 304))  # by their status alone
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
        if message["type"] == WHOLE:
            await self._send_whole(message["status"], message["headers"], message["body"])
            return
        await super().send(message)
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif self.scope["method"] != "HEAD":
            self.sent += len(message.get("body", b""))

    async def _send_whole(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        if self.flow.write_paused:
            await self.flow.drain()
        assert not self.response_started, "an answer is sent once"
        lines = [b"%b: %b" % each for each in (*self.default_headers, *headers)]
        if not self.keep_alive:
            lines.append(b"connection: close")
        if status not in _BODILESS and not any(name == b"content-length" for name, _ in headers):
            lines.append(b"content-length: %d" % len(body))
        head = b"\r\n".join(lines)
        if head.count(b"\n") != len(lines) - 1 or head.count(b"\r") != len(lines) - 1 or b"\0" in head:
            raise ValueError("a header of an answer has a line break or a zero byte in it")
        self.response_started, self.response_complete, self.waiting_for_100_continue = True, True, False
        self.status = status
        if self.scope["method"] == "HEAD":
            body = b""
        self.sent = len(body)
        self.transport.write(b"%b%b\r\n\r\n%b" % (STATUS_LINE[status], head, body))
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()


def _nothing() -> None:
    pass
