"""Requests with a body: as cdxj-indexer extends their URLs (I2)."""

from __future__ import annotations

from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from url_samples import sample

from holdfast.urls import post_key, url_key

FORM = (
    b'--B\r\nContent-Disposition: form-data; name="a"\r\n\r\n1 2\r\n'
    b'--B\r\ncontent-disposition: form-data; name="\xc3\xa9\\"x"\r\n\r\n\r\n'
    b'--B\r\nContent-Disposition: form-data; name="f"; filename="x.bin"\r\nContent-Type: a/b\r\n\r\n'
    b"\xff\x00a\r\n--B--\r\n"
)
JSON = b'{"a":1,"b":[1,2,{"a":null,"c":true}],"d":1.50,"":3}'
CASES = [
    ("application/x-www-form-urlencoded", b"a=1+2&b=%26%23", "a=1 2&b=&#"),
    ("application/x-www-form-urlencoded; charset=utf-8", b"\xff", "__wb_post_data=/w=="),
    ("multipart/form-data; boundary=B", FORM, "a=1+2&%C3%A9%22x=&f=%FF%00a"),
    ("multipart/form-data", b"--B--", "__wb_post_data=LS1CLS0="),
    ("application/json", JSON, "a=1&b=1&b.2_=2&a.2_=None&c=True&d=1.5"),
    ("application/json", b'{"a":1}\n{"a":2}', "a=1&a.2_=2"),
    ("application/json", b"{", ""),
    ("application/json", b"[" * 100_000, ""),
    ("text/plain;charset=UTF-8", b'{"a": "b c"}', "a=b+c"),
    ("text/plain", b"hi", "__wb_post_data=aGk="),
    ("text/plain", b"5", ""),
    ("application/octet-stream", b"\x00\xff", "__wb_post_data=AP8="),
    ("", b"abc", "__wb_post_data=YWJj"),
    (None, b"", "__wb_post_data="),
    ("image/png", b"x" * 9000, "__wb_post_data=" + ("eHh4" * 3000)[: 4096 - 15]),
]
# What the other tool cannot read, so that there is nothing to agree with.
ODD_FORMS = [
    ('multipart/form-data; boundary="B"; x=y', FORM, "a=1+2&%C3%A9%22x=&f=%FF%00a"),
    ("multipart/form-data; boundary=C", b"x", "__wb_post_data=eA=="),
    ("multipart/form-data; boundary=B", FORM[:-4], "__wb_post_data="),
    ("multipart/form-data; boundary=B", b"--B\r\n\r\nx\r\n--B--", "__wb_post_data="),
]


def theirs(url: str, method: str, body: bytes, content_type: str | None) -> str:
    postquery = pytest.importorskip("cdxj_indexer.postquery", reason="cdxj-indexer is not installed")
    extension: str = postquery.append_method_query(method, content_type, len(body), BytesIO(body), url)[1]
    return url + extension


@pytest.mark.parametrize(("content_type", "body", "query"), CASES)
def test_bodies(content_type: str | None, body: bytes, query: str) -> None:
    expected = "http://a/?__wb_method=POST" + (f"&{query}" if query else "")
    assert post_key("http://a/", "post", body, content_type) == expected


@pytest.mark.parametrize(("content_type", "body", "query"), CASES)
def test_bodies_are_what_cdxj_indexer_makes_of_them(content_type: str | None, body: bytes, query: str) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        url = "http://a/b?c=d"
        assert post_key(url, method, body, content_type) == theirs(url, method, body, content_type)


@pytest.mark.parametrize(("content_type", "body", "query"), ODD_FORMS)
def test_odd_forms(content_type: str, body: bytes, query: str) -> None:
    assert post_key("http://a/", "PUT", body, content_type).startswith(f"http://a/?__wb_method=PUT&{query}")


def test_a_get_stays_as_it_is() -> None:
    assert post_key("http://a/#b", "GET", b"x", "text/plain") == "http://a/#b"
    assert post_key("http://a/", "HEAD", b"") == "http://a/?__wb_method=HEAD"


@given(
    st.sampled_from(
        ["application/json", "text/plain", "multipart/form-data; boundary=B", "application/x-www-form-urlencoded"]
    ),
    st.binary() | st.binary().map(lambda data: b"--B\r\nContent-Disposition:" + data + b"\r\n--B--"),
)
def test_any_body_has_a_key(content_type: str, body: bytes) -> None:
    assert "__wb_method=post" in url_key(post_key("http://a/", "POST", body, content_type))


def test_requests_of_a_real_file() -> None:
    warcio = pytest.importorskip("warcio.archiveiterator", reason="warcio is not installed")
    surt = pytest.importorskip("surt", reason="the package surt is not installed")
    keys = []
    with sample("warc/warcio/post-test.warc.gz").open("rb") as stream:
        for record in warcio.ArchiveIterator(stream):
            if record.rec_type == "request":
                url, body = record.rec_headers.get_header("WARC-Target-URI"), record.content_stream().read()
                kind = record.http_headers.get_header("Content-Type")
                keys.append(url_key(post_key(url, "POST", body, kind)))
                assert keys[-1] == surt.surt(theirs(url, "POST", body, kind))
    assert len(keys) == 3
    assert all("__wb_method=post" in key for key in keys)
