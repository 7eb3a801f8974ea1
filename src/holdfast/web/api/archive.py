"""What the archive holds and how it is, what two captures or the parts of a page have in common: for programs."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from holdfast.web.api.endpoint import answer
from holdfast.web.bounded_scan import in_thread
from holdfast.web.context import WebContext
from holdfast.web.operations import metrics
from holdfast.web.request import pick_of
from holdfast.web.ui.coherence import coherence
from holdfast.web.ui.comparison.compare import compare


async def collections(site: WebContext, request: Request) -> Response:
    """With access rules, without counts: they would tell of what is excluded."""
    totals = await in_thread(_totals, site)
    found = [
        {
            "name": name,
            "is_default": name == site.default_collection,
            "captures": totals.get(name, (0, 0))[0] if site.access.is_open else None,
            "payload_bytes": totals.get(name, (0, 0))[1] if site.access.is_open else None,
        }
        for name in await in_thread(site.collections)
    ]
    return answer({"collections": found})


def _totals(site: WebContext) -> dict[str, tuple[int, int]]:
    found, _ = site.archive.catalog.totals()
    return {name: (total.captures, total.payload_bytes) for name, total in found.items()}


async def status(site: WebContext, request: Request) -> Response:
    return answer(await in_thread(metrics.status, site))


async def volumes(site: WebContext, request: Request) -> Response:
    return answer({"volumes": await in_thread(site.volumes.listing)})


async def comparison(site: WebContext, request: Request) -> Response:
    asked = request.query_params
    collection = site.collection(asked.get("collection") or site.default_collection)
    found = await in_thread(compare, site, asked["url"], asked["a"], asked["b"], collection, pick_of(request))
    return answer(found.as_dict())


async def coherence_report(site: WebContext, request: Request) -> Response:
    asked = request.query_params
    collection = site.collection(asked.get("collection") or site.default_collection)
    found = await in_thread(coherence, site, asked["url"], asked.get("timestamp", ""), collection, pick_of(request))
    return answer(found.as_dict())
