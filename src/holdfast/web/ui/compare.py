"""The comparison of two captures, for people.

    /compare                                    a form
    /compare?url=                               which two of its captures?
    /compare?url=&a=TIME&b=TIME&view=VIEW       text, links, headers, or side (both pages beside each other)

Times may be partial; the captures that stand for them are taken, by `pick` if it is given. Archived pages are shown in
frames of the other origin.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.catalog.timestamps import digits
from holdfast.errors import CaptureNotFound, UsageError
from holdfast.web.context import WebContext
from holdfast.web.request import ALL, pick_of
from holdfast.web.ui.address_search import pasted
from holdfast.web.ui.comparison import Comparison, Side, compare
from holdfast.web.ui.comparison.links import ROLES
from holdfast.web.ui.display import path_to, visible
from holdfast.web.ui.history import ChangeMark, Seen, history
from holdfast.web.ui.render import render
from holdfast.web.ui.replay import entrance
from holdfast.web.ui.search import address_in

VIEWS = {"text": "Text", "links": "Links", "headers": "Headers", "side": "Side by side"}
CHOICES_MAX = 200  # captures among which one chooses; the newest
LINKS_SHOWN = 1000
_URL_MAX = 16 << 10
_TURNS = re.compile("[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]")
_FRAMED = ("text/", "image/", "application/xhtml", "application/pdf", "application/json", "video/", "audio/")


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """What the address of the page says."""

    url: str
    a: str
    b: str
    collection: str
    view: str  # empty: the one that fits
    pick: str = ""  # empty: as the settings say

    def link(self, **changes: str) -> str:
        values = {"url": self.url, "a": self.a, "b": self.b, "collection": self.collection, "view": self.view}
        values |= {"pick": self.pick} | changes
        told = {name: value for name, value in values.items() if value and (name, value) != ("collection", ALL)}
        return f"/compare?{urlencode(told, errors='surrogateescape')}"


def routes(site: WebContext) -> list[Route]:
    async def page(request: Request) -> Response:
        site.tokens.require_read(request)
        wanted = wanted_of(site, request)
        if not (wanted.url and wanted.a and wanted.b):
            return await _choice(site, request, wanted)
        views = () if wanted.view == "side" else (wanted.view or "text",)
        try:
            collection = site.collection(wanted.collection)
            found = await run_in_threadpool(
                lambda: compare(site, wanted.url, wanted.a, wanted.b, collection, pick_of(request), views=views)
            )
        except CaptureNotFound:
            return await _choice(site, request, wanted)
        if not wanted.view:
            wanted = replace(wanted, view=fitting_view(found))
        return render(site, request, "compare.html", **_values(site, wanted, found))

    return [Route("/compare", page)]


def wanted_of(site: WebContext, request: Request) -> CompareRequest:
    """Raises UsageError, MalformedQuery or UnknownCollection."""
    given = {name: request.query_params.get(name, "").strip() for name in ("url", "a", "b", "collection", "view")}
    if len(given["url"]) > _URL_MAX:
        raise UsageError("the URL is too long")
    for name in ("a", "b"):
        if given[name]:
            given[name] = digits(given[name], name)
    if given["view"] not in ("", *VIEWS):
        raise UsageError(f"unknown view {given['view'][:40]!r}: one of {', '.join(VIEWS)}")
    collection = given["collection"] or ALL
    site.collection(collection)
    address = address_in(given["url"])
    url = pasted(site, address, request.headers.get("host", "")).url if address else given["url"]
    return CompareRequest(url, given["a"], given["b"], collection, given["view"], pick_of(request) or "")


def fitting_view(found: Comparison) -> str:
    """Text where there is some; pictures and the like are looked at."""
    has_none = found.text is None and _is_framed(found.a) and _is_framed(found.b)
    return "side" if has_none else "text"


async def _choice(site: WebContext, request: Request, wanted: CompareRequest) -> Response:
    """The form, and the captures of the URL to choose from if there is one."""
    found = await run_in_threadpool(_choices, site, wanted) if wanted.url else []
    status = 404 if wanted.url and not found else 200
    values = {"wanted": wanted, "choices": found[::-1], "most": CHOICES_MAX, "views": VIEWS}
    return render(site, request, "compare_choice.html", status=status, **values | _usual(found))


def _choices(site: WebContext, wanted: CompareRequest) -> list[Seen]:
    """The last captures in order of time, each with what became of the page since the one before it."""
    return list(deque(history(site, site.collection(wanted.collection), wanted.url), CHOICES_MAX))


def _usual(found: list[Seen]) -> dict[str, str]:
    """Which two are chosen unless somebody chooses: the last that changed, and the one before it."""
    times = [seen.capture.timestamp for seen in found]
    changed = [place for place, seen in enumerate(found) if place and seen.mark is ChangeMark.CHANGED]
    place = changed[-1] if changed else len(times) - 1
    return {"a": times[max(0, place - 1)] if times else "", "b": times[place] if times else ""}


def _values(site: WebContext, wanted: CompareRequest, found: Comparison) -> dict[str, Any]:
    sides = (("a", "Earlier", wanted.a, found.a), ("b", "Later", wanted.b, found.b))
    if found.a.capture.timestamp > found.b.capture.timestamp:
        sides = (("a", "Left", wanted.a, found.a), ("b", "Right", wanted.b, found.b))
    return {
        "wanted": wanted,
        "found": found,
        "sides": sides,
        "frames": _frames(site, wanted, found) if wanted.view == "side" else {},
        "views": VIEWS,
        "roles": ROLES,
        "links_shown": LINKS_SHOWN,
        "plain": plain,
    }


def plain(text: str) -> str:
    """A line of text in which nothing turns the direction of writing: what would is shown as an escape."""
    return _TURNS.sub(lambda match: visible(match[0]), text)


def _frames(site: WebContext, wanted: CompareRequest, found: Comparison) -> dict[str, str]:
    """Where the frame of each side begins; none for what a browser would not show."""
    return {
        name: entrance(site, path_to(wanted.collection, side.capture.timestamp, wanted.url, "if_"))
        for name, side in (("a", found.a), ("b", found.b))
        if _is_framed(side)
    }


def _is_framed(side: Side) -> bool:
    return not side.problem and (not side.kind or side.kind.startswith(_FRAMED))
