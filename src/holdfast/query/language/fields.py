"""The fields of the query language: their values, and the normal form of values.

A reader takes the text of a value and returns its normal form. It raises
MalformedQuery, which names the value and what is expected; the parser adds the position.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from holdfast.catalog.timestamps import digits
from holdfast.env.units import brief_size_text, parse_size
from holdfast.errors import MalformedKey, MalformedQuery, UsageError
from holdfast.formats.http import media_type
from holdfast.model import batch_name
from holdfast.urls import completed, page_id_text, parse_page_id, url_key

Reader = Callable[[str], str]
TITLE = "title"
SIGNS = (">=", "<=", ">", "<", "=")
UNKNOWN_LANGUAGE = "-"
_BYTES_MAX = 2**63 - 1
_LANGUAGE = re.compile(r"([a-z]{2,3})(?:[-_][a-z0-9]+)*", re.ASCII)
_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]*(?:/(?:[a-z0-9][a-z0-9!#$&^_.+-]*)?)?", re.ASCII)
_CLASS = re.compile(r"([1-9])xx", re.IGNORECASE)
_NUMBER_DIGITS_MAX = 15
_DECIMALS = 6  # of a rank


def _host(text: str) -> str:
    """The host of a host name or of a URL, in lower case and without `www.`."""
    key = url_key(text if "//" in text else f"http://{text}")
    host = key.partition(")")[0]
    if host.count(":") == 1:
        host = host.partition(":")[0]
    if not host or ")" not in key:
        raise MalformedQuery(f"bad host {text!r}: give a name such as example.com")
    return host if ":" in host else ".".join(reversed(host.split(",")))


def _domain(text: str) -> str:
    return _host(text.removeprefix("*").removeprefix("."))


def _type(text: str) -> str:
    name = media_type(text)
    if _TYPE.fullmatch(name) is None:
        raise MalformedQuery(f"bad type {text!r}: give one such as text/html, image or pdf")
    return name.removesuffix("/")


def _language(text: str) -> str:
    if text.lower() in (UNKNOWN_LANGUAGE, "unknown"):
        return UNKNOWN_LANGUAGE
    match = _LANGUAGE.fullmatch(text.lower())
    if match is None:
        raise MalformedQuery(f"bad language {text!r}: give two letters, such as en, or - for unknown")
    return match[1]


def _name(text: str) -> str:
    try:
        return batch_name(text)
    except UsageError as error:
        raise MalformedQuery(str(error)) from None


def _time(name: str) -> Reader:
    return lambda text: digits(text, name)


def _url(text: str) -> str:
    return completed(text.strip())


def _page_id(text: str) -> str:
    try:
        return page_id_text(parse_page_id(text))
    except MalformedKey as error:
        raise MalformedQuery(str(error)) from None


MATCHES: dict[str, Reader] = {
    "site": _host,
    "domain": _domain,
    "type": _type,
    "lang": _language,
    "from": _time("from"),
    "to": _time("to"),
    "url": _url,
    "page-id": _page_id,
    "links-to": _url,
    "linked-from": _url,
    "collection": _name,
    "batch": _name,
}
_HOSTS = ("site", "domain")
COMPARED = ("status", "size", "rank", "inlinks")
ALIASES = {
    "host": "site",
    "mime": "type",
    "language": "lang",
    "after": "from",
    "since": "from",
    "before": "to",
    "until": "to",
    "link": "links-to",
    "links": "links-to",
    "intitle": "title",
}
NAMES = (TITLE, *MATCHES, *COMPARED)


def number_of(field: str, text: str) -> float:
    """The number of a comparison; `size` may have a unit, a power of 1024. Raises MalformedQuery."""
    if field == "size":
        return _bytes(text)
    if field == "rank":
        if re.fullmatch(rf"\d{{1,9}}(?:\.\d{{1,{_DECIMALS}}})?", text, re.ASCII) is None:
            raise MalformedQuery(f"bad rank {text!r}: give a number such as 1.5; the mean of all pages is 1")
        return float(text)
    if not (text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS_MAX):
        raise MalformedQuery(f"bad number {text!r} for {field!r}: give a whole one")
    return int(text)


def _bytes(text: str) -> int:
    try:
        count = parse_size(text)
    except UsageError:
        raise MalformedQuery(f"bad size {text!r}: give bytes such as 4096, 50K or 1.5M") from None
    if count > _BYTES_MAX:
        raise MalformedQuery(f"bad size {text!r}: give less than 8388608T")
    return count


def status_class(text: str) -> tuple[int, int] | None:
    """First and last status of `4xx`; None for other texts."""
    match = _CLASS.fullmatch(text)
    return (int(match[1]) * 100, int(match[1]) * 100 + 99) if match else None


def value_text(field: str, value: str) -> str:
    """A value in the form its reader accepts; a host that still begins with `www.` needs another `www.`."""
    return f"www.{value}" if field in _HOSTS and _host(value) != value else value


def number_text(field: str, number: float) -> str:
    """The shortest form of a number that `number_of` reads back."""
    if field == "rank":
        return f"{number:.{_DECIMALS}f}".rstrip("0").rstrip(".")
    return brief_size_text(int(number)) if field == "size" else str(int(number))
