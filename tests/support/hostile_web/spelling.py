"""The many ways to write one URL in a page, all of which a browser reads as the same.

Each takes the target and the base that it is read against, and gives None where it cannot be used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from html import escape

from holdfast.urls import Url, parse

Form = Callable[[Url, Url], str | None]


def _rest(url: Url) -> str:
    return url.path + (f"?{url.search}" if url.search else "")


def _authority(url: Url) -> str:
    return url.host + (f":{url.port}" if url.port else "")


def _same_host(target: Url, base: Url) -> bool:
    return (target.scheme, target.host, target.port) == (base.scheme, base.host, base.port)


def absolute(target: Url, base: Url) -> str | None:
    return target.href


def upper_case(target: Url, base: Url) -> str | None:
    return f"{target.scheme.upper()}://{_authority(target).upper()}{_rest(target)}"


def protocol_relative(target: Url, base: Url) -> str | None:
    return f"//{_authority(target)}{_rest(target)}" if target.scheme == base.scheme else None


def odd_port(target: Url, base: Url) -> str | None:
    """The default port written out, another with a zero before it."""
    port = f"0{target.port}" if target.port else {"http": "80", "https": "443"}[target.scheme]
    return f"{target.scheme}://{target.host}:{port}{_rest(target)}"


def root_relative(target: Url, base: Url) -> str | None:
    return _rest(target) if _same_host(target, base) else None


def relative(target: Url, base: Url) -> str | None:
    """Upwards with '..' to the root, then down."""
    if not _same_host(target, base):
        return None
    return ("../" * (base.path.count("/") - 1) or "./") + _rest(target)[1:]


def dotted(target: Url, base: Url) -> str | None:
    return f"/./nowhere/%2e%2e/..{_rest(target)}" if _same_host(target, base) else None


def with_fragment(target: Url, base: Url) -> str | None:
    return f"{_rest(target)}#part-{len(target.path)}" if _same_host(target, base) else f"{target.href}#top"


def padded(target: Url, base: Url) -> str | None:
    return f" \n\t{target.href} "


def back_slashed(target: Url, base: Url) -> str | None:
    return _rest(target).replace("/", "\\") if _same_host(target, base) and "?" not in _rest(target) else None


def accented(target: Url, base: Url) -> str | None:
    """The percent-encoded letter as itself."""
    return target.href.replace("%C3%A9", "é") if "%C3%A9" in target.href else None


SPARE: tuple[Form, ...] = (absolute, root_relative, protocol_relative)  # understood outside of HTML too
PLAIN: tuple[Form, ...] = (absolute, root_relative)  # in scripts
ALL: tuple[Form, ...] = (
    *SPARE,
    relative,
    upper_case,
    odd_port,
    dotted,
    with_fragment,
    padded,
    back_slashed,
    accented,
)


def spelled(target: str, base: str, choice: int, forms: tuple[Form, ...] = ALL) -> str:
    """`target` in the form number `choice`, or the next one that can be used."""
    ours, theirs = _parsed(target), _parsed(base)
    assert ours is not None and theirs is not None
    for turn in range(len(forms)):
        if (text := forms[(choice + turn) % len(forms)](ours, theirs)) is not None:
            return text
    return target


_parsed = lru_cache(maxsize=4096)(parse)


def attribute(text: str, choice: int = 0) -> str:
    """For an HTML attribute between double quotes; `choice` says how much is written as character references."""
    if choice % 3 == 0:
        return escape(text)
    if choice % 3 == 1:
        return escape(text).replace("&amp;", "&#38;").replace("/", "&#x2F;", 1)
    return "".join(f"&#{ord(letter)};" if letter in "&\"<>'é:" else letter for letter in text)
