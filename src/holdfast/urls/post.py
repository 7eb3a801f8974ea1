"""Requests with a body: their URL extended by method and body, so that each has its own key.

    POST http://example.com/search     a=1&b=2      ──►  http://example.com/search?__wb_method=POST&a=1&b=2

The form is that of pywb and cdxj-indexer; the body is converted by its type:

    application/x-www-form-urlencoded   its text, unescaped
    multipart/form-data                 name=value of each part, as a query
    application/json, text/plain        name=value of each scalar, names repeated as `name.2_`; also JSON lines
    anything else, or invalid            __wb_post_data=<base64>

At most 4,096 characters are kept. An invalid JSON body is dropped, as the others do.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from urllib.parse import unquote_plus, urlencode

BODY_CHARACTERS_MAX = 4096
_PLAIN_METHODS = ("GET", "")
_BODY_METHODS = ("POST", "PUT")
_BOUNDARY = re.compile(r'boundary=(?:"([^"]+)"|([^;\s]+))', re.IGNORECASE)


def post_key(url: str, method: str, body: bytes, content_type: str | None = None) -> str:
    """`url` extended by method and body, for `url_key`; unchanged for GET. Never raises."""
    method = method.upper()
    if method in _PLAIN_METHODS:
        return url
    text = body_query(body, content_type) if method in _BODY_METHODS else ""
    return f"{url}{'&' if '?' in url else '?'}__wb_method={method}{'&' if text else ''}{text}"


def body_query(body: bytes, content_type: str | None = None) -> str:
    """The body as a query string: CDXJ's `requestBody`."""
    kind = content_type or ""
    try:
        text = _readable(body, kind)
    except (ValueError, RecursionError):  # does not match its type
        text = "" if kind.startswith("application/json") else _binary(body)
    return text[:BODY_CHARACTERS_MAX]


def _readable(body: bytes, kind: str) -> str:
    if kind.startswith("application/x-www-form-urlencoded"):
        return unquote_plus(body.decode())
    if kind.startswith("multipart/"):
        return urlencode(list(_parts(body, kind)))
    if kind.startswith(("application/json", "text/plain")):
        return urlencode(_numbered(_json_values(body)))
    return _binary(body)


def _binary(body: bytes) -> str:
    return "__wb_post_data=" + base64.b64encode(body).decode()


def _json_values(body: bytes) -> list[object]:
    """The value of a JSON text, or the values of JSON lines."""
    try:
        return [json.loads(body)]
    except json.JSONDecodeError:
        if b"\n" not in body:
            raise
        return [json.loads(line) for line in body.split(b"\n")]


def _numbered(values: list[object]) -> dict[str, str]:
    """The named scalars; a repeated name becomes `name.2_`, `name.3_`."""
    found: dict[str, str] = {}
    times: dict[str, int] = {}
    for name, value in _scalars(values):
        key = name
        if name in found:
            times[name] = times.get(name, 1) + 1
            key = f"{name}.{times[name]}_"
        found[key] = str(value)
    return found


def _scalars(values: list[object]) -> Iterator[tuple[str, object]]:
    """Depth first; a value in a list has the name of the list."""
    waiting: list[tuple[str, object]] = [("", value) for value in reversed(values)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(reversed(value.items()))
        elif isinstance(value, list):
            waiting.extend((name, item) for item in reversed(value))
        elif name:
            yield name, value


def _parts(body: bytes, kind: str) -> Iterator[tuple[str, str | bytes]]:
    """Name and value of each part of a form; files stay bytes. Raises ValueError if the form is incomplete."""
    boundary = _BOUNDARY.search(kind)
    if boundary is None:
        raise ValueError("no boundary")
    line = b"\r\n--" + (boundary[1] or boundary[2]).encode()
    _, *parts = (b"\r\n" + body).split(line)
    if not parts or not parts.pop().startswith(b"--"):
        raise ValueError("no last boundary")
    for part in parts:
        head, gap, value = part.partition(b"\r\n\r\n")
        name, is_file = _disposition(head)
        if not gap or name is None:
            raise ValueError("a part without its name")
        yield name, value if is_file else value.decode()


def _disposition(head: bytes) -> tuple[str | None, bool]:
    """Name of a part (None without a disposition), and whether it is a file."""
    for line in head.decode().split("\r\n"):
        field, _, value = line.partition(":")
        if field.strip().lower() == "content-disposition":
            from email.message import Message  # slow to load, and rarely needed

            message = Message()
            message["Content-Disposition"] = value.strip()
            name, file = (message.get_param(key, "", "content-disposition") for key in ("name", "filename"))
            return str(name), bool(file)
    return None, False
