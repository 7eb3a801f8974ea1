"""Which addresses may be asked.

A page on the web may lead anywhere: to the router, to a cloud machine's metadata, to a database on this host. So an
address that is not global is refused, unless the crawl was meant for such places.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from holdfast.errors import InvalidSetting

_NAT64 = ip_network("64:ff9b::/96")
_ADDRESSES_CACHED = 16_384


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

    def __init__(self, *, private: bool = False, refuse: Iterable[str] = ()) -> None:
        """With `private` all are allowed; otherwise those in the networks `refuse`, or if none are given, the others
        than global ones, are refused."""
        try:
            self._networks = tuple(ip_network(network, strict=False) for network in refuse)
        except ValueError as problem:
            raise InvalidSetting(f"fetch.refuse: {problem}; give networks such as '10.0.0.0/8'") from None
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
        if self._networks:
            refused = any(parsed.version == network.version and parsed in network for network in self._networks)
        else:
            refused = not parsed.is_global or parsed.is_multicast
        return f"{address} is not a public address; allow it with fetch.private" if refused else ""


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
