"""Pages that were collected somewhere else become pages of one site.

Their links would lead nowhere here. Each is replaced by a link to a page of the site, chosen by what the link said:
what led to one place on many pages still does, so navigation stays navigation. Number and kind of links, their markup
and the rest of the page stay as they were. Pictures, scripts and style sheets become those of the site.

Links to other sites stay, and nobody follows them. Forms lose their targets, because crawlers differ in what they send.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from zlib import crc32

_TAG = re.compile(rb"<([a-zA-Z][a-zA-Z0-9]*)\b([^<>]*)>")
_ATTRIBUTE = re.compile(
    rb"""(?<=\s)(href|src|action|formaction|data|background|poster|srcset|longdesc|cite|codebase|archive|usemap)"""
    rb"""(\s*=\s*)("[^"]*"|'[^']*'|[^\s"'>]+)""",
    re.IGNORECASE,
)
_REFRESH = re.compile(rb"""(;\s*url\s*=\s*)(["']?)([^"'>\s]+)\2""", re.IGNORECASE)  # not all crawlers take quotes
_LOCATION = re.compile(rb"""(\blocation(?:\.replace\(|(?:\.href)?\s*=)\s*["'])([^"'#]+)""")
_STYLE_URL = re.compile(rb"""(url\(\s*["']?)(?!data:)([^"')]+)""", re.IGNORECASE)
_IMPORT = re.compile(rb"""(@import\s+["'])([^"']+)""", re.IGNORECASE)
_SCHEME = re.compile(rb"^\s*(?:[a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)
_LOOPBACK = re.compile(rb"//(?:127\.|localhost)", re.IGNORECASE)  # to some crawlers our host, whatever the port
_PICTURE = re.compile(rb"\.(?:png|gif|jpe?g|svg|ico|webp)$", re.IGNORECASE)
_PICTURE_TAGS = frozenset((b"img", b"input", b"source", b"video", b"audio", b"object", b"embed", b"applet", b"track"))
_FOLLOWED = frozenset((b"href", b"src"))
_NOWHERE = b"javascript:void(0)"


@dataclass(frozen=True, slots=True)
class Targets:
    """Where links may lead, as written on a page; none of the groups is empty."""

    pages: tuple[bytes, ...]
    styles: tuple[bytes, ...]
    scripts: tuple[bytes, ...]
    pictures: tuple[bytes, ...]


def rewritten(page: bytes, targets: Targets) -> bytes:
    """The page with its links inside the site."""

    def tag(match: re.Match[bytes]) -> bytes:
        name, rest = match.group(1).lower(), match.group(2)
        if b"=" not in rest:
            return match.group(0)
        if name == b"base":  # all links would be relative to a place that is not here
            return b"<base>"
        if name == b"meta":
            rest = _REFRESH.sub(lambda found: found.group(1) + _chosen(targets.pages, found.group(3)), rest)
        else:
            rest = _ATTRIBUTE.sub(lambda found: _attribute(found, name, rest, targets), rest)
        return b"<" + match.group(1) + rest + b">"

    text = _TAG.sub(tag, page)
    text = _LOCATION.sub(lambda found: found.group(1) + _chosen(targets.pages, found.group(2)), text)
    text = _STYLE_URL.sub(lambda found: found.group(1) + _chosen(targets.pictures, found.group(2)), text)
    return _IMPORT.sub(lambda found: found.group(1) + _chosen(targets.styles, found.group(2)), text)


def _attribute(found: re.Match[bytes], tag: bytes, rest: bytes, targets: Targets) -> bytes:
    attribute = found.group(1).lower()
    value = found.group(3)
    quote = value[:1] if value[:1] in (b'"', b"'") else b""
    plain = value[1:-1] if quote else value
    if attribute in _FOLLOWED and tag != b"form":
        new = _target(tag, plain, rest, targets)
    elif attribute == b"background" or (tag in _PICTURE_TAGS and attribute in (b"data", b"poster", b"srcset")):
        new = _chosen(targets.pictures, plain)
    elif attribute in (b"action", b"formaction", b"longdesc", b"cite", b"codebase", b"archive"):
        new = _NOWHERE
    else:
        new = plain
    return found.group(1) + found.group(2) + quote + new + quote


def _target(tag: bytes, value: bytes, rest: bytes, targets: Targets) -> bytes:
    """Where a link leads from now on."""
    place, mark, fragment = value.partition(b"#")
    if tag in (b"a", b"area"):
        if not place.strip() or (_SCHEME.match(place) and not _LOOPBACK.search(place)):
            return value
    elif _SCHEME.match(place) and place.strip().lower().startswith((b"data:", b"javascript:", b"about:")):
        return value
    return _chosen(_group(tag, place.partition(b"?")[0], rest, targets), place) + mark + fragment


def _group(tag: bytes, place: bytes, rest: bytes, targets: Targets) -> tuple[bytes, ...]:
    lowered = rest.lower()
    if tag == b"script":
        return targets.scripts
    if tag in _PICTURE_TAGS or _PICTURE.search(place) or (tag == b"link" and b"icon" in lowered):
        return targets.pictures
    if tag == b"link" and b"stylesheet" in lowered:
        return targets.styles
    return targets.pages


def _chosen(group: tuple[bytes, ...], said: bytes) -> bytes:
    return group[crc32(said) % len(group)]
