"""Addresses of volume servers: `host:port`, with IPv6 addresses in brackets."""

from __future__ import annotations

import ipaddress
import re

from holdfast.errors import InvalidSetting

PORT_MAX = 65535
_ADDRESS = re.compile(r"(?:\[(?P<six>[^\[\]]+)\]|(?P<host>[^:\[\]]*)):(?P<port>[0-9]{1,5})", re.ASCII)
_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?", re.ASCII)
_HOST_MAX = 253


def split_address(text: str) -> tuple[str, int]:
    """Host, without brackets, and port. Raises InvalidSetting."""
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise InvalidSetting(f"bad address {text!r}: write host:port, with an IPv6 address in brackets: [::1]:9999")
    port = int(match["port"])
    if not 1 <= port <= PORT_MAX:
        raise InvalidSetting(f"bad address {text!r}: a port is a number from 1 to {PORT_MAX}")
    host: str = match["six"] or match["host"]
    if not (is_ipv6(host) if match["six"] else _is_host(host)):
        raise InvalidSetting(f"bad address {text!r}: {host!r} is neither a host name nor an IP address")
    return host, port


def join_address(host: str, port: int) -> str:
    """`host:port` as `split_address` reads it. Raises InvalidSetting."""
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    address = f"[{bare}]:{port}" if ":" in bare else f"{bare}:{port}"
    split_address(address)
    return address


def is_ipv6(host: str) -> bool:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True


def _is_host(host: str) -> bool:
    labels = host.removesuffix(".").split(".")
    return 0 < len(host) <= _HOST_MAX and all(_LABEL.fullmatch(label) for label in labels)
