"""The replay origin's own files, under /_hf/: the scripts that contain archived pages.

    enter              opens the frame: starts the service worker, then goes to the page
    runtime.js         the first script of every archived page
    worker-runtime.js  the same for workers; also put before their texts by the server
    worker.js          the service worker, whose scope is the whole origin

All are built on first use. Pages name them with a version derived from their bytes, so browsers cache them for good.
`parts/` holds the parts of the two runtimes, in the order below.
"""

from __future__ import annotations

import json
import re
from functools import cache, cached_property
from hashlib import blake2b
from html import escape
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from holdfast.config import ServeSettings
from holdfast.web.auth.tokens import check_ticket, cookie
from holdfast.web.context import WebContext
from holdfast.web.request import uri
from holdfast.web.ui.static_files import Asset, made_asset

_HERE = Path(__file__).parent
_SHARED = ("addresses", "script", "location", "time", "network", "workers")
_PAGE = (*_SHARED, "markup", "elements", "selectors", "insertion", "documents", "navigation", "messages", "page")
_WORKER = (*_SHARED, "documents", "worker-scope")
_HTML = "text/html; charset=utf-8"
# The same as in enter.js: an archived page on this origin.
PLACE = re.compile(r"/[a-z0-9][a-z0-9._-]*/(?:\d{1,14}(?:[a-z]{2}_)?|[a-z]{2}_)/", re.ASCII)
_SCRIPT = "text/javascript; charset=utf-8"
# Its own requests stay here too, also when one is redirected.
_OWN_POLICY = (
    "default-src 'self'; connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self' {controls}"
)


def _parts(names: tuple[str, ...]) -> bytes:
    return b"\n".join((_HERE / "parts" / f"{name}.js").read_bytes() for name in names)


def _digest() -> str:
    files = sorted([*_HERE.glob("*.js"), *_HERE.glob("*.html"), *_HERE.glob("parts/*.js")])
    return blake2b(b"".join(path.read_bytes() for path in files), digest_size=8).hexdigest()


class Runtime:
    """The scripts for pages and workers, as the settings want them. Any thread may call it."""

    def __init__(self, *, capture_time: bool, seeded_random: bool) -> None:
        marks = ("t" if capture_time else "") + ("r" if seeded_random else "")
        self.version = f"{_DIGEST}{marks}"
        self._options = {"captureTime": capture_time, "seededRandom": seeded_random}
        self._worker = self._assembled(_WORKER)

    def _assembled(self, names: tuple[str, ...]) -> bytes:
        given = {"VERSION": self.version, "OPTIONS": self._options}
        head = "".join(f"const {name} = {json.dumps(value)};\n" for name, value in given.items())
        head = f'"use strict";\n{head}const SOURCE = String(runtime);\n'
        return b"(function runtime(given) {\n%b%b})();\n" % (head.encode(), _parts(names))

    @cached_property
    def scripts(self) -> dict[str, Asset]:
        texts = {
            "enter.js": (_HERE / "enter.js").read_bytes(),
            "runtime.js": self._assembled(_PAGE),
            "worker-runtime.js": self._worker,
            "worker.js": (_HERE / "worker.js").read_bytes(),
        }
        return {name: made_asset(_SCRIPT, self.version, plain) for name, plain in texts.items()}

    def tag(self, prefix: str, timestamp: str, url: str, controls_origin: str, *, is_rooted: bool) -> bytes:
        """The first tag in the head of an archived page. ASCII only, so that it fits any charset.

        `is_rooted`: the page writes addresses of its own site without the host.
        """
        given = {"prefix": prefix, "timestamp": timestamp, "url": url, "controls": controls_origin}
        data = "".join(f' data-{name}="{escape(value)}"' for name, value in given.items())
        tag = f'<script src="/_hf/runtime.js?{self.version}"{data}{" data-rooted" if is_rooted else ""}></script>'
        return tag.encode("ascii", "xmlcharrefreplace")

    def worker_prelude(self, *, module: bool) -> bytes:
        """The prefix of an archived worker's script. A module's imports run first, so there it is an import."""
        if module:
            return f'import "/_hf/worker-runtime.js?{self.version}";'.encode()
        return self._worker


_DIGEST = _digest()
_runtime = cache(Runtime)


def runtime_of(settings: ServeSettings) -> Runtime:
    return _runtime(capture_time=settings.capture_time, seeded_random=settings.seeded_random)


@cache
def _entrance_text(version: str) -> str:
    return (_HERE / "enter.html").read_text().replace("VERSION", version)


def _entrance(to: str, version: str) -> str:
    """The page that leads to an archived one, even without scripts, and nowhere else."""
    place = escape(uri(to)) if PLACE.match(to) else ""
    onward = f'<meta http-equiv="refresh" content="0; url={place}">' if place else ""
    return _entrance_text(version).replace("ONWARD", onward)


async def serve_runtime(site: WebContext, request: Request) -> Response:
    name = request.path_params["name"]
    run = runtime_of(site.settings)
    headers = {
        "Content-Security-Policy": _OWN_POLICY.format(controls=site.controls_origin),
        "Connection-Allowlist": "(response-origin)",
        "Referrer-Policy": "no-referrer",
    }
    if name == "enter":
        if not site.tokens.is_open:
            check_ticket(site, request.query_params.get("ticket", ""))
            headers["Set-Cookie"] = cookie(site)
        headers |= {"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}
        return Response(_entrance(request.query_params.get("to", ""), run.version), headers=headers, media_type=_HTML)
    script = run.scripts.get(name)
    if script is None:
        return Response("nothing is here\n", 404, media_type="text/plain")
    if name == "worker.js":
        headers["Service-Worker-Allowed"] = "/"
    return script.response(request, headers, is_exact=request.url.query == run.version)
