"""Links: what a response points to, as a browser would understand it.

    Document        URL, headers and content of a response
       │
       ├─ header_fields      Link, Location, Content-Location, Refresh
       └─ by its type
            ├─ html          elements with their attributes (microsyntax: srcset, refresh); <base>; forms; and within:
            ├─ css           url(), src(), image-set(), @import
            └─ script        what looks like a URL in JavaScript and JSON; imports
       │
    References      texts as written, by hop; without repeats, bounded
       │
       └─ join               against the URL of the document or its <base>, in its encoding
       │
    list[Link]      absolute, canonical, http or https, each URL once with its strongest hop

Hops, the strongest first: REDIRECT (Location of a 3xx, refresh), EMBED (what a browser loads by itself), LINK (what a
person may follow), RELATION (what <link>, <meta> and fields of the header state, and nobody clicks on), FORM (a GET
form, sent as it comes), SPECULATIVE (what scripts may load). `links_of`, for those who fetch, gives a RELATION as a
LINK.

Guarantees: nothing here raises, whatever the bytes; time and memory grow no faster than the content, of which at most
`PAGE_BYTES_MAX` or `SCRIPT_BYTES_MAX` bytes are read; at most `LINKS_MAX` links are given, the strongest. The
document itself is not among them for those who fetch (`links_of`), unless it redirects to itself; it is in the link
graph (`links_of_page`, `links_of_fields`), unless only a fragment refers to it. No state is kept: any thread may call.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.formats.html.links.document import (
        Document,
        Link,
        followed_links,
        is_page,
        links_of,
        links_of_fields,
        links_of_page,
    )
    from holdfast.formats.html.links.html import PAGE_BYTES_MAX
    from holdfast.formats.html.links.references import LINKS_MAX, REFERENCE_CHARACTERS_MAX
    from holdfast.formats.html.links.script import SCRIPT_BYTES_MAX

__all__ = [
    "LINKS_MAX",
    "PAGE_BYTES_MAX",
    "REFERENCE_CHARACTERS_MAX",
    "SCRIPT_BYTES_MAX",
    "Document",
    "Link",
    "followed_links",
    "is_page",
    "links_of",
    "links_of_fields",
    "links_of_page",
]

_MODULES = {"PAGE_BYTES_MAX": "html", "SCRIPT_BYTES_MAX": "script"}
_MODULES |= dict.fromkeys(("LINKS_MAX", "REFERENCE_CHARACTERS_MAX"), "references")


def __getattr__(name: str) -> Any:
    """Loaded when used: whoever only needs the names of hops does not load the parsers."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'document')}"), name)
