"""What the replay origin has of its own, under /_hf/: the scripts that keep archived pages in.

    enter              opens the frame: starts the service worker, then goes to the page
    runtime.js         the first script of every archived page
    worker-runtime.js  the same for workers; also put before their texts by the server
    worker.js          the service worker, whose scope is the whole origin

All are made once, when first asked for. Pages name them with a version made of their bytes, so browsers keep them for
good; `runtime/` holds the parts that the two runtimes are made of, in the order below.
"""

from __future__ import annotations

import gzip
import re
from functools import cache
from hashlib import blake2b
from html import escape
from pathlib import Path
from typing import NamedTuple

import brotli
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.web.auth.tokens import check_ticket, cookie
from holdfast.web.context import WebContext
from holdfast.web.memento.links import uri

_HERE = Path(__file__).parent
_SHARED = ("addresses", "location", "network", "workers")
_PAGE = (*_SHARED, "markup", "elements", "insertion", "documents", "navigation", "messages", "page")
_WORKER = (*_SHARED, "documents", "worker-scope")
_HTML = "text/html; charset=utf-8"
# The same as in enter.js: an archived page on this origin.
PLACE = re.compile(r"/[a-z0-9][a-z0-9._-]*/(?:\d{1,14}(?:[a-z]{2}_)?|[a-z]{2}_)/", re.ASCII)
_SCRIPT = "text/javascript; charset=utf-8"
_FOR_GOOD = "public, max-age=31536000, immutable"
# Its own requests stay here too, also when one is redirected.
_OWN_POLICY = (
    "default-src 'self'; connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self' {controls}"
)


class RuntimeScript(NamedTuple):
    """One file as it is served."""

    content_type: str
    codings: dict[str, bytes]  # by content coding, the best first; '' is none


def _parts(names: tuple[str, ...]) -> bytes:
    return b"\n".join((_HERE / "runtime" / f"{name}.js").read_bytes() for name in names)


def _assembled(names: tuple[str, ...], version: str) -> bytes:
    return b'(() => {\n"use strict";\nconst VERSION = "%b";\n%b})();\n' % (version.encode(), _parts(names))


def _version() -> str:
    files = sorted([*_HERE.glob("*.js"), *_HERE.glob("*.html"), *_HERE.glob("runtime/*.js")])
    return blake2b(b"".join(path.read_bytes() for path in files), digest_size=8).hexdigest()


VERSION = _version()
_WORKER_RUNTIME = _assembled(_WORKER, VERSION)


def _piece(content_type: str, plain: bytes) -> RuntimeScript:
    return RuntimeScript(content_type, {"br": brotli.compress(plain), "gzip": gzip.compress(plain, mtime=0), "": plain})


@cache
def _pieces() -> dict[str, RuntimeScript]:
    return {
        "enter": RuntimeScript(_HTML, {}),  # made for each
        "enter.js": _piece(_SCRIPT, (_HERE / "enter.js").read_bytes()),
        "runtime.js": _piece(_SCRIPT, _assembled(_PAGE, VERSION)),
        "worker-runtime.js": _piece(_SCRIPT, _WORKER_RUNTIME),
        "worker.js": _piece(_SCRIPT, (_HERE / "worker.js").read_bytes()),
    }


@cache
def _entrance_text() -> str:
    return (_HERE / "enter.html").read_text().replace("VERSION", VERSION)


def _entrance(to: str) -> str:
    """The page that leads to an archived one, also where no scripts run; nowhere else."""
    place = escape(uri(to)) if PLACE.match(to) else ""
    onward = f'<meta http-equiv="refresh" content="0; url={place}">' if place else ""
    return _entrance_text().replace("ONWARD", onward)


def runtime_tag(prefix: str, timestamp: str, url: str, controls_origin: str) -> bytes:
    """What stands first in the head of an archived page. ASCII alone, so that it fits any charset."""
    given = {"prefix": prefix, "timestamp": timestamp, "url": url, "controls": controls_origin}
    data = "".join(f' data-{name}="{escape(value)}"' for name, value in given.items())
    tag = f'<script src="/_hf/runtime.js?{VERSION}"{data}></script>'
    return tag.encode("ascii", "xmlcharrefreplace")


def worker_prelude(*, module: bool) -> bytes:
    """What stands before the text of an archived worker. A module's imports run first, so there it is one of them."""
    if module:
        return f'import "/_hf/worker-runtime.js?{VERSION}";'.encode()
    return _WORKER_RUNTIME


def routes(site: WebContext) -> list[Route]:
    pieces = _pieces()

    async def serve(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in pieces:
            return Response("nothing is here\n", 404, media_type="text/plain")
        headers = _headers(name, request, site.controls_origin)
        if name == "enter" and not site.tokens.is_open:
            check_ticket(site, request.query_params.get("ticket", ""))
            headers["Set-Cookie"] = cookie(site)
        if headers["ETag"] in request.headers.get("if-none-match", "") and name != "enter":
            return Response(status_code=304, headers=headers)
        if name == "enter":
            return Response(_entrance(request.query_params.get("to", "")), headers=headers, media_type=_HTML)
        return _response(pieces[name], request.headers.get("accept-encoding", ""), headers)

    return [Route("/_hf/{name}", serve, methods=["GET", "HEAD"])]


def _headers(name: str, request: Request, controls_origin: str) -> dict[str, str]:
    is_exact = request.url.query == VERSION and name != "enter"
    headers = {
        "Cache-Control": _FOR_GOOD if is_exact else "no-cache",
        "ETag": f'"{VERSION}"',
        "Vary": "Accept-Encoding",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": _OWN_POLICY.format(controls=controls_origin),
        "Connection-Allowlist": "(response-origin)",
        "Referrer-Policy": "no-referrer",
    }
    if name == "worker.js":
        headers["Service-Worker-Allowed"] = "/"
    return headers


def _response(piece: RuntimeScript, accepted: str, headers: dict[str, str]) -> Response:
    offered = {part.partition(";")[0].strip().lower() for part in accepted.split(",")}
    coding = next(name for name in piece.codings if not name or name in offered)
    if coding:
        headers["Content-Encoding"] = coding
    return Response(piece.codings[coding], headers=headers, media_type=piece.content_type)
