"""The site that `holdfast demo` crawls: the almanac of a harbour that does not exist.

About 200 URLs in its own words with its own pictures: a page for each day, a printed form of some with the same bytes,
style sheets that import each other, a script that loads a list, drawings and pictures made by code, old addresses that
redirect, a link or two to what is gone, pages that only the sitemap knows, and a desk that robots.txt closes. After
`change`, a tenth of the days have another text and some days are new; all other pages are unchanged and answer 304 to a
request with their ETag.
"""

from __future__ import annotations

import json
import struct
import threading
import zlib
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random

DAYS = 120
NEW_DAYS = 6  # since the first visit
CHANGED_SHARE = 0.1
ADDRESS = "127.0.0.1"
_PRINTED_EVERY = 4
_MOVED_EVERY = 10
_HIDDEN = 5  # pages that only the sitemap knows
_HTML = "text/html; charset=utf-8"
_ROBOTS = "User-agent: *\nDisallow: /desk/\n\nSitemap: {origin}/sitemap.xml\n"
_SHEETS = {
    "/style/main.css": '@import "colours.css";\n@import url(print.css) print;\nbody { margin: 2em; width: 40em }\n',
    "/style/colours.css": "body { background: #f4f8fa url(../pictures/wave.svg) repeat-x; color: #123 }\n",
    "/style/print.css": "nav { display: none }\n",
}
_SCRIPT = 'fetch("/data/tides.json").then((answer) => answer.json()).then((tides) => { window.tides = tides; });\n'

_VOCABULARY = (
    "anchor archive barnacle beacon boat bottle breeze buoy chart cliff coast copper current deck dock drift eel ferry "
    "fog gale gull harbour heron island keel kelp ladder lamp ledger limpet mast mist mooring mussel net north oar "
    "otter pebble pier plank quay reef rope rudder sail salt sand seal shell signal slip spray squall storm tide tower "
    "twine wave wharf wind winter and at before below beside for from in into near of on over past the to under with"
)
WORDS = tuple(_VOCABULARY.split())

SitePage = tuple[str, bytes]  # media type and content
Colour = tuple[int, int, int]


class DemoSite:
    """The site, served on a free port of loopback by threads of this process, as a context manager.

    `change` may be called while it is served; `sent` counts the bytes of all bodies.
    """

    def __init__(self) -> None:
        self.sent = 0
        self._share = 0.0
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

    def change(self, share: float) -> None:
        """Makes it the site of a later day: that share of the pages has changed, and some are new."""
        self._share = share

    def answer(self, target: str, if_none_match: str) -> tuple[int, dict[str, str], bytes]:
        """Status, header fields and body."""
        origin = self.url.rstrip("/")
        if target == "/robots.txt":
            return 200, {"Content-Type": "text/plain; charset=utf-8"}, _ROBOTS.format(origin=origin).encode()
        if target.startswith("/old/"):
            return 301, {"Location": f"/days/{target.rpartition('/')[2]}"}, b""
        found = contents(origin, self._share).get(target)
        if found is None:
            return 404, {"Content-Type": _HTML}, document("Gone", "<p>Gone out with the tide.</p>")
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
        """Nothing: the terminal belongs to the demo."""


@cache
def contents(origin: str, share: float) -> Mapping[str, SitePage]:
    """All that the site has, by target; `share` of the days have another text, and if any, some days are new."""
    days = DAYS + (NEW_DAYS if share else 0)
    changed = set(Random(2).sample(range(DAYS), round(DAYS * share)))
    pages = {f"/days/{day}.html": (_HTML, _day(day, 2 if day in changed or day >= DAYS else 1)) for day in range(days)}
    printed = {f"/days/{day}.html?print=1": pages[f"/days/{day}.html"] for day in range(0, days, _PRINTED_EVERY)}
    hidden = {f"/notes/{number}.html": (_HTML, _note(number)) for number in range(_HIDDEN)}
    others: dict[str, SitePage] = {
        "/": (_HTML, _home(days)),
        "/desk/ledger.html": (_HTML, document("The ledger", "<p>Not for visitors.</p>")),
        "/script/tides.js": ("text/javascript", _SCRIPT.encode()),
        "/data/tides.json": ("application/json", json.dumps([day * 37 % 12 for day in range(60)]).encode()),
        "/sitemap.xml": ("application/xml", _sitemap([origin + path for path in (*hidden, *list(pages)[-3:])])),
        **{path: ("text/css", text.encode()) for path, text in _SHEETS.items()},
    }
    return {**others, **pages, **printed, **hidden, **_pictures()}


def _home(days: int) -> bytes:
    listed = "\n".join(f'<li><a href="days/{day}.html">Day {day}</a></li>' for day in range(0, days, 5))
    more = '<p><a href="/desk/ledger.html">The desk</a>, <a href="/days/9999.html">a day that never came</a></p>'
    return document("The almanac", f'<img src="/pictures/boat.svg" alt="A boat">\n<ul>\n{listed}\n</ul>\n{more}')


def _day(day: int, edition: int) -> bytes:
    random = Random(day * 10 + edition)
    prose = "\n".join(f"<p>{_sentence(random)}</p>" for _ in range(6))
    small, large = f"/pictures/sky-{day % 12}.png", f"/pictures/sky-{day % 12}-large.png"
    picture = f'<img src="{small}" srcset="{small} 1x, {large} 2x" alt="The sky">'
    links = [f'<a href="{near}.html">Day {near}</a>' for near in (day - 1, day + 1) if 0 <= near < DAYS + NEW_DAYS]
    if day % _MOVED_EVERY == 0:
        links.append(f'<a href="/old/{day * 7 % DAYS}.html">A day long ago</a>')
    if day % _PRINTED_EVERY == 0:
        links.append(f'<a href="{day}.html?print=1">To be printed</a>')
    return document(f"Day {day}", f"{picture}\n{prose}\n<nav>{' '.join(links)}</nav>")


def _note(number: int) -> bytes:
    return document(f"Note {number}", f"<p>{_sentence(Random(f'note {number}'))}</p>")


def _sentence(random: Random) -> str:
    return " ".join(random.choices(WORDS, k=50)).capitalize() + "."


def document(title: str, body: str) -> bytes:
    head = (
        f'<meta charset="utf-8"><title>{title}</title>\n<link rel="stylesheet" href="/style/main.css">'
        '<link rel="icon" href="/pictures/boat.svg"><script src="/script/tides.js"></script>'
    )
    text = f'<h1>{title}</h1>\n{body}\n<p><a href="/">The almanac</a></p>'
    return f'<!doctype html>\n<html lang="en">\n<head>{head}</head>\n<body>\n{text}\n</body>\n</html>\n'.encode()


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
    """The sky over the sea, lighter towards noon, with a sun that crosses it."""

    def colour(x: int, y: int) -> Colour:
        light = 12 * (6 - abs(6 - hour))
        if (x // scale - 4 * hour - 6) ** 2 + (y // scale - abs(6 - hour) * 2 - 4) ** 2 < 10:
            return 250, 220, 90
        sea = y // scale > 22
        return (20, 60 + light // 2, 110 + light) if sea else (90 + light, 140 + light, 170 + light)

    return png(56 * scale, 32 * scale, colour)


def png(width: int, height: int, colour: Callable[[int, int], Colour]) -> bytes:
    """An RGB picture; `colour` gives the pixel at column and row."""
    rows = b"".join(b"\0" + bytes(part for x in range(width) for part in colour(x, y)) for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows, 9)) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
