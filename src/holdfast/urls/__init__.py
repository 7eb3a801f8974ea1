"""URLs: from any text that claims to be one to the names under which an archive keeps it.

    "HTTP://www.Example.com:80/a/../B?y=2&x=1#top"           text: of a link, a record, a user
        │
        ├─ completed   http://example.com:8080               of what a user typed: example.com:8080
        ├─ parse       Url or None            as browsers read it: the WHATWG URL Standard
        ├─ canonical   http://www.example.com/B?y=2&x=1      what would be requested
        ├─ url_key     com,example)/b?x=1&y=2                the SURT under which the catalog sorts it
        ├─ host_key    com,example                           how the keys of its host begin
        ├─ registered_domain, public_suffix   example.com, com   who answers for it
        └─ page_id     64 bits                               WebBase's name of the page

A request with a body goes through `post_key` first, which writes method and body into the query.

Nothing here raises on any text, touches network or disk, or keeps state but bounded caches; all may be called from any
thread. A URL and its canonical form have the same key.
"""

from __future__ import annotations

from holdfast.urls.canonical import canonical
from holdfast.urls.domain import public_suffix, registered_domain
from holdfast.urls.page_id import PAGE_ID_MAX, page_id, page_id_text, parse_page_id
from holdfast.urls.parse import Url, parse
from holdfast.urls.post import body_query, post_key
from holdfast.urls.surt import host_key, url_key
from holdfast.urls.user_input import completed

__all__ = [
    "PAGE_ID_MAX",
    "Url",
    "body_query",
    "canonical",
    "completed",
    "host_key",
    "page_id",
    "page_id_text",
    "parse",
    "parse_page_id",
    "post_key",
    "public_suffix",
    "registered_domain",
    "url_key",
]
