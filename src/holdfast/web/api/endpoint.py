"""An endpoint: its parameters, its response and its function, declared once.

    @endpoint("GET /api/captures/{record}", "CaptureDetail", RECORD)
    def get_capture(site, request):
        '''One capture with all its headers.'''

The function's name is the operation, its docstring the description. Routes, the OpenAPI description and the page for
people are all derived from it (`openapi`), so they cannot diverge. Parameters are checked before the call. A plain
function runs in a thread; its result becomes JSON unless it is a response. An error of Holdfast becomes a problem (RFC
9457).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from holdfast.arguments import nearest
from holdfast.errors import HoldfastError, UsageError
from holdfast.model import Pick
from holdfast.web.auth.tokens import error_headers, may_write
from holdfast.web.context import WebContext
from holdfast.web.server.bounded_scan import in_thread

HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'",
}
PROBLEM = "application/problem+json"
_DETAIL_MAX = 2000
_WHOLE = re.compile(r"-?\d{1,15}", re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")

Handler = Callable[[WebContext, Request], Any]
H = TypeVar("H", bound=Handler)
Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Parameter:
    """Part of an address: those in braces are in its path, the others in its query."""

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
        elif "enum" in schema and value not in schema["enum"]:
            raise UsageError(f"bad {self.name} {value[:40]!r}{nearest(value, schema['enum'])}")
        elif not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 8192):
            raise UsageError(f"bad {self.name}: it is too long or too short")
        elif "pattern" in schema and not re.search(schema["pattern"], value, re.ASCII):
            raise UsageError(f"bad {self.name} {value[:80]!r}: {self.about}")


@dataclass(frozen=True, slots=True)
class RequestBody:
    """The body of a request, in one of these media types."""

    about: str
    types: dict[str, Schema]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method of one address."""

    method: str
    path: str
    handler: Handler
    answer: str  # on success: a schema of `openapi`, or a media type
    parameters: tuple[Parameter, ...]
    body: RequestBody | None
    statuses: tuple[int, ...]  # on success

    @property
    def operation(self) -> str:
        """The name in client libraries that are generated from the description."""
        first, *others = self.handler.__name__.split("_")
        return first + "".join(map(str.capitalize, others))

    @property
    def about(self) -> str:
        return " ".join((self.handler.__doc__ or "").partition("\n\n")[0].split())

    @property
    def writes(self) -> bool:
        return self.method != "GET"

    async def respond(self, site: WebContext, request: Request) -> Response:
        try:
            if self.writes:
                may_write(site, request)
            else:
                site.tokens.require_read(request)
            self._check(request)
            if inspect.iscoroutinefunction(self.handler):
                found = await self.handler(site, request)
            else:
                found = await in_thread(self.handler, site, request)
        except HoldfastError as error:
            return problem(error)
        return found if isinstance(found, Response) else json_response(found)

    def _check(self, request: Request) -> None:
        named = {each.name: each for each in self.parameters if f"{{{each.name}}}" not in self.path}
        for name in request.query_params:
            if name not in named:
                raise UsageError(f"unknown parameter {name[:40]!r}{nearest(name, named)}")
        for parameter in self.parameters:
            is_named = parameter.name in named
            getlist = request.query_params.getlist
            parameter.check(getlist(parameter.name) if is_named else [request.path_params[parameter.name]])


ENDPOINTS: list[Endpoint] = []


def endpoint(
    address: str,
    answer: str,
    *parameters: Parameter,
    body: RequestBody | None = None,
    statuses: tuple[int, ...] = (200,),
) -> Callable[[H], H]:
    """Declares a function as the endpoint of a method and a path."""
    method, path = address.split(" ")

    def declare(handler: H) -> H:
        ENDPOINTS.append(Endpoint(method, path, handler, answer, parameters, body, statuses))
        return handler

    return declare


def problem(error: HoldfastError) -> Response:
    """An error as programs read it."""
    name = type(error).__name__
    title = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).capitalize()
    detail = _SURROGATE.sub("\ufffd", str(error))[:_DETAIL_MAX]
    values = {"type": f"urn:holdfast:{name}", "title": title, "status": error.http_status, "detail": detail}
    return JSONResponse(values, error.http_status, {**HEADERS, **error_headers(error)}, PROBLEM)


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse(value, status, {**HEADERS, **(headers or {})})


def collection_in(site: WebContext, request: Request) -> str | None:
    """The collection that the parameter names, or the default one; None: all of them. Raises UnknownCollection."""
    return site.collection(request.query_params.get("collection") or site.default_collection)


# -- parameters of several endpoints -----------------------------------------------------------------------------------


def ref(name: str) -> Schema:
    """A schema of `openapi` by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


BINARY: Schema = {"type": "string", "format": "binary"}
NAME: Schema = {"type": "string", "pattern": "^[a-z0-9][a-z0-9._-]{0,63}$"}
TEXT: Schema = {"type": "string", "maxLength": 8192}
TIME: Schema = {"type": "string", "pattern": "^[0-9]{1,14}$", "example": "2026"}
_URL: Schema = {"type": "string", "minLength": 1, "maxLength": 8192, "example": "http://example.com/"}


def url(about: str = "the URL") -> Parameter:
    return Parameter("url", about, _URL, required=True)


def time(name: str, about: str, *, required: bool = False) -> Parameter:
    return Parameter(name, f"{about}: 1 to 14 digits from the year on", TIME, required=required)


def number(name: str, about: str, low: int, high: int) -> Parameter:
    return Parameter(name, about, {"type": "integer", "minimum": low, "maximum": high})


def flag(name: str, about: str) -> Parameter:
    return Parameter(name, about, {"type": "boolean"})


def choice(name: str, about: str, of: Sequence[str], *, repeats: bool = False) -> Parameter:
    return Parameter(name, about, {"type": "string", "enum": list(of)}, repeats=repeats)


COLLECTION = Parameter("collection", "the collection; 'web' is the default one, 'all' are all of them", NAME)
PICK = choice("pick", "which capture stands for a time; by default as the setting records.pick says", list(Pick))
TIMESTAMP = time("timestamp", "the time")
