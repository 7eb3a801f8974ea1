"""The API: JSON for programs under `/api`, described by `/openapi.json` and, for people, on `/api/docs`.

    table         every endpoint: method, address, parameters, body, answer, and who answers
      │
      ├── endpoint      routes: tokens and parameters are checked, errors become problems (RFC 9457)
      ├── description   the same as OpenAPI 3.1
      └── /api/docs     the same as a page

    captures, holdings, crawls, taking      what is done, one noun each

Reading needs a token if the archive has tokens for reading; writing always does. What an access rule excludes is not
found, what one blocks is 451.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.errors import NotFound
from holdfast.web.api.endpoint import METHODS, answer, problem, routes_of
from holdfast.web.api.endpoints import ENDPOINTS
from holdfast.web.api.ingest import post_lines
from holdfast.web.api.openapi import openapi
from holdfast.web.auth.tokens import may_read
from holdfast.web.context import WebContext
from holdfast.web.ui.render import render

__all__ = ["ENDPOINTS", "post_lines", "routes"]


def routes(site: WebContext) -> list[Route]:
    async def description(request: Request) -> Response:
        may_read(site, request)
        return answer(openapi(ENDPOINTS, site.controls_origin, needs_token=not site.tokens.is_open))

    async def docs(request: Request) -> Response:
        may_read(site, request)
        return render(site, request, "api.html", endpoints=ENDPOINTS, here="/api/docs")

    async def nothing(request: Request) -> Response:
        return problem(NotFound(f"nothing is at '{request.url.path[:200]}': the endpoints are listed at /api/docs"))

    return [
        Route("/openapi.json", description),
        Route("/api", docs),
        Route("/api/", docs),
        Route("/api/docs", docs),
        *routes_of(site, ENDPOINTS),
        Route("/api/{rest:path}", nothing, methods=list(METHODS)),
    ]
