"""Links of header fields (W17, issue 4.4): RFC 8288, redirects, refreshes."""

from __future__ import annotations

import pytest
from links_reading import DIR, SITE, URL, found

from holdfast.formats.html.links.references import Hop

E, L, R = Hop.EMBED, Hop.LINK, Hop.REDIRECT


@pytest.mark.parametrize(
    ("value", "links"),
    [
        ("</x>; rel=preload; as=style", {f"{SITE}/x": E}),
        ('<x>; rel="next", <y>;REL=StyleSheet', {f"{DIR}/x": L, f"{DIR}/y": E}),
        ('<x>; title="a, <no>; rel=icon"; rel=next,<y>', {f"{DIR}/x": L, f"{DIR}/y": L}),
        ('<a,b;c>; title="\\"<no>"', {f"{DIR}/a,b;c": L}),
        ("<x>;rel=preconnect", {}),
        ("< x >", {f"{DIR}/x": L}),
        ("x; rel=next", {}),
        ("<x", {}),
        ('<x>; title="', {f"{DIR}/x": L}),
    ],
)
def test_link_fields(value: str, links: dict[str, str]) -> None:
    assert found(b"", headers=[("LINK", value)]) == links


def test_fields_repeat_and_leave_the_base_of_the_page_alone() -> None:
    headers = [("Link", "<x>"), ("link", "<y>")]
    assert found("<base href=/b/><a href=z>", headers=headers) == {f"{DIR}/x": L, f"{DIR}/y": L, f"{SITE}/b/z": L}


@pytest.mark.parametrize(("status", "hop"), [(301, R), (302, R), (308, R), (201, L), (200, L)])
def test_location(status: int, hop: str) -> None:
    assert found(b"", headers=[("Location", " ../x ")], status=status) == {f"{SITE}/x": hop}


def test_a_redirect_outranks_the_links_of_its_page() -> None:
    assert found("<a href=x><img src=x>", headers=[("location", "x")], status=302) == {f"{DIR}/x": R}


def test_a_redirect_to_itself_is_told() -> None:
    assert found(b"", headers=[("location", URL)], status=302) == {URL: R}


def test_bytes_other_than_ascii() -> None:
    assert found(b"", headers=[("location", "/é?é")], status=302) == {f"{SITE}/%C3%A9?%C3%A9": R}
    assert found(b"", headers=[("location", "/\udce9")], status=302) == {f"{SITE}/%EF%BF%BD": R}


@pytest.mark.parametrize("value", ["0;url=x", "0; URL = 'x'", '5, "x"', "1.5 x"])
def test_refresh(value: str) -> None:
    assert found(b"", headers=[("Refresh", value)]) == {f"{DIR}/x": R}


def test_a_refresh_of_the_page_itself_is_no_link() -> None:
    assert found(b"", headers=[("Refresh", "5")]) == {}


def test_content_location() -> None:
    assert found(b"", headers=[("Content-Location", "page.en.html")]) == {f"{DIR}/page.en.html": L}


def test_fields_count_whatever_the_content_is() -> None:
    assert found(b"\x89PNG", "image/png", headers=[("Link", "<x>; rel=canonical")]) == {f"{DIR}/x": L}
