"""The request message, built completely here, so that the record is exactly what was sent."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from holdfast import __version__
from holdfast.crawl.job.credentials import is_for_proxy
from holdfast.crawl.job.job import FetchSettings
from holdfast.crawl.processes.messages import FetchJob

USER_AGENT = f"Holdfast/{__version__} (web archive crawler)"
_ACCEPT = b"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
_ENCODINGS = b"Accept-Encoding: gzip, deflate, br, zstd"  # those that `formats.content_encoding` undoes
_BREAKS = ("\r", "\n", "\0")
_BARE_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")  # the URL Standard leaves it, other clients and servers do not


class RequestTarget(NamedTuple):
    """Where a URL is requested."""

    origin: str  # scheme, host and port, and a slash
    host: str  # without port; IPv6 in brackets
    authority: str  # what the Host field says
    secure: bool
    target: str  # path and query


@lru_cache(4096)
def _origin(scheme: str, authority: str) -> tuple[str, str, str, bool] | None:
    authority = authority.rpartition("@")[2]
    host, colon, port = authority.rpartition(":")
    if not colon or "]" in port:
        host = authority
    if scheme not in ("http", "https") or not host or not authority.isascii() or " " in authority:
        return None
    return f"{scheme}://{authority}/", host, authority, scheme == "https"


def place_of(url: str) -> RequestTarget | None:
    """The place of a canonical URL; None if it is not an HTTP URL."""
    scheme, _, rest = url.partition("://")
    authority, slash, target = rest.partition("/")
    if not slash or not target.isascii() or not target.isprintable() or " " in target:
        return None
    origin = _origin(scheme, authority)
    if origin is None:
        return None
    path, mark, query = target.partition("#")[0].partition("?")
    if "%" in path:
        path = _BARE_PERCENT.sub("%25", path)
    return RequestTarget(*origin, f"/{path}{mark}{query}")


class Secrets(NamedTuple):
    """Credentials for one origin."""

    names: frozenset[str]  # of fields, in lower case
    lines: tuple[bytes, ...]  # without cookies
    cookies: str


class Requests:
    """Writes requests according to the settings."""

    def __init__(self, settings: FetchSettings) -> None:
        agent = settings.user_agent or USER_AGENT
        lines = [b"User-Agent: " + _value(agent), _ACCEPT, _ENCODINGS]
        given = [(name.strip(), _value(value)) for name, value in settings.headers if name.strip().lower() != "host"]
        names = {name.lower() for name, _ in given}
        kept = [line for line in lines if line.partition(b":")[0].decode().lower() not in names]
        self._fields = [*kept, *(name.encode() + b": " + value for name, value in given if value)]
        self._absolute = settings.proxy.startswith(("http:", "https:")) or (
            bool(settings.proxy) and "://" not in settings.proxy
        )
        self._own = names
        self._secrets = _by_origin(settings)

    def secrets(self, place: RequestTarget) -> Secrets | None:
        """The credentials for an origin."""
        return self._secrets.get(place.origin)

    def fields(
        self, job: FetchJob, cookies: str, secrets: Secrets | None = None, *, reveal: bool = True
    ) -> list[bytes]:
        """The fields of a request, without Host, one line each; without `reveal`, no secrets."""
        fields, own = self._fields, self._own
        if secrets:
            own = own | secrets.names
            fields = [line for line in fields if _name(line) not in secrets.names]
        if job.method or job.fields:
            fields = _of_page(job, fields, own)
            cookies = _joined(_named(job, "cookie"), cookies)
        if secrets and secrets.cookies:
            cookies = _joined(secrets.cookies, cookies, whole=reveal)
        further = []
        if job.via and "referer" not in own and _may_refer(job):
            further.append(b"Referer: " + _value(job.via))
        if cookies and "cookie" not in self._own:
            further.append(b"Cookie: " + _value(cookies))
        if secrets and reveal:
            further += secrets.lines
        if job.etag:
            further.append(b"If-None-Match: " + _value(job.etag))
        if job.modified:
            further.append(b"If-Modified-Since: " + _value(job.modified))
        return [*fields, *further] if further else fields

    def target(self, place: RequestTarget) -> str:
        """The request's target: the whole URL for a proxy that sees plain requests."""
        if self._absolute and not place.secure:
            return place.origin[:-1] + place.target
        return place.target

    def message(self, place: RequestTarget, fields: list[bytes], job: FetchJob | None = None) -> bytes:
        """The whole message."""
        method, content = (job.method or "GET", job.content) if job else ("GET", b"")
        first = f"{method} {self.target(place)} HTTP/1.1\r\nHost: {place.authority}\r\n".encode("ascii")
        return first + b"\r\n".join(fields) + b"\r\n\r\n" + content


def _by_origin(settings: FetchSettings) -> dict[str, Secrets]:
    """By origin, with a slash."""
    found: dict[str, list[tuple[str, str]]] = {}
    for each in settings.credentials:
        if not is_for_proxy(each):
            found.setdefault(f"{each.origin}/", []).append((each.name, each.value))
    return {origin: _secrets(fields) for origin, fields in found.items()}


def _secrets(fields: list[tuple[str, str]]) -> Secrets:
    cookies = "; ".join(value for name, value in fields if name.lower() == "cookie")
    others = [(name, value) for name, value in fields if name.lower() != "cookie"]
    names = frozenset(name.lower() for name, _ in others)
    return Secrets(names, tuple(name.encode() + b": " + _value(value) for name, value in others), cookies)


def _of_page(job: FetchJob, ours: list[bytes], own: set[str] | frozenset[str]) -> list[bytes]:
    """Our fields and those of a page in a browser; configured ones take precedence."""
    given = [(name, value) for name, value in job.fields if name.lower() not in own | {"cookie"}]
    names = {name.lower() for name, _ in given}
    kept = [line for line in ours if _name(line) not in names]
    fields = [*kept, *(name.encode("ascii") + b": " + _value(value) for name, value in given)]
    if has_content(job):
        fields.append(b"Content-Length: %d" % len(job.content))
    return fields


def _name(line: bytes) -> str:
    return line.partition(b":")[0].decode().lower()


def has_content(job: FetchJob) -> bool:
    """Whether the request needs a Content-Length, even if it is empty."""
    return bool(job.content) or job.method in ("POST", "PUT", "PATCH")


def _named(job: FetchJob, name: str) -> str:
    return next((value for each, value in job.fields if each.lower() == name), "")


def _joined(first: str, more: str, *, whole: bool = True) -> str:
    """Cookies, and those of `more` that are not among them; the latter alone if not `whole`."""
    names = {pair.partition("=")[0].strip() for pair in first.split(";")}
    missing = [pair.strip() for pair in more.split(";") if pair.partition("=")[0].strip() not in names]
    return "; ".join(filter(None, [first if whole else "", *missing]))


def _may_refer(job: FetchJob) -> bool:
    """As browsers do: not from a secure page to an insecure one."""
    return job.url.startswith("https:") or not job.via.startswith("https:")


def _value(text: str) -> bytes:
    """A field's value on one line, as the bytes that the server gave it in where it came from a server."""
    for sign in _BREAKS:
        if sign in text:
            text = text.replace(sign, " ")
    try:
        return text.strip().encode("latin-1")
    except UnicodeEncodeError:
        return text.strip().encode()
