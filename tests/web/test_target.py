"""What a request's address asks for (P): every byte of the archived URL comes through."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.web.request import RequestTargetPath, archived_url, parse_target


@pytest.mark.parametrize(
    ("raw", "target"),
    [
        ("/main/20240102/http://a.example/x?y=1&z=%20", ("replay", "20240102", "", "http://a.example/x?y=1&z=%20")),
        ("/main/2024mp_/http://a.example/", ("replay", "2024", "mp_", "http://a.example/")),
        ("/main/mp_/http://a.example/", ("replay", "", "mp_", "http://a.example/")),
        (
            "/main/2024id_/https://a.example/?u=http://b.example/?c",
            ("replay", "2024", "id_", "https://a.example/?u=http://b.example/?c"),
        ),
        ("/web/2024if_/a.example/p", ("replay", "2024", "if_", "http://a.example/p")),
        ("/main/*/http://a.example/*", ("calendar", "", "", "http://a.example/*")),
        ("/main/2024*/a.example", ("calendar", "2024", "", "http://a.example")),
        ("/main/http://a.example/?q", ("timegate", "", "", "http://a.example/?q")),
        ("/main/http:/a.example/", ("timegate", "", "", "http://a.example/")),
        ("/main/timegate/https://a.example/", ("timegate", "", "", "https://a.example/")),
        ("/main/cdx?url=a.example&limit=1", ("cdx", "", "", "url=a.example&limit=1")),
        ("/main/warc?url=a.example", ("warc", "", "", "url=a.example")),
        ("/main/record/202611-0000000001", ("record", "", "", "202611-0000000001")),
        ("/main", ("collection", "", "", "")),
        ("/main?url=a.example", ("collection", "", "", "url=a.example")),
        ("/main/", ("collection", "", "", "")),
        ("/main/20240102030405/a.example:8080/x", ("replay", "20240102030405", "", "http://a.example:8080/x")),
        ("/main/2024mp_/http%3A%2F%2Fa.example%2Fx%3Fy", ("replay", "2024", "mp_", "http://a.example/x?y")),
        ("/main/2024mp_/data:text/plain,x", ("replay", "2024", "mp_", "data:text/plain,x")),
        ("/main/2024mp_/data:text/plain,x%23y", ("replay", "2024", "mp_", "data:text/plain,x%23y")),
        ("/main/2024id_/a.example%23part", ("replay", "2024", "id_", "http://a.example")),
        ("/main/2024id_/http://a.example:80%23part", ("replay", "2024", "id_", "http://a.example:80")),
        ("/main/2024/http%3A%2F%2Fa.example%2Fx%23part", ("replay", "2024", "", "http://a.example/x")),
        ("/main/2024/http://a.example/c%23", ("replay", "2024", "", "http://a.example/c%23")),
        ("/main/2024tf_/http://a.example/", ("replay", "2024", "", "http://a.example/")),
        ("/main/index?url=a.example", ("cdx", "", "", "url=a.example")),
        ("/main/index/x", ("timegate", "", "", "http://index/x")),
        ("/web/timemap/json?url=a.example", ("cdx", "", "", "url=a.example")),
        ("/main/delete", ("delete", "", "", "")),
        ("/main/2024xx_/a.example", ("odd", "", "xx_", "")),
        ("/main/2024mp/http://a.example/", ("odd", "", "mp", "")),
        ("/main/wkrf_/http://a.example/", ("odd", "", "wkrf_", "")),
        ("/main/202401020304050607/http://a.example/", ("odd", "202401020304050607", "", "")),
        ("/wayback/2024/http://a.example/", ("replay", "2024", "", "http://a.example/")),
    ],
)
def test_an_address_is_understood(raw: str, target: tuple[str, str, str, str]) -> None:
    found = parse_target(raw.encode())
    assert found is not None
    assert (found.kind, found.timestamp, found.modifier, found.url) == target


@pytest.mark.parametrize(
    ("raw", "form", "page", "url"),
    [
        ("/main/timemap/link/http://a.example/", "link", 0, "http://a.example/"),
        ("/main/timemap/json/20240102030405/http://a.example/", "json", 20240102030405, "http://a.example/"),
        ("/all/timemap/cdxj/a.example", "cdxj", 0, "http://a.example"),
        ("/main/timemap/http://a.example/?x", "link", 0, "http://a.example/?x"),
        ("/main/timemap/a.example", "link", 0, "http://a.example"),
    ],
)
def test_a_timemap_has_a_form_and_a_page(raw: str, form: str, page: int, url: str) -> None:
    found = parse_target(raw.encode())
    assert found is not None
    assert (found.kind, found.form, found.page, found.url) == ("timemap", form, page, url)


@pytest.mark.parametrize(
    "raw",
    [
        "/",
        "/static/x.css",
        "/api/captures",
        "/Main/2024/x",
        "/../x/y",
        "/main/timemap/xml/x",
        "//a.example/",
        "/wayback/available?url=x",
    ],
)
def test_what_is_no_collection_is_left_to_others(raw: str) -> None:
    assert parse_target(raw.encode()) is None


@given(st.binary(max_size=200))
def test_any_bytes_are_a_target_or_none(raw: bytes) -> None:
    found = parse_target(b"/" + raw)
    assert found is None or isinstance(found, RequestTargetPath)


@given(st.text(st.characters(codec="ascii", exclude_characters="%"), max_size=50))
def test_a_url_with_its_scheme_is_never_changed(tail: str) -> None:
    assert archived_url(f"https://a.example/{tail}") == f"https://a.example/{tail}"
