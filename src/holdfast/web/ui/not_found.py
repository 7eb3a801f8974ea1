"""What to say when there is nothing to show: not archived, blocked, or gone wrong.

A person gets a page that helps on: other collections that have the address, other spellings, and what else is archived
nearby. A program gets a line of text, or JSON if it likes that. On the origin of archived pages there are no style
sheets of ours, so the page there carries its own few lines of style, and may stand in the frame. Its one script tells
the banner around it where it stands (`static/banner.js`), which then opens the page that helps on.

What is archived around an address that is not: in other collections, spelled otherwise, and nearby.
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
from holdfast.web.ui.explore import ListedAddress, ListingPage, read_page
from holdfast.web.ui.history import captures
from holdfast.web.ui.render import TEMPLATES, environment, page_headers, render, wants_page

NEIGHBOURS_MAX = 8
LOOK_MAX = 2000  # captures in one directory: this is done while others wait
_WORDS = re.compile(r"[^\W_]{3,}")
_ENDING = re.compile(r"\.[a-z0-9]{1,5}$", re.IGNORECASE)


class Elsewhere(NamedTuple):
    """A collection that has the address."""

    collection: str
    capture: Capture  # that which stands for the time there


class NearbyCaptures(NamedTuple):
    """Everything that may help on."""

    later: Capture | None  # the first after the time, where none may be newer than that
    elsewhere: list[Elsewhere]
    spelled: list[Capture]  # the same page under another address
    neighbours: list[ListedAddress]
    directory: str  # of the neighbours, with a star; empty if there are none
    within: str  # the collection of the neighbours, as addresses name it: that which was asked for, else all


def surroundings(site: WebContext, target: RequestTargetPath) -> NearbyCaptures:
    """A few look-ups, each bounded. What the collection has goes before what others have."""
    spelled = [capture for url in _spellings(target.url) if (capture := _newest(site, target, url))]
    elsewhere, later = _elsewhere(site, target), _later(site, target)
    for within in dict.fromkeys((target.collection, ALL)):
        for directory in _directories(target.url):
            page = _neighbours(site, within, directory)
            if page.listed:
                return NearbyCaptures(later, elsewhere, spelled, page.listed, directory, within)
    return NearbyCaptures(later, elsewhere, spelled, [], "", target.collection)


def similar(url: str) -> str:
    """Words to look for in other addresses: the host, and what the last part of the path says."""
    parsed = parse(url)
    if parsed is None or not parsed.host:
        return url
    last = _ENDING.sub("", unquote(parsed.path.rstrip("/").rpartition("/")[2]))
    return " ".join([readable_host(parsed.host).removeprefix("www."), *_WORDS.findall(last)[:3]])


def _neighbours(site: WebContext, within: str, directory: str) -> ListingPage:
    return read_page(site, within, directory, most=NEIGHBOURS_MAX, look=LOOK_MAX)


def _elsewhere(site: WebContext, target: RequestTargetPath) -> list[Elsewhere]:
    if target.collection == ALL:
        return []
    here = site.collection(target.collection)
    found = []
    for name in site.collections():
        query = CaptureQuery(url=target.url, match="exact", collection=name)
        query = ordered(query, target.timestamp, target.pick or site.pick)
        capture = next(captures(site, query), None) if name != here else None
        if capture is not None:
            found.append(Elsewhere(name, capture))
    return found


def _later(site: WebContext, target: RequestTargetPath) -> Capture | None:
    if not target.timestamp or (target.pick or site.pick) is Pick.NEAREST:
        return None
    query = CaptureQuery(
        url=target.url, match="exact", collection=site.collection(target.collection), from_=target.timestamp
    )
    return next(captures(site, query), None)


def _newest(site: WebContext, target: RequestTargetPath, url: str) -> Capture | None:
    query = CaptureQuery(url=url, match="exact", collection=site.collection(target.collection), sort="reverse")
    here = next(captures(site, query), None)
    return here or next(captures(site, replace(query, collection=None)), None)


def _spellings(url: str) -> list[str]:
    """Addresses that people mean by this one: with and without a query, `index.html`, a last part, `m.` before it.

    Scheme, `www.` and a last slash are no part of the catalog's keys, so they need no suggestion.
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
    """What the address is in, from near to far: its folder, the folder above, the whole host, the domain."""
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


def not_archived(
    site: WebContext, request: Request, target: RequestTargetPath, why: CaptureNotFound | None = None
) -> Response:
    """404 for an address of which there is no capture, or none that may stand for the time."""
    if on_replay(site, request) or not wants_page(request):
        return error(site, request, why or CaptureNotFound(f"'{target.url}' is not archived"))
    found = surroundings(site, target)
    can_crawl = site.tokens.has_writers
    values = {"target": target, "found": found, "can_crawl": can_crawl, "q": target.url, "similar": similar(target.url)}
    return render(site, request, "missing.html", status=404, **values)


def error(site: WebContext, request: Request, error: HoldfastError) -> Response:
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


def about(request: Request) -> RequestTargetPath | None:
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


def on_replay(site: WebContext, request: Request) -> bool:
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


def _bare(site: WebContext, said: Said, target: RequestTargetPath | None) -> Response:
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
