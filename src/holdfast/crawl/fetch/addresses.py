"""Which addresses may be asked.

A page on the web may lead anywhere: to the router, to a cloud machine's metadata, to a database on this host. So an
address that is not global is refused, unless the crawl was meant for such places.

Which ones are not is said by IANA's registries of special-purpose addresses (RFC 6890). The list here does not wait for
the interpreter's, which learns of them years later. Of IPv6 only 2000::/3 is given out for the public net at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from holdfast.errors import InvalidSetting

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
    """The address that a URL's host is already, without brackets; '' if it is a name."""
    if host.startswith("["):
        return host[1:-1]
    if not host or not host[-1].isdigit():
        return ""
    try:
        return str(IPv4Address(host))
    except ValueError:
        return ""


class AddressPolicy:
    """Says which addresses are refused; any thread."""

    def __init__(self, *, private: bool = False, refuse: Iterable[str] = (), networks: Iterable[str] = ()) -> None:
        """With `private` all are allowed, and so is always what lies in `networks`: where the crawl is at home.

        Of the others those in the networks `refuse` are refused, or if none are given, those that are not global."""
        self._refused = _parsed(refuse, "fetch.refuse")
        self._home = _parsed(networks, "private networks")
        self._private = private
        self.refusal = lru_cache(_ADDRESSES_CACHED)(self._refusal)

    def _refusal(self, address: str) -> str:
        """Why an address must not be asked; '' if it may."""
        if self._private:
            return ""
        try:
            parsed = _meant(ip_address(address.partition("%")[0]))
        except ValueError:
            return f"'{address}' is no address"
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
    """Whether it can be reached from everywhere, and is one of a single place."""
    if isinstance(address, IPv4Address):
        special = _lies_in(address, _SPECIAL_V4)
    else:
        special = address not in _PUBLIC_V6 or _lies_in(address, _SPECIAL_V6)
    return not special and address.is_global and not address.is_multicast


def _meant(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that an IPv6 address stands for, if it does: it would be reached in its place."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address.sixtofour is not None:
            return address.sixtofour
        if address in _NAT64 or int(address) >> 32 == 0:
            return IPv4Address(int(address) & 0xFFFFFFFF) if int(address) > 1 else address
    return address
