"""What people paste into the box: often the address of a capture, here or in the Wayback Machine, not that of a page.

    https://web.archive.org/web/20200102030405/http://example.com/     the page, at that time
    http://127.0.0.1:8080/main/20200102030405/http://example.com/      the same of this server, in that collection

A fragment is taken off: browsers never sent it, so nothing is archived under it.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from holdfast.replay.site import Site
from holdfast.replay.target import parse_target
from holdfast.urls import parse

_WAYBACK = frozenset(("web.archive.org", "www.web.archive.org", "web-beta.archive.org", "wayback.archive-it.org"))
_KINDS = frozenset(("replay", "calendar", "timegate", "timemap"))
_DEEP_MAX = 3  # a capture of a capture of a capture


class Pasted(NamedTuple):
    """The page that is meant; time and collection are empty if the text named none."""

    url: str
    time: str = ""
    collection: str = ""


def pasted(site: Site, url: str, host: str = "") -> Pasted:
    """What an address stands for. `host` is the name by which the browser knows this server."""
    meant = Pasted(url.partition("#")[0])
    for _ in range(_DEEP_MAX):
        inner = _inner(site, meant, host)
        if inner is None:
            break
        meant = inner
    return meant


def _inner(site: Site, outer: Pasted, host: str) -> Pasted | None:
    """The page of which the address is a capture; None if it is a page itself."""
    parsed = parse(outer.url)
    if parsed is None or parsed.scheme not in ("http", "https"):
        return None
    at = f"{parsed.host}:{parsed.port}" if parsed.port else parsed.host
    ours = {host, urlsplit(site.controls_origin).netloc, urlsplit(site.replay_origin).netloc}
    if at not in ours and at not in _WAYBACK:
        return None
    rest = outer.url.split("/", 3)[3:]  # as it was written: the page's own address must come through unchanged
    target = parse_target(f"/{rest[0]}".encode("utf-8", "surrogateescape")) if rest else None
    if target is None or target.kind not in _KINDS or parse(target.url) is None:
        return None
    is_known = at in ours and site.has_collection(target.collection)
    return Pasted(
        target.url.partition("#")[0],
        (target.timestamp if target.kind == "replay" else "") or outer.time,
        target.collection if is_known else outer.collection,
    )
