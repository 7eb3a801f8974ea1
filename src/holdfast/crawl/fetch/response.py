"""The head of a response, the meaning of libcurl's failures, and the parameters of TLS connections.

libcurl reports TLS parameters only in its log lines, and only when a connection is made; so
they are kept by connection, for the fetches that reuse it. A certificate is always checked. If that fails and
the crawl accepts it, the request is repeated without the check, and the fault is recorded.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import NamedTuple

import pycurl

from holdfast.crawl.processes.messages import FetchOutcome

_STATUS = re.compile(rb"HTTP/([0-9.]+)[ \t]+([0-9]{3})")
_REASONS = {status.value: status.phrase for status in HTTPStatus}
_RETRY_AFTER = re.compile(rb"^retry-after[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE | re.MULTILINE)
_SET_COOKIE = re.compile(rb"^set-cookie[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE | re.MULTILINE)
_BLANK = (b"\r\n", b"\n")

_OUTCOMES = {
    pycurl.E_COULDNT_RESOLVE_HOST: FetchOutcome.DNS,
    pycurl.E_COULDNT_RESOLVE_PROXY: FetchOutcome.CONNECT,
    pycurl.E_COULDNT_CONNECT: FetchOutcome.CONNECT,
    97: FetchOutcome.CONNECT,  # CURLE_PROXY, which pycurl does not name
    pycurl.E_INTERFACE_FAILED: FetchOutcome.CONNECT,
    pycurl.E_OPERATION_TIMEDOUT: FetchOutcome.TIMEOUT,
    pycurl.E_GOT_NOTHING: FetchOutcome.DROPPED,
    pycurl.E_RECV_ERROR: FetchOutcome.DROPPED,
    pycurl.E_SEND_ERROR: FetchOutcome.DROPPED,
    pycurl.E_PARTIAL_FILE: FetchOutcome.DROPPED,
    pycurl.E_SSL_CONNECT_ERROR: FetchOutcome.TLS,
    pycurl.E_PEER_FAILED_VERIFICATION: FetchOutcome.TLS,
    pycurl.E_SSL_CIPHER: FetchOutcome.TLS,
    pycurl.E_SSL_CERTPROBLEM: FetchOutcome.TLS,
    pycurl.E_SSL_ENGINE_NOTFOUND: FetchOutcome.TLS,
    pycurl.E_SSL_CACERT_BADFILE: FetchOutcome.TLS,
    pycurl.E_SSL_INVALIDCERTSTATUS: FetchOutcome.TLS,
    pycurl.E_SSL_ISSUER_ERROR: FetchOutcome.TLS,
    pycurl.E_URL_MALFORMAT: FetchOutcome.INVALID,
}


def outcome_of(code: int) -> str:
    """The outcome of a failure before the head; unknown ones count as protocol errors."""
    return _OUTCOMES.get(code, FetchOutcome.PROTOCOL)


def cut_of(code: int) -> str:
    """The WARC-Truncated value of a failure after the head."""
    return "time" if code == pycurl.E_OPERATION_TIMEDOUT else "disconnect"


def final_head(lines: list[bytes]) -> bytes | None:
    """The head of the response among all lines, without informational heads before it and trailers after it.

    None if it is incomplete.
    """
    start = 0
    while True:
        end = _blank_after(lines, start)
        if end < 0:
            return None
        head = lines[start] if start < end else b""
        found = _STATUS.match(head)
        if found is not None and found[2][:1] == b"1" and found[2] != b"101":
            start = end + 1
            continue
        return b"".join(lines[start : end + 1]) if found is not None else None


def _blank_after(lines: list[bytes], start: int) -> int:
    for at in range(start, len(lines)):
        if lines[at] in _BLANK:
            return at
    return -1


def as_http1(head: bytes) -> tuple[bytes, str, int]:
    """The head in HTTP/1 form, the protocol's name, and the status."""
    found = _STATUS.match(head)
    assert found is not None, "a head begins with a status line"
    version, status = found[1].decode(), int(found[2])
    if version.startswith("1."):
        return head, "http/" + version, status
    reason = _REASONS.get(status, "")
    line = f"HTTP/1.1 {status} {reason}\r\n".encode()
    return line + head[head.index(b"\n") + 1 :], "h" + version.removesuffix(".0"), status


def retry_after_of(head: bytes) -> str | None:
    found = _RETRY_AFTER.search(head)
    return found[1].decode("latin-1").strip() if found is not None else None


def set_cookies_of(head: bytes) -> list[str]:
    return [value.decode("latin-1") for value in _SET_COOKIE.findall(head)]


_AGREED = re.compile(rb"SSL connection using (TLS|SSL)v?([0-9.]+) / ([^ /\n]+)")
_PREFIX = re.compile(r"^SSL[^:']*: ")
_REMEMBERED_MAX = 8192
_VALID = "valid"
_FAULT_CHARACTERS_MAX = 200


class Agreed(NamedTuple):
    """Of one connection."""

    protocols: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()


def agreed(line: bytes, fault: str) -> Agreed:
    """TLS parameters from libcurl's log line about a handshake, with the certificate's fault, if any."""
    found = _AGREED.search(line)
    if found is None:
        return Agreed()
    facts = (("WARC-Cipher-Suite", found[3].decode("latin-1")), ("Holdfast-Certificate", fault or _VALID))
    return Agreed((f"{found[1].decode().lower()}/{found[2].decode()}",), facts)


class Agreements:
    """TLS state of servers. Bounded: the oldest is evicted first."""

    def __init__(self) -> None:
        self._known: dict[int | str, Agreed] = {}
        self._faults: dict[str, str] = {}

    def of(self, connection: int, origin: str) -> Agreed:
        """By connection; by origin for a fetch that shared a connection in the making."""
        return self._known.get(connection) or self._known.get(origin) or Agreed()

    def add(self, connection: int, origin: str, what: Agreed) -> None:
        for key in (connection, origin):
            self._known.pop(key, None)
            self._known[key] = what
        while len(self._known) > _REMEMBERED_MAX:
            del self._known[next(iter(self._known))]

    def fault(self, origin: str) -> str:
        """Why a server's certificate is no longer checked; '' if it is."""
        return self._faults.get(origin, "")

    def distrust(self, origin: str, problem: str) -> None:
        """Records why a certificate failed, from libcurl's message."""
        fault = " ".join(_PREFIX.sub("", problem).split())
        self._faults[origin] = fault[:_FAULT_CHARACTERS_MAX] or "not valid"
        if len(self._faults) > _REMEMBERED_MAX:
            del self._faults[next(iter(self._faults))]
