"""Addresses: DNS resolution, and the policy on addresses that a crawl may connect to.

A page may link anywhere: to the router, to a cloud machine's metadata, to a database on this host. So an
address that is not global is refused, unless the crawl allows it.

IANA's registries of special-purpose addresses (RFC 6890) say which ones are not. The list here does not wait for
the interpreter's, which lags by years. Of IPv6, only 2000::/3 is allocated for the public internet.

Names are looked up in overrides, then in the cache, then by the system's resolver in a few threads. Results are
cached for ten minutes, failures for one; at most `NAMES_MAX` names, the oldest evicted first.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, NamedTuple

from holdfast.errors import InvalidSetting

if TYPE_CHECKING:
    import asyncio

_NAT64 = ip_network("64:ff9b::/96")
_PUBLIC_V6 = IPv6Network("2000::/3")
_SPECIAL_V4 = tuple(
    map(
        IPv4Network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
            "192.0.0.0/24",  # of protocols; the two in it that can be reached from everywhere are no places of pages
            *("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"),  # for examples
            "192.88.99.0/24",  # relays of 6to4
            *("192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4"),
        ),
    )
)
_SPECIAL_V6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # of protocols: Teredo, which wraps an IPv4 address, benchmarks, hashes
            *("2001:db8::/32", "3fff::/20"),  # for examples
        ),
    )
)
_ADDRESSES_CACHED = 16_384

Network = IPv4Network | IPv6Network


def literal(host: str) -> str:
    """The IP address of a URL's host, without brackets; '' if it is a name."""
    if host.startswith("["):
        return host[1:-1]
    if not host or not host[-1].isdigit():
        return ""
    try:
        return str(IPv4Address(host))
    except ValueError:
        return ""


class AddressPolicy:
    """Says which addresses are refused. Thread-safe."""

    def __init__(self, *, private: bool = False, refuse: Iterable[str] = (), networks: Iterable[str] = ()) -> None:
        """With `private`, all addresses are allowed; those in `networks`, the crawl's own, always are.

        Of the others those in the networks `refuse` are refused, or if none are given, those that are not global."""
        self._refused = _parsed(refuse, "fetch.refuse")
        self._home = _parsed(networks, "private networks")
        self._private = private
        self.refusal = lru_cache(_ADDRESSES_CACHED)(self._refusal)

    def _refusal(self, address: str) -> str:
        """Why an address is refused; '' if it is allowed."""
        if self._private:
            return ""
        try:
            parsed = _meant(ip_address(address.partition("%")[0]))
        except ValueError:
            return f"'{address}' is not an address"
        if _lies_in(parsed, self._home):
            return ""
        refused = _lies_in(parsed, self._refused) if self._refused else not _is_public(parsed)
        return f"{address} is not a public address; allow it with fetch.private" if refused else ""


def _parsed(networks: Iterable[str], setting: str) -> tuple[Network, ...]:
    try:
        return tuple(ip_network(network, strict=False) for network in networks)
    except ValueError as problem:
        raise InvalidSetting(f"{setting}: {problem}; give networks such as '10.0.0.0/8'") from None


def _lies_in(address: IPv4Address | IPv6Address, networks: tuple[Network, ...]) -> bool:
    return any(address.version == network.version and address in network for network in networks)


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether it is globally reachable unicast."""
    if isinstance(address, IPv4Address):
        special = _lies_in(address, _SPECIAL_V4)
    else:
        special = address not in _PUBLIC_V6 or _lies_in(address, _SPECIAL_V6)
    return not special and address.is_global and not address.is_multicast


def _meant(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address embedded in an IPv6 address, if any: it is what would be reached."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address.sixtofour is not None:
            return address.sixtofour
        if address in _NAT64 or int(address) >> 32 == 0:
            return IPv4Address(int(address) & 0xFFFFFFFF) if int(address) > 1 else address
    return address


FOUND_S = 600.0
FAILED_S = 60.0
NAMES_MAX = 65_536
_THREADS = 16
ADDRESSES_MAX = 4  # of one name, tried in turn


class ResolvedName(NamedTuple):
    """The result for a name."""

    addresses: tuple[str, ...] = ()  # best first
    failure: str = ""  # why there are none
    until: float = float("inf")


Lookup = Callable[[str], Iterable[str]]


def system_lookup(name: str) -> list[str]:
    """All addresses of a name, in the system's order. Raises OSError."""
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


class FixedAddresses:
    """Names whose address needs no lookup: addresses themselves, and overrides: `name`, `*.domain` or `*`."""

    def __init__(self, overrides: Iterable[tuple[str, str]]) -> None:
        pairs = [(host.lower(), address.strip("[]")) for host, address in overrides]
        self._exact = {host: address for host, address in pairs if not host.startswith("*")}
        self._suffixes = [(host[1:], address) for host, address in pairs if host.startswith("*.")]
        self._suffixes += [("", address) for host, address in pairs if host == "*"]

    def get(self, name: str) -> str:
        """The address; empty if the name must be looked up."""
        matching = (address for suffix, address in self._suffixes if name.endswith(suffix))
        return self._exact.get(name) or next(matching, "") or literal(name)


class Resolver:
    """Looks names up, each once at a time. For the event loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        overrides: Iterable[tuple[str, str]] = (),
        lookup: Lookup = system_lookup,
    ) -> None:
        self._loop = loop
        self._fixed = FixedAddresses(overrides)
        self._lookup = lookup
        self._known: dict[str, ResolvedName] = {}
        self._asked: dict[str, list[Callable[[ResolvedName], None]]] = {}
        from concurrent.futures import ThreadPoolExecutor

        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="dns")

    def known(self, name: str) -> ResolvedName | None:
        """The result, if it is known without a lookup."""
        answer = self._known.get(name)
        if answer is not None:
            if answer.until > self._loop.time():
                return answer
            del self._known[name]
        fixed = self._fixed.get(name)
        return self._remember(name, ResolvedName((fixed,))) if fixed else None

    def find(self, name: str, tell: Callable[[ResolvedName], None]) -> None:
        """Calls `tell` with the result, at once if it is known."""
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
        """Prefers an address that responded where another did not."""
        answer = self._known.get(name)
        if answer is not None and address in answer.addresses and answer.addresses[0] != address:
            rest = tuple(other for other in answer.addresses if other != address)
            self._known[name] = answer._replace(addresses=(address, *rest))

    def close(self) -> None:
        """Drops pending callbacks; threads that still wait for the system end by themselves."""
        self._asked.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)

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
        found = tuple(dict.fromkeys(lookup(name)))[:ADDRESSES_MAX]
    except (OSError, UnicodeError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        return (), f"cannot find '{name}': {reason}"
    return (found, "") if found else ((), f"cannot find '{name}': it has no address")
