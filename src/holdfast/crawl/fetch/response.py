"""The head that came, and what libcurl's failures mean."""

from __future__ import annotations

import re
from http import HTTPStatus

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
    """What a failure before the head was there means; what nobody expects is a broken protocol."""
    return _OUTCOMES.get(code, FetchOutcome.PROTOCOL)


def cut_of(code: int) -> str:
    """What a failure after the head means, as WARC-Truncated says it."""
    return "time" if code == pycurl.E_OPERATION_TIMEDOUT else "disconnect"


def final_head(lines: list[bytes]) -> bytes | None:
    """The head of the answer among all lines: informational heads before and trailers after it do not count.

    None if it is not whole.
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
    """The head written as HTTP/1 is, the protocol's name, and the status."""
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
