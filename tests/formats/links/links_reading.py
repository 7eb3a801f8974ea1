"""Documents for the tests of links, and what is found in them."""

from __future__ import annotations

from holdfast.formats.html.links.document import Document, links_of
from holdfast.formats.record import Headers

URL = "http://example.com/dir/page.html"
SITE = "http://example.com"
DIR = "http://example.com/dir"


def found(
    content: bytes | str,
    content_type: str = "text/html; charset=utf-8",
    *,
    url: str = URL,
    headers: list[tuple[str, str]] | None = None,
    status: int = 200,
) -> dict[str, str]:
    """The hop of each URL that a document refers to."""
    content = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    links = links_of(Document(url, content, content_type, Headers(headers or []), status))
    by_url = {link.url: link.hop for link in links}
    assert len(by_url) == len(links), "a URL stands there twice"
    return by_url
