"""URLs: from any text to the keys under which an archive stores it.

    "HTTP://www.Example.com:80/a/../B?y=2&x=1#top"           from a link, a record or a user
        │
        ├─ completed   http://example.com:8080               of example.com:8080, typed by a user
        ├─ parse       Url or None            as browsers parse it: the WHATWG URL Standard
        ├─ canonical   http://www.example.com/B?y=2&x=1      as requested
        ├─ url_key     com,example)/b?x=1&y=2                its SURT, by which the catalog sorts
        ├─ host_key    com,example                           prefix of the keys of its host
        ├─ registered_domain, public_suffix   example.com, com
        └─ page_id     64 bits                               WebBase's id of the page

For a request with a body, `post_key` first adds method and body to the query.

Nothing here raises on any text, uses network or disk, or keeps state except bounded caches; any thread may call. A URL
and its canonical form have the same key.
"""

from __future__ import annotations

from holdfast.urls.domain import public_suffix, registered_domain
from holdfast.urls.page_id import PAGE_ID_MAX, page_id, page_id_text, parse_page_id
from holdfast.urls.parse import Url, canonical, completed, parse
from holdfast.urls.post import body_query, post_key
from holdfast.urls.surt import host_key, url_key, without_www

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
    "without_www",
]
