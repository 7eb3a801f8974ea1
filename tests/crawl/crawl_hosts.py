"""A web of very many small hosts, in a process of its own: for what only shows where there are many."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hostile_web import LogEntry
from hostile_web.exchange import Answer, Request, plain
from hostile_web.server import Server, serving

_ADDRESSES = 100
_HTML = "text/html; charset=utf-8"


@dataclass(frozen=True)
class ManyHosts:
    """A plan and a world of the test web's server: host `h<n>.a<address>.test` has pages `/0`, `/1`, ... in a chain.

    Each page links to the next two of its host, so that a host never has much waiting and is never done soon.
    """

    hosts: int
    pages: int  # of each host
    words: int = 200  # of each page
    latency_s: float = 0.0

    tls = False
    port = 0

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(f"127.0.3.{1 + number}" for number in range(min(_ADDRESSES, self.hosts)))

    def built(self, port: int, tls_port: int) -> ManyHosts:
        return self

    def change(self, share: float) -> None:
        """It never changes."""

    def answer(self, request: Request) -> Answer:
        number = request.target[1:]
        if not number.isdigit() or int(number) >= self.pages:
            return plain(404, "not here")
        ways = "".join(
            f'<a href="/{int(number) + step}">on</a>\n' for step in (1, 2) if int(number) + step < self.pages
        )
        text = " ".join(f"w{(int(number) * 7919 + word * 31) % 10007}" for word in range(self.words))
        return plain(200, f"<!doctype html><title>{request.host}</title>{ways}<p>{text}\n", kind=_HTML)

    @property
    def names(self) -> list[str]:
        count = len(self.addresses)
        return [f"h{number}.a{number % count}.test" for number in range(self.hosts)]

    @property
    def resolve(self) -> tuple[tuple[str, str], ...]:
        return tuple((f"*.a{number}.test", address) for number, address in enumerate(self.addresses))

    @contextmanager
    def serving(self) -> Iterator[ServedHosts]:
        with serving(self) as server:
            yield ServedHosts(self, server)


@dataclass(frozen=True)
class ServedHosts:
    """The web while it is served."""

    web: ManyHosts
    server: Server

    @property
    def seeds(self) -> tuple[str, ...]:
        return tuple(f"http://{name}:{self.server.port}/0" for name in self.web.names)

    @property
    def resolve(self) -> tuple[tuple[str, str], ...]:
        return self.web.resolve

    def url(self, entry: LogEntry) -> str:
        return f"http://{entry.host}:{self.server.port}{entry.target}"

    def log(self) -> list[LogEntry]:
        return self.server.log()

    def clear_log(self) -> None:
        self.server.clear_log()
