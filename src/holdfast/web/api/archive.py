"""The archive as a whole, for programs: collections, volumes, nodes, status; comparisons and the coherence of pages."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from holdfast.catalog import Total
from holdfast.web.api import operations
from holdfast.web.api.endpoint import COLLECTION, PICK, TIMESTAMP, collection_in, endpoint, time, url
from holdfast.web.context import WebContext
from holdfast.web.request import pick_of
from holdfast.web.ui.coherence import coherence
from holdfast.web.ui.comparison.compare import compare


@endpoint("GET /api/collections", "Collections")
def list_collections(site: WebContext, request: Request) -> dict[str, Any]:
    """The collections, with counts where there are no access rules.

    With access rules, counts would reveal what is excluded.
    """
    totals = site.archive.catalog.totals()[0] if site.access.is_open else None
    found = []
    for name in site.collections():
        counts: dict[str, int | None] = {"captures": None, "payload_bytes": None}
        if totals is not None:
            total = totals.get(name, Total(0, 0))
            counts = {"captures": total.captures, "payload_bytes": total.payload_bytes}
        found.append({"name": name, "is_default": name == site.default_collection, **counts})
    return {"collections": found}


@endpoint("GET /api/volumes", "Volumes")
def list_volumes(site: WebContext, request: Request) -> dict[str, Any]:
    """The volumes: what they are doing, how full and how fragmented they are."""
    return {"volumes": site.volumes.listing()}


@endpoint("GET /api/nodes", "Nodes")
def list_nodes(site: WebContext, request: Request) -> dict[str, Any]:
    """The nodes of the cluster: state, space, partitions; none if this archive is not a node."""
    return site.nodes()


@endpoint("GET /api/status", "Status")
def get_status(site: WebContext, request: Request) -> dict[str, Any]:
    """The same as /status."""
    return operations.status(site)


@endpoint(
    "GET /api/compare",
    "Comparison",
    url(),
    time("a", "the one", required=True),
    time("b", "the other", required=True),
    PICK,
    COLLECTION,
)
def compare_captures(site: WebContext, request: Request) -> dict[str, Any]:
    """How two captures of a URL differ: text, links, headers."""
    given, collection = request.query_params, collection_in(site, request)
    return compare(site, given["url"], given["a"], given["b"], collection, pick_of(request)).as_dict()


@endpoint("GET /api/coherence", "Coherence", url("the URL of a page"), TIMESTAMP, PICK, COLLECTION)
def get_coherence(site: WebContext, request: Request) -> dict[str, Any]:
    """How far the parts of a page lie from it in time."""
    given, collection = request.query_params, collection_in(site, request)
    return coherence(site, given["url"], given.get("timestamp", ""), collection, pick_of(request)).as_dict()
