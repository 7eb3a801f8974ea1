"""Crawls for programs: which there are, started and stopped."""

from __future__ import annotations

import json

from starlette.requests import Request
from starlette.responses import Response

from holdfast.errors import UsageError
from holdfast.web.api.endpoint import answer
from holdfast.web.bounded_scan import in_thread
from holdfast.web.context import WebContext
from holdfast.web.operations import crawls
from holdfast.web.write.write import body_of

_WISH_BYTES_MAX = 4 << 20


async def listing(site: WebContext, request: Request) -> Response:
    return answer({"crawls": await in_thread(crawls.listing, site)})


async def one(site: WebContext, request: Request) -> Response:
    return answer(await in_thread(crawls.detail, site, request.path_params["name"]))


async def start(site: WebContext, request: Request) -> Response:
    """Answers when the crawl runs, or with what kept it from running."""
    body = await body_of(request, min(_WISH_BYTES_MAX, site.settings.body_bytes_max))
    try:
        values = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the body is no JSON: {error}") from None
    if not isinstance(values, dict) or not values.get("seeds"):
        raise UsageError("the body must be a JSON object with 'seeds', a list of URLs")
    job = crawls.wish_of(values)
    return answer(await in_thread(crawls.start, site, job), 201)


async def stop(site: WebContext, request: Request) -> Response:
    name = request.path_params["name"]
    return answer({"name": name, "was_running": await in_thread(crawls.stop, site, name)})
