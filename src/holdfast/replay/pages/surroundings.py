"""What is archived around an address that is not: in other collections, spelled otherwise, and nearby."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import unquote

from holdfast.catalog import CaptureQuery
from holdfast.catalog.pick import ordered
from holdfast.model import Capture, Pick
from holdfast.replay.pages.history import captures
from holdfast.replay.pages.listing import Listed, Page, read_page
from holdfast.replay.pages.readable import readable_host
from holdfast.replay.site import Site
from holdfast.replay.target import ALL, Target
from holdfast.urls import parse, url_key

NEIGHBOURS_MAX = 8
LOOK_MAX = 2000  # captures in one directory: this is done while others wait
_WORDS = re.compile(r"[^\W_]{3,}")
_ENDING = re.compile(r"\.[a-z0-9]{1,5}$", re.IGNORECASE)


class Elsewhere(NamedTuple):
    """A collection that has the address."""

    collection: str
    capture: Capture  # that which stands for the time there


class Surroundings(NamedTuple):
    """Everything that may help on."""

    later: Capture | None  # the first after the time, where none may be newer than that
    elsewhere: list[Elsewhere]
    spelled: list[Capture]  # the same page under another address
    neighbours: list[Listed]
    directory: str  # of the neighbours, with a star; empty if there are none
    within: str  # the collection of the neighbours, as addresses name it: that which was asked for, else all


def surroundings(site: Site, target: Target) -> Surroundings:
    """A few look-ups, each bounded. What the collection has goes before what others have."""
    spelled = [capture for url in _spellings(target.url) if (capture := _newest(site, target, url))]
    elsewhere, later = _elsewhere(site, target), _later(site, target)
    for within in dict.fromkeys((target.collection, ALL)):
        for directory in _directories(target.url):
            page = _neighbours(site, within, directory)
            if page.listed:
                return Surroundings(later, elsewhere, spelled, page.listed, directory, within)
    return Surroundings(later, elsewhere, spelled, [], "", target.collection)


def similar(url: str) -> str:
    """Words to look for in other addresses: the host, and what the last part of the path says."""
    parsed = parse(url)
    if parsed is None or not parsed.host:
        return url
    last = _ENDING.sub("", unquote(parsed.path.rstrip("/").rpartition("/")[2]))
    return " ".join([readable_host(parsed.host).removeprefix("www."), *_WORDS.findall(last)[:3]])


def _neighbours(site: Site, within: str, directory: str) -> Page:
    return read_page(site, within, directory, most=NEIGHBOURS_MAX, look=LOOK_MAX)


def _elsewhere(site: Site, target: Target) -> list[Elsewhere]:
    if target.collection == ALL:
        return []
    here = site.collection(target.collection)
    found = []
    for name in site.collections():
        query = CaptureQuery(url=target.url, match="exact", collection=name)
        query = ordered(query, target.timestamp, target.pick or site.pick)
        capture = next(captures(site, query), None) if name != here else None
        if capture is not None:
            found.append(Elsewhere(name, capture))
    return found


def _later(site: Site, target: Target) -> Capture | None:
    if not target.timestamp or (target.pick or site.pick) is Pick.NEAREST:
        return None
    query = CaptureQuery(
        url=target.url, match="exact", collection=site.collection(target.collection), from_=target.timestamp
    )
    return next(captures(site, query), None)


def _newest(site: Site, target: Target, url: str) -> Capture | None:
    query = CaptureQuery(url=url, match="exact", collection=site.collection(target.collection), sort="reverse")
    here = next(captures(site, query), None)
    return here or next(captures(site, replace(query, collection=None)), None)


def _spellings(url: str) -> list[str]:
    """Addresses that people mean by this one: with and without a query, `index.html`, a last part, `m.` before it.

    Scheme, `www.` and a last slash are no part of the catalog's keys, so they need no suggestion.
    """
    bare, _, query = url.partition("?")
    others = [bare] if query else []
    if bare.endswith(("/index.html", "/index.htm", "/index.php")):
        others.append(bare.rpartition("/")[0] + "/")
    else:
        others += [bare.rstrip("/") + end for end in ("/index.html", ".html")]
    scheme, _, rest = bare.partition("://")
    others.append(f"{scheme}://{rest[2:]}" if rest.startswith("m.") else f"{scheme}://m.{rest}")
    key = url_key(url)
    return [other for other in others if url_key(other) != key]


def _directories(url: str) -> list[str]:
    """What the address is in, from near to far: its folder, the folder above, the whole host, the domain."""
    parsed = parse(url)
    if parsed is None or not parsed.host:
        return []
    origin = f"{parsed.scheme}://{parsed.host}{f':{parsed.port}' if parsed.port else ''}"
    parts = parsed.path.split("/")[1:-1]
    folders = ["/".join(parts[:end]) for end in range(len(parts), max(0, len(parts) - 3), -1)]
    return [*(f"{origin}/{folder}/*" for folder in folders if folder), f"{origin}/*", f"*.{parsed.host}"]
