"""The comparison of two captures.

    /compare                                    a form
    /compare?url=                               which two of its captures?
    /compare?url=&a=TIME&b=TIME&view=VIEW       text, links, headers, or side (both pages beside each other)

Times may be partial; the captures that stand for them are compared, by `pick` if it is given. Archived pages are shown
in frames of the other origin.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import asdict, dataclass, replace
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from holdfast.catalog.timestamps import digits
from holdfast.errors import CaptureNotFound, UsageError
from holdfast.web.context import WebContext
from holdfast.web.request import ALL, pick_of
from holdfast.web.ui.comparison.compare import ROLES, Comparison, compare
from holdfast.web.ui.comparison.side import Side
from holdfast.web.ui.display import page_address, path_to, visible
from holdfast.web.ui.history import ChangeMark, Seen, history
from holdfast.web.ui.pages.banner import entrance
from holdfast.web.ui.pages.search import address_in, pasted
from holdfast.web.ui.render import render

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
        """The address of a page that differs in this."""
        return page_address("/compare", asdict(self) | changes, {"collection": ALL})


async def compare_page(site: WebContext, request: Request) -> Response:
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
        is_picture = found.text is None and _is_framed(found.a) and _is_framed(found.b)
        wanted = replace(wanted, view="side" if is_picture else "text")
    return render(site, request, "compare.html", **_values(site, wanted, found))


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


async def _choice(site: WebContext, request: Request, wanted: CompareRequest) -> Response:
    """The form, and the last captures of the URL to choose from if there is one, in order of time."""
    found: list[Seen] = []
    if wanted.url:
        captured = history(site, site.collection(wanted.collection), wanted.url)
        found = list(await run_in_threadpool(deque, captured, CHOICES_MAX))
    # Preselected: the last that changed, and the one before it.
    times = [seen.capture.timestamp for seen in found] or [""]
    changed = [place for place, seen in enumerate(found) if place and seen.mark is ChangeMark.CHANGED]
    last = changed[-1] if changed else len(times) - 1
    values = {"wanted": wanted, "choices": found[::-1], "most": CHOICES_MAX}
    values |= {"a": times[max(0, last - 1)], "b": times[last]}
    status = 404 if wanted.url and not found else 200
    return render(site, request, "compare_choice.html", status=status, **values)


def _values(site: WebContext, wanted: CompareRequest, found: Comparison) -> dict[str, Any]:
    sides = (("a", "Earlier", wanted.a, found.a), ("b", "Later", wanted.b, found.b))
    if found.a.capture.timestamp > found.b.capture.timestamp:
        sides = (("a", "Left", wanted.a, found.a), ("b", "Right", wanted.b, found.b))
    return {
        "wanted": wanted,
        "found": found,
        "sides": sides,
        "frames": {
            name: entrance(site, path_to(wanted.collection, side.capture.timestamp, wanted.url, "if_"))
            for name, _, _, side in sides
            if wanted.view == "side" and _is_framed(side)
        },
        "views": VIEWS,
        "roles": ROLES,
        "links_shown": LINKS_SHOWN,
        "plain": plain,
    }


def plain(text: str) -> str:
    """A line of text in which nothing turns the direction of writing: what would is shown as an escape."""
    return _TURNS.sub(lambda match: visible(match[0]), text)


def _is_framed(side: Side) -> bool:
    """Whether a browser would show it in a frame."""
    return not side.problem and (not side.kind or side.kind.startswith(_FRAMED))
