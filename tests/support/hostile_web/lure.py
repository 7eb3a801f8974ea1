"""What a trap is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from holdfast.crawl.job.job import CrawlJob
from hostile_web.exchange import Answer, Request, plain


class Place(NamedTuple):
    """Where a trap stands, and how many requests all traps have answered."""

    host: str
    port: int
    private: str
    requests: int

    def url(self, host: str, path: str) -> str:
        return f"http://{host}:{self.port}{path}"


class Lure(NamedTuple):
    """One kind of trap."""

    name: str
    story: str
    answer: Callable[[Request, Place], Answer]
    most: Callable[[CrawlJob], int]
    path: str = "/"
    scheme: str = "http"


def html(text: str, *fields: tuple[str, str]) -> Answer:
    return plain(200, f"<!doctype html><title>Trap</title>{text}\n", *fields, kind="text/html; charset=utf-8")


def link(url: str) -> str:
    return f'<p><a href="{url}">onward</a></p>'


def once(job: CrawlJob) -> int:
    """The entry, and again for each time that a failure is tried again."""
    return 1 + job.fetch.retries
