"""Names to addresses: overrides, then what is remembered, then the system's resolver in a few threads.

Answers are remembered for ten minutes, failures for one. At most `NAMES_MAX` names are remembered; the oldest go first.
All methods belong to the event loop's thread.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from holdfast.crawl.fetch.addresses import literal

FOUND_S = 600.0
FAILED_S = 60.0
NAMES_MAX = 65_536
_THREADS = 16
_ADDRESSES_MAX = 4  # of one name, that are tried


class ResolvedName(NamedTuple):
    """What is known of a name."""

    addresses: tuple[str, ...] = ()  # the best first
    failure: str = ""  # why there are none
    until: float = float("inf")


Lookup = Callable[[str], Iterable[str]]


def system_lookup(name: str) -> list[str]:
    """All addresses of a name, as the system orders them. Raises OSError."""
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


class Resolver:
    """Looks names up, each only once at a time."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        overrides: Iterable[tuple[str, str]] = (),
        lookup: Lookup = system_lookup,
    ) -> None:
        self._loop = loop
        self._exact = {host.lower(): address.strip("[]") for host, address in overrides if not host.startswith("*")}
        self._suffixes = [(host[1:].lower(), address.strip("[]")) for host, address in overrides if host[:2] == "*."]
        if any(host == "*" for host, _ in overrides):
            self._suffixes.append(("", next(address.strip("[]") for host, address in overrides if host == "*")))
        self._lookup = lookup
        self._known: dict[str, ResolvedName] = {}
        self._asked: dict[str, list[Callable[[ResolvedName], None]]] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="dns")

    def known(self, name: str) -> ResolvedName | None:
        """The answer, if it needs no asking."""
        answer = self._known.get(name)
        if answer is not None:
            if answer.until > self._loop.time():
                return answer
            del self._known[name]
        fixed = self._exact.get(name) or self._by_suffix(name) or literal(name)
        return self._remember(name, ResolvedName((fixed,))) if fixed else None

    def find(self, name: str, tell: Callable[[ResolvedName], None]) -> None:
        """Calls `tell` with the answer, at once if it is known."""
        answer = self.known(name)
        if answer is not None:
            tell(answer)
        elif name in self._asked:
            self._asked[name].append(tell)
        else:
            self._asked[name] = [tell]
            future = self._loop.run_in_executor(self._threads, _ask, self._lookup, name)
            future.add_done_callback(lambda done: self._answered(name, done))

    def prefer(self, name: str, address: str) -> None:
        """Puts an address first that answered where another did not."""
        answer = self._known.get(name)
        if answer is not None and address in answer.addresses and answer.addresses[0] != address:
            rest = tuple(other for other in answer.addresses if other != address)
            self._known[name] = answer._replace(addresses=(address, *rest))

    def close(self) -> None:
        """Forgets who asked; threads that still wait for the system end by themselves."""
        self._asked.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _by_suffix(self, name: str) -> str:
        for suffix, address in self._suffixes:
            if name.endswith(suffix):
                return address
        return ""

    def _remember(self, name: str, answer: ResolvedName) -> ResolvedName:
        self._known.pop(name, None)
        while len(self._known) >= NAMES_MAX:
            del self._known[next(iter(self._known))]
        self._known[name] = answer
        return answer

    def _answered(self, name: str, done: asyncio.Future[tuple[tuple[str, ...], str]]) -> None:
        waiting = self._asked.pop(name, [])
        if done.cancelled():
            return
        addresses, failure = done.result()
        until = self._loop.time() + (FOUND_S if addresses else FAILED_S)
        answer = self._remember(name, ResolvedName(addresses, failure, until))
        for tell in waiting:
            tell(answer)


def _ask(lookup: Lookup, name: str) -> tuple[tuple[str, ...], str]:
    """In a thread: the addresses, or why there are none."""
    try:
        found = tuple(dict.fromkeys(lookup(name)))[:_ADDRESSES_MAX]
    except (OSError, UnicodeError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        return (), f"cannot find '{name}': {reason}"
    return (found, "") if found else ((), f"cannot find '{name}': it has no address")
