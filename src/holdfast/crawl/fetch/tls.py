"""What was agreed on for a secure connection, and whether the server is who it says.

libcurl tells what was agreed on only in the lines that it writes for people, and only when the connection is made; so
it is remembered by connection, for the fetches that use it again. A certificate is always checked. Where it fails and
the crawl does not mind, the server is distrusted: asked again without a check, and its certificate's fault noted.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_AGREED = re.compile(rb"SSL connection using (TLS|SSL)v?([0-9.]+) / ([^ /\n]+)")
_PREFIX = re.compile(r"^SSL[^:']*: ")
_REMEMBERED_MAX = 8192
_VALID = "valid"
_FAULT_CHARACTERS_MAX = 200


class Agreed(NamedTuple):
    """Of one connection."""

    protocols: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()


def agreed(line: bytes, fault: str) -> Agreed:
    """What libcurl's line about a handshake says, with the fault of the server's certificate, if it has one."""
    found = _AGREED.search(line)
    if found is None:
        return Agreed()
    facts = (("WARC-Cipher-Suite", found[3].decode("latin-1")), ("Holdfast-Certificate", fault or _VALID))
    return Agreed((f"{found[1].decode().lower()}/{found[2].decode()}",), facts)


class Agreements:
    """What is known of secure servers. Bounded: the oldest is forgotten first."""

    def __init__(self) -> None:
        self._known: dict[int | str, Agreed] = {}
        self._faults: dict[str, str] = {}

    def of(self, connection: int, origin: str) -> Agreed:
        """By connection; by origin for a fetch that shares a connection which was just being made."""
        return self._known.get(connection) or self._known.get(origin) or Agreed()

    def add(self, connection: int, origin: str, what: Agreed) -> None:
        for key in (connection, origin):
            self._known.pop(key, None)
            self._known[key] = what
        while len(self._known) > _REMEMBERED_MAX:
            del self._known[next(iter(self._known))]

    def fault(self, origin: str) -> str:
        """Why a server's certificate is not checked any longer; '' if it is."""
        return self._faults.get(origin, "")

    def distrust(self, origin: str, problem: str) -> None:
        """Takes libcurl's word on why a certificate failed."""
        fault = " ".join(_PREFIX.sub("", problem).split())
        self._faults[origin] = fault[:_FAULT_CHARACTERS_MAX] or "not valid"
        if len(self._faults) > _REMEMBERED_MAX:
            del self._faults[next(iter(self._faults))]
