"""Which names a request may be for.

A page elsewhere can point a name of its own at this machine, and then read answers as if they were its own (DNS
rebinding). So only names that are known to be ours are answered: those of the settings, and the one that the machine
has itself. A numeric address is no name: nobody can point it elsewhere, so it is always accepted, and so is `localhost`
with all names below it.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from holdfast.config import ServeSettings

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
