"""Style sheets, scripts and drawings of the pages, read once, compressed once.

A page names them with a version derived from their bytes, so browsers cache them for good; without that version, the
ETag tells whether they changed.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path

import brotli
from starlette.requests import Request
from starlette.responses import Response

from holdfast.errors import NotFound

STATIC = Path(__file__).with_name("static")
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
FOR_GOOD = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class Asset:
    """One file in every content coding offered."""

    media_type: str
    version: str
    codings: dict[str, bytes]  # by name of the content coding, the best first; '' is none

    def response(self, request: Request, headers: dict[str, str], *, is_exact: bool) -> Response:
        """The smallest form that the client accepts. `is_exact`: the address names the version."""
        coding, body = self._best(request.headers.get("accept-encoding", ""))
        tag = f'"{self.version}{"-" + coding if coding else ""}"'
        headers = headers | {
            "Cache-Control": FOR_GOOD if is_exact else "no-cache",
            "ETag": tag,
            "Vary": "Accept-Encoding",
            "X-Content-Type-Options": "nosniff",
        }
        if tag in (each.strip() for each in request.headers.get("if-none-match", "").split(",")):
            return Response(status_code=304, headers=headers)
        if coding:
            headers["Content-Encoding"] = coding
        return Response(body, headers=headers, media_type=self.media_type)

    def _best(self, accepted: str) -> tuple[str, bytes]:
        offered = {part.partition(";")[0].strip().lower() for part in accepted.split(",") if ";q=0" not in part.lower()}
        coding = next(name for name in self.codings if not name or name in offered)
        return coding, self.codings[coding]


@cache
def assets() -> dict[str, Asset]:
    """All of them, by name."""
    return {path.name: _read(path) for path in sorted(STATIC.iterdir()) if path.suffix in _TYPES}


def _read(path: Path) -> Asset:
    plain = path.read_bytes()
    return made_asset(_TYPES[path.suffix], blake2b(plain, digest_size=8).hexdigest(), plain)


def made_asset(media_type: str, version: str, plain: bytes) -> Asset:
    codings = {"br": brotli.compress(plain), "gzip": gzip.compress(plain, mtime=0), "": plain}
    return Asset(media_type, version, codings)


def static_path(name: str) -> str:
    """The address of an asset, with its version."""
    return f"/static/{name}?v={assets()[name].version}"


async def serve_static(request: Request) -> Response:
    name = request.path_params.get("name", "icon.svg")  # /favicon.ico: for browsers that did not read the page first
    asset = assets().get(name)
    if asset is None:
        raise NotFound(f"no file {name!r} under /static/")
    is_exact = request.query_params.get("v") == asset.version
    return asset.response(request, {"Cross-Origin-Resource-Policy": "same-origin"}, is_exact=is_exact)
