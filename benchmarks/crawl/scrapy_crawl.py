"""Crawls one host with Scrapy as fast as it goes, for `python -m benchmarks crawl`.

A program of its own, run by an interpreter that has Scrapy; it needs nothing of Holdfast. The bodies are appended to
one file, uncompressed and unsynced: the least that can be called keeping them.

    python scrapy_crawl.py URL FILE AT_ONCE

Everything that costs time and is not needed here is off. The link extractor and the duplicate filter that come with
Scrapy are the slower ones: the spider reads attributes by one compiled XPath and keeps a set of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from urllib.parse import urljoin

_TAGS = ("a", "area", "link", "iframe", "frame", "script", "img")
_OFF_DOWNLOADER = (
    "offsite.OffsiteMiddleware",
    "robotstxt.RobotsTxtMiddleware",
    "httpauth.HttpAuthMiddleware",
    "retry.RetryMiddleware",
    "redirect.MetaRefreshMiddleware",
    "httpcompression.HttpCompressionMiddleware",
    "redirect.RedirectMiddleware",
    "cookies.CookiesMiddleware",
    "httpproxy.HttpProxyMiddleware",
    "stats.DownloaderStats",
    "httpcache.HttpCacheMiddleware",
)
_OFF_SPIDER = (
    "httperror.HttpErrorMiddleware",
    "referer.RefererMiddleware",
    "urllength.UrlLengthMiddleware",
    "depth.DepthMiddleware",
    "metacopy.MetaCopyDetectionMiddleware",
)
_OFF_EXTENSIONS = (
    "corestats.CoreStats",
    "logcount.LogCount",
    "telnet.TelnetConsole",
    "memusage.MemoryUsage",
    "logstats.LogStats",
    "feedexport.FeedExporter",
    "throttle.AutoThrottle",
    "spiderstate.SpiderState",
)


def main() -> None:
    url, path, at_once = sys.argv[1:]
    process = import_module("scrapy.crawler").CrawlerProcess(settings(int(at_once)))
    with open(path, "wb", buffering=1 << 20) as file:
        process.crawl(spider_class(), url=url, file=file)
        process.start()


def settings(at_once: int) -> dict[str, Any]:
    return {
        "ASYNCIO_EVENT_LOOP": "uvloop.Loop" if find_spec("uvloop") else None,
        "AUTOTHROTTLE_ENABLED": False,
        "CONCURRENT_ITEMS": 1,  # else so many tasks for every response
        "CONCURRENT_REQUESTS": at_once,
        "CONCURRENT_REQUESTS_PER_DOMAIN": at_once,
        "COOKIES_ENABLED": False,
        "DOWNLOADER_MIDDLEWARES": {f"scrapy.downloadermiddlewares.{name}": None for name in _OFF_DOWNLOADER},
        "DOWNLOAD_DELAY": 0,
        "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter",
        "EXTENSIONS": {f"scrapy.extensions.{name}": None for name in _OFF_EXTENSIONS},
        "LOG_LEVEL": "ERROR",
        "RANDOMIZE_DOWNLOAD_DELAY": False,
        "REDIRECT_ENABLED": False,
        "RETRY_ENABLED": False,
        "ROBOTSTXT_OBEY": False,
        "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue",
        "SPIDER_MIDDLEWARES": {f"scrapy.spidermiddlewares.{name}": None for name in _OFF_SPIDER},
        "STATS_CLASS": "scrapy.statscollectors.DummyStatsCollector",
        "TELNETCONSOLE_ENABLED": False,
    }


def spider_class() -> Any:
    """Made when Scrapy is known to be there."""
    scrapy: Any = import_module("scrapy")
    etree: Any = import_module("lxml.etree")
    links = etree.XPath("|".join(f"//{tag}/@{'src' if tag in ('script', 'img') else 'href'}" for tag in _TAGS))
    spider: Any = scrapy.Spider

    class HostSpider(spider):  # type: ignore[misc]
        name = "host"

        async def start(self) -> Any:
            self.seen = {self.url}
            self.host = "/".join(self.url.split("/")[:3]) + "/"
            yield scrapy.Request(self.url, dont_filter=True)

        def parse(self, response: Any) -> Iterator[Any]:
            self.file.write(response.body)
            if response.headers.get("Content-Type", b"").startswith(b"text/html"):
                for url in self.new_urls(response):
                    yield scrapy.Request(url, dont_filter=True)

        def new_urls(self, response: Any) -> Iterator[str]:
            for link in {link.partition("#")[0].strip() for link in links(response.selector.root)}:
                url = urljoin(response.url, link)
                if url not in self.seen and url.startswith(self.host):
                    self.seen.add(url)
                    yield url

    return HostSpider


if __name__ == "__main__":
    main()
