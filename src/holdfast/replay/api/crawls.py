"""Crawls for programs: which there are, started and stopped."""

from __future__ import annotations

import json

from starlette.requests import Request
from starlette.responses import Response

from holdfast.errors import UsageError
from holdfast.replay import crawling
from holdfast.replay.api.endpoint import answer
from holdfast.replay.scanning import in_thread
from holdfast.replay.site import Site
from holdfast.replay.writing import body_of

_WISH_BYTES_MAX = 4 << 20


async def listing(site: Site, request: Request) -> Response:
    return answer({"crawls": await in_thread(crawling.listing, site)})


async def one(site: Site, request: Request) -> Response:
    return answer(await in_thread(crawling.detail, site, request.path_params["name"]))


async def start(site: Site, request: Request) -> Response:
    """Answers when the crawl runs, or with what kept it from running."""
    body = await body_of(request, min(_WISH_BYTES_MAX, site.settings.body_bytes_max))
    try:
        values = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the body is no JSON: {error}") from None
    if not isinstance(values, dict) or not values.get("seeds"):
        raise UsageError("the body must be a JSON object with 'seeds', a list of URLs")
    job = crawling.wish_of(values)
    return answer(await in_thread(crawling.start, site, job), 201)


async def stop(site: Site, request: Request) -> Response:
    name = request.path_params["name"]
    return answer({"name": name, "was_running": await in_thread(crawling.stop, site, name)})
