"""Cookies (RFC 6265), for the duration of a crawl.

Kept in Netscape's `cookies.txt`, which curl, wget and browser tools read. Session cookies are kept as well,
because a resumed crawl continues its session. Bounded: `COOKIES_MAX`, and a limit per domain.

A line of that file is a cookie, and a tab ends a field: so no field may hold anything that a reader takes for the end
of a line or of a field, or a server could write cookies of others into it.
"""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import NamedTuple

from holdfast.crawl.fetch.addresses import literal
from holdfast.env.files import replace_private_file
from holdfast.urls.domain import public_suffix

COOKIES_MAX = 20_000
DOMAIN_COOKIES_MAX = 60
COOKIE_BYTES_MAX = 4096
_HEADER = "# Netscape HTTP Cookie File\n"
_HTTP_ONLY = "#HttpOnly_"
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")  # of C0 and C1, and what else ends a line somewhere
_EXPIRES_MAX = 253402300799.0  # the year 9999


class Cookie(NamedTuple):
    """`expires` is in seconds since the epoch; 0: never."""

    domain: str
    subdomains: bool
    path: str
    secure: bool
    expires: float
    name: str
    value: str


class Jar:
    """All cookies of a crawl, by domain. One thread."""

    def __init__(self) -> None:
        self._domains: dict[str, dict[tuple[str, str], Cookie]] = {}
        self._size = 0
        self.changed = False

    def __len__(self) -> int:
        return self._size

    def value(self, host: str, path: str, *, secure: bool, now: float) -> str:
        """The Cookie field's value for a request; '' for none."""
        if not self._domains:
            return ""
        path = path.partition("?")[0]
        found: list[Cookie] = []
        for domain in _with_parents(host):
            of_domain = self._domains.get(domain)
            if of_domain:
                found += [cookie for cookie in of_domain.values() if _fits(cookie, host, path, secure, now)]
        found.sort(key=lambda cookie: -len(cookie.path))
        return "; ".join(f"{cookie.name}={cookie.value}" if cookie.name else cookie.value for cookie in found)

    def take(self, line: str, host: str, path: str, now: float) -> None:
        """Takes the value of one Set-Cookie field; invalid cookies are ignored."""
        if len(line) > COOKIE_BYTES_MAX:
            return
        cookie = _parsed(line, host, path.partition("?")[0], now)
        if cookie is not None:
            self._put(cookie, now)

    def load(self, path: Path) -> None:
        """Reads a file; lines that are not cookies, and a missing file, are ignored."""
        try:
            text = path.read_bytes().decode("utf-8", errors="replace")
        except FileNotFoundError:
            return
        for line in text.split("\n"):  # and at no other line separator
            cookie = _of_line(line.removesuffix("\r"))
            if cookie is not None:
                self._put(cookie, 0.0)
        self.changed = False

    def save(self, path: Path, now: float) -> None:
        """Writes unexpired cookies, durably, to a file of mode 600."""
        kept = [cookie for of_domain in self._domains.values() for cookie in of_domain.values()]
        lines = [_line(cookie) for cookie in kept if not cookie.expires or cookie.expires > now]
        replace_private_file(path, (_HEADER + "".join(lines)).encode())
        self.changed = False

    def _put(self, cookie: Cookie, now: float) -> None:
        if any(map(_CONTROLS.search, (cookie.domain, cookie.path, cookie.name, cookie.value))):
            return
        of_domain = self._domains.setdefault(cookie.domain, {})
        key = (cookie.path, cookie.name)
        old = of_domain.pop(key, None)
        if old == cookie:
            of_domain[key] = cookie
            return
        self.changed = True
        self._size -= old is not None
        if not cookie.expires or cookie.expires > now:
            if len(of_domain) >= DOMAIN_COOKIES_MAX:
                del of_domain[next(iter(of_domain))]
                self._size -= 1
            of_domain[key] = cookie
            self._size += 1
        if not of_domain:
            del self._domains[cookie.domain]
        while self._size > COOKIES_MAX:
            self._size -= len(self._domains.pop(next(iter(self._domains))))


def _with_parents(host: str) -> list[str]:
    """The host and all domains above it that have a dot."""
    found = [host]
    at = host.find(".")
    while at >= 0 and "." in host[at + 1 :]:
        found.append(host[at + 1 :])
        at = host.find(".", at + 1)
    return found


def _fits(cookie: Cookie, host: str, path: str, secure: bool, now: float) -> bool:
    if cookie.domain != host and not cookie.subdomains:
        return False
    if (cookie.secure and not secure) or (cookie.expires and cookie.expires <= now):
        return False
    wanted = cookie.path
    return path == wanted or (path.startswith(wanted) and (wanted.endswith("/") or path[len(wanted)] == "/"))


def _parsed(line: str, host: str, path: str, now: float) -> Cookie | None:
    """The cookie of a Set-Cookie line from this host; None if it must not be set."""
    first, *rest = line.split(";")
    name, equals, value = first.partition("=")
    if not equals:
        name, value = "", first
    attributes = {key.strip().lower(): held.strip() for key, _, held in (part.partition("=") for part in rest)}
    name, value = name.strip(), value.strip()
    if not (name or value):
        return None
    domain = attributes.get("domain", "").lower().removeprefix(".")
    if domain and domain != host:
        beyond = not host.endswith("." + domain) or literal(host) or public_suffix(domain) == domain
        if beyond or "." not in domain:
            return None
    asked = attributes.get("path", "")
    cookie_path = asked if asked.startswith("/") else path[: path.rfind("/")] or "/"
    return Cookie(
        domain or host, bool(domain), cookie_path, "secure" in attributes, _expires(attributes, now), name, value
    )


def _expires(attributes: dict[str, str], now: float) -> float:
    age = attributes.get("max-age", "")
    if age.removeprefix("-").isdigit() and age.isascii():
        return min(now + int(age[:12]), _EXPIRES_MAX) if not age.startswith("-") and age.strip("0") else 1.0
    if "expires" in attributes:
        try:
            return max(parsedate_to_datetime(attributes["expires"].replace("-", " ")).timestamp(), 1.0)
        except (ValueError, TypeError, OverflowError, IndexError):
            return 0.0
    return 0.0


def _line(cookie: Cookie) -> str:
    domain = "." + cookie.domain if cookie.subdomains else cookie.domain
    flags = ("TRUE" if cookie.subdomains else "FALSE", cookie.path, "TRUE" if cookie.secure else "FALSE")
    return "\t".join((domain, *flags, str(int(cookie.expires)), cookie.name, cookie.value)) + "\n"


def _of_line(line: str) -> Cookie | None:
    fields = line.removeprefix(_HTTP_ONLY).split("\t")
    if len(fields) != 7 or line.startswith("# ") or not (fields[4].isascii() and fields[4].isdigit()):
        return None
    domain, subdomains, path, secure, expires, name, value = fields
    until = min(float(expires), _EXPIRES_MAX)
    return Cookie(domain.removeprefix("."), subdomains == "TRUE", path, secure == "TRUE", until, name, value)
