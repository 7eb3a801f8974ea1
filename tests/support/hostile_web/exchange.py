"""What goes in and out of the server: a request, its answer, and the line that the server's log keeps of both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import NamedTuple, Protocol

Fields = tuple[tuple[str, str], ...]


class Request(NamedTuple):
    """As it arrived; header names in lower case."""

    host: str  # lower case, without port; empty if there was none
    address: str  # of ours, where the client connected
    method: str
    target: str
    headers: Fields

    def header(self, name: str) -> str:
        """The first value of the field `name` (lower case), or the empty string."""
        return next((value for field, value in self.headers if field == name), "")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server sends. With `raw` the bytes are all there is; otherwise status line and fields are put before."""

    status: int = 200
    headers: Fields = ()
    body: bytes = b""
    stream: Callable[[], AsyncIterator[bytes]] | None = None  # sent after `body`; the connection ends with it
    raw: bool = False
    chunked: bool = False
    close: bool = False  # the connection, after the answer
    reset: bool = False  # the connection, rudely
    pause_until: float = 0.0  # seconds since the epoch; what a Retry-After among the fields means

    def head(self) -> bytes:
        """Status line and fields with the blank line."""
        fields = [
            f"HTTP/1.1 {self.status} {_phrase(self.status)}",
            *(f"{name}: {value}" for name, value in self.headers),
        ]
        if self.chunked:
            fields.append("Transfer-Encoding: chunked")
        elif self.stream is None and self.status != 304:
            fields.append(f"Content-Length: {len(self.body)}")
        if self.close or self.stream is not None:
            fields.append("Connection: close")
        return ("\r\n".join(fields) + "\r\n\r\n").encode("latin-1")


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One request as the server saw it. Times are seconds since the epoch from a clock that is never set back."""

    connection: int
    received: float  # when the head of the request was there
    answered: float  # just before the last bytes were sent, or when the client had gone away
    host: str
    address: str
    method: str
    target: str
    headers: Fields
    status: int  # 0: what was sent is no HTTP
    sent: int  # bytes, with the head
    pause_until: float = 0.0  # the end of the pause that a Retry-After asked for

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


class World(Protocol):
    """All hosts of one server. Called from the server's loop only."""

    latency_s: float  # that every answer takes

    def answer(self, request: Request) -> Answer: ...

    def change(self, share: float) -> None:
        """Changes that share of the pages."""


class Plan(Protocol):
    """What a server is started with; goes to another process, so it is small and can be pickled."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """Loopback addresses to listen on."""

    @property
    def tls(self) -> bool:
        """Whether a second port speaks TLS."""

    @property
    def port(self) -> int:
        """The port to listen on; 0: one that is free on all addresses."""

    def built(self, port: int, tls_port: int) -> World:
        """The hosts; `tls_port` is 0 where there is no TLS."""


def plain(status: int, text: str, *fields: tuple[str, str], kind: str = "text/plain; charset=utf-8") -> Answer:
    """A short answer."""
    return Answer(status, (("Content-Type", kind), *fields), text.encode())
