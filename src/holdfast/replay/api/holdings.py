"""What the archive holds and how it is, what two captures or the parts of a page have in common: for programs."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from holdfast.replay import operations
from holdfast.replay.api.endpoint import answer
from holdfast.replay.asked import pick_of
from holdfast.replay.coherence import coherence
from holdfast.replay.comparison.comparing import compare
from holdfast.replay.scanning import in_thread
from holdfast.replay.site import Site


async def collections(site: Site, request: Request) -> Response:
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


def _totals(site: Site) -> dict[str, tuple[int, int]]:
    found, _ = site.archive.catalog.totals()
    return {name: (total.captures, total.payload_bytes) for name, total in found.items()}


async def status(site: Site, request: Request) -> Response:
    return answer(await in_thread(operations.status, site))


async def volumes(site: Site, request: Request) -> Response:
    return answer({"volumes": await in_thread(site.volumes.listing)})


async def comparison(site: Site, request: Request) -> Response:
    asked = request.query_params
    collection = site.collection(asked.get("collection") or site.default_collection)
    found = await in_thread(compare, site, asked["url"], asked["a"], asked["b"], collection, pick_of(request))
    return answer(found.as_dict())


async def coherence_report(site: Site, request: Request) -> Response:
    asked = request.query_params
    collection = site.collection(asked.get("collection") or site.default_collection)
    found = await in_thread(coherence, site, asked["url"], asked.get("timestamp", ""), collection, pick_of(request))
    return answer(found.as_dict())
