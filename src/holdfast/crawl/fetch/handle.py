"""One libcurl handle, used for one fetch after the other. Options that stay the same are set once: they are costly."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pycurl

from holdfast.crawl.fetch.body import BodyLimits, ResponseBody
from holdfast.crawl.fetch.request import RequestTarget, has_content
from holdfast.crawl.fetch.response import as_http1, cut_of, final_head, outcome_of
from holdfast.crawl.fetch.tls import Agreed, Agreements, agreed
from holdfast.crawl.job.credentials import PROXY_FIELD, for_proxy, proxy_user
from holdfast.crawl.job.job import FetchSettings
from holdfast.crawl.processes.messages import Fetched, FetchJob, FetchOutcome

_BUFFER_BYTES = 128 << 10
_SUPPRESS_CONNECT_HEADERS = 265  # CURLOPT_SUPPRESS_CONNECT_HEADERS, which pycurl does not name


class FetchOrder(NamedTuple):
    """A request to be made."""

    job: FetchJob
    place: RequestTarget
    target: str
    fields: list[bytes]
    secret: bool  # whether credentials are among the fields
    message: bytes  # as it is recorded: without credentials, unless they are asked for
    address: str  # the one to connect to; '' through a proxy
    done: Callable[[Fetched, int], None]  # takes the result and the status


class Handle:
    """See above. Belongs to the event loop's thread."""

    def __init__(self, settings: FetchSettings, spool: Path, agreements: Agreements) -> None:
        limits = BodyLimits(settings.body_bytes_max, settings.memory_bytes_max, settings.head_bytes_max)
        self.body = ResponseBody(limits, spool)
        self.order: FetchOrder | None = None
        self._limits = limits
        self._agreements = agreements
        self._handshake = b""
        self._uses = 0
        self._origin = ""
        self._address = ""
        self._secure = False
        self._strict = settings.verify_tls
        self.verifying = True  # whether the last fetch checked the server's certificate
        self._fields: list[bytes] = []
        self._method = ""
        self._unsent = [b"Proxy-Connection:"] if settings.proxy else []  # else libcurl adds it
        self._started = 0.0
        self._clock = 0.0
        self.curl = pycurl.Curl()
        for option, value in _options(settings).items():
            self.curl.setopt(option, value)
        self.curl.setopt(pycurl.WRITEFUNCTION, self.body.take)
        self.curl.setopt(pycurl.HEADERFUNCTION, self.body.lines.append)
        self.curl.setopt(pycurl.DEBUGFUNCTION, self._note)

    def prepare(self, order: FetchOrder) -> None:
        """Sets what differs from the last fetch."""
        setopt, place = self.curl.setopt, order.place
        if place.origin != self._origin:
            setopt(pycurl.URL, place.origin)
            self._origin = place.origin
        if order.address != self._address:
            # the very address that was checked; the name goes on to be used for TLS and Host
            pinned = f"[{order.address}]" if ":" in order.address else order.address
            setopt(pycurl.CONNECT_TO, [f"::{pinned}:"])
            self._address = order.address
        if place.secure != self._secure:
            setopt(pycurl.VERBOSE, place.secure)  # tells of the handshake; see tls.py
            setopt(pycurl.PIPEWAIT, place.secure)
            self._secure = place.secure
        if place.secure:
            self._verify(self._strict or order.secret or not self._agreements.fault(place.origin))
        setopt(pycurl.REQUEST_TARGET, order.target)
        if order.fields is not self._fields:
            if order.fields != self._fields:
                setopt(pycurl.HTTPHEADER, [*order.fields, *self._unsent])
            self._fields = order.fields
        if order.job.method or self._method:
            self._set_method(order.job)
        self._uses += 1
        self._handshake = b""
        self.body.begin(f"{order.job.id}-{id(self):x}-{self._uses}")
        self.order = order
        self._started = time.time()
        self._clock = time.monotonic()

    def _set_method(self, job: FetchJob) -> None:
        """Anything but GET is what a page in a browser asks for."""
        setopt = self.curl.setopt
        setopt(pycurl.HTTPGET, 1)
        self.curl.unsetopt(pycurl.CUSTOMREQUEST)
        self._method = job.method
        if has_content(job):
            setopt(pycurl.POST, 1)
            setopt(pycurl.POSTFIELDS, job.content)
            # the empty ones keep libcurl from adding its own
            typed = any(line.lower().startswith(b"content-type:") for line in self._fields)
            setopt(
                pycurl.HTTPHEADER, [*self._fields, *self._unsent, b"Expect:", *([] if typed else [b"Content-Type:"])]
            )
            self._fields = []
        if job.method == "HEAD":
            setopt(pycurl.NOBODY, 1)
        elif job.method:
            setopt(pycurl.CUSTOMREQUEST, job.method)

    def _verify(self, verifying: bool) -> None:
        if verifying != self.verifying:
            self.curl.setopt(pycurl.SSL_VERIFYPEER, int(verifying))
            self.curl.setopt(pycurl.SSL_VERIFYHOST, 2 if verifying else 0)
            self.verifying = verifying

    def finish(self, code: int, problem: str) -> tuple[Fetched, int]:
        """What came of the fetch, and the status; `code` is libcurl's, 0 for success."""
        order, body = self.order, self.body
        assert order is not None, "a fetch that ends was begun"
        self.order = None
        elapsed = time.monotonic() - self._clock
        body.settle()
        head = final_head(body.lines)
        common: dict[str, Any] = {"started": self._started, "elapsed": elapsed, "request": order.message}
        common["ip"] = order.address  # through a proxy nobody knows the server's
        failed = self._failure(head, code, problem or f"libcurl's error {code}")
        if failed is not None or head is None:
            outcome, detail = failed or (FetchOutcome.PROTOCOL, "no head")
            transferred = body.head_size() + body.size
            body.drop()
            return Fetched(order.job, outcome, detail, transferred=transferred, **common), 0
        head, protocol, status = as_http1(head)
        secured = self._secured(order) if order.place.secure else Agreed()
        truncated = "length" if body.full else cut_of(code) if code else ""
        content, path = body.end()
        fetched = Fetched(
            order.job,
            FetchOutcome.OK,
            detail=problem if truncated and not body.full else "",
            head=head,
            body=content,
            spool=path,
            size=body.size,
            protocols=(protocol, *secured.protocols),
            facts=secured.facts,
            truncated=truncated,
            transferred=len(head) + body.size,
            **common,
        )
        return fetched, status

    def abandon(self) -> None:
        """Ends without a result."""
        self.order = None
        self.body.drop()

    def close(self) -> None:
        self.body.drop()
        self.curl.close()

    def _failure(self, head: bytes | None, code: int, problem: str) -> tuple[str, str] | None:
        """Outcome and detail where there is nothing to keep."""
        body = self.body
        if body.failure:
            return FetchOutcome.NO_SPACE, body.failure
        if body.head_size() > self._limits.head_bytes_max:
            return FetchOutcome.PROTOCOL, f"a head of more than {self._limits.head_bytes_max} bytes"
        if head is not None:
            return None
        if not code and any(line in (b"\r\n", b"\n") for line in body.lines):
            return FetchOutcome.PROTOCOL, "the head has no status line of HTTP"
        if not code:
            return FetchOutcome.DROPPED, "the connection ended before the head did"
        if code == pycurl.E_OPERATION_TIMEDOUT and not self._is_connected():
            return FetchOutcome.CONNECT, problem
        return outcome_of(code), problem

    def _is_connected(self) -> bool:
        """Of a connection that is used again libcurl tells only the second of these times."""
        return bool(self.curl.getinfo(pycurl.CONNECT_TIME) or self.curl.getinfo(pycurl.PRETRANSFER_TIME))

    def _secured(self, order: FetchOrder) -> Agreed:
        connection = self.curl.getinfo(pycurl.CONN_ID)
        if self._handshake:
            what = agreed(self._handshake, "" if self.verifying else self._agreements.fault(order.place.origin))
            self._agreements.add(connection, order.place.origin, what)
            return what
        return self._agreements.of(connection, order.place.origin)

    def _note(self, kind: int, text: bytes) -> None:
        if kind == 0 and text.startswith(b"SSL connection using"):
            self._handshake = text


def _options(settings: FetchSettings) -> dict[int, Any]:
    """What stays the same for all fetches of a crawl."""
    authorities = ssl.get_default_verify_paths().cafile
    http2 = pycurl.CURL_HTTP_VERSION_2TLS if settings.http2 else pycurl.CURL_HTTP_VERSION_1_1
    options: dict[int, Any] = {
        pycurl.PROTOCOLS: pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS,
        pycurl.FOLLOWLOCATION: 0,
        pycurl.PATH_AS_IS: 1,
        _SUPPRESS_CONNECT_HEADERS: 1,  # the proxy's answer to CONNECT is not the server's
        pycurl.HTTP_VERSION: http2,
        pycurl.HTTP09_ALLOWED: 0,
        pycurl.HTTP_CONTENT_DECODING: 0,
        pycurl.NOSIGNAL: 1,
        pycurl.NOPROGRESS: 1,
        pycurl.BUFFERSIZE: _BUFFER_BYTES,
        pycurl.PROXY: settings.proxy,  # '' also means: not the one that the environment names
        pycurl.CONNECTTIMEOUT_MS: int(settings.connect_timeout_s * 1000),
        pycurl.TIMEOUT_MS: int(settings.fetch_timeout_s * 1000),
        pycurl.LOW_SPEED_LIMIT: 1,
        pycurl.LOW_SPEED_TIME: max(int(settings.stall_timeout_s), 1),
    }
    if authorities:
        options[pycurl.CAINFO] = authorities
    return options | _proxy_options(settings)


def _proxy_options(settings: FetchSettings) -> dict[int, Any]:
    """What the proxy is told who asks; servers behind it are not."""
    if user := proxy_user(settings):
        return {pycurl.PROXYUSERNAME: user[0], pycurl.PROXYPASSWORD: user[1]}
    if value := for_proxy(settings):
        return {pycurl.HEADEROPT: pycurl.HEADER_SEPARATE, pycurl.PROXYHEADER: [f"{PROXY_FIELD}: {value}".encode()]}
    return {}
