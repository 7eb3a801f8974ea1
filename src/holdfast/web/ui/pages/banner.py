"""The banner above an archived page: its capture time, and the captures before and after.

The page runs in a frame on the other origin. It reports where it navigated and how old its parts are; the banner's
script accepts only messages from that origin and frame, and treats them as text. After a navigation, the script
requests /api/near.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from holdfast.catalog import CaptureQuery
from holdfast.errors import UsageError
from holdfast.model import Capture
from holdfast.web.auth.tokens import ticket
from holdfast.web.context import WebContext
from holdfast.web.replay.find import Finder, shown_at
from holdfast.web.request import DEFAULT, RequestTargetPath, pick_of
from holdfast.web.ui.display import compare_path, in_words, path_to, readable, visible
from holdfast.web.ui.history import ChangeMark, captures, marked
from holdfast.web.ui.render import as_json, render

COUNTED_MAX = 1000  # captures of one URL; beyond that the banner says 'more than'
_AROUND = 16  # captures looked at in each direction


class Near(NamedTuple):
    """A capture among those of its URL."""

    target: RequestTargetPath  # what is shown, at the time that its addresses have
    capture: Capture
    mark: ChangeMark
    previous: str  # timestamps; empty: there is none
    next: str
    captures: int  # of the URL, up to COUNTED_MAX + 1
    position: int | None  # from 1; None: there are too many to count

    @property
    def comparison(self) -> dict[str, str] | None:
        """With the capture before, or the one after; None: there is neither."""
        other = self.previous or self.next
        if not other:
            return None
        times = sorted((other, self.capture.timestamp))
        return {"words": in_words(other), "path": compare_path(self.target.collection, self.target.url, *times)}

    @property
    def upto(self) -> str:
        """The time that the capture may not be newer than, in words; empty where it is that of the capture."""
        time = self.target.timestamp
        return in_words(time) if time != self.capture.timestamp else ""

    def as_dict(self) -> dict[str, Any]:
        """For the banner's script."""
        place, time, url = self.target.place, self.target.timestamp, self.target.url
        return {
            "url": url,
            "address": visible(readable(url)),
            "timestamp": self.capture.timestamp,
            "words": in_words(self.capture.timestamp),
            "upto": self.upto,
            "mark": self.mark.value,
            "mark_words": self.mark.words,
            "previous": self._step(self.previous),
            "next": self._step(self.next),
            "compare": self.comparison,
            "captures": self.captures,
            "position": self.position,
            "calendar": path_to(self.target.collection, f"{self.capture.timestamp[:4]}*", url),
            "path": path_to(place, time, url),
            "framed": path_to(place, time, url, "mp_"),
        }

    def _step(self, timestamp: str) -> dict[str, str] | None:
        if not timestamp:
            return None
        path = path_to(self.target.place, timestamp, self.target.url)
        return {"timestamp": timestamp, "words": in_words(timestamp), "path": path}


def near(site: WebContext, target: RequestTargetPath, capture: Capture) -> Near:
    """The neighbourhood of the capture shown for a target."""
    query = CaptureQuery(url=target.url, match="exact", collection=site.collection(target.collection))
    now = capture.timestamp

    def around(query: CaptureQuery) -> list[Capture]:
        return [each for each in islice(captures(site, query), _AROUND) if each.timestamp != now]

    earlier, later = around(replace(query, to=now, sort="reverse")), around(replace(query, from_=now))
    before = next((each for each in earlier if each.digest != "-" and each.status.startswith("2")), None)
    records = [each.record for each in islice(captures(site, query), COUNTED_MAX + 1)]
    is_counted = len(records) <= COUNTED_MAX and capture.record in records
    position = records.index(capture.record) + 1 if is_counted else None
    mark = marked(capture, before.digest if before else "")
    previous, following = (found[0].timestamp if found else "" for found in (earlier, later))
    return Near(target, capture, mark, previous, following, len(records), position)


def banner(site: WebContext, request: Request, target: RequestTargetPath, capture: Capture) -> Response:
    """The page for a capture that a person looks at."""
    framed = path_to(target.place, target.timestamp, target.url, "mp_")
    values: dict[str, Any] = {"target": target, "capture": capture, "framed": framed, "enter": entrance(site, framed)}
    around = near(site, target._replace(record=None), capture)
    return render(site, request, "replay.html", near=around, **values)


def entrance(site: WebContext, framed: str) -> str:
    """The first address of the frame: the replay origin prepares there, then goes to the page."""
    parts = {"to": framed}
    if pass_ := ticket(site):
        parts["ticket"] = pass_
    return f"{site.replay_origin}/_hf/enter?{urlencode(parts, quote_via=quote, safe='')}"


async def near_api(site: WebContext, request: Request) -> Response:
    """JSON: the capture of `url` that stands for `timestamp`, and those before and after it."""
    asked = request.query_params
    url, timestamp, collection = (asked.get(name, "") for name in ("url", "timestamp", "collection"))
    if not url:
        raise UsageError("no URL given: ask with 'url=', 'timestamp=' and 'collection='")
    target = RequestTargetPath("replay", collection or DEFAULT, timestamp, url=url, pick=pick_of(request))
    within = site.collection(target.collection)
    capture = await run_in_threadpool(Finder(site).find, within, url, timestamp, target.pick)
    target = target._replace(timestamp=shown_at(site, target, capture))
    found = await run_in_threadpool(near, site, target, capture)
    return as_json(site, found.as_dict())
