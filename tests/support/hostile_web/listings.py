"""robots.txt and sitemaps of the generated hosts.

Only alpha.test, the home of the web, lists pages that nothing else leads to; the other hosts list their home page.
Its index names four sitemaps: XML compressed, plain text, RSS, XML plain.
"""

from __future__ import annotations

import gzip
from xml.sax.saxutils import escape

from hostile_web.exchange import Answer, plain
from hostile_web.graph import Graph
from hostile_web.hosts import CLOSED_HOST, Host, robots_lines

SITEMAPS = ("/sitemap-0.xml.gz", "/sitemap-1.txt", "/sitemap-2.rss", "/sitemap-3.xml")
INDEX = "/sitemap-index.xml"
ALONE = "/sitemap.xml"  # of the hosts beside the first
_ELSEWHERE = "/rules/moved.txt"  # where the robots.txt of moved.test is in the end
_JUNK = "# " + "barnacle " * 10 + "\n"
_SITEMAP_SPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def sitemap_urls(graph: Graph) -> frozenset[str]:
    """Named in a robots.txt, or where crawlers look without being told."""
    first, *others = graph.hosts
    own = {graph.url(first.name, path) for path in (INDEX, *SITEMAPS)}
    return frozenset(own | {graph.url(host.name, ALONE) for host in others})


def robots_urls(graph: Graph) -> frozenset[str]:
    return frozenset(
        url
        for host in (*graph.hosts, CLOSED_HOST)
        for url in (graph.url(host.name, "/robots.txt"), *robots_hops(graph, host))
    )


def robots_hops(graph: Graph, host: Host) -> tuple[str, ...]:
    """Where a robots.txt that redirects leads, one after the other."""
    if host.robots != "moved":
        return ()
    return graph.url(host.name, "/old/robots.txt"), graph.url(graph.hosts[0].name, _ELSEWHERE)


def listing(graph: Graph, host: Host, target: str, settings: tuple[float, int]) -> Answer | None:
    """The answer for a robots.txt or sitemap, or None. `settings` are the Crawl-delay and the size of the long one."""
    if target in ("/robots.txt", "/old/robots.txt"):
        return _robots(graph, host, target, settings)
    if target == _ELSEWHERE and host == graph.hosts[0]:
        return plain(200, "User-agent: *\n" + robots_lines(host.rules))
    if host != graph.hosts[0]:
        return _xml([graph.url(host.name, "/")]) if target == ALONE else None
    if target == INDEX:
        parts = "".join(f"<sitemap><loc>{graph.url(host.name, path)}</loc></sitemap>" for path in SITEMAPS)
        return plain(200, f"<sitemapindex {_SITEMAP_SPACE}>{parts}</sitemapindex>", kind="application/xml")
    return _sitemap(graph, SITEMAPS.index(target)) if target in SITEMAPS else None


def _robots(graph: Graph, host: Host, target: str, settings: tuple[float, int]) -> Answer:
    delay, long = settings
    if host.robots == "broken":
        return plain(500, "out of order")
    if host.robots == "missing":
        return plain(404, "no rules here")
    if host.robots == "moved":
        first, second = robots_hops(graph, host)
        return plain(301, "", ("Location", first if target == "/robots.txt" else second))
    sitemap = graph.url(host.name, INDEX if host == graph.hosts[0] else ALONE)
    rules = robots_lines(host.rules)
    if host.robots == "long":
        start = f"User-agent: *\n{rules}"
        return plain(200, start + _JUNK * ((long - len(start)) // len(_JUNK)))
    if host.robots == "groups":
        others = "User-agent: somebody-else\nDisallow: /\n\nuser-agent : holdfast\nUser-Agent: *\n"
        return plain(200, f"\ufeff# rules\n{others}{rules}Crawl-delay: {delay}\nSitemap: {sitemap}\n")
    return plain(200, f"User-agent: * # all\n{rules}\nSitemap: {sitemap}\n".replace("\n", "\r\n"))


def _sitemap(graph: Graph, which: int) -> Answer:
    numbers = range(len(graph.hosts) + which, graph.pages, len(SITEMAPS))
    urls = [graph.page_url(number) for number in numbers if graph.dealt(number) == "sitemap"]
    if which == 0:
        packed = gzip.compress(_xml(urls).body, mtime=0)
        return Answer(200, (("Content-Type", "application/gzip"),), packed)
    if which == 1:
        return plain(200, "\n".join(urls) + "\n")
    if which == 2:
        items = "".join(f"<item><title>x</title><link>{escape(url)}</link></item>" for url in urls)
        home = graph.page_url(0)
        text = f'<rss version="2.0"><channel><title>x</title><link>{home}</link>{items}</channel></rss>'
        return plain(200, text, kind="application/rss+xml")
    return _xml(urls)


def _xml(urls: list[str]) -> Answer:
    entries = "".join(f"<url><loc>\n{escape(url)} </loc><priority>0.5</priority></url>\n" for url in urls)
    return plain(200, f'<?xml version="1.0"?>\n<urlset {_SITEMAP_SPACE}>{entries}</urlset>\n', kind="text/xml")
