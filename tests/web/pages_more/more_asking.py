"""Asking for a page, or sending a form, as a browser would."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

BROWSER = {"Accept": "text/html,*/*;q=0.8"}


class Told(NamedTuple):
    """An answer, read to its end."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


def ask(origin: str, path: str, values: dict[str, str] | None = None, **headers: str) -> Told:
    """GET; `values` become the query."""
    target = f"{path}?{urlencode(values)}" if values else path
    return _told(origin, "GET", target, None, BROWSER | headers)


def send(origin: str, path: str, values: dict[str, str], **headers: str) -> Told:
    """POST of a form."""
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return _told(origin, "POST", path, urlencode(values), BROWSER | form | named)


def _told(origin: str, method: str, target: str, body: str | None, headers: dict[str, str]) -> Told:
    connection = HTTPConnection(urlsplit(origin).netloc, timeout=60)
    try:
        connection.request(method, target, body, headers)
        response = connection.getresponse()
        fields = {name.lower(): value for name, value in response.getheaders()}
        return Told(response.status, fields, response.read().decode())
    finally:
        connection.close()
