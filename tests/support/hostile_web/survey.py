"""What a right crawl of the graph finds: a walk over its edges, without a page rendered or parsed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from holdfast.crawl.job.job import ScopeKind
from holdfast.formats.html.links.references import Hop
from holdfast.urls import Url, parse, registered_domain
from hostile_web.graph import Edge, Graph


@dataclass(frozen=True, slots=True)
class Order:
    """What is asked of a crawl."""

    scope: ScopeKind
    roots: tuple[str, ...]
    sitemap: bool = True


@dataclass(frozen=True, slots=True)
class Survey:
    """URLs captured, and URLs known but forbidden."""

    reached: set[str]
    refused: set[str]


def surveyed(graph: Graph, allowed: Callable[[str], bool], order: Order) -> Survey:
    roots = [parsed(root) for root in order.roots]
    queue = deque(Edge(root.href, Hop.SEED, "seed") for root in roots)
    if order.sitemap and any(root.host == graph.hosts[0].name for root in roots):
        queue.extend(_listed(graph))
    survey = Survey(set(), set())
    while queue:
        edge = queue.popleft()
        if edge.url in survey.reached or not _in_scope(edge, order.scope, roots):
            continue
        if not allowed(edge.url):
            survey.refused.add(edge.url)
            continue
        survey.reached.add(edge.url)
        url = parsed(edge.url)
        thing = graph.at(url.host, target(url))
        queue.extend(graph.edges(thing) if thing is not None else ())
    return survey


def _listed(graph: Graph) -> Iterator[Edge]:
    """Pages that the sitemaps of the first host name."""
    for number in range(len(graph.hosts), graph.pages):
        if graph.dealt(number) == "sitemap":
            yield Edge(graph.page_url(number), Hop.MANIFEST, "sitemap")


def _in_scope(edge: Edge, scope: ScopeKind, roots: list[Url]) -> bool:
    if edge.hop in (Hop.SEED, Hop.EMBED) or scope is ScopeKind.ANY:
        return True
    return any(_near(parsed(edge.url), scope, root) for root in roots)


def _near(url: Url, scope: ScopeKind, root: Url) -> bool:
    same_host = url.host.removeprefix("www.") == root.host.removeprefix("www.")
    if scope is ScopeKind.PREFIX:
        return same_host and url.path.startswith(root.path[: root.path.rindex("/") + 1])
    if scope is ScopeKind.DOMAIN:
        return registered_domain(url.host) == registered_domain(root.host)
    return same_host and scope is ScopeKind.HOST


def parsed(url: str) -> Url:
    parts = parse(url)
    assert parts is not None, url
    return parts


def target(url: Url) -> str:
    """What a request for `url` asks for."""
    return url.path + (f"?{url.search}" if url.search else "")
