"""Templates, and the headers that every page carries.

A page may use only files under /static/: no inline script or style, nothing from other origins, no frames but of the
replay origin. So an archived title or address that escaped quoting could still do nothing.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from holdfast.env.units import rounded_size
from holdfast.web.answers import partial_headers
from holdfast.web.context import WebContext
from holdfast.web.ui import display
from holdfast.web.ui.static_files import static_path

TEMPLATES = Path(__file__).with_name("templates")
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src {replay}; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


@cache
def environment() -> Environment:
    """One per process. Templates are parsed on first use."""
    pages = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.globals["static"] = static_path
    pages.globals["path_to"] = display.path_to
    pages.globals["compare_path"] = display.compare_path
    words = (display.in_words, display.unit, display.iso, display.readable, display.readable_host)
    for each in (display.visible, display.plain, display.shown, display.bare, display.quoted, *words):
        pages.filters[each.__name__] = each
    pages.filters["size"] = rounded_size
    pages.filters["counted"] = display.count  # 'count' is one of Jinja's own
    return pages


def page_headers(site: WebContext) -> dict[str, str]:
    """For every response of this origin to people."""
    return {
        "Content-Security-Policy": _POLICY.format(replay=site.replay_origin),
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cache-Control": "no-cache",
    }


def render(site: WebContext, request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
    """A page. `here` is the path of the page in the main navigation; archived text comes out quoted.

    `coverage` says how much of a cluster has answered.
    """
    values.setdefault("here", request.url.path)
    text = environment().get_template(template).render(site=site, request=request, **values)
    body = text.encode("utf-8", "replace")  # lone surrogates of broken addresses
    return HTMLResponse(body, status, page_headers(site) | partial_headers(values.get("coverage")))


def as_json(site: WebContext, value: Any, status: int = 200) -> Response:
    return JSONResponse(value, status, page_headers(site))


def wants_page(request: Request) -> bool:
    """True for a browser: programs rarely accept HTML explicitly."""
    return "text/html" in request.headers.get("accept", "")
