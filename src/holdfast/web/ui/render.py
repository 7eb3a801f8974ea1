"""Templates, and the headers that every page carries.

A page may use what stands under /static/ and nothing else: no script or style inside the page, nothing from elsewhere,
no frame but of the archived pages' origin. So an archived title or address that slipped past the quoting could still
do nothing.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from holdfast.env.units import rounded_size
from holdfast.web.context import WebContext
from holdfast.web.ui import display, results
from holdfast.web.ui import display as readable
from holdfast.web.ui.static_files import static_path

TEMPLATES = Path(__file__).with_name("templates")
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src {replay}; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


@cache
def environment() -> Environment:
    """One in each process: templates are parsed when they are first used."""
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
    words = (display.in_words, display.unit, display.iso)
    for each in (display.visible, display.plain, display.shown, display.bare, display.quoted, *words):
        pages.filters[each.__name__] = each
    pages.filters["size"] = rounded_size
    pages.filters["pieces"] = results.pieces
    pages.filters["readable"] = readable.readable
    pages.filters["readable_host"] = readable.readable_host
    pages.filters["counted"] = display.count  # 'count' is one of Jinja's own
    pages.filters["since"] = display.between
    return pages


def page_headers(site: WebContext) -> dict[str, str]:
    """For every page with controls, and for whatever else this origin answers to people."""
    return {
        "Content-Security-Policy": _POLICY.format(replay=site.replay_origin),
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cache-Control": "no-cache",
    }


def render(site: WebContext, request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
    """A page. `here` is the path of the page in the main navigation; archived text comes out quoted."""
    values.setdefault("here", request.url.path)
    text = environment().get_template(template).render(site=site, request=request, **values)
    body = text.encode("utf-8", "replace")  # lone surrogates of broken addresses
    return HTMLResponse(body, status, page_headers(site))


def as_json(site: WebContext, value: Any, status: int = 200) -> Response:
    return JSONResponse(value, status, page_headers(site))


def wants_page(request: Request) -> bool:
    """Whether a person looks: a browser says that it likes HTML, a program does not."""
    return "text/html" in request.headers.get("accept", "")
