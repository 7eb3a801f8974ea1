"""The sockets of a server: for each worker its own on each port, so that the system shares connections out evenly.

The parent makes them all and keeps them: while a worker is replaced, its connections wait and none is refused.

Which names a request may be for.

A page elsewhere can point a name of its own at this machine, and then read answers as if they were its own (DNS
rebinding). So only names that are known to be ours are answered: those of the settings, and the one that the machine
has itself. A numeric address is no name: nobody can point it elsewhere, so it is always accepted, and so is `localhost`
with all names below it.
"""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from holdfast.config import ServeSettings
from holdfast.errors import Busy, Denied, HoldfastError, UsageError

BACKLOG = 2048
ANY = ("0.0.0.0", "::")
_ELSEWHERE = ("192.0.2.1", 9)  # an address for documents: it is only asked which way would lead there
_ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)  # of a name that has addresses of both families
_PORT_MAX = 65535

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
    """Both ports of a server."""

    controls: Port
    replay: Port

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        places = [each.getsockname()[0] for each in self.controls.sockets[0]]
        return all(ip_address(place.partition("%")[0]).is_loopback for place in places)

    def close(self) -> None:
        self.controls.close()
        self.replay.close()


def listen(settings: ServeSettings, workers: int) -> Listening:
    """Takes both ports. Raises Busy if one is taken, Denied if it is not for us, UsageError for a host that is none."""
    places = _places(settings.host)
    controls = _open_port(places, settings.port, workers, "--port")
    try:
        wanted = settings.replay_port or (controls.number + 1 if settings.port else 0)
        if wanted == controls.number:
            raise UsageError(f"port {wanted} cannot be both: archived pages need a port of their own")
        return Listening(controls, _open_port(places, wanted, workers, "--replay-port"))
    except BaseException:
        controls.close()
        raise


def shown_host(host: str) -> str:
    """How others name this machine in an address, if it listens on `host`."""
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
    if number > _PORT_MAX:
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
        # Sockets that share a port would also share it with those of a server that runs already: this one does not.
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
        return Busy(f"{where} is taken by another program: stop that, or choose another port with {option}")
    if error.errno in (errno.EACCES, errno.EPERM):
        return Denied(f"not permitted to listen on {where}: choose one above 1023 with {option}")
    return UsageError(f"cannot listen on {where}: {error.strerror}")


_NUMERIC = re.compile(rb"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[[0-9a-f:.]{2,45}\]")
_PORT = re.compile(rb":\d{0,5}$")
_KEPT_MAX = 1000  # of names that were asked for; a client can make up any number of them


def name_in(host: bytes) -> bytes:
    """The value of a `Host` header without its port, as names are compared."""
    return _PORT.sub(b"", host.lower()).rstrip(b".")


class Hosts:
    """The names of this server, without ports."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(name.lower().rstrip(".").encode() for name in names if name)
        self._known: dict[bytes, bool] = {}

    @classmethod
    def of(cls, settings: ServeSettings, *origins: str) -> Hosts:
        named = [urlsplit(origin).hostname or "" for origin in origins]
        return cls([settings.host, socket.gethostname(), *settings.hosts, *named])

    def accepts(self, host: bytes) -> bool:
        """Whether the value of a `Host` header names us."""
        known = self._known.get(host)
        if known is None:
            known = self._judge(host)
            if len(self._known) < _KEPT_MAX:
                self._known[host] = known
        return known

    def _judge(self, host: bytes) -> bool:
        name = name_in(host)
        if name == b"localhost" or name.endswith(b".localhost"):
            return True
        return name in self._names or _NUMERIC.fullmatch(name) is not None
