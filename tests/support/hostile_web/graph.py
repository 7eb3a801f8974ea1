"""The link graph: which page links to what, computed from the seed whenever it is asked for.

Pages are numbered. Page n links to its children 3n+1, 3n+2 and 3n+3, each in the one way that the child was dealt, so
that there are pages that only an `area`, a redirect or a sitemap leads to; besides to a few pages anywhere that were
dealt a plain link. A page has requisites, some on other hosts. Requisites stay few in a row: what stands in a frame
holds no frame, and what a style sheet imports imports nothing more.

    page ──child──▶ page                            a, area, iframe, form, script (inline, or of its own)
         ──child──▶ step ──▶ (step ──▶) page         redirect, meta refresh, frame set, Link header
         ──embed──▶ image | style ─▶ style ─▶ image

What a URL answers is found from the URL alone: `at` gives the thing behind it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import NamedTuple

from holdfast.formats.html.links.references import Hop
from holdfast.urls import canonical
from hostile_web.hosts import CLOSED, SECURE, Host, hosts

DIRECT = ("a", "area", "iframe", "form", "script", "inline")
STEPS = ("redirect", "refresh", "frame", "header")
FRAMED = ("iframe", "frame")
EMBEDS = ("img", "srcset", "picture", "css", "style-attribute", "style-element", "icon", "preload")
REDIRECTS = (301, 302, 303, 307, 308)
_DEALT = ("a",) * 14 + DIRECT[1:] + STEPS + ("redirect", "redirect", "sitemap", "sitemap")
_SECTIONS = ("notes",) * 7 + ("log",) * 6 + ("guide", "guide", "private", "private/open", "tmp", "cgi")
_HOP = {"iframe": Hop.EMBED, "form": Hop.FORM, "inline": Hop.SPECULATIVE}
_NUMBER = re.compile(r"(?<![%\dA-F])\d+(?!=)")  # not of an escaped letter


class Thing(NamedTuple):
    """What stands behind a URL: a page, a step on the way to one, an asset."""

    kind: str  # 'page', 'print', one of STEPS, 'image', 'css', 'script', 'missing', 'closed'
    number: int = 0
    step: int = 0  # of a chain of redirects; 1: the imported one of two style sheets


class Edge(NamedTuple):
    """A link as the page has it: how it is written there is up to the renderer."""

    url: str  # canonical
    hop: str
    kind: str


@lru_cache(maxsize=1000)
def _origin(host: str, port: int) -> str:
    scheme = "https" if host == SECURE else "http"
    return canonical(f"{scheme}://{host}{f':{port}' if port else ''}/").removesuffix("/")


@dataclass(frozen=True)
class Graph:
    """See the module. Values depend on nothing but the fields."""

    seed: int
    pages: int
    host_count: int
    port: int
    tls_port: int

    def draw(self, sides: int, *key: object) -> int:
        """A throw of dice, always the same for the same key."""
        digest = blake2b(repr((self.seed, *key)).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % sides

    @cached_property
    def hosts(self) -> tuple[Host, ...]:
        return hosts(self.host_count, self.tls_port > 0)

    @cached_property
    def assets(self) -> int:
        return self.pages // 8 + 1

    def url(self, host: str, path: str) -> str:
        """Canonical, as paths here are."""
        return _origin(host, self.tls_port if host == SECURE else self.port) + path

    # pages

    def host_of(self, number: int) -> Host:
        if number < len(self.hosts) or self.dealt(number) == "sitemap":
            return self.hosts[number if number < len(self.hosts) else 0]
        return self.hosts[self.draw(len(self.hosts), "host", number)]

    @lru_cache(maxsize=50_000)  # noqa: B019 (a graph lives as long as its process)
    def dealt(self, number: int) -> str:
        """The way in which the parent of a page leads to it."""
        if number < len(self.hosts):
            return "a"
        kind = _DEALT[self.draw(len(_DEALT), "dealt", number)]
        return "a" if kind in FRAMED and self.dealt((number - 1) // 3) in FRAMED else kind

    @lru_cache(maxsize=50_000)  # noqa: B019
    def path_of(self, number: int) -> str:
        if number < len(self.hosts):
            return "/"
        section = _SECTIONS[self.draw(len(_SECTIONS), "section", number)]
        if number < self.pages // 20 and section in ("private", "tmp", "cgi"):
            section = "notes"  # much of the web hangs on the first pages
        if self.dealt(number) == "form":
            return f"/{section}/find?q=&id={number}"
        simple = self.dealt(number) in ("script", "inline")  # where only what ends like a page is taken for one
        if section == "cgi" and not simple:
            return f"/bin/p{number}.cgi"
        forms = (
            f"p{number}.html",
            f"p{number}/",
            f"page?id={number}&amp=1",
            f"caf%C3%A9-{number}.html",
            f"P{number}",
            f"find?id={number}&w=%E9t%E9",
        )
        return f"/{section}/{forms[0 if simple else max(0, self.draw(12, 'form', number) - 6)]}"

    @lru_cache(maxsize=50_000)  # noqa: B019
    def page_url(self, number: int) -> str:
        return self.url(self.host_of(number).name, self.path_of(number))

    def status_of(self, number: int) -> int:
        """Only pages without children are missing."""
        if number < len(self.hosts) or 3 * number + 1 < self.pages:
            return 200
        return {0: 404, 1: 410}.get(self.draw(40, "status", number), 200)

    # what a URL stands for

    def at(self, host: str, target: str) -> Thing | None:
        """The thing that `host` has at the path and query `target`; None: there is none."""
        if host == CLOSED:
            return Thing("closed")
        if target == "/":
            numbers = [number for number, one in enumerate(self.hosts) if one.name == host]
            return Thing("page", numbers[0]) if numbers else None
        numbers = [int(digits) for digits in _NUMBER.findall(target)]
        if not numbers:
            return None
        first, second = numbers[0], numbers[1] if len(numbers) > 1 else 0
        kind = target[1:].partition("/")[0]
        if kind == "go":
            way = target.split("/")[2]
            thing = Thing(way if way in STEPS else "missing", first, second)
        elif kind in ("image", "css", "script", "missing"):
            thing = Thing(kind, first, int("-in" in target))
        else:
            thing = Thing("print" if target.endswith("view=print") else "page", first)
        return thing if self._whole(thing) and self.url_of(thing) == self.url(host, target) else None

    def _whole(self, thing: Thing) -> bool:
        return thing.number < (self.assets if thing.kind in ("image", "css") else self.pages)

    def url_of(self, thing: Thing) -> str:
        kind, number, step = thing
        if kind == "page":
            return self.page_url(number)
        if kind == "print":
            return self.page_url(number) + ("&" if "?" in self.path_of(number) else "?") + "view=print"
        if kind in STEPS:
            host = self.hosts[self.draw(len(self.hosts), "step", number, step)]
            return self.url(host.name, f"/go/{kind}/{number}/{step}")
        paths = {
            "image": f"/image/{number}.png",
            "css": f"/css/{number}{'-in' if step else ''}.css",
            "script": f"/script/{number}.js",
            "missing": f"/missing/{number}.html",
        }
        host = self.host_of(number) if kind == "script" else self.hosts[self.draw(len(self.hosts), kind, number)]
        return self.url(host.name, paths[kind])

    # links

    def steps_of(self, number: int) -> int:
        """Redirects in a row before a page."""
        return 1 + self.draw(4, "steps", number) if self.dealt(number) == "redirect" else 1

    def redirect_status(self, thing: Thing) -> int:
        return REDIRECTS[self.draw(len(REDIRECTS), "status", thing.number, thing.step)]

    def edges(self, thing: Thing) -> list[Edge]:
        """All that a right reader finds in a thing, in the order in which it stands there."""
        kind, number, step = thing
        if kind in ("page", "print"):
            return self._page_edges(number) if self.status_of(number) == 200 else []
        if kind in STEPS:
            return [self._step_edge(kind, number, step)]
        if kind == "css":
            return self._style_edges(number, step)
        if kind == "script":
            return [Edge(self.page_url(number), Hop.SPECULATIVE, "script")]
        return []

    def _page_edges(self, number: int) -> list[Edge]:
        children = range(3 * number + 1, min(3 * number + 4, self.pages))
        edges = [self._child_edge(child) for child in children if self.dealt(child) != "sitemap"]
        others = [self.draw(self.pages, "other", number, turn) for turn in range(4)]
        edges += [Edge(self.page_url(other), Hop.LINK, "a") for other in others if self.dealt(other) == "a"]
        luck = self.draw(24, "luck", number)
        if luck == 0:
            edges.append(Edge(self.url(CLOSED, f"/page/{number}.html"), Hop.LINK, "a"))
        elif luck == 1:
            edges.append(Edge(self.url_of(Thing("missing", number)), Hop.LINK, "a"))
        elif luck < 5:
            edges.append(Edge(self.url_of(Thing("print", number)), Hop.LINK, "a"))
        kinds = [
            EMBEDS[self.draw(len(EMBEDS), "embed", number, turn)] for turn in range(self.draw(4, "embeds", number))
        ]
        return edges + [self._embed_edge(kind, number, turn) for turn, kind in enumerate(kinds)]

    def _child_edge(self, child: int) -> Edge:
        kind = self.dealt(child)
        if kind in STEPS:
            return Edge(self.url_of(Thing(kind, child, 0)), Hop.LINK, "a")
        if kind == "script":
            return Edge(self.url_of(Thing("script", child)), Hop.EMBED, "script")
        return Edge(self.page_url(child), _HOP.get(kind, Hop.LINK), kind)

    def _embed_edge(self, kind: str, number: int, turn: int) -> Edge:
        thing = "css" if kind in ("css", "style-element") else "image"
        return Edge(self.url_of(Thing(thing, self.draw(self.assets, kind, number, turn))), Hop.EMBED, kind)

    def _step_edge(self, kind: str, number: int, step: int) -> Edge:
        if step + 1 < self.steps_of(number):
            return Edge(self.url_of(Thing(kind, number, step + 1)), Hop.REDIRECT, kind)
        hop = {"redirect": Hop.REDIRECT, "refresh": Hop.REDIRECT, "frame": Hop.EMBED}.get(kind, Hop.LINK)
        return Edge(self.page_url(number), hop, kind)

    def _style_edges(self, number: int, step: int) -> list[Edge]:
        image = Thing("image", self.draw(self.assets, "background", number, step))
        edges = [] if step else [Edge(self.url_of(Thing("css", number, 1)), Hop.EMBED, "import")]
        return [*edges, Edge(self.url_of(image), Hop.EMBED, "background")]
