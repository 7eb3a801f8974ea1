"""Links in the fields of a response.

    Link: </style.css>; rel=preload; as=style, <page2>; rel="next"      RFC 8288; EMBED, RELATION
    Location: ../elsewhere                                              REDIRECT with a 3xx, else RELATION
    Content-Location: page.en.html                                      RELATION
    Refresh: 0; url=other                                               REDIRECT

Values are as Holdfast reads them: UTF-8, other bytes as lone surrogates, which joining replaces. `hop_of` says what the
`rel` of a Link field or of a <link> makes of its target.
"""

from __future__ import annotations

import re
from functools import lru_cache

from holdfast.formats.html.links.microsyntax import refresh_url
from holdfast.formats.html.links.references import Hop, References
from holdfast.formats.record import Headers

FIELD_CHARACTERS_MAX = 256 * 1024
_RELATIONS_CACHED = 1024
_FIELDS = frozenset(("link", "location", "content-location", "refresh"))
# Within a Link field; all quantifiers are possessive, so that nothing is read twice.
_TARGET = re.compile(r"""[\s,]*+<([^>]*+)>((?:[^,"]++|"(?:[^"\\]++|\\.)*+"?+)*+)""", re.DOTALL)
_PARAMETER = re.compile(r""";\s*+([^\s=;"]*+)\s*+(?:=\s*+(?:"((?:[^"\\]++|\\.)*+)"?+|([^\s;"]*+)))?+""", re.DOTALL)

_LOADED = frozenset(
    [
        "stylesheet",
        "icon",
        "apple-touch-icon",
        "apple-touch-icon-precomposed",
        "apple-touch-startup-image",
        "mask-icon",
        "fluid-icon",
        "preload",
        "modulepreload",
        "manifest",
        "image_src",
    ]
)
_NO_DOCUMENT = frozenset(["dns-prefetch", "preconnect", "pingback", "webmention", "edituri"])


@lru_cache(_RELATIONS_CACHED)
def hop_of(relation: str) -> str:
    """EMBED for what the page needs, '' for what is not to be fetched, else RELATION. Several words count as a set."""
    words = frozenset(relation.lower().split())
    if words & _LOADED:
        return Hop.EMBED
    return "" if words & _NO_DOCUMENT else Hop.RELATION


def has_references(headers: Headers) -> bool:
    """True if there is any field that may refer to something; most responses have none."""
    return not _FIELDS.isdisjoint(headers.first())


def add_header_references(headers: Headers, status: int, references: References) -> None:
    """Adds what the header of a response refers to."""
    for name in _FIELDS.intersection(headers.first()):
        for value in headers.get_all(name):
            _add_field(name, value[:FIELD_CHARACTERS_MAX], status, references)


def _add_field(name: str, value: str, status: int, references: References) -> None:
    if name == "link":
        _add_links(value, references)
    elif name == "refresh":
        references.add(refresh_url(value), Hop.REDIRECT)
    elif name == "location":
        references.add(value.strip(), Hop.REDIRECT if 300 <= status < 400 else Hop.RELATION)
    else:
        references.add(value.strip(), Hop.RELATION)


def _add_links(value: str, references: References) -> None:
    at = 0
    while match := _TARGET.match(value, at):
        at = match.end()
        hop = hop_of(_relation(match[2]))
        if hop:
            references.add(match[1].strip(), hop)


def _relation(parameters: str) -> str:
    """The first `rel` counts."""
    for name, quoted, bare in _PARAMETER.findall(parameters):
        if name.lower() == "rel":
            return str(quoted or bare.strip("'"))
    return ""
