"""An endpoint: what may be asked of it and what it answers, said once.

The routes and the description for programs are both made of this, so neither can know something that the other does
not. Parameters are checked against what is said of them before the endpoint sees a request; whatever fails on purpose
is answered as a problem (RFC 9457).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.catalog.query.fields import nearest
from holdfast.errors import HoldfastError, UsageError
from holdfast.web.auth.tokens import error_headers, may_read, may_write
from holdfast.web.context import WebContext

HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'",
}
PROBLEM = "application/problem+json"
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_DETAIL_MAX = 2000
_WHOLE = re.compile(r"-?\d{1,15}", re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")

Handler = Callable[[WebContext, Request], Awaitable[Response]]
Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Parameter:
    """Something that an address tells. A path has those in braces, a query the others."""

    name: str
    about: str
    schema: Schema
    required: bool = False
    repeats: bool = False  # may come several times

    def check(self, values: Sequence[str]) -> None:
        """Raises UsageError."""
        if self.required and not any(values):
            raise UsageError(f"the parameter {self.name!r} is missing: {self.about}")
        if len(values) > 1 and not self.repeats:
            raise UsageError(f"the parameter {self.name!r} comes {len(values)} times: give it once")
        for value in values:
            self._check_one(value)

    def _check_one(self, value: str) -> None:
        schema = self.schema
        if schema["type"] == "integer":
            low, high = schema["minimum"], schema["maximum"]
            if not _WHOLE.fullmatch(value) or not low <= int(value) <= high:
                raise UsageError(f"bad {self.name} {value[:40]!r}: a whole number from {low} to {high}")
        elif schema["type"] == "boolean":
            if value not in ("true", "false"):
                raise UsageError(f"bad {self.name} {value[:40]!r}: true or false")
        else:
            self._check_text(value)

    def _check_text(self, value: str) -> None:
        schema = self.schema
        if "enum" in schema and value not in schema["enum"]:
            raise UsageError(f"bad {self.name} {value[:40]!r}{nearest(value, schema['enum'])}")
        if len(value) > schema.get("maxLength", 8192) or len(value) < schema.get("minLength", 0):
            raise UsageError(f"bad {self.name}: it is too long or too short")
        if "pattern" in schema and not re.search(schema["pattern"], value, re.ASCII):
            raise UsageError(f"bad {self.name} {value[:80]!r}: {self.about}")


@dataclass(frozen=True, slots=True)
class RequestBody:
    """What a request carries: of one of these media types."""

    about: str
    types: dict[str, Schema]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method of one address."""

    method: str
    path: str
    operation: str  # the name for those who make programs of the description
    about: str
    handler: Handler
    answer: Schema | str  # of the answer if all goes well, or a media type of bytes
    parameters: tuple[Parameter, ...] = ()
    body: RequestBody | None = None
    statuses: tuple[int, ...] = (200,)  # if all goes well
    writes: bool = False

    async def answered(self, site: WebContext, request: Request) -> Response:
        try:
            if self.writes:
                may_write(site, request)
            else:
                may_read(site, request)
            self._check(request)
            return await self.handler(site, request)
        except HoldfastError as error:
            return problem(error)

    def _check(self, request: Request) -> None:
        named = {each.name: each for each in self.parameters if f"{{{each.name}}}" not in self.path}
        for name in request.query_params:
            if name not in named:
                raise UsageError(f"unknown parameter {name[:40]!r}{nearest(name, named)}")
        for name, parameter in named.items():
            parameter.check(request.query_params.getlist(name))
        for parameter in self.parameters:
            if parameter.name not in named:
                parameter.check([request.path_params[parameter.name]])


def problem(error: HoldfastError) -> Response:
    """An error as programs read it."""
    name = type(error).__name__
    title = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).capitalize()
    detail = _SURROGATE.sub("\ufffd", str(error))[:_DETAIL_MAX]
    values = {"type": f"urn:holdfast:{name}", "title": title, "status": error.http_status, "detail": detail}
    return JSONResponse(values, error.http_status, {**HEADERS, **error_headers(error)}, PROBLEM)


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A value as JSON."""
    return JSONResponse(value, status, {**HEADERS, **(headers or {})})


def routes_of(site: WebContext, endpoints: Sequence[Endpoint]) -> list[Route]:
    """One for each path, so that a wrong method is told which ones there are."""
    paths: dict[str, dict[str, Endpoint]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    return [Route(path, _dispatcher(site, methods), methods=list(METHODS)) for path, methods in paths.items()]


def _dispatcher(site: WebContext, methods: dict[str, Endpoint]) -> Callable[[Request], Awaitable[Response]]:
    allowed = ", ".join(methods)

    async def dispatched(request: Request) -> Response:
        endpoint = methods.get("GET" if request.method == "HEAD" else request.method)
        if endpoint is None:
            values = {"type": "about:blank", "title": "Method Not Allowed", "status": 405, "detail": f"only {allowed}"}
            return JSONResponse(values, 405, {**HEADERS, "Allow": allowed}, PROBLEM)
        return await endpoint.answered(site, request)

    return dispatched
