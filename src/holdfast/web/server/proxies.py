"""The address of a client behind a proxy.

A proxy appends the address that it was reached from to `X-Forwarded-For`. A client can send such a header itself, so it
counts only on connections from the addresses in `serve.proxies`, and only from its end to the first address that is not
a proxy of ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from holdfast.errors import InvalidSetting

_HEADER = b"x-forwarded-for"
_HOPS_MAX = 32
Place = tuple[str, int]


class Proxies:
    """The proxies that a server trusts."""

    def __init__(self, addresses: Iterable[str]) -> None:
        """Addresses or networks, such as '127.0.0.1' or '10.0.0.0/8'. Raises InvalidSetting."""
        self._networks = [_network(each) for each in addresses]

    def client(self, peer: Place | None, headers: Sequence[tuple[bytes, bytes]]) -> Place | None:
        """The client of a request from `peer`. Port 0: the proxy does not report the port."""
        if not self._networks or peer is None or not self._is_ours(peer[0]):
            return peer
        hops = b",".join(value for name, value in headers if name == _HEADER).decode("latin-1").split(",")
        client = peer
        for hop in reversed(hops[-_HOPS_MAX:]):
            address = _parsed(hop.strip())
            if address is None:  # nothing, or not an address: what stands before it cannot be trusted
                break
            client = str(address), 0
            if not self._is_ours(client[0]):
                break
        return client

    def _is_ours(self, text: str) -> bool:
        address = _parsed(text)
        return address is not None and any(address in network for network in self._networks)


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise InvalidSetting(f"bad address {text!r} in 'serve.proxies': {error}") from None


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address
