"""The header fields of an archived response: some are sent as they were, the others under an archival prefix.

    Content-Language, -Disposition, -Range      as they were
    Content-Encoding                            as it was, if the content is still encoded
    Location, Refresh                           to the archive's capture of the target, under the same modifier
    Set-Cookie                                  bound to the archived site
    all others, also of connections             as X-Archive-Orig-<name>

The caller adds Content-Type and Content-Length. Raw captures (`id_`) get neither cookies nor refreshes. Bytes that
could start another field are removed.

A cookie is bound to its archived site, so that no other site of the archive sees it:

    sid=1; Domain=example.com; Path=/shop; Secure; Expires=Wed, 01 Jan 2020 00:00:00 GMT
        ──►   sid=1; Path=/main/20191231235959mp_/http://example.com/shop

A cookie that expires after the capture becomes a session cookie; one that had expired still deletes. Attributes that
would make the browser reject the cookie are dropped. A cookie for the domain of another site is not set, as on the web.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from holdfast.formats.record import Headers
from holdfast.web.rewrite.addresses import Scene, base_url, resolved
from holdfast.web.rewrite.elements import rewrite_refresh

OURS: Final = "hf_"  # prefix of our own cookies, which archived sites may not set
_PREFIXED: Final = ("__host-", "__secure-")  # browsers take them only as they were sent
KEPT_PREFIX: Final = "kept."  # put before their names, and hidden by the runtime
_KEPT_ATTRIBUTES: Final = frozenset(("httponly",))
_DELETED: Final = "Max-Age=0"


def rewrite_cookie(value: str, scene: Scene) -> str | None:
    """The rewritten value of `Set-Cookie`; None if it is not sent."""
    pair, *attributes = (part.strip() for part in value.split(";"))
    name = pair.partition("=")[0].strip()
    origin = base_url(scene.url).origin
    if "=" not in pair or name.lower().startswith(OURS) or not origin:
        return None
    host = (urlsplit(origin).hostname or "").lower()
    path, kept, is_deleted = "", [], None
    for attribute in attributes:
        key, _, text = (part.strip() for part in attribute.partition("="))
        match key.lower():
            case "path":
                path = text
            case "domain" if not _is_domain_of(text, host):
                return None
            case "max-age":
                is_deleted = text.startswith("-") or text == "0"
            case "expires" if is_deleted is None and _was_over(text, scene.timestamp):
                is_deleted = True
            case known if known in _KEPT_ATTRIBUTES:
                kept.append(attribute)
    place = scene.start("mp_") + origin + (path if path.startswith("/") else _default_path(scene.url, origin))
    if name.lower().startswith(_PREFIXED):
        pair = KEPT_PREFIX + pair
    return "; ".join((pair, f"Path={place}", *kept, *((_DELETED,) if is_deleted else ())))


def _is_domain_of(text: str, host: str) -> bool:
    """Whether browsers take a cookie of this domain from the host. Of public suffixes only those of one label count."""
    domain = text.removeprefix(".").lower()
    return domain in ("", host) or ("." in domain and host.endswith(f".{domain}"))


def _default_path(url: str, origin: str) -> str:
    path = url[len(origin) :].partition("?")[0].partition("#")[0] if url.startswith(origin) else "/"
    return path[: path.rfind("/") + 1] or "/"


def _was_over(text: str, timestamp: str) -> bool:
    """Whether a cookie of this date had expired when it was captured."""
    try:
        expires = parsedate_to_datetime(text)
        captured = datetime.strptime(timestamp, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return False
    return (expires if expires.tzinfo else expires.replace(tzinfo=UTC)) <= captured


EVIDENCE: Final = b"x-archive-orig-"
_KEPT: Final = frozenset(("content-language", "content-disposition", "content-range"))
_OBEYED: Final = _KEPT | {"content-encoding", "location", "refresh", "set-cookie"}
_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_NAMES_CACHED: Final = 4096
_CONTROLS: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]+")
_RAW: Final = "id_"


def archived_headers(headers: Headers, scene: Scene, *, keeps_encoding: bool) -> list[tuple[bytes, bytes]]:
    """Names in lower case. `keeps_encoding`: the content is sent as it was encoded."""
    sent: list[tuple[bytes, bytes]] = []
    for name, value in headers:
        lower, evidence = _names(name)
        if lower in _OBEYED:
            obeyed = _obeyed(lower, value, scene, keeps_encoding=keeps_encoding)
            if obeyed is not None:
                sent.append((lower.encode("ascii"), octets(obeyed)))
            if obeyed == value:
                continue
        if evidence:
            sent.append((evidence, octets(value)))
    return sent


@lru_cache(_NAMES_CACHED)
def _names(name: str) -> tuple[str, bytes]:
    """The name in lower case, and the one under which it is evidence; both empty if it is not a valid name."""
    if not _NAME.fullmatch(name):
        return "", b""
    lower = name.lower()
    return lower, EVIDENCE + lower.encode("ascii")


def _obeyed(name: str, value: str, scene: Scene, *, keeps_encoding: bool) -> str | None:
    """What is sent under the name itself; None if nothing."""
    if name in _KEPT:
        return value
    if name == "content-encoding":
        return value if keeps_encoding else None
    if name == "location":
        return resolved(value, scene, scene.modifier)
    if scene.modifier == _RAW:
        return None
    return rewrite_refresh(value, scene, scene.modifier) if name == "refresh" else rewrite_cookie(value, scene)


def octets(value: str) -> bytes:
    """The bytes as captured: Holdfast reads fields as UTF-8, with other bytes as lone surrogates."""
    if value.isascii() and value.isprintable():
        return value.strip().encode("ascii")
    try:
        octets = value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        octets = value.encode("utf-8", "replace")
    return _CONTROLS.sub(b" ", octets).strip()
