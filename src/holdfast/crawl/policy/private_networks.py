"""Private networks: a crawl may fetch from those of its seeds only.

A crawl of an intranet reaches the intranet; one of the web does not, wherever redirects and names lead.
"""

from __future__ import annotations

from ipaddress import ip_address, ip_network

from holdfast.crawl.fetch.addresses import AddressPolicy, FixedAddresses, system_lookup
from holdfast.crawl.job.job import CrawlJob
from holdfast.urls import parse

_SEEDS_ASKED = 100  # of a long list the first ones are enough
_LOOPBACK = "127.0.0.0/8"
_BITS = {4: 24, 6: 64}  # of an address that name its network


def private_networks(job: CrawlJob) -> tuple[str, ...]:
    """The networks of seeds that have only private addresses. Asks the system's resolver."""
    policy = AddressPolicy(refuse=job.fetch.refuse)
    fixed = FixedAddresses(job.fetch.resolve)
    networks: set[str] = set()
    for seed in job.seeds[:_SEEDS_ASKED]:
        addresses = _addresses(seed, fixed)
        if all(policy.refusal(address) for address in addresses):
            networks.update(map(network_of, addresses))
    return tuple(sorted(networks))


def network_of(address: str) -> str:
    """The network of an address."""
    parsed = ip_address(address.partition("%")[0])
    if parsed.version == 4 and parsed.is_loopback:
        return _LOOPBACK
    return str(ip_network((parsed, _BITS[parsed.version]), strict=False))


def _addresses(seed: str, fixed: FixedAddresses) -> list[str]:
    url = parse(seed)
    if url is None:
        return []
    if address := fixed.get(url.host):
        return [address]
    try:
        return system_lookup(url.host)
    except (OSError, UnicodeError):  # its fetch will report it
        return []
