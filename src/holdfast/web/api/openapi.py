"""The description of the API for programs: OpenAPI 3.1, made of the table of endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast import __version__
from holdfast.web.api.endpoint import PROBLEM, Endpoint, Parameter
from holdfast.web.api.schemas import COMPONENTS, ref


def openapi(endpoints: Sequence[Endpoint], origin: str, *, needs_token: bool) -> dict[str, Any]:
    """`needs_token` says whether reading needs one too."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
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
        "components": {
            "schemas": COMPONENTS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
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
    schema = {"type": "array", "items": parameter.schema} if parameter.repeats else parameter.schema
    return {
        "name": parameter.name,
        "in": "path" if in_path else "query",
        "required": parameter.required or in_path,
        "description": parameter.about,
        "schema": schema,
    }


def _responses(endpoint: Endpoint) -> dict[str, Any]:
    """Requests that break a limit of the server are answered before the API sees them, in plain text."""
    if isinstance(endpoint.answer, str):
        content: dict[str, Any] = {endpoint.answer: {"schema": {"type": "string", "format": "binary"}}}
    else:
        content = {"application/json": {"schema": endpoint.answer}}
    found: dict[str, Any] = {
        f"{status}": {"description": "As asked.", "content": content} for status in endpoint.statuses
    }
    problem = {PROBLEM: {"schema": ref("Problem")}, "text/plain": {"schema": {"type": "string"}}}
    found["4XX"] = {
        "description": "Something is wrong with the request, or it may not be answered.",
        "content": problem,
    }
    found["5XX"] = {"description": "Something is wrong with the archive.", "content": problem}
    return found
