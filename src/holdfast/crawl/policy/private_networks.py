"""Where private addresses may be asked: in the networks that seeds live in.

A crawl of an intranet reaches the intranet; one of the web does not, wherever redirects and names lead.
"""

from __future__ import annotations

import asyncio
from ipaddress import ip_address, ip_network

from holdfast.crawl.fetch.addresses import AddressPolicy
from holdfast.crawl.fetch.dns import Resolver, system_lookup
from holdfast.crawl.job.job import CrawlJob
from holdfast.urls import parse

_SEEDS_ASKED = 100  # of a long list the first ones tell
_LOOPBACK = "127.0.0.0/8"
_BITS = {4: 24, 6: 64}  # of an address that name its network


def private_networks(job: CrawlJob) -> tuple[str, ...]:
    """The networks of seeds that have nothing but private addresses. Asks the system's resolver."""
    policy = AddressPolicy(refuse=job.fetch.refuse)
    loop = asyncio.new_event_loop()
    resolver = Resolver(loop, job.fetch.resolve)
    networks: set[str] = set()
    try:
        for seed in job.seeds[:_SEEDS_ASKED]:
            addresses = _addresses(seed, resolver)
            if all(policy.refusal(address) for address in addresses):
                networks.update(map(network_of, addresses))
    finally:
        resolver.close()
        loop.close()
    return tuple(sorted(networks))


def network_of(address: str) -> str:
    """The neighbourhood of an address."""
    parsed = ip_address(address.partition("%")[0])
    if parsed.version == 4 and parsed.is_loopback:
        return _LOOPBACK
    return str(ip_network((parsed, _BITS[parsed.version]), strict=False))


def _addresses(seed: str, resolver: Resolver) -> tuple[str, ...]:
    url = parse(seed)
    if url is None:
        return ()
    known = resolver.known(url.host)
    if known is not None:
        return known.addresses
    try:
        return tuple(system_lookup(url.host))
    except (OSError, UnicodeError):  # it will be told when it is fetched
        return ()
