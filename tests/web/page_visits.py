"""Asking a served archive for its pages as browsers and programs do."""

from __future__ import annotations

from http.client import HTTPConnection, HTTPResponse
from typing import NamedTuple
from urllib.parse import urlsplit

from page_reading import Page

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


class Visit(NamedTuple):
    """An answer, read to its end."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def page(self) -> Page:
        return Page(self.text)


def ask(origin: str, target: str, headers: dict[str, str] | None = None) -> Visit:
    """GET, with the target exactly as given. Redirects are not followed."""
    connection = HTTPConnection(urlsplit(origin).netloc, timeout=20)
    try:
        connection.request("GET", target, headers=BROWSER if headers is None else headers)
        return _read(connection.getresponse())
    finally:
        connection.close()


def _read(response: HTTPResponse) -> Visit:
    fields = {name.lower(): value for name, value in response.getheaders()}
    return Visit(response.status, fields, response.read())
