"""Character sets as browsers do (W17, issue 4.4): what a page's bytes mean decides where its links lead."""

from __future__ import annotations

import pytest
from links_reading import DIR, found

from holdfast.formats.html.links.references import Hop

LINK = "<a href='é?é'>"
UTF_8, LATIN = "%C3%A9?%C3%A9", "%C3%A9?%E9"


@pytest.mark.parametrize(
    ("content_type", "content", "link"),
    [
        ("text/html", LINK.encode(), UTF_8),
        ("text/html", LINK.encode("latin-1"), LATIN),
        ("text/html; charset=iso-8859-1", LINK.encode("latin-1"), LATIN),
        ("text/html; charset=UTF8", LINK.encode(), UTF_8),
        ("text/html; charset=nonsense", LINK.encode(), UTF_8),
        ("text/html; charset=\udce9", LINK.encode(), UTF_8),
        ("text/html", b"<meta charset=latin1>" + LINK.encode("latin-1"), LATIN),
        ("text/html; charset=utf-8", b"<meta charset=latin1>" + LINK.encode(), UTF_8),
        ("text/html; charset=latin1", b"\xef\xbb\xbf" + LINK.encode(), UTF_8),
        (
            "text/html",
            b"<meta http-equiv=content-type content='text/html; charset=latin1'>" + LINK.encode("latin-1"),
            LATIN,
        ),
        ("text/html; charset=latin1", b"\xff\xfe" + LINK.encode("utf-16le"), UTF_8),
        ("text/html", b"\xfe\xff" + LINK.encode("utf-16be"), UTF_8),
        ("text/html; charset=utf-16le", LINK.encode("utf-16le"), UTF_8),
        ("text/html", b"<meta charset=utf-16>" + LINK.encode(), UTF_8),
        ("text/html; charset=latin1", b"<a href='&eacute;?&eacute;'>", LATIN),
    ],
)
def test_where_a_link_leads(content_type: str, content: bytes, link: str) -> None:
    assert found(content, content_type) == {f"{DIR}/{link}": Hop.LINK}


def test_a_form_is_sent_in_the_encoding_of_the_page() -> None:
    page = "<form action=f><input name=é value='é日'>".encode("cp932", "xmlcharrefreplace")
    assert found(page, "text/html; charset=sjis") == {f"{DIR}/f?%26%23233%3B=%26%23233%3B%93%FA": Hop.FORM}


def test_broken_utf_16_is_read_as_far_as_it_goes() -> None:
    content = b"\xff\xfe" + "<a href=x>".encode("utf-16le") + b"\x00\xd8\x00\xd8<"
    assert found(content, "text/html") == {f"{DIR}/x": Hop.LINK}
