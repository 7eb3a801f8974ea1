"""The sockets of a server: one per worker and port, so that the kernel distributes connections evenly.

The parent owns them all: while a worker is replaced, its new connections wait, and none is refused.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from ipaddress import ip_address

from holdfast.config import ServeSettings
from holdfast.config.address import PORT_MAX
from holdfast.errors import Busy, Denied, HoldfastError, UsageError

BACKLOG = 2048
ANY = ("0.0.0.0", "::")
_ELSEWHERE = ("192.0.2.1", 9)  # reserved for documentation: only the route to it is looked up
_ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)  # of a name that has addresses of both families

Place = tuple[socket.AddressFamily, str]


@dataclass(frozen=True, slots=True)
class Port:
    """One port, listening: `sockets` has an element for each worker, of a socket for each address."""

    number: int
    sockets: tuple[tuple[socket.socket, ...], ...]

    def close(self) -> None:
        for each in self.sockets:
            for listener in each:
                listener.close()


@dataclass(frozen=True, slots=True)
class Listening:
    controls: Port
    replay: Port
    peers: Port | None = None  # in a cluster: for requests that other nodes forward

    @property
    def is_local(self) -> bool:
        places = [each.getsockname()[0] for each in self.controls.sockets[0]]
        return all(ip_address(place.partition("%")[0]).is_loopback for place in places)

    def close(self) -> None:
        for port in (self.controls, self.replay, self.peers):
            if port is not None:
                port.close()


def listen(settings: ServeSettings, workers: int, peer: tuple[str, int] | None = None) -> Listening:
    """Binds both ports, and `peer`, a host and port for other nodes.

    Raises Busy if one is in use, Denied if it is not permitted, UsageError for an invalid host.
    """
    places = _places(settings.host)
    with ExitStack() as opened:
        controls = opened.enter_context(closing(_open_port(places, settings.port, workers, "--port")))
        wanted = settings.replay_port or (controls.number + 1 if settings.port else 0)
        if wanted == controls.number:
            raise UsageError(f"port {wanted} cannot be used for both: archived pages need a separate port")
        replay = opened.enter_context(closing(_open_port(places, wanted, workers, "--replay-port")))
        peers = None if peer is None else _open_port(_places(peer[0]), peer[1], workers, "--peer-port")
        opened.pop_all()
        return Listening(controls, replay, peers)


def shown_host(host: str) -> str:
    """The name of this machine in addresses, if it listens on `host`."""
    if host in ANY:
        host = _outward()
    return f"[{host}]" if ":" in host else host


def _outward() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(_ELSEWHERE)  # sends nothing
        return str(probe.getsockname()[0])
    return "127.0.0.1"


def _places(host: str) -> list[Place]:
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"cannot listen on host {host!r}: {error}") from None
    return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))


def _open_port(places: Sequence[Place], number: int, workers: int, option: str) -> Port:
    if number > PORT_MAX:
        raise UsageError(f"port {number} does not exist: choose one with {option}")
    rows: list[list[socket.socket]] = [[] for _ in range(workers)]
    try:
        for place in places:
            number = _open_place(place, number, rows, option)
    except BaseException:
        Port(number, tuple(map(tuple, rows))).close()
        raise
    if not rows[0]:
        raise UsageError(f"cannot listen on {places[0][1]!r}: this machine has no such address")
    return Port(number, tuple(map(tuple, rows)))


def _open_place(place: Place, number: int, rows: list[list[socket.socket]], option: str) -> int:
    try:
        # Sockets with SO_REUSEPORT would silently share the port with a running server; this one would not.
        with _bound(place, number, shared=False) as trial:
            number = trial.getsockname()[1]
        for row in rows:
            row.append(_bound(place, number, shared=True))
            row[-1].listen(BACKLOG)
    except OSError as error:
        if error.errno in _ABSENT:
            return number
        raise _translated(error, place, number, option) from None
    return number


def _bound(place: Place, number: int, *, shared: bool) -> socket.socket:
    family, address = place
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(shared))
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(address != "::"))
        made.bind((address, number))
    except BaseException:
        made.close()
        raise
    return made


def _translated(error: OSError, place: Place, number: int, option: str) -> HoldfastError:
    where = f"port {number} of {place[1]}"
    if error.errno == errno.EADDRINUSE:
        return Busy(f"{where} is taken by another program: stop it, or choose another port with {option}")
    if error.errno in (errno.EACCES, errno.EPERM):
        return Denied(f"not permitted to listen on {where}: choose one above 1023 with {option}")
    return UsageError(f"cannot listen on {where}: {error.strerror}")
