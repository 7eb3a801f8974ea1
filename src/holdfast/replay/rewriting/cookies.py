"""Cookies of archived responses, bound to the archived site: none is seen by another site of the same archive.

    sid=1; Domain=example.com; Path=/shop; Secure; Expires=Wed, 01 Jan 2020 00:00:00 GMT
        ──►   sid=1; Path=/main/20191231235959mp_/http://example.com/shop

What was to expire later than the capture is kept while the browser runs; what was expired by then still deletes.
Attributes that would make a browser refuse the cookie here are left out.
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from holdfast.replay.rewriting.addresses import Scene, ground

OURS: Final = "hf_"  # names that begin so are not given by archived sites
_KEPT: Final = frozenset(("httponly",))
_DELETED: Final = "Max-Age=0"


def rewrite_cookie(value: str, scene: Scene) -> str | None:
    """The value of `Set-Cookie` as it is to be sent; None if it is not to be."""
    pair, *attributes = (part.strip() for part in value.split(";"))
    name = pair.partition("=")[0].strip()
    origin = ground(scene.url).origin
    if "=" not in pair or name.lower().startswith(OURS) or not origin:
        return None
    path, kept, is_deleted = "", [], None
    for attribute in attributes:
        key, _, text = (part.strip() for part in attribute.partition("="))
        match key.lower():
            case "path":
                path = text
            case "max-age":
                is_deleted = text.startswith("-") or text == "0"
            case "expires" if is_deleted is None and _was_over(text, scene.timestamp):
                is_deleted = True
            case known if known in _KEPT:
                kept.append(attribute)
    place = scene.start("mp_") + origin + (path if path.startswith("/") else _default_path(scene.url, origin))
    return "; ".join((pair, f"Path={place}", *kept, *((_DELETED,) if is_deleted else ())))


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
