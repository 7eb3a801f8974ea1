"""The API as a whole: its routes, its description as OpenAPI 3.1, and the page that shows it to people."""

from __future__ import annotations

from types import UnionType
from typing import Any, get_args

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast import __version__
from holdfast.errors import NotFound
from holdfast.web.api import archive, captures, crawls
from holdfast.web.api.endpoint import ENDPOINTS, HEADERS, PROBLEM, Endpoint, Parameter, Schema, json_response, ref
from holdfast.web.api.endpoint import problem as problem_response
from holdfast.web.api.write import write
from holdfast.web.context import VOLUME_FIGURES, WebContext
from holdfast.web.ui.render import render

_DECLARED = (archive, captures, crawls, write)  # their import has declared all endpoints
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


async def description(site: WebContext, request: Request) -> Response:
    return json_response(openapi(site.controls_origin, needs_token=not site.tokens.is_open))


async def docs(site: WebContext, request: Request) -> Response:
    return render(site, request, "api.html", endpoints=ENDPOINTS, here="/api/docs")


def routes(site: WebContext) -> list[Route]:
    async def nothing(request: Request) -> Response:
        path = request.url.path[:200]
        return problem_response(NotFound(f"nothing is at '{path}': the endpoints are listed at /api/docs"))

    paths: dict[str, dict[str, Endpoint]] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    return [
        *(_route(site, path, methods) for path, methods in paths.items()),
        Route("/api/{rest:path}", nothing, methods=list(_METHODS)),
    ]


def _route(site: WebContext, path: str, endpoints: dict[str, Endpoint]) -> Route:
    """One route per path for all methods, so that a 405 can list the allowed ones."""
    allowed = ", ".join(endpoints)

    async def respond(request: Request) -> Response:
        endpoint = endpoints.get("GET" if request.method == "HEAD" else request.method)
        if endpoint is None:
            values = {"type": "about:blank", "title": "Method Not Allowed", "status": 405, "detail": f"only {allowed}"}
            return JSONResponse(values, 405, {**HEADERS, "Allow": allowed}, PROBLEM)
        return await endpoint.respond(site, request)

    return Route(path, respond, methods=list(_METHODS))


def openapi(origin: str, *, needs_token: bool) -> dict[str, Any]:
    """The description. `needs_token`: reading needs a token too."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, needs_token=needs_token)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": __version__,
            "summary": "A web archive: captures by URL and time.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": origin}],
        "paths": paths,
        "components": {"schemas": _COMPONENTS, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _operation(endpoint: Endpoint, *, needs_token: bool) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.operation,
        "summary": endpoint.about,
        "parameters": [_parameter(each, endpoint) for each in endpoint.parameters],
        "responses": _responses(endpoint),
    }
    if endpoint.body is not None:
        content = {name: {"schema": schema} for name, schema in endpoint.body.types.items()}
        operation["requestBody"] = {"description": endpoint.body.about, "required": True, "content": content}
    if endpoint.writes or needs_token:
        operation["security"] = [{"token": []}]
    return operation


def _parameter(parameter: Parameter, endpoint: Endpoint) -> dict[str, Any]:
    in_path = f"{{{parameter.name}}}" in endpoint.path
    return {
        "name": parameter.name,
        "in": "path" if in_path else "query",
        "required": parameter.required or in_path,
        "description": parameter.about,
        "schema": _list(parameter.schema) if parameter.repeats else parameter.schema,
    }


def _responses(endpoint: Endpoint) -> dict[str, Any]:
    """Besides the API's problems, the server itself refuses requests beyond its limits, in plain text."""
    if "/" in endpoint.answer:
        content: dict[str, Any] = {endpoint.answer: {"schema": {"type": "string", "format": "binary"}}}
    else:
        content = {"application/json": {"schema": ref(endpoint.answer)}}
    problem = {PROBLEM: {"schema": ref("Problem")}, "text/plain": {"schema": {"type": "string"}}}
    return {
        **{str(status): {"description": "As requested.", "content": content} for status in endpoint.statuses},
        "4XX": {"description": "The request is wrong or not permitted.", "content": problem},
        "5XX": {"description": "The archive cannot answer now.", "content": problem},
    }


# -- schemas: a Python type, a list of one, or a literal schema ---------------------------------------------------

_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def _schema(kind: Any) -> Schema:
    if isinstance(kind, list):
        return _list(_schema(kind[0]))
    if isinstance(kind, UnionType):
        return {"type": [_TYPES[each] for each in get_args(kind)]}
    return {"type": _TYPES[kind]} if isinstance(kind, type) else kind


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _about(kind: Any, description: str) -> Schema:
    return {**_schema(kind), "description": description}


def _object(**properties: Any) -> Schema:
    return {
        "type": "object",
        "properties": {name: _schema(kind) for name, kind in properties.items()},
        "required": list(properties),
    }


def _partly(schema: Schema) -> Schema:
    """The schema, with `partial` for an answer of a cluster in which nodes do not respond."""
    partial = {
        "type": "string",
        "description": "Only if nodes of a cluster do not respond: partitions without an "
        "answer, a slash, all partitions.",
        "example": "31/1024",
    }
    return {**schema, "properties": {**schema["properties"], "partial": partial}}


def _pair(kind: type) -> Schema:
    return {**_schema([kind]), "minItems": 2, "maxItems": 2}


_TIMESTAMP: Schema = {"type": "string", "pattern": "^[0-9]{14}$", "example": "20260102030405"}
_RECORD: Schema = {"type": "string", "description": "The record's id.", "example": "202611-0000000001"}
_SIZE = _about(int, "Bytes of the payload.")
_ADDRESSES = {"page": _about(str, "Its page for people."), "raw": _about(str, "Its payload, as it was.")}
_OPEN: Schema = {"type": "object"}
_CAPTURE: dict[str, Any] = {
    "record": _RECORD,
    "url": str,
    "urlkey": str,
    "timestamp": _TIMESTAMP,
    "mime": str | None,
    "status": int | None,
    "digest": str | None,
    "page_id": _about(str, "WebBase's id of the page, 16 hexadecimal digits."),
    "modified": _about(str | None, "Last-Modified of the response, 14 digits."),
    "size": _SIZE,
    "type": _about(str, "Of the record: response, revisit, resource, ..."),
    "collection": str,
    "contents": _about([str], "Contentkeys of the payload, in order."),
    "filename": str | None,
    "offset": int,
    "length": int,
    "method": str | None,
    "redirect": str | None,
    **_ADDRESSES,
}
_COMPONENTS: dict[str, Schema] = {
    "Capture": _object(**_CAPTURE),
    "CaptureDetail": _object(
        **_CAPTURE,
        status_line=str | None,
        headers=_about([_pair(str)], "Of the HTTP response."),
        record_headers=_about([_pair(str)], "Of the WARC record."),
        original={"anyOf": [ref("Capture"), {"type": "null"}], "description": "What a revisit repeats."},
    ),
    "Captures": _partly(_object(captures=[ref("Capture")], resume_key=str | None)),
    "Collections": _object(
        collections=[_object(name=str, is_default=bool, captures=int | None, payload_bytes=int | None)]
    ),
    "Comparison": _object(a=_OPEN, b=_OPEN, is_same_content=bool),
    "Coherence": _object(url=str, timestamp=_TIMESTAMP, spread_s=int, is_warning=bool, parts=[_OPEN], missing=[_OPEN]),
    "Crawl": _object(name=str, running=bool),
    "Crawls": _object(crawls=[ref("Crawl")]),
    "CrawlWish": {
        "type": "object",
        "properties": {
            "seeds": {**_schema([str]), "minItems": 1, "maxItems": 1000},
            "name": _schema(str),
            "collection": _schema(str),
            "scope": {"type": "string", "enum": ["page", "prefix", "host", "domain", "any"]},
            "depth": {"type": ["integer", "null"], "minimum": 0},
            "limit": {"type": ["integer", "null"], "minimum": 1},
        },
        "required": ["seeds"],
        "additionalProperties": False,
    },
    "Facet": _object(value=str, count=int, term=_about(str, "What, added to the query, leaves these captures only.")),
    "Found": _partly(
        _object(
            query=_about(str, "In its canonical form."),
            sort=str,
            group=str,
            total=_about(int, "Hits, returned or not."),
            captures=_about(int, "Matching captures: what facets and timeline count."),
            is_exact=_about(bool, "False: the total is an estimate, because so many captures match."),
            offset=int,
            hits=[ref("Hit")],
            facets={"type": "object", "additionalProperties": _list(ref("Facet"))},
            timeline=[_object(month=str, count=int)],
            pending=_about(int, "Records that came since and are not indexed yet."),
        )
    ),
    "Hit": _object(
        record=_RECORD,
        url=str,
        timestamp=_TIMESTAMP,
        title=str | None,
        mime=str | None,
        status=int | None,
        lang=_about(str | None, "ISO 639-1."),
        size=_SIZE,
        collection=str,
        rank=_about(float, "Of its page; the mean is 1. 0: not computed yet."),
        inlinks=_about(int, "Pages that link to it."),
        score=_about(float, "Relevance, where the hits are sorted by it."),
        captures=_about(int, "Matching captures in its group."),
        pages=_about(int, "Pages in its group; more than one only where hits are texts."),
        snippet={**_object(text=str, marks=[_pair(int)]), "type": ["object", "null"]},
        **_ADDRESSES,
    ),
    "Imported": _object(
        records=int,
        added=int,
        known=int,
        refused=int,
        invalid=_about(int, "Rules of the format that the file breaks."),
        findings=[str],
    ),
    "Nodes": {**_object(nodes=[{"type": "object"}], current=bool), "required": ["nodes", "current"]},
    "Problem": _object(type=str, title=str, status=int, detail=str),
    "Status": {**_object(version=str, captures=int | None), "required": ["version"]},
    "Stopping": _object(name=str, was_running=bool),
    "Volume": _object(
        name=str,
        organization=str,
        state={"type": "string", "enum": ["writable", "read-only"]},
        activity={"type": "string", "enum": ["down", "idling", "storing", "streaming"]},
        up=bool,
        reason=_about(str | None, "Why it is down."),
        address=_about(str | None, "Of its server or object store."),
        weight=float,
        outstanding=_about(int | None, "Requests that wait for their response."),
        clients=int | None,
        capacity_bytes=int | None,
        fragmentation=_about(float | None, "Share of its bytes that are dead."),
        **dict.fromkeys(VOLUME_FIGURES, int | None),
    ),
    "Volumes": _object(volumes=[ref("Volume")]),
    "Written": _object(
        record=str,
        outcome={"type": "string", "enum": ["added", "known"]},
        new_content=_about(bool, "Whether the store did not hold the payload."),
        url=str,
        timestamp=_TIMESTAMP,
        collection=str,
        page=str,
        safe=_about(bool | None, "True if `wait_safe` was given, and enough nodes have it."),
    ),
}
