"""What a page has become in the browser: its links, how it looks, what it consists of, what it says.

What is asked of a page, in a world of its own that the page's scripts cannot reach.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from holdfast.crawl.processes.messages import Fetched, FetchJob, FetchOutcome
from holdfast.formats.html.links import Document, links_of
from holdfast.formats.html.links.references import Hop
from holdfast.formats.record import Headers
from holdfast.urls import canonical, parse

DOM_CHARACTERS_MAX = 16 << 20
LINKS_MAX = 20_000
PICTURE_BYTES_MAX = 32 << 20
_HTML = "text/html; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"
_PNG = "image/png"

VIEW = "urn:view:"
DOM = "urn:dom:"
TEXT = "urn:text:"


class PageFacts(NamedTuple):
    """Of one page."""

    url: str = ""  # what the browser shows as its address; scripts may change it
    links: tuple[tuple[str, str], ...] = ()
    dom: str = ""
    text: str = ""
    picture: bytes = b""
    note: str = ""  # what is missing, and why


def resources(job: FetchJob, harvest: PageFacts) -> list[Fetched]:
    """The records that are made of a page."""
    made = [
        (VIEW, _PNG, harvest.picture if len(harvest.picture) <= PICTURE_BYTES_MAX else b""),
        (DOM, _HTML, harvest.dom.encode("utf-8", "replace")),
        (TEXT, _TEXT, harvest.text.encode("utf-8", "replace")),
    ]
    return [_resource(job, prefix + job.url, kind, body) for prefix, kind, body in made if body]


def _resource(job: FetchJob, url: str, kind: str, body: bytes) -> Fetched:
    made_of = FetchJob(job.id, url, job.host)
    return Fetched(made_of, FetchOutcome.OK, started=time.time(), body=body, size=len(body), part=True, resource=kind)


def all_links(job: FetchJob, harvest: PageFacts, left_for: list[str]) -> tuple[tuple[str, str], ...]:
    """Where the page wanted to go, what its scripts made, and what the markup says in the end; each URL once."""
    found: dict[str, str] = {}
    for url in left_for:
        _add(found, url, Hop.REDIRECT)
    if harvest.url:
        _add(found, harvest.url, Hop.LINK)
    for url, hop in harvest.links:
        _add(found, url, hop)
    for url, hop in links_of(document_of(job, harvest, Headers([]))):
        _add(found, url, hop)
    found.pop(job.url, None)
    return tuple(found.items())


def document_of(job: FetchJob, harvest: PageFacts, headers: Headers) -> Document:
    """The page as it was in the end."""
    return Document(job.url, harvest.dom.encode("utf-8", "replace"), _HTML, headers, 200)


def _add(found: dict[str, str], url: str, hop: str) -> None:
    parsed = parse(url)
    if parsed is not None and parsed.scheme in ("http", "https"):
        found.setdefault(canonical(parsed.href), hop)


SCROLL = """((steps) => {
  const page = document.scrollingElement || document.documentElement;
  if (!page) return true;
  const left = page.scrollHeight - innerHeight - page.scrollTop;
  const step = Math.max(innerHeight * 0.9, left / steps, 100);
  scrollTo({top: page.scrollTop + step, behavior: 'instant'});
  return left <= 2;
})(%d)"""  # whether it was at the end; as fast as it must be to come there in so many steps

TO_TOP = "scrollTo({top: 0, behavior: 'instant'})"

HEIGHT = """(() => {
  const page = document.scrollingElement || document.documentElement;
  return page ? Math.ceil(Math.max(page.scrollHeight, innerHeight)) : innerHeight;
})()"""

HARVEST = """((bytes, count) => {
  const links = [], seen = new Set();
  const add = (url, hop) => {
    if (typeof url === 'string' && /^https?:/.test(url) && links.length < count && !seen.has(url)) {
      seen.add(url);
      links.push([url, hop]);
    }
  };
  const walk = (root, depth) => {
    for (const each of root.querySelectorAll('a[href], area[href]')) add(each.href, 'L');
    for (const each of root.querySelectorAll('iframe[src], frame[src]')) add(each.src, 'E');
    if (depth < 20)
      for (const each of root.querySelectorAll('*')) if (each.shadowRoot) walk(each.shadowRoot, depth + 1);
  };
  walk(document, 0);
  const type = document.doctype ? new XMLSerializer().serializeToString(document.doctype) + '\\n' : '';
  const dom = document.documentElement ? type + document.documentElement.outerHTML : '';
  const text = document.body ? document.body.innerText || '' : '';
  return {url: location.href, links, dom: dom.slice(0, bytes), text: text.slice(0, bytes)};
})(%d, %d)"""
