"""The frame around an archived page: a slim banner with when it was captured, and what was before and after.

The page itself runs in the frame, on the other origin. It can say where it has gone and how old its parts are; the
banner's script believes only messages of that origin and frame, and takes them for text.
"""

from __future__ import annotations

from urllib.parse import quote, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.errors import UsageError
from holdfast.model import Capture
from holdfast.replay.asked import pick_of
from holdfast.replay.finding import Finder, shown_at
from holdfast.replay.pages.display import path_to
from holdfast.replay.pages.near import near
from holdfast.replay.pages.rendering import as_json, render
from holdfast.replay.site import Site
from holdfast.replay.target import DEFAULT, Target
from holdfast.replay.tokens import ticket


def banner(site: Site, request: Request, target: Target, capture: Capture) -> Response:
    """The page for a capture that a person looks at."""
    framed = path_to(target.place, target.timestamp, target.url, "mp_")
    return render(
        site,
        request,
        "replay.html",
        target=target,
        capture=capture,
        near=near(site, target, capture),
        framed=framed,
        enter=entrance(site, framed),
    )


def entrance(site: Site, framed: str) -> str:
    """Where the frame begins: the replay origin makes itself ready there, then goes to the page."""
    parts = {"to": framed}
    if pass_ := ticket(site):
        parts["ticket"] = pass_
    return f"{site.replay_origin}/_hf/enter?{urlencode(parts, quote_via=quote, safe='')}"


def routes(site: Site) -> list[Route]:
    finder = Finder(site)

    async def near_api(request: Request) -> Response:
        """JSON: the capture of `url` that stands for `timestamp`, and those before and after it."""
        site.tokens.require_read(request)
        asked = request.query_params
        url, timestamp, collection = (asked.get(name, "") for name in ("url", "timestamp", "collection"))
        if not url:
            raise UsageError("no URL given: ask with 'url=', 'timestamp=' and 'collection='")
        target = Target("replay", collection or DEFAULT, timestamp, url=url, pick=pick_of(request))
        within = site.collection(target.collection)
        capture = await run_in_threadpool(finder.find, within, url, timestamp, target.pick)
        target = target._replace(timestamp=shown_at(site, target, capture))
        found = await run_in_threadpool(near, site, target, capture)
        return as_json(site, found.as_dict())

    return [Route("/api/near", near_api)]
