"""What a request says of itself, as far as replay looks at it."""

from __future__ import annotations

from typing import NamedTuple

from starlette.requests import Request
from starlette.types import Receive, Scope

from holdfast.errors import TooLarge
from holdfast.model import Pick
from holdfast.replay.kinds import DOCUMENTS

SERVICE_WORKER = "serviceworker"  # as a destination; browsers that do not tell it say so by a header of its own
PICK = "x-holdfast-pick"  # a header: nearest, not-newer
KEYED_BODY_BYTES_MAX = 1 << 20  # of a request whose body is part of the key


class Asked(NamedTuple):
    """The fields of a request, once, as texts."""

    method: str
    dest: str  # what the browser will do with the answer; '' if it does not say
    accept: str
    encodings: str  # that the client understands
    range: str
    etag: str  # that the client has
    referrer: str
    content_type: str
    host: str
    pick: str  # by which a capture is chosen for a time; '' if it does not say

    @property
    def wants_page(self) -> bool:
        """Whether a person looks: browsers ask for HTML first, programs for anything."""
        return "text/html" in self.accept

    def understands(self, encoding: str) -> bool:
        return bool(encoding) and all(each.strip() in self.encodings for each in encoding.split(","))


def asked(scope: Scope) -> Asked:
    fields: dict[bytes, bytes] = dict(scope["headers"])

    def text(name: bytes) -> str:
        value = fields.get(name)
        return value.decode("latin-1") if value is not None else ""

    return Asked(
        scope["method"],
        SERVICE_WORKER
        if b"service-worker" in fields
        else _destination(text(b"x-holdfast-worker"), text(b"sec-fetch-dest")),
        text(b"accept"),
        text(b"accept-encoding").lower(),
        text(b"range"),
        text(b"if-none-match"),
        text(b"referer"),
        text(b"content-type"),
        text(b"host"),
        text(PICK.encode()),
    )


def _destination(of_worker: str, of_request: str) -> str:
    """What the answer is for: a worker's own requests are all the same to a browser, so it says itself."""
    return of_worker if of_worker in DOCUMENTS else of_request


def pick_of(request: Request) -> Pick | None:
    """The parameter `pick`, or the header; None if neither is given. Raises UnknownName."""
    text = request.query_params.get("pick") or request.headers.get(PICK, "")
    return Pick.parse(text.strip()) if text.strip() else None


async def small_body(scope: Scope, receive: Receive) -> bytes:
    """The whole body of a request. Raises TooLarge."""
    parts: list[bytes] = []
    size = 0
    async for part in Request(scope, receive).stream():
        size += len(part)
        if size > KEYED_BODY_BYTES_MAX:
            raise TooLarge(f"the body of the request is longer than {KEYED_BODY_BYTES_MAX} bytes")
        parts.append(part)
    return b"".join(parts)


def body_range(text: str, size: int) -> tuple[int, int] | bool | None:
    """Begin and end of the one range asked for; None: all of it; False: there is no such range."""
    unit, _, spec = text.partition("=")
    first, dash, last = spec.strip().partition("-")
    if unit.strip().lower() != "bytes" or not dash or "," in spec:
        return None
    first, last = first.strip(), last.strip()
    if not all(part.isascii() and (part.isdigit() or not part) for part in (first, last)) or first == last == "":
        return None
    if not first:
        return (max(0, size - int(last)), size) if int(last) and size else False
    begin, end = int(first), min(int(last) + 1 if last else size, size)
    return (begin, end) if begin < end else False
