"""What to say when there is nothing to show: not archived, blocked, or gone wrong.

A person gets a page that helps on: other collections that have the address, other spellings, and what else is archived
nearby. A program gets a line of text, or JSON if it likes that. On the origin of archived pages there are no style
sheets of ours, so the page there carries its own few lines of style, and may stand in the frame. Its one script tells
the banner around it where it stands (`static/banner.js`), which then opens the page that helps on.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from holdfast.errors import Blocked, CaptureNotFound, FileNotAtHand, HoldfastError
from holdfast.replay.pages.display import SHOWN_MAX, shown, visible
from holdfast.replay.pages.readable import readable
from holdfast.replay.pages.rendering import TEMPLATES, environment, page_headers, render, wants_page
from holdfast.replay.pages.surroundings import similar, surroundings
from holdfast.replay.site import Site
from holdfast.replay.target import Target, parse_target, raw_target
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
_AWAY = (
    "This capture is known, but the file that holds it is not where the archive looks for it. Whoever runs the archive "
    "names its directory in the setting 'records.warc_paths'."
)
_LONGEST = 1000  # characters of a message: it may quote an address of any length


def not_archived(site: Site, request: Request, target: Target, why: CaptureNotFound | None = None) -> Response:
    """404 for an address of which there is no capture, or none that may stand for the time."""
    if on_replay(site, request) or not wants_page(request):
        return error(site, request, why or CaptureNotFound(f"'{target.url}' is not archived"))
    found = surroundings(site, target)
    can_crawl = site.tokens.has_writers
    values = {"target": target, "found": found, "can_crawl": can_crawl, "q": target.url, "similar": similar(target.url)}
    return render(site, request, "missing.html", status=404, **values)


def error(site: Site, request: Request, error: HoldfastError) -> Response:
    """The answer to a request that failed on purpose, with the status that the error carries."""
    status = error.http_status
    if not wants_page(request):
        response = _for_programs(request, status, _message(error))
    elif on_replay(site, request):
        response = _bare(site, Said(status, _title(error), _for_people(error)), about(request))
    else:
        values = {"code": status, "title": _title(error), "message": _for_people(error), "here": ""}
        values["target"] = about(request) if isinstance(error, Blocked | FileNotAtHand) else None
        response = render(site, request, "error.html", status=status, **values)
    response.headers.update(error_headers(error))
    return response


def about(request: Request) -> Target | None:
    """The archived page that was asked for, if one was."""
    target = parse_target(raw_target(request.scope))
    return target if target is not None and target.kind == "replay" and target.url else None


def _for_people(error: HoldfastError) -> str:
    """A sentence, as far as its beginning goes."""
    text = _AWAY if isinstance(error, FileNotAtHand) else _message(error)
    return text[:1].upper() + text[1:]


def _message(error: HoldfastError) -> str:
    if isinstance(error, Blocked):
        return _BLOCKED
    text = visible(str(error))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def _title(error: HoldfastError) -> str:
    if isinstance(error, FileNotAtHand):
        return "Its file is not at hand"
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


class Said(NamedTuple):
    """What an error page has to tell."""

    status: int
    title: str
    message: str


def _bare(site: Site, said: Said, target: Target | None) -> Response:
    style, script = _own("bare.css"), _own("bare.js")
    address = shown(readable(target.url), SHOWN_MAX) if target is not None else ""
    values = {"said": said, "target": target, "address": address, "controls": site.controls_origin}
    text = environment().get_template("bare.html").render(style=style, script=script, **values)
    policy = f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; base-uri 'none'"
    own = {"Content-Security-Policy": f"{policy}; form-action 'none'; frame-ancestors 'self' {site.controls_origin}"}
    return HTMLResponse(text.encode("utf-8", "replace"), said.status, page_headers(site) | own)


@cache
def _own(name: str) -> str:
    return (TEMPLATES / name).read_text()


@cache
def _digest(text: str) -> str:
    """By which a policy lets this style or script stand in a page, and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
