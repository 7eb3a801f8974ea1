"""Error pages: not archived, blocked, or failed.

People get a page that suggests other collections with the address, other spellings, and neighbouring captures. Programs
get a line of text, or JSON if they accept it. The replay origin has no style sheets of ours, so its error page carries
its own few lines of style, and may be framed. Its one script reports its address to the banner (`static/banner.js`),
which then opens the page with suggestions.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from functools import cache
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from holdfast.catalog import CaptureQuery
from holdfast.catalog.pick import ordered
from holdfast.errors import Blocked, CaptureNotFound, FileNotAtHand, HoldfastError
from holdfast.model import Capture, Pick
from holdfast.urls import parse, url_key
from holdfast.web.auth.tokens import error_headers
from holdfast.web.context import WebContext
from holdfast.web.request import ALL, RequestTargetPath, parse_target, raw_target
from holdfast.web.ui.display import SHOWN_MAX, readable, readable_host, shown, visible
from holdfast.web.ui.history import captures
from holdfast.web.ui.pages.explore import ListedAddress, read_page
from holdfast.web.ui.render import TEMPLATES, environment, page_headers, render, wants_page

NEIGHBOURS_MAX = 8
LOOK_MAX = 2000  # captures in one directory: other requests wait meanwhile
_WORDS = re.compile(r"[^\W_]{3,}")
_ENDING = re.compile(r"\.[a-z0-9]{1,5}$", re.IGNORECASE)


class NearbyCaptures(NamedTuple):
    """Suggestions."""

    later: Capture | None  # the first after the time, where none may be newer than that
    elsewhere: list[tuple[str, Capture]]  # other collections, with the capture that stands for the time there
    spelled: list[Capture]  # the same page under another address
    neighbours: list[ListedAddress]
    directory: str  # of the neighbours, with a star; empty if there are none
    within: str  # the collection of the neighbours, as addresses name it: the one asked for, else all


def surroundings(site: WebContext, target: RequestTargetPath) -> NearbyCaptures:
    """A few bounded look-ups. Captures of the collection come first."""
    here = site.collection(target.collection)
    query = CaptureQuery(url=target.url, match="exact", collection=here)
    pick = target.pick or site.pick
    later = None
    if target.timestamp and pick is not Pick.NEAREST:
        later = next(captures(site, replace(query, from_=target.timestamp)), None)
    elsewhere = []
    for name in site.collections() if target.collection != ALL else ():
        there = ordered(replace(query, collection=name), target.timestamp, pick)
        capture = next(captures(site, there), None) if name != here else None
        if capture is not None:
            elsewhere.append((name, capture))
    spelled = []
    for url in _spellings(target.url):
        newest = replace(query, url=url, sort="reverse")
        capture = next(captures(site, newest), None) or next(captures(site, replace(newest, collection=None)), None)
        if capture is not None:
            spelled.append(capture)
    for within in dict.fromkeys((target.collection, ALL)):
        for directory in _directories(target.url):
            page = read_page(site, within, directory, most=NEIGHBOURS_MAX, look=LOOK_MAX)
            if page.listed:
                return NearbyCaptures(later, elsewhere, spelled, page.listed, directory, within)
    return NearbyCaptures(later, elsewhere, spelled, [], "", target.collection)


def similar(url: str) -> str:
    """Search words for similar addresses: the host, and words of the last path segment."""
    parsed = parse(url)
    if parsed is None or not parsed.host:
        return url
    last = _ENDING.sub("", unquote(parsed.path.rstrip("/").rpartition("/")[2]))
    return " ".join([readable_host(parsed.host).removeprefix("www."), *_WORDS.findall(last)[:3]])


def _spellings(url: str) -> list[str]:
    """Variants of an address: with and without a query, `index.html`, a suffix, or `m.`.

    Scheme, `www.` and a trailing slash are not part of the catalog's keys, so they need no suggestion.
    """
    bare, _, query = url.partition("?")
    others = [bare] if query else []
    if bare.endswith(("/index.html", "/index.htm", "/index.php")):
        others.append(bare.rpartition("/")[0] + "/")
    else:
        others += [bare.rstrip("/") + end for end in ("/index.html", ".html")]
    scheme, _, rest = bare.partition("://")
    others.append(f"{scheme}://{rest[2:]}" if rest.startswith("m.") else f"{scheme}://m.{rest}")
    key = url_key(url)
    return [other for other in others if url_key(other) != key]


def _directories(url: str) -> list[str]:
    """The surroundings of the address, from near to far: its folder, the folders above, the host, the domain."""
    parsed = parse(url)
    if parsed is None or not parsed.host:
        return []
    origin = f"{parsed.scheme}://{parsed.host}{f':{parsed.port}' if parsed.port else ''}"
    parts = parsed.path.split("/")[1:-1]
    folders = ["/".join(parts[:end]) for end in range(len(parts), max(0, len(parts) - 3), -1)]
    return [*(f"{origin}/{folder}/*" for folder in folders if folder), f"{origin}/*", f"*.{parsed.host}"]


_TITLES = {
    400: "That request makes no sense",
    401: "A token is needed",
    403: "Not allowed",
    404: "Nothing is here",
    405: "Not possible this way",
    409: "Busy at the moment",
    413: "Too much at once",
    416: "No such part",
    429: "Too many attempts",
    451: "Not available",
    503: "Part of the archive is down",
    507: "No space is left",
}
_BLOCKED = "This capture is in the archive, but an access rule does not allow it to be shown."
_AWAY = (
    "This capture is known, but the file that holds it is not where the archive looks for it. The archive's operator "
    "can name its directory in the setting 'records.warc_paths'."
)
_LONGEST = 1000  # characters of a message: it may quote an address of any length


def not_archived(
    site: WebContext, request: Request, target: RequestTargetPath, why: CaptureNotFound | None = None
) -> Response:
    """404 for an address without a capture, or without one for the time."""
    if on_replay(site, request) or not wants_page(request):
        return error(site, request, why or CaptureNotFound(f"'{target.url}' is not archived"))
    found = surroundings(site, target)
    can_crawl = site.tokens.has_writers
    values = {"target": target, "found": found, "can_crawl": can_crawl, "q": target.url, "similar": similar(target.url)}
    return render(site, request, "missing.html", status=404, **values)


def error(site: WebContext, request: Request, error: HoldfastError) -> Response:
    """The response to a request that raised an error of Holdfast, with its HTTP status."""
    status = error.http_status
    if not wants_page(request):
        response = _for_programs(request, status, _message(error))
    elif on_replay(site, request):
        response = _bare(site, error, about(request))
    else:
        values = {"code": status, "title": _title(error), "message": for_people(error), "here": ""}
        values["target"] = about(request) if isinstance(error, Blocked | FileNotAtHand) else None
        response = render(site, request, "error.html", status=status, **values)
    response.headers.update(error_headers(error))
    return response


def about(request: Request) -> RequestTargetPath | None:
    """The archived page that was requested, if one was."""
    target = parse_target(raw_target(request.scope))
    return target if target is not None and target.kind == "replay" and target.url else None


def for_people(error: HoldfastError) -> str:
    """The message with a capital letter."""
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
    target = about(request)
    if target is not None and target.modifier == "js_":  # of another type, it would be one more error in the console
        return Response(b"", status, headers, media_type="text/javascript")
    return PlainTextResponse(f"{message}\n".encode("utf-8", "replace"), status, headers)


# -- on the origin of archived pages -----------------------------------------------------------------------------------


def on_replay(site: WebContext, request: Request) -> bool:
    """True if the request came to the replay origin, under any name of this machine."""
    host = request.headers.get("host", "")
    controls, replay = urlsplit(site.controls_origin), urlsplit(site.replay_origin)
    if host in (controls.netloc, replay.netloc):
        return host == replay.netloc
    port = host.rpartition(":")[2]
    return port == str(replay.port) and replay.port != controls.port


def _bare(site: WebContext, error: HoldfastError, target: RequestTargetPath | None) -> Response:
    """A page with inline style and script, which the policy admits by digest."""
    (style, style_digest), (script, script_digest) = _inline("bare.css"), _inline("bare.js")
    address = shown(readable(target.url), SHOWN_MAX) if target is not None else ""
    values = {"status": error.http_status, "title": _title(error), "message": for_people(error), "target": target}
    values |= {"address": address, "controls": site.controls_origin, "style": style, "script": script}
    text = environment().get_template("bare.html").render(values)
    policy = f"default-src 'none'; style-src {style_digest}; script-src {script_digest}; base-uri 'none'"
    own = {"Content-Security-Policy": f"{policy}; form-action 'none'; frame-ancestors 'self' {site.controls_origin}"}
    return HTMLResponse(text.encode("utf-8", "replace"), error.http_status, page_headers(site) | own)


@cache
def _inline(name: str) -> tuple[str, str]:
    """A style or script, and its digest as policies have it."""
    text = (TEMPLATES / name).read_text()
    return text, f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
