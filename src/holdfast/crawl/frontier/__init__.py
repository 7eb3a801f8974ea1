"""The frontier: what is to be fetched, what was, and what is known of every URL and host, on disk (H5).

    find(links) ──▶ queued ──take──▶ in flight ──settle──▶ done, failed or refused
                      ▲                  │                          │
                      └──── postpone ────┘◀──────── next visit ─────┘

A URL stays in the queue of its host until it is settled: what was in flight when the process died is simply still
queued. Changes are collected and committed in one atomic, durable step, after the archive has the records; so nothing
that is settled is fetched again, and nothing is settled whose capture is not safe.

Memory does not grow with the crawl: of a host that is being visited a few dozen URLs are held, and of hosts, some
thousands; all others wait on disk.
"""

from __future__ import annotations

from holdfast.crawl.frontier.frontier import FoundUrl, Frontier, host_of
from holdfast.crawl.frontier.rows import HostRow, UrlRow, UrlState, key_of

__all__ = ["FoundUrl", "Frontier", "HostRow", "UrlRow", "UrlState", "host_of", "key_of"]
