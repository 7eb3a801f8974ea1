"""Fields of archived responses as they are sent on (W17, P): what is obeyed, and what is shown as evidence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rewriting_scene import SCENE, at, parts

from holdfast.formats.record import Headers
from holdfast.web.rewrite.addresses import Scene
from holdfast.web.rewrite.headers import archived_headers, rewrite_cookie

RAW = replace(SCENE, modifier="id_")
SITE = f"{at('mp_')}https://example.com"


def sent(fields: list[tuple[str, str]], scene: Scene = SCENE, *, keeps_encoding: bool = False) -> dict[str, str]:
    headers = archived_headers(Headers(fields), scene, keeps_encoding=keeps_encoding)
    return {name.decode(): value.decode("utf-8", "surrogateescape") for name, value in headers}


@pytest.mark.parametrize("name", ["Content-Language", "content-disposition", "Content-Range"])
def test_what_describes_the_content_is_kept(name: str) -> None:
    assert sent([(name, "x")]) == {name.lower(): "x"}


@pytest.mark.parametrize(
    "name",
    parts(
        "Content-Security-Policy¦Link¦Report-To¦Transfer-Encoding¦Content-Length¦Connection¦Server¦"
        "Strict-Transport-Security¦X-Frame-Options¦Content-Type¦Access-Control-Allow-Origin¦Clear-Site-Data"
    ),
)
def test_all_others_are_evidence_only(name: str) -> None:
    assert sent([(name, "x")]) == {f"x-archive-orig-{name.lower()}": "x"}


def test_a_content_coding_is_told_while_it_lasts() -> None:
    assert sent([("Content-Encoding", "br")], keeps_encoding=True) == {"content-encoding": "br"}
    assert sent([("Content-Encoding", "br")]) == {"x-archive-orig-content-encoding": "br"}


@pytest.mark.parametrize("modifier", ["mp_", "id_", "im_"])
def test_a_redirect_stays_in_the_archive_and_keeps_its_modifier(modifier: str) -> None:
    scene = replace(SCENE, modifier=modifier)
    for location in ("/next", "https://example.com/next", "../next", "//example.com/next"):
        assert sent([("Location", location)], scene)["location"] == at(modifier) + "https://example.com/next"
    assert "location" not in sent([("Location", "javascript:1")], scene)


def test_a_refresh_stays_in_the_archive() -> None:
    assert sent([("Refresh", "3; url=/next")])["refresh"] == f"3; url={SITE}/next"
    assert "refresh" not in sent([("Refresh", "3; url=/next")], RAW)


COOKIES = {
    "a=1": f"a=1; Path={SITE}/dir/",
    "a=1; Domain=.example.com; Path=/shop; Secure; HttpOnly; SameSite=None": f"a=1; Path={SITE}/shop; HttpOnly",
    "a=1; path=relative": f"a=1; Path={SITE}/dir/",
    "a=1; Expires=Wed, 01 Jan 2031 00:00:00 GMT; Path=/": f"a=1; Path={SITE}/",
    "a=; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Path=/": f"a=; Path={SITE}/; Max-Age=0",
    "a=1; Max-Age=0; Path=/": f"a=1; Path={SITE}/; Max-Age=0",
    "a=1; Max-Age=900; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Path=/": f"a=1; Path={SITE}/",
    "a=1; Expires=nonsense; Path=/": f"a=1; Path={SITE}/",
    "__Host-a=1; Path=/; Secure": f"kept.__Host-a=1; Path={SITE}/",
    "__secure-a=1; Path=/": f"kept.__secure-a=1; Path={SITE}/",
    "a=1; Domain=; Path=/": f"a=1; Path={SITE}/",
    "a=1; Domain=other.example; Path=/": None,
    "a=1; Domain=com; Path=/": None,
    "a=1; Domain=sub.example.com; Path=/": None,
    "hf_token=1": None,
    " HF_x = 1": None,
    "no pair": None,
}


@pytest.mark.parametrize(("cookie", "wanted"), COOKIES.items())
def test_a_cookie_is_bound_to_its_archived_site(cookie: str, wanted: str | None) -> None:
    assert rewrite_cookie(cookie, SCENE) == wanted


def test_raw_captures_set_no_cookies() -> None:
    assert sent([("Set-Cookie", "a=1")], RAW) == {"x-archive-orig-set-cookie": "a=1"}


def test_no_field_can_begin_another() -> None:
    fields = [("Location", "/a\r\nSet-Cookie: hf_x=1\0"), ("X\r\nY", "1"), ("Server", "a\nb"), ("", "x"), ("a b", "x")]
    headers = sent(fields)
    assert set(headers) == {"location", "x-archive-orig-location", "x-archive-orig-server"}
    assert headers["x-archive-orig-server"] == "a b"


@given(
    st.lists(st.tuples(st.sampled_from(["Location", "Set-Cookie", "Refresh", "Link", "é", "Content-Range"]), st.text()))
)
def test_any_fields_pass(fields: list[tuple[str, str]]) -> None:
    for name, value in archived_headers(Headers(fields), SCENE, keeps_encoding=True):
        assert not set(name + value) & set(b"\r\n\0")
