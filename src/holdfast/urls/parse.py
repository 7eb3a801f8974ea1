"""Parsing as browsers do: the WHATWG URL Standard, by `ada_url` (the parser of Node.js)."""

from __future__ import annotations

import re
from typing import NamedTuple

import ada_url

_SURROGATES = re.compile("[\ud800-\udfff]")


class Url(NamedTuple):
    """A parsed URL, all parts normalized; the names are those of the standard's URL class, without their delimiters.

    `scheme` has no colon, `search` no question mark, `fragment` no hash sign. `host` is the lower-case ASCII domain, an
    IPv4 address, an IPv6 address in brackets, or empty. `port` is empty when it is the default of the scheme.
    """

    href: str
    scheme: str
    username: str
    password: str
    host: str
    port: str
    path: str
    search: str
    fragment: str


def parse(url: str, base: str | None = None) -> Url | None:
    """The parts of `url`, resolved against `base` if one is given; None when the standard calls it a failure."""
    parsed = parsed_url(url) if base is None else _joined(base, url)
    if parsed is None:
        return None
    return Url(
        parsed.href,
        parsed.protocol[:-1],
        parsed.username,
        parsed.password,
        parsed.hostname,
        parsed.port,
        parsed.pathname,
        parsed.search[1:],
        parsed.hash[1:],
    )


def parsed_url(url: str) -> ada_url.URL | None:
    """The library's own object, which costs a fraction of a `Url`; None when the standard calls it a failure."""
    try:
        return ada_url.URL(url)
    except UnicodeEncodeError:  # a lone surrogate has no UTF-8
        return parsed_url(scalar_values(url))
    except ValueError:
        return None


def scalar_values(text: str) -> str:
    """`text` with a replacement character for each lone surrogate, as the standard asks for."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def _joined(base: str, url: str) -> ada_url.URL | None:
    try:
        return ada_url.URL(scalar_values(url), base=scalar_values(base))
    except ValueError:
        return None
