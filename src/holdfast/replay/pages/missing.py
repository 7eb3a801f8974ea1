"""What to say when there is nothing to show: not archived, blocked, or gone wrong.

A person gets a page that helps on: other collections that have the address, other spellings, and what else is archived
nearby. A program gets a line of text, or JSON if it likes that. On the origin of archived pages there are no style
sheets of ours, so the page there carries its own few lines of style, and may stand in the frame.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from holdfast.errors import Blocked, CaptureNotFound, HoldfastError
from holdfast.replay.pages.display import visible
from holdfast.replay.pages.rendering import TEMPLATES, environment, page_headers, render, wants_page
from holdfast.replay.pages.surroundings import surroundings
from holdfast.replay.site import Site
from holdfast.replay.target import Target
from holdfast.replay.tokens import error_headers

_TITLES = {
    400: "That request makes no sense",
    401: "A token is needed",
    403: "Not allowed",
    404: "Nothing is here",
    405: "Not done that way",
    409: "Busy at the moment",
    413: "Too much at once",
    416: "No such part",
    429: "Too many tries",
    451: "Not available",
    503: "Part of the archive is down",
    507: "No space is left",
}
_BLOCKED = "This capture is in the archive, but a rule of the archive does not let it be shown."
_LONGEST = 1000  # characters of a message: it may quote an address of any length


def not_archived(site: Site, request: Request, target: Target) -> Response:
    """404 for an address of which there is no capture."""
    if on_replay(site, request) or not wants_page(request):
        return error(site, request, CaptureNotFound(f"'{target.url}' is not archived"))
    found = surroundings(site, target)
    can_crawl = site.tokens.has_writers
    values = {"target": target, "found": found, "can_crawl": can_crawl, "q": target.url}
    return render(site, request, "missing.html", status=404, **values)


def error(site: Site, request: Request, error: HoldfastError) -> Response:
    """The answer to a request that failed on purpose, with the status that the error carries."""
    status = error.http_status
    message = _message(error)
    if not wants_page(request):
        response = _for_programs(request, status, message)
    elif on_replay(site, request):
        response = _bare(site, status, _title(error), message)
    else:
        values = {"code": status, "title": _title(error), "message": message, "here": ""}
        response = render(site, request, "error.html", status=status, **values)
    response.headers.update(error_headers(error))
    return response


def _message(error: HoldfastError) -> str:
    if isinstance(error, Blocked):
        return _BLOCKED
    text = visible(str(error))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def _title(error: HoldfastError) -> str:
    if isinstance(error, CaptureNotFound):
        return "Not archived"
    status = error.http_status
    return _TITLES.get(status, "Something went wrong" if status >= 500 else "That did not work")


def _for_programs(request: Request, status: int, message: str) -> Response:
    headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}
    if "json" in request.headers.get("accept", "") or request.url.path.startswith("/api/"):
        body = {"error": message.encode("utf-8", "replace").decode(), "status": status}
        return JSONResponse(body, status, headers)
    return PlainTextResponse(f"{message}\n".encode("utf-8", "replace"), status, headers)


# -- on the origin of archived pages -----------------------------------------------------------------------------------


def on_replay(site: Site, request: Request) -> bool:
    """Whether the request came to the replay origin, by whatever name of this machine."""
    host = request.headers.get("host", "")
    controls, replay = urlsplit(site.controls_origin), urlsplit(site.replay_origin)
    if host in (controls.netloc, replay.netloc):
        return host == replay.netloc
    port = host.rpartition(":")[2]
    return port == str(replay.port) and replay.port != controls.port


def _bare(site: Site, status: int, title: str, message: str) -> Response:
    style = _style()
    text = environment().get_template("bare.html").render(title=title, message=message, style=style)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    own = {"Content-Security-Policy": f"{policy}; frame-ancestors 'self' {site.controls_origin}"}
    return HTMLResponse(text.encode("utf-8", "replace"), status, page_headers(site) | own)


@cache
def _style() -> str:
    return (TEMPLATES / "bare.css").read_text()
