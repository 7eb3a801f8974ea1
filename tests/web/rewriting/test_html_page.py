"""Whole pages (W17): the head, encodings, limits, and bytes of all kinds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rewriting_scene import HEAD, SCENE, at, page, parts, rewritten

from holdfast.web.rewrite import html
from holdfast.web.rewrite.html import rewrite_html

LINK = at("mp_") + "https://example.com"
HEADS = {
    b"<!doctype html><html lang=en><head prefix=x><title>": b"<!doctype html><html lang=en><head prefix=x>|<title>",
    b"\n<!-- c --><HTML><HEAD>\n<script>": b"\n<!-- c --><HTML><HEAD>|\n<script>",
    b"<!doctype html><title>x</title>": b"<!doctype html>|<title>x</title>",
    b"<html><body>": b"<html>|<body>",
    b"<p>x": b"|<p>x",
    b"text": b"|text",
    b"": b"|",
    b"<header>": b"|<header>",
    b"<html": b"|<html",
    b"<html a='<head>'><head a='>'>": b"<html a='<head>'><head a='>'>|",
    b"<!-- <head> --><head>": b"<!-- <head> --><head>|",
    b"\xef\xbb\xbf<head>": b"\xef\xbb\xbf<head>|",
    b"<?xml version='1.0'?><!DOCTYPE html><html xmlns='x'><head>": (
        b"<?xml version='1.0'?><!DOCTYPE html><html xmlns='x'><head>|"
    ),
}


@pytest.mark.parametrize(("content", "wanted"), HEADS.items())
def test_our_markup_stands_before_all_scripts(content: bytes, wanted: bytes) -> None:
    assert page(content, head=b"|") == wanted


CHARSETS = [
    (b"x", "utf-8", "UTF-8"),
    (b"x", "latin1", "windows-1252"),
    (b"\xef\xbb\xbfx", "latin1", "UTF-8"),
    (b'<meta charset="koi8-r">', "", "KOI8-R"),
    (b'<meta charset="koi8-r">', "utf-8", "UTF-8"),
    (b'<meta charset="koi8-r">', "nonsense", "KOI8-R"),
    (b"<META http-equiv=Content-Type content='text/html; charset=Shift_JIS'>", "", "Shift_JIS"),
    (b"<meta content='text/html; charset=big5'>", "", "windows-1252"),
    (b"<!-- <meta charset=koi8-r> -->", "", "windows-1252"),
    (b"<meta charset=utf-16>", "", "UTF-8"),
    (b"<?xml version='1.0' encoding='iso-8859-2'?>", "", "ISO-8859-2"),
    ("é".encode(), "", "UTF-8"),
    (b"\xe9", "", "windows-1252"),
    (b"ascii", "", "windows-1252"),
]


@pytest.mark.parametrize(("content", "charset", "declared"), CHARSETS)
def test_the_declared_charset_is_what_browsers_take_it_for(content: bytes, charset: str, declared: str) -> None:
    assert rewrite_html(content, SCENE, charset, HEAD).charset == declared


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "iso2022_jp"])
def test_a_page_in_which_markup_is_no_ascii_is_sent_as_utf_8(encoding: str) -> None:
    text = '<head><a href="/日本">日本</a>'
    mark = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}.get(encoding, b"")
    content = mark + text.encode(encoding)
    done = rewrite_html(content, SCENE, "" if mark else "iso-2022-jp", b"|")
    assert done.charset == "UTF-8"
    assert done.content.decode() == f'<head>|<a href="{LINK}/日本">日本</a>'


def test_other_encodings_keep_their_bytes() -> None:
    content = "<a href='/x?é&amp;'>é</a>".encode("cp1252")
    assert page(content, head=b"", charset="latin1") == content.replace(b"/x", f"{LINK}/x".encode())
    japanese = "<a href=\"&#47;表\" title='ソ'>".encode("cp932")
    wanted = japanese.replace(b"&#47;", LINK.encode() + b"&#47;")
    assert page(japanese, head=b"", charset="shift_jis") == wanted


MARKUP = st.lists(
    st.sampled_from(
        parts(
            "<¦>¦</¦<a ¦href=¦\"¦'¦x/y¦ ¦=¦<!--¦-->¦--!>¦<script>¦</script>¦<style>¦</style>¦<title>¦</title>¦"
            "<head>¦<html>¦<p class=x>¦<svg>¦</svg>¦<![CDATA[¦]]>¦\n¦&amp;¦é¦<!doctype html>¦<img ¦src=¦b.png¦"
            "<textarea>¦</textarea>¦<meta "
        )
    ),
    max_size=40,
).map("".join)


@given(MARKUP)
def test_a_page_without_absolute_references_changes_in_its_head_only(markup: str) -> None:
    done = page(markup.encode(), head=b"|")
    assert done.count(b"|") == 1
    assert done.replace(b"|", b"") == markup.encode()


@given(MARKUP)
def test_so_does_a_page_of_xml(markup: str) -> None:
    done = rewritten(markup, is_xml=True)
    assert done == markup or done == markup.replace("/>", "></head>", 1)


@given(st.binary(), st.one_of(st.none(), st.text(max_size=8), st.sampled_from(["utf-16", "gbk", "iso-2022-jp"])))
def test_any_bytes_pass(content: bytes, charset: str | None) -> None:
    page(content, charset=charset)


@pytest.mark.parametrize("name", ["script", "style"])
def test_what_is_longer_than_the_bound_stays_and_what_follows_is_rewritten(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html, "INLINE_BYTES_MAX", 100)
    content = f"<head><{name}>{'url(/x) ' * 100}</{name}><a href='/y'>".encode()
    wanted = content.replace(b"<head>", b"<head>|").replace(b"'/y'", f"'{LINK}/y'".encode())
    assert page(content, head=b"|") == wanted


def test_a_section_without_an_end_before_the_head_of_xml_is_sent_once() -> None:
    assert rewritten("<![CDATA[ a > b <p>c</p>", is_xml=True) == "<![CDATA[ a > b <p>c</p>"


@pytest.mark.parametrize(
    "part",
    parts(
        '<¦"¦\'¦<!--¦<a ¦<a href=¦<a href="¦<a<¦<!¦<?¦</¦[¦<![CDATA[¦<svg><![CDATA[¦<script>¦<script><!--¦'
        "<script><!--<script>¦<title>¦<style>¦<a x=' ¦<html¦<head ¦&¦=¦<a x ¦<p style='(¦<iframe srcdoc='¦"
        "<base href=/>¦<!-- -¦<!doctype ¦<script/>¦<svg/>¦-->"
    ),
)
def test_time_grows_with_the_page_only(part: str) -> None:
    """Were any of it read again and again, this would take hours."""
    content = part.encode() * (1_000_000 // len(part))
    assert len(page(content)) >= len(content)


@pytest.mark.parametrize("part", ["<meta ", "<meta x=", "<!--", "<meta charset=", "<meta>"])
def test_time_to_find_the_charset_grows_with_the_page_only(part: str) -> None:
    content = part.encode() * (1_000_000 // len(part))
    assert rewrite_html(content, SCENE, "", HEAD).charset == "windows-1252"
    assert rewrite_html(content + b">", SCENE, "", HEAD).charset == "windows-1252"
