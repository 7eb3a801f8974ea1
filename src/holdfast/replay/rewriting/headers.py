"""The fields of an archived response as they are sent on: what the browser must obey, and the rest as evidence.

    Content-Language, -Disposition, -Range      as they were
    Content-Encoding                            as it was, if the content is still encoded
    Location, Refresh                           to the archive's capture of the target, under the same modifier
    Set-Cookie                                  bound to the archived site (see `cookies`)
    all others, also of connections             as X-Archive-Orig-<name>

Content-Type and Content-Length are for the caller to tell, who knows the content. Raw captures (`id_`) get neither
cookies nor refreshes. No byte that could begin another field comes through.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.formats.record import Headers
from holdfast.replay.rewriting.addresses import Scene, resolved
from holdfast.replay.rewriting.cookies import rewrite_cookie
from holdfast.replay.rewriting.refresh import rewrite_refresh

EVIDENCE: Final = b"x-archive-orig-"
_KEPT: Final = frozenset(("content-language", "content-disposition", "content-range"))
_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROLS: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]+")
_RAW: Final = "id_"


def archived_headers(headers: Headers, scene: Scene, *, keeps_encoding: bool) -> list[tuple[bytes, bytes]]:
    """Names in lower case. `keeps_encoding`: the content is sent as it was encoded."""
    sent: list[tuple[bytes, bytes]] = []
    for name, value in headers:
        if not _NAME.fullmatch(name):
            continue
        lower = name.lower()
        obeyed = _obeyed(lower, value, scene, keeps_encoding=keeps_encoding)
        if obeyed is not None:
            sent.append((lower.encode("ascii"), octets(obeyed)))
        if obeyed != value:
            sent.append((EVIDENCE + lower.encode("ascii"), octets(value)))
    return sent


def _obeyed(name: str, value: str, scene: Scene, *, keeps_encoding: bool) -> str | None:
    """What a browser is to be told under the name itself; None: nothing."""
    if name in _KEPT:
        return value
    match name:
        case "content-encoding":
            return value if keeps_encoding else None
        case "location":
            return resolved(value, scene, scene.modifier)
        case "refresh" if scene.modifier != _RAW:
            return rewrite_refresh(value, scene, scene.modifier)
        case "set-cookie" if scene.modifier != _RAW:
            return rewrite_cookie(value, scene)
    return None


def octets(value: str) -> bytes:
    """As they were captured, which is how Holdfast reads them: UTF-8, other bytes as lone surrogates."""
    try:
        octets = value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        octets = value.encode("utf-8", "replace")
    return _CONTROLS.sub(b" ", octets).strip()
