"""Crawling: from seeds to captures, politely, restartable at any moment (W17, H5, H7, B4).

    CrawlJob      what is asked for: seeds, scope, limits, manners              job, job_file, job_rules, credentials
    Crawl         one crawl on one thread, the conductor of what follows        conductor
    frontier      every URL that is known, and what waits, on disk              frontier
    feeder, gate  what may be fetched next; robots.txt                          feeder, gate, robots
    pipeline      the processes: one that fetches, some that read               pipeline, messages, frames
      fetching      libcurl on an event loop; politeness; only moves bytes      fetching, browser
      reading       links, digests, drafts of records                           reading, links, sitemaps, recording
    intake        into the archive, then the frontier, then the log             intake, admission, scope, traps, log
    schedule      when a page is visited again                                  schedule
    retention     when a page that is gone is removed                           lifetimes, retention

A URL is queued when it is found, and stays queued until its capture is durable in the archive: killed at any moment, a
crawl goes on where it was, and fetches nothing again but what was under way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.crawl.job.job import CrawlJob

if TYPE_CHECKING:
    from holdfast.crawl.crawl import Crawl, Summary

__all__ = ["Crawl", "CrawlJob", "Summary"]


def __getattr__(name: str) -> object:
    """The conductor brings everything with it: it is loaded when it is asked for."""
    if name in ("Crawl", "Summary"):
        from holdfast.crawl import crawl

        return getattr(crawl, name)
    raise AttributeError(f"module 'holdfast.crawl' has no attribute {name!r}")
