"""Whether a crawl is meant for private addresses: it is if it was told so, or if a seed has one."""

from __future__ import annotations

import asyncio

from holdfast.crawl.fetching.addresses import AddressPolicy
from holdfast.crawl.fetching.dns import Resolver, system_lookup
from holdfast.crawl.job import CrawlJob
from holdfast.urls import parse

_SEEDS_ASKED = 100  # of a long list the first ones tell


def is_private(job: CrawlJob) -> bool:
    """Asks the system's resolver for the addresses of the seeds."""
    if job.fetch.private:
        return True
    policy = AddressPolicy(refuse=job.fetch.refuse)
    loop = asyncio.new_event_loop()
    resolver = Resolver(loop, job.fetch.resolve)
    try:
        return any(
            policy.refusal(address) for seed in job.seeds[:_SEEDS_ASKED] for address in _addresses(seed, resolver)
        )
    finally:
        resolver.close()
        loop.close()


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
