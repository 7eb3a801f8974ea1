"""URLs parsed as browsers do (WHATWG URL Standard, by `ada_url`), their canonical form, and typed URLs completed."""

from __future__ import annotations

import re
from typing import NamedTuple

import ada_url

_SURROGATES = re.compile("[\ud800-\udfff]")


class Url(NamedTuple):
    """A parsed URL, all parts normalized, with the names of the standard's URL class, without delimiters.

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
    """The parts of `url`, resolved against `base`; None if the standard rejects it."""
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
    """The library's own object, much cheaper than a `Url`; None if the standard rejects it."""
    try:
        return ada_url.URL(url)
    except UnicodeEncodeError:  # a lone surrogate
        return parsed_url(scalar_values(url))
    except ValueError:
        return None


def scalar_values(text: str) -> str:
    """`text` with a replacement character for each lone surrogate, as the standard requires."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def _joined(base: str, url: str) -> ada_url.URL | None:
    try:
        return ada_url.URL(scalar_values(url), base=scalar_values(base))
    except ValueError:
        return None


def canonical(url: str) -> str:
    """`url` as the WHATWG URL Standard serializes it, without its fragment. Invalid URLs are only stripped."""
    parsed = parsed_url(url)
    return url.strip() if parsed is None else parsed.href.partition("#")[0]


# A host that could be a scheme, then a port. Other hosts without a scheme are completed by `url_key`.
_NAME_AND_PORT = re.compile(r"([a-z][a-z0-9+.-]*):\d{1,5}(?=[/?#*]|$)", re.ASCII | re.IGNORECASE)
_SCHEMES = ("about", "callto", "data", "fax", "sms", "tel", "urn")  # may be followed by digits that are not a port


def completed(text: str) -> str:
    """`text` with `http://` before a host with a port; other texts unchanged. Idempotent.

    For URLs that people type, never for captured ones, whose keys must equal those of other tools.
    """
    match = _NAME_AND_PORT.match(text)
    return text if match is None or match[1].lower() in _SCHEMES else f"http://{text}"
