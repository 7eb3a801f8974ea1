"""Pages as streams (W17): the head, pieces, encodings, and bytes of all kinds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rewriting_scene import HEAD, SCENE, at, parts, streamed

from holdfast.web.rewrite.elements import PageState
from holdfast.web.rewrite.html import PIECE_BYTES_MIN, PageRewriter, rewrite_html

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


@pytest.mark.parametrize(("page", "wanted"), HEADS.items())
def test_our_markup_stands_before_all_scripts(page: bytes, wanted: bytes) -> None:
    assert streamed([page], head=b"|") == wanted


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


@pytest.mark.parametrize(("page", "charset", "declared"), CHARSETS)
def test_the_declared_charset_is_what_browsers_take_it_for(page: bytes, charset: str, declared: str) -> None:
    assert rewrite_html([page], SCENE, charset, HEAD).charset == declared


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "iso2022_jp"])
def test_a_page_in_which_markup_is_no_ascii_is_sent_as_utf_8(encoding: str) -> None:
    text = '<head><a href="/日本">日本</a>'
    mark = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}.get(encoding, b"")
    content = mark + text.encode(encoding)
    html = rewrite_html([content[:25], content[25:]], SCENE, "" if mark else "iso-2022-jp", b"|")
    assert html.charset == "UTF-8"
    assert b"".join(html.pieces).decode() == f'<head>|<a href="{LINK}/日本">日本</a>'


def test_other_encodings_keep_their_bytes() -> None:
    page = "<a href='/x?é&amp;'>é</a>".encode("cp1252")
    assert streamed([page], head=b"", charset="latin1") == page.replace(b"/x", f"{LINK}/x".encode())
    japanese = "<a href=\"&#47;表\" title='ソ'>".encode("cp932")
    wanted = japanese.replace(b"&#47;", LINK.encode() + b"&#47;")
    assert streamed([japanese], head=b"", charset="shift_jis") == wanted


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
LINKED = st.lists(
    st.sampled_from(
        parts(
            '<a href="/x">¦<a href=//y.org/z>¦<img src=\'http://z.org\'>¦<base href="/b/">¦<style>a{b:url(/c)}¦'
            "</style>¦<script>import('/d.js')¦</script>¦<!-- ¦-->¦<svg>¦<![CDATA[¦]]>¦text¦<¦'¦\"¦>¦"
            "<p style='x:url(/y)'¦<title>¦</title>¦<head>¦<html>¦é"
        )
    ),
    max_size=30,
).map("".join)


@settings(deadline=None)
@given(MARKUP)
def test_a_page_without_absolute_references_changes_in_its_head_only(markup: str) -> None:
    page = markup.encode()
    done = streamed([page], head=b"|")
    assert done.count(b"|") == 1
    assert done.replace(b"|", b"") == page


@settings(deadline=None)
@given(LINKED, st.lists(st.integers(0, 400), max_size=8), st.sampled_from([4, 50, 1000]))
def test_however_a_page_is_cut_it_is_rewritten_the_same(markup: str, cuts: list[int], rest_min: int) -> None:
    page = markup.encode()
    rewriter = PageRewriter(PageState(SCENE, HEAD, "utf-8"))
    done, rest, at_byte = [], b"", 0
    for cut in sorted(cuts):
        sent, rest = rewriter.feed(rest + page[at_byte:cut], final=False)
        done.append(sent)
        at_byte = max(at_byte, min(cut, len(page)))
    sent, rest = rewriter.feed(rest + page[at_byte:], final=True)
    assert rest == b""
    assert b"".join((*done, sent)) == streamed([page])


@settings(deadline=None)
@given(st.binary(), st.one_of(st.none(), st.text(max_size=8), st.sampled_from(["utf-16", "gbk", "iso-2022-jp"])))
def test_any_bytes_pass(content: bytes, charset: str | None) -> None:
    streamed([content], charset=charset)


def test_pieces_come_out_before_the_last_went_in() -> None:
    seen = 0

    def pieces() -> list[bytes]:
        nonlocal seen
        for _ in range(20):
            seen += 1
            yield b"<p>some text</p>" * 1000

    html = rewrite_html(pieces(), SCENE, "utf-8", HEAD)
    next(html.pieces)
    assert seen < 20
    assert len(b"".join(html.pieces)) > PIECE_BYTES_MIN


@pytest.mark.parametrize("name", ["script", "style", "title", "!--"])
def test_what_is_longer_than_the_bound_is_passed_on_and_what_follows_is_rewritten(name: str) -> None:
    end = "-->" if name == "!--" else f"</{name}>"
    begin = "<!--" if name == "!--" else f"<{name}>"
    page = f"<head>{begin}{'url(/x) ' * 100}{end}<a href='/y'>".encode()
    rewriter = PageRewriter(PageState(SCENE, b"|", "utf-8"), token_bytes_max=100)
    done, rest = [], b""
    for start in range(0, len(page), 7):
        sent, rest = rewriter.feed(rest + page[start : start + 7], final=False)
        assert len(rest) < 300
        done.append(sent)
    sent, rest = rewriter.feed(rest, final=True)
    whole = b"".join((*done, sent))
    assert whole == page.replace(b"<head>", b"<head>|").replace(b"'/y'", f"'{LINK}/y'".encode())


def test_a_tag_longer_than_the_bound_is_passed_on() -> None:
    rewriter = PageRewriter(PageState(SCENE, b"|", "utf-8"), token_bytes_max=100)
    sent, rest = rewriter.feed(b"<p><a title='" + b"x" * 200, final=False)
    more, _ = rewriter.feed(rest + b"'><a href='/y'>", final=True)
    assert sent + more == b"|<p><a title='" + b"x" * 200 + f"'><a href='{LINK}/y'>".encode()


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
    page = part.encode() * (1_000_000 // len(part))
    assert len(streamed([page])) >= len(page)
    assert len(streamed(iter([page[:500_000], page[500_000:]]))) >= len(page)


@pytest.mark.parametrize("part", ["<meta ", "<meta x=", "<!--", "<meta charset=", "<meta>"])
def test_time_to_find_the_charset_grows_with_the_page_only(part: str) -> None:
    page = part.encode() * (1_000_000 // len(part))
    assert rewrite_html([page], SCENE, "", HEAD).charset == "windows-1252"
    assert rewrite_html([page + b">"], SCENE, "", HEAD).charset == "windows-1252"
