"""The site that `holdfast demo` crawls: pages about an invented harbour, in English, German and French.

Besides its articles it has what archives must cope with: print versions with the same bytes, style sheets that import
each other, a script that loads a list, drawings and pictures, old URLs that redirect, a dead link, a page that only the
sitemap names, and a desk that robots.txt excludes. After `change` some articles have another end and one is new; all
other pages answer 304 to a request with their ETag.
"""

from __future__ import annotations

import json
import struct
import threading
import zlib
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import blake2b
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import NamedTuple

ADDRESS = "127.0.0.1"
_HTML = "text/html; charset=utf-8"
_ROBOTS = "User-agent: *\nDisallow: /desk/\n\nSitemap: {origin}/sitemap.xml\n"
_SHEETS = {
    "/style/main.css": """@import "colours.css";
@import url(print.css) print;
body { margin: 2em auto; max-width: 42em; padding: 0 1em; font: 1.05em/1.55 Georgia, serif }
h1 { font-weight: normal }
nav a { margin-right: 1em }
figure { margin: 0 0 1.5em }
figure img { width: 100%; height: 8em; object-fit: cover }
""",
    "/style/colours.css": """body { background: #f4f8fa url(../pictures/wave.svg) repeat-x; color: #123 }
a { color: #147 }
""",
    "/style/print.css": "nav { display: none }\n",
}
_SCRIPT = """fetch("/data/tides.json").then((answer) => answer.json()).then((tides) => {
  const shown = document.querySelector("[data-tide]");
  if (shown) shown.textContent = tides[Number(shown.dataset.tide)];
});
"""
_LANGUAGES = {  # title of the site, heading of its list, and of a table of tides
    "en": ("The harbour", "All pages", "High water today"),
    "de": ("Der Hafen", "Alle Seiten", "Hochwasser heute"),
    "fr": ("Le port", "Toutes les pages", "Pleine mer aujourd'hui"),
}
_MOVED = {"/lighthouse.html": "/en/lamp.html", "/gezeiten.html": "/de/tides.html", "/": "/en/index.html"}

SitePage = tuple[str, bytes]  # media type and content
Colour = tuple[int, int, int]


class Article(NamedTuple):
    """One page of prose."""

    language: str
    name: str
    title: str
    paragraphs: list[str]
    later: list[str]  # at the second visit; the same if the article does not change
    is_new: bool  # at the second visit


@cache
def articles() -> tuple[Article, ...]:
    """All of them, in the order of the file."""
    text = files("holdfast.demo").joinpath("articles.txt").read_text(encoding="utf-8")
    return tuple(_article(part) for part in text.split("\n== ")[1:])


def _article(text: str) -> Article:
    head, title, rest = text.split("\n", 2)
    language, name, *flags = head.split()
    before, changed, after = rest.partition("\n~~\n")
    paragraphs, later = ([" ".join(part.split()) for part in each.strip().split("\n\n")] for each in (before, after))
    return Article(
        language, name, title, paragraphs, [*paragraphs[:-1], *later] if changed else paragraphs, bool(flags)
    )


CHANGED = tuple(each for each in articles() if each.paragraphs != each.later)
NEW = tuple(each for each in articles() if each.is_new)


class DemoSite:
    """The site, served on a free loopback port by threads of this process, as a context manager.

    `change` may be called while it is served; `sent` counts the bytes of all bodies.
    """

    def __init__(self) -> None:
        self.sent = 0
        self._is_changed = False
        self._server = _Server((ADDRESS, 0), _Handler)
        self._server.site = self
        self._thread = threading.Thread(target=self._server.serve_forever, name="demo site", daemon=True)

    def __enter__(self) -> DemoSite:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self._server.server_port}/"

    def change(self) -> None:
        """From now on it is as at the second visit."""
        self._is_changed = True

    def answer(self, target: str, if_none_match: str) -> tuple[int, dict[str, str], bytes]:
        """Status, header fields and body."""
        origin = self.url.rstrip("/")
        if target == "/robots.txt":
            return 200, {"Content-Type": "text/plain; charset=utf-8"}, _ROBOTS.format(origin=origin).encode()
        if target in _MOVED:
            return 301, {"Location": _MOVED[target]}, b""
        found = contents(origin, changed=self._is_changed).get(target)
        if found is None:
            return 404, {"Content-Type": _HTML}, document("en", "Gone", "<p>Gone out with the tide.</p>")
        kind, content = found
        tag = f'"{blake2b(content, digest_size=8).hexdigest()}"'
        if if_none_match == tag:
            return 304, {"ETag": tag}, b""
        return 200, {"Content-Type": kind, "ETag": tag}, content


class _Server(ThreadingHTTPServer):
    site: DemoSite
    request_queue_size = 128


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        status, fields, body = self.server.site.answer(self.path, self.headers.get("If-None-Match", ""))
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.server.site.sent += len(body)

    def log_message(self, format: str, *args: object) -> None:
        """Not logged: the terminal belongs to the demo."""


@cache
def contents(origin: str, *, changed: bool) -> Mapping[str, SitePage]:
    """All pages by target, as at the first or the second visit."""
    shown = [each for each in articles() if changed or not each.is_new]
    pages = {f"/{each.language}/{each.name}.html": (_HTML, _page(each, shown, changed=changed)) for each in shown}
    printed = {f"{path}?print=1": page for path, page in pages.items()}
    lists = {f"/{language}/index.html": (_HTML, _list(language, shown)) for language in _LANGUAGES}
    others: dict[str, SitePage] = {
        "/desk/ledger.html": (_HTML, document("en", "The ledger", "<p>Not for visitors.</p>")),
        "/en/note.html": (_HTML, document("en", "A note", "<p>No page leads here: the sitemap does.</p>")),
        "/script/tides.js": ("text/javascript", _SCRIPT.encode()),
        "/data/tides.json": ("application/json", json.dumps([_tide(hour) for hour in range(12)]).encode()),
        "/sitemap.xml": ("application/xml", _sitemap([f"{origin}/en/note.html", *(origin + path for path in lists)])),
        **{path: ("text/css", text.encode()) for path, text in _SHEETS.items()},
    }
    return {**others, **lists, **pages, **printed, **_pictures()}


def _tide(hour: int) -> str:
    return f"{hour:02d}:{hour * 37 % 60:02d}, {2 + hour * 7 % 30 / 10:.1f} m"


def _list(language: str, shown: list[Article]) -> bytes:
    title, heading, tides = _LANGUAGES[language]
    own = [each for each in shown if each.language == language]
    items = "\n".join(f'<li><a href="{each.name}.html">{escape(each.title)}</a></li>' for each in own)
    teaser = f"<p>{escape(own[0].paragraphs[0])}</p>"
    extra = '<p><a href="/desk/ledger.html">The desk</a>, <a href="/en/lost.html">a page that was lost</a>' + (
        ', <a href="/lighthouse.html">the lighthouse</a></p>' if language == "en" else "</p>"
    )
    moved = '<p><a href="/gezeiten.html">Gezeiten</a></p>' if language == "de" else ""
    tide = f'<p>{tides}: <span data-tide="4">...</span></p>'
    body = f"{_figure(0, title)}\n{teaser}\n{tide}\n<h2>{heading}</h2>\n<ul>\n{items}\n</ul>\n{extra}{moved}"
    return document(language, title, body)


_PRINTED = {"en": "For printing", "de": "Druckfassung", "fr": "Version imprimable"}


def _page(article: Article, shown: list[Article], *, changed: bool) -> bytes:
    paragraphs = article.later if changed else article.paragraphs
    prose = "\n".join(f"<p>{escape(each)}</p>" for each in paragraphs)
    number = sum(map(ord, article.name)) % 12
    others = [each for each in shown if each.name == article.name and each is not article]
    links = [f'<a href="/{each.language}/{each.name}.html">{escape(each.title)}</a>' for each in others]
    links.append(f'<a href="{article.name}.html?print=1">{_PRINTED[article.language]}</a>')
    return document(
        article.language, article.title, f"{_figure(number, article.title)}\n{prose}\n<nav>{' '.join(links)}</nav>"
    )


def _figure(number: int, text: str) -> str:
    small, large = f"/pictures/sky-{number}.png", f"/pictures/sky-{number}-large.png"
    return f'<figure><img src="{small}" srcset="{small} 1x, {large} 2x" alt="{escape(text)}"></figure>'


def document(language: str, title: str, body: str) -> bytes:
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>\n'
        '<link rel="stylesheet" href="/style/main.css"><link rel="icon" href="/pictures/boat.svg">'
        '<script defer src="/script/tides.js"></script>'
    )
    home = _LANGUAGES[language][0]
    text = f'<nav><a href="/{language}/index.html">{home}</a></nav>\n<h1>{escape(title)}</h1>\n{body}'
    return (
        f'<!doctype html>\n<html lang="{language}">\n<head>{head}</head>\n<body>\n{text}\n</body>\n</html>\n'.encode()
    )


def _sitemap(urls: list[str]) -> bytes:
    entries = "".join(f"<url><loc>{url}</loc></url>\n" for url in urls)
    return f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{entries}</urlset>\n'.encode()


@cache
def _pictures() -> Mapping[str, SitePage]:
    drawn = {
        "/pictures/boat.svg": '<path d="M2 20h28l-4 8H6zM15 2v16H5z" fill="#147"/>',
        "/pictures/wave.svg": '<path d="M0 28q8-8 16 0t16 0" fill="none" stroke="#7ac"/>',
    }
    start = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32" width="32" height="32">'
    drawings = {path: ("image/svg+xml", f"{start}{lines}</svg>\n".encode()) for path, lines in drawn.items()}
    small = {f"/pictures/sky-{hour}.png": ("image/png", _sky(hour, 1)) for hour in range(12)}
    large = {f"/pictures/sky-{hour}-large.png": ("image/png", _sky(hour, 2)) for hour in range(12)}
    return {**drawings, **small, **large}


def _sky(hour: int, scale: int) -> bytes:
    """The sky over the sea, lighter towards noon, with a sun."""

    def colour(x: int, y: int) -> Colour:
        light = 12 * (6 - abs(6 - hour))
        if (x // scale - 9 * hour - 10) ** 2 + (y // scale - abs(6 - hour) - 14) ** 2 < 14:
            return 250, 220, 90
        shade = y // scale
        if shade > 26:
            return 20, 60 + light // 2 + shade % 3 * 4, 110 + light - shade
        return 90 + light + shade, 140 + light + shade // 2, 170 + light

    return png(120 * scale, 40 * scale, colour)


def png(width: int, height: int, colour: Callable[[int, int], Colour]) -> bytes:
    """An RGB picture; `colour` returns the pixel at column and row."""
    rows = b"".join(b"\0" + bytes(part for x in range(width) for part in colour(x, y)) for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows, 9)) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
