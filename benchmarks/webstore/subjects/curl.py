"""One connection to HTTP servers that is kept open: libcurl, so that the client costs little beside the server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO

import pycurl

_TIMEOUT_S = 60
_HEADERS = ["Content-Type: text/html", "Expect:", "Accept:"]
_GOOD = 300


class Asker:
    """For one thread. Connections to several servers are kept."""

    def __init__(self) -> None:
        self._curl = pycurl.Curl()
        self._curl.setopt(pycurl.NOSIGNAL, 1)
        self._curl.setopt(pycurl.TIMEOUT, _TIMEOUT_S)
        self._curl.setopt(pycurl.HTTPHEADER, _HEADERS)
        self._curl.setopt(pycurl.PROXY, "")

    def ask(self, method: str, url: str, body: bytes | None = None) -> bytes:
        """The answer's body. Raises OSError if it is no success."""
        curl, answer = self._curl, BytesIO()
        if body is None:
            curl.setopt(pycurl.HTTPGET, 1)
        else:
            curl.setopt(pycurl.POSTFIELDS, body)
        curl.setopt(pycurl.CUSTOMREQUEST, method)
        curl.setopt(pycurl.URL, url)
        curl.setopt(pycurl.WRITEDATA, answer)
        try:
            curl.perform()
        except pycurl.error as failure:
            raise OSError(f"{method} {url}: {failure}") from failure
        status = curl.getinfo(pycurl.RESPONSE_CODE)
        if status >= _GOOD:
            raise OSError(f"{method} {url} was answered with {status}: {answer.getvalue()[:200]!r}")
        return answer.getvalue()

    def close(self) -> None:
        self._curl.close()


class UrlSession:
    """A client whose handles are URLs."""

    def __init__(self) -> None:
        self._asker = Asker()

    def fetch(self, handles: Sequence[str]) -> Iterator[bytes]:
        for url in handles:
            yield self._asker.ask("GET", url)

    def delete(self, handles: Sequence[str]) -> None:
        for url in handles:
            self._asker.ask("DELETE", url)

    def close(self) -> None:
        self._asker.close()
