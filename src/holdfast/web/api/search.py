"""Captures by their words, for programs: the query language, with facets and a timeline."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from holdfast.query import QueryOptions, QueryResult
from holdfast.query.results import LIMIT, Hit
from holdfast.web.api.endpoint import answer
from holdfast.web.bounded_scan import in_thread
from holdfast.web.context import WebContext
from holdfast.web.ui.display import path_to

LIMIT_MAX = 1000


async def search(site: WebContext, request: Request) -> Response:
    asked = request.query_params
    options = QueryOptions(
        sort=asked.get("sort", ""),
        limit=int(asked.get("limit", LIMIT)),
        offset=int(asked.get("offset", 0)),
        latest=asked.get("latest") == "true",
        snippets=asked.get("snippets") != "false",
        facets=tuple(dict.fromkeys(asked.getlist("facet"))),
        timeline=asked.get("timeline") == "true",
        collection=site.collection(asked.get("collection") or "all"),
    )
    found = await in_thread(site.full_text.ask, asked.get("q", ""), options)
    return answer(_values(site, found))


def _values(site: WebContext, found: QueryResult) -> dict[str, Any]:
    return {
        "query": found.query,
        "sort": found.sort,
        "total": found.total,
        "offset": found.offset,
        "hits": [_hit(site, each) for each in found.hits],
        "facets": {
            facet.name: [{"value": each.value, "count": each.count, "term": each.term} for each in facet.values]
            for facet in found.facets
        },
        "timeline": [{"month": each.month, "count": each.count} for each in found.timeline],
        "pending": found.pending,
    }


def _hit(site: WebContext, hit: Hit) -> dict[str, Any]:
    place = hit.collection, hit.timestamp, hit.url
    snippet = hit.snippet
    return {
        "record": str(hit.record),
        "url": hit.url,
        "timestamp": hit.timestamp,
        "title": hit.title or None,
        "mime": hit.mime if hit.mime != "-" else None,
        "status": hit.status or None,
        "lang": hit.lang if hit.lang != "-" else None,
        "size": hit.size,
        "collection": hit.collection,
        "rank": hit.rank,
        "inlinks": hit.inlinks,
        "score": hit.score,
        "snippet": {"text": snippet.text, "marks": [list(mark) for mark in snippet.marks]} if snippet else None,
        "page": site.controls_origin + path_to(*place),
        "raw": site.controls_origin + path_to(*place, "id_"),
    }
