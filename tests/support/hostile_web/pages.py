"""From a thing of the graph to the bytes that a server sends for it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from hostile_web import spelling
from hostile_web.exchange import Fields
from hostile_web.graph import STEPS, Edge, Graph, Thing
from hostile_web.picture import stripes
from hostile_web.spelling import attribute, spelled

_VOCABULARY = (
    "anchor archive barnacle beacon boat bottle breeze buoy chart cliff coast copper current deck dock drift eel ferry "
    "fog gale gull harbour heron island keel kelp ladder lamp ledger limpet mast mist mooring mussel net north oar "
    "otter pebble pier plank quay reef rope rudder sail salt sand seal shell signal slip spray squall storm tide tower "
    "twine wave wharf wind winter and at before below beside for from in into near of on over past the to under with"
)
WORDS = tuple(_VOCABULARY.split())
_PICTURES = 20  # different ones; the rest are duplicates


class Coded(NamedTuple):
    """How a page says which character set it is in: in the header, in a meta element, by a mark at its beginning."""

    charset: str
    header: bool = False
    meta: bool = False
    codec: str = ""
    text: str = "tide"


_CODED = (
    *(Coded("utf-8", header=True, text="marée haute, прилив, 満潮"),) * 6,
    Coded("utf-8", meta=True, text="Gezeitentafel für Süßwasser"),
    Coded("windows-1252", header=True, text="café de la marée"),
    Coded("windows-1252", meta=True, text="“œuvre” à quai"),
    Coded("shift_jis", meta=True, text="満潮と干潮"),
    Coded("koi8-r", header=True, text="прилив и отлив"),
    Coded("utf-16", codec="utf-16", text="marée 満潮"),
)


class Body(NamedTuple):
    """What is to be sent, before any encoding."""

    status: int
    kind: str  # media type, with its parameters
    content: bytes
    headers: Fields = ()


def body_of(graph: Graph, thing: Thing, edition: int, words: int = 40) -> Body:
    """`edition` counts the changes of a page so far; `words` are those of a paragraph."""
    kind, number, _ = thing
    if kind in ("page", "print"):
        status = graph.status_of(number)
        return _page(graph, number, edition, words) if status == 200 else missing(status)
    if kind in STEPS:
        return _step(graph, thing)
    if kind == "css":
        return Body(200, "text/css", _style(graph, thing))
    if kind == "script":
        (edge,) = graph.edges(thing)
        link = spelled(edge.url, graph.url_of(thing), graph.draw(9, "script", number), spelling.PLAIN)
        return Body(200, "text/javascript", f'"use strict";\nconst after = "{link}"; // {number}\n'.encode())
    if kind == "image":
        return Body(200, "image/png", stripes(number % _PICTURES))
    return missing(404)


def missing(status: int) -> Body:
    return Body(
        status, "text/html; charset=utf-8", b"<!doctype html><title>Gone</title><p>Gone out with the tide.</p>\n"
    )


def _page(graph: Graph, number: int, edition: int, words: int) -> Body:
    coded = _CODED[graph.draw(len(_CODED), "charset", number) if number else 0]
    url = graph.page_url(number)
    base, element = _base(graph, number, url)
    links = [
        _WRITTEN[edge.kind](_Place(graph, base, number * 100 + turn, element != "", coded.charset), edge)
        for turn, edge in enumerate(graph.edges(Thing("page", number)))
    ]
    random = Random(graph.draw(1 << 32, "prose", number, edition))
    prose = [f"<p>{' '.join(random.choices(WORDS, k=words))}</p>" for _ in links]
    meta = f'<meta charset="{coded.charset}">' if coded.meta else ""
    lines = [
        f"<!doctype html>\n<html><head>{meta}<title>Page {number}</title>{element}</head><body>",
        f"<h1>Page {number}, edition {edition}</h1><p>{coded.text}</p>",
        "" if element else _NOISE,
        *(part for pair in zip(prose, links, strict=True) for part in pair),
        "</body></html>\n",
    ]
    content = "\n".join(lines).encode(coded.codec or coded.charset, "xmlcharrefreplace")
    return Body(200, "text/html" + (f"; charset={coded.charset}" if coded.header else ""), content)


# Not one of these is a link to something else.
_NOISE = (
    '<a href="#top">up</a> <a href="mailto:updater@alpha.test">write</a> <a href="javascript:void(0)">do</a>'
    '<!-- <a href="/hidden/1.html">no longer</a> --> <a href="http://[broken/">broken</a> <a href="">here</a>'
    '<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=" alt=""> <a name="top">top</a>'
)


def _base(graph: Graph, number: int, url: str) -> tuple[str, str]:
    """What links are read against, and the element that says so."""
    choice = graph.draw(12, "base", number)
    if choice == 0:
        return graph.url(graph.host_of(number).name, "/deep/er/"), '<base href="/deep/er/x.html">'
    if choice == 1:
        other = graph.url(graph.hosts[graph.draw(len(graph.hosts), "based", number)].name, "/else/where/")
        return other, f'<base target="_top"><base href="{other}">'
    return url, ""


class _Place(NamedTuple):
    """Where a link is written."""

    graph: Graph
    base: str
    salt: int
    based: bool  # there is a base element
    charset: str

    def text(self, edge: Edge, forms: tuple[spelling.Form, ...] = spelling.ALL) -> str:
        text = spelled(edge.url, self.base, self.graph.draw(99, "spelling", self.salt), forms)
        return text.replace("%E9", "é") if self.charset == "windows-1252" else text  # a query is in the page's own

    def attribute(self, edge: Edge, forms: tuple[spelling.Form, ...] = spelling.ALL) -> str:
        return attribute(self.text(edge, forms), self.graph.draw(9, "references", self.salt))


def _inline(place: _Place, edge: Edge) -> str:
    link = edge.url if place.based else place.text(edge, spelling.PLAIN)
    return f'<script>var onward = {{"url": "{link}"}};</script>'


def _form(place: _Place, edge: Edge) -> str:
    """The URL is what the form leads to when it is sent as it is."""
    action, _, query = place.text(edge, spelling.SPARE).partition("?")
    number = query.rpartition("=")[2]
    fields = f'<input name="q"><input type="hidden" name="id" value="{number}">'
    return f'<form method="get" action="{action}?dropped=1">{fields}<button>find</button></form>'


_WRITTEN: dict[str, Callable[[_Place, Edge], str]] = {
    "a": lambda place, edge: f'<p><a title="on" href="{place.attribute(edge)}">onward</a></p>',
    "area": lambda place, edge: f'<map name="m"><area shape="default" href="{place.attribute(edge)}"></map>',
    "iframe": lambda place, edge: f'<iframe src="{place.attribute(edge)}"></iframe>',
    "form": _form,
    "script": lambda place, edge: f'<script src="{place.attribute(edge)}"></script>',
    "inline": _inline,
    "img": lambda place, edge: f'<img alt="" src="{place.attribute(edge)}">',
    "srcset": lambda place, edge: f'<img alt="" srcset="{place.attribute(edge, spelling.SPARE)} 2x">',
    "picture": lambda place, edge: (
        f'<picture><source srcset="{place.attribute(edge, spelling.SPARE)} 100w, {edge.url} 200w"></picture>'
    ),
    "css": lambda place, edge: f"<link rel=stylesheet href='{place.attribute(edge)}'>",
    "style-attribute": lambda place, edge: f"<p style=\"background: url('{place.text(edge, spelling.SPARE)}')\">by</p>",
    "style-element": lambda place, edge: f"<style>@import url({place.text(edge, spelling.SPARE)}) screen;</style>",
    "icon": lambda place, edge: f'<link rel="shortcut icon" href="{place.attribute(edge)}">',
    "preload": lambda place, edge: f'<link as="image" rel="preload" href="{place.attribute(edge)}">',
}


def _step(graph: Graph, thing: Thing) -> Body:
    kind, number, step = thing
    (edge,) = graph.edges(thing)
    link = spelled(edge.url, graph.url_of(thing), graph.draw(9, "step form", number, step), spelling.SPARE)
    if kind == "redirect":
        return Body(graph.redirect_status(thing), "text/html", b"<p>Moved.</p>", (("Location", link),))
    if kind == "refresh":
        return _html(f'<meta http-equiv="Refresh" content="0; URL={attribute(link)}"><p>Soon.</p>')
    if kind == "frame":
        return _html(f'<html><head></head><frameset cols="*"><frame src="{attribute(link)}"></frameset></html>')
    return _html("<p>See the head.</p>", ("Link", f'<{link}>; rel="next"; title="a, b; c"'))


def _html(text: str, *headers: tuple[str, str]) -> Body:
    return Body(200, "text/html; charset=utf-8", f"<!doctype html>{text}\n".encode(), headers)


def _style(graph: Graph, thing: Thing) -> bytes:
    edges = graph.edges(thing)
    image = spelled(edges[-1].url, graph.url_of(thing), graph.draw(9, "style", *thing), spelling.SPARE)
    quote = ("'", '"', "")[graph.draw(3, "quote", *thing)]
    start = f'@charset "utf-8";\n@import "{thing.number}-in.css";\n' if len(edges) > 1 else ""
    return f"{start}body {{ margin: {thing.number}px; background: url( {quote}{image}{quote} ) }}\n".encode()
