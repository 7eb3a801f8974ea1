"""Crawling: from seeds to captures, politely, restartable at any moment (W17, H5, H7, B4).

    CrawlJob     the job: seeds, scope, limits; as a file; its credentials                   job/
    Crawl        one run on one thread, which drives the rest                                crawl
    Frontier     all known URLs and hosts, and the queues, on disk                           frontier
    policy       which URLs are queued: scope, traps, budgets; robots.txt; limits            policy/
    processes    the next URLs to fetch; the processes, and the messages between them        processes/
      fetch        libcurl on an event loop; politeness; only moves bytes                    fetch/, browser/
      parse        links, digests, drafts of records                                         parse/
    ingest       into the archive, then the frontier, then the log                           ingest/
    schedule     when to visit a page again, and when to remove one that is gone             schedule/
    report       the crawls of an archive, their log and progress; why a URL was not fetched report/, paths

A URL is queued when it is found, and stays queued until its capture is durable in the archive. A crawl killed at any
moment resumes where it was, and repeats only the requests in flight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.crawl.job.job import CrawlJob

if TYPE_CHECKING:
    from holdfast.crawl.crawl import Crawl, Summary

__all__ = ["Crawl", "CrawlJob", "Summary"]


def __getattr__(name: str) -> object:
    """`crawl` imports everything: it is loaded when it is used."""
    if name in ("Crawl", "Summary"):
        from holdfast.crawl import crawl

        return getattr(crawl, name)
    raise AttributeError(f"module 'holdfast.crawl' has no attribute {name!r}")
