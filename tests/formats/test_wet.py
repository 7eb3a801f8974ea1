"""WET: text as a reader of the page would see it, whatever its bytes, in records as Common Crawl's."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator
from warcio.recordloader import ArcWarcRecord

from holdfast.formats.html import text as page_text
from holdfast.formats.html.charset import charset_of
from holdfast.formats.html.text import has_text, text_of
from holdfast.formats.wet import wet_record
from holdfast.model import Capture, RecordId

SAMPLES = Path(__file__).parents[3] / "shared" / "samples" / "warc" / "commoncrawl"
CAPTURE = Capture(
    urlkey="com,example)/ü",
    timestamp="20261116020000",
    url="http://example.com/ü",
    mime="text/html",
    status="200",
    digest="sha1:FKXGYNOJJ7H3IFO35FPUBC445EPOQRXN",
    length=1,
    offset=0,
    filename="a.warc.gz",
    type="response",
    size=1,
    contents="-",
    record=RecordId("202611", 1),
    collection="c",
)


def html(markup: str) -> str:
    return text_of(markup.encode(), "text/html; charset=utf-8")


# -- text --------------------------------------------------------------------------------------------------------------


def test_the_same_words_as_common_crawls() -> None:
    if not SAMPLES.exists():
        pytest.skip("the samples are not there")

    def records(name: str, kind: str) -> Iterator[ArcWarcRecord]:
        with (SAMPLES / name).open("rb") as file:
            yield from (record for record in ArchiveIterator(file) if record.rec_type == kind)

    for response, conversion in zip(
        records("whirlwind.warc.gz", "response"), records("whirlwind.warc.wet.gz", "conversion"), strict=True
    ):
        ours = text_of(response.content_stream().read(), response.http_headers.get_header("Content-Type"))
        assert ours.split() == conversion.content_stream().read().decode().split()  # cells share lines there


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<title> A \n title </title><p>one<p>two", "A title\none\ntwo"),
        ("<p>in <b>b</b>old <a href=x>and</a> linked", "in bold and linked"),
        ("a<script>var b</script><style>c {}</style><template>d</template><!-- e -->f", "af"),
        ("one<br>two<div>three<div>four</div></div>", "one\ntwo\nthree\nfour"),
        ("<ul><li>one<li>two</ul><ol><li>three</ol>", "one\ntwo\nthree"),
        ("<table><caption>c</caption><tr><th>h<td>a<table><tr><td>b<td>c</table>d</table>", "c\nh\na\nb\nc\nd"),
        ("<select><option>one<option>two</select><button>three</button>four", "one\ntwo\nthree\nfour"),
        ("<center>one</center>two<fieldset><legend>three</legend>four</fieldset>", "one\ntwo\nthree\nfour"),
        ("<pre>  one\n\n  two</pre>", "one\ntwo"),
        ("&lt;p&gt; &amp; &uuml; &#x20AC;", "<p> & ü €"),
        ("  a \n\n  b  ", "a b"),
        ("", ""),
        ("<noscript>one</noscript>", "one"),
    ],
)
def test_blocks_become_lines(markup: str, text: str) -> None:
    assert html(markup) == text


@pytest.mark.parametrize(
    ("content", "content_type", "text"),
    [
        (b"\xef\xbb\xbf\xc3\xa4", "text/html; charset=windows-1252", "ä"),  # the mark wins
        (b"\xff\xfea\0\xe4\0", "text/html", "aä"),
        (b"<meta charset=utf-8>\xe4", "text/html; charset=iso-8859-1", "ä"),  # then the header
        (b"<meta charset=gb2312>\xd6\xd0", "text/html", "中"),  # then the meta
        (b"<meta http-equiv=content-type content='text/html; charset=koi8-r'>\xc1", "text/html", "а"),
        (b"\xc3\xa4", "text/html", "ä"),  # then the bytes
        (b"\x93\xe4\x94", "text/html", "“ä”"),  # then windows-1252
        (b"\x93\xe4\x94", "text/html; charset=latin1", "“ä”"),  # which is what latin1 means on the web
        (b"\xc3\xa4", "text/html; charset=nonsense", "ä"),
        (b"\xc3\xa4\xff", "text/html; charset=utf-8", "ä\ufffd"),
        (b"\xef\xbb\xbf\xc3\xa4", "text/plain", "ä"),
        (b"\xff\xfea\0\xe4\0", "text/plain", "aä"),
        (b"\x93\xe4\x94", 'text/plain; charset="ISO-8859-1"', "“ä”"),
        (b"\xc3\xa4", "text/plain", "ä"),
        (b"\x93\xe4\x94", "text/plain", "“ä”"),
        (b"\xc3\xa4", "text/plain; charset=nonsense", "ä"),
        (b"\xc3\xa4", "text/plain; charset=\0", "ä"),
    ],
)
def test_bytes_are_read_as_a_browser_reads_them(content: bytes, content_type: str, text: str) -> None:
    assert text_of(content, content_type) == text


def test_plain_text_passes_through() -> None:
    assert text_of(b" a\r\n\r\n <b>\t", "text/plain") == " a\r\n\r\n <b>\t"


@pytest.mark.parametrize("content_type", ["image/png", "application/pdf", "text/css", "application/json"])
def test_what_has_no_text_gives_none(content_type: str) -> None:
    assert not has_text(content_type)
    assert text_of(b"<p>words", content_type) == ""


@pytest.mark.parametrize(
    ("content", "text"),
    [(b" <!-- x --> <!DOCTYPE html><p>a", "a"), (b"<HTML>a", "a"), (b"\x89PNG", ""), (b"words", ""), (b"<pre", "")],
)
def test_without_a_type_only_what_looks_like_a_page_is_one(content: bytes, text: str) -> None:
    assert has_text("")
    assert text_of(content, "") == text


@pytest.mark.parametrize(
    ("content_type", "charset"),
    [
        ("text/html; charset=UTF-8", "utf-8"),
        ("text/html;charset='koi8-r'", "koi8-r"),
        ('text/html; a=b; CharSet = "utf-8" ; c=d', "utf-8"),
        ("text/html; charset=", ""),
        ("text/html", ""),
    ],
)
def test_charsets_of_headers(content_type: str, charset: str) -> None:
    assert charset_of(content_type) == charset


@pytest.mark.parametrize(
    "content",
    [
        b"<div>" * 100_000 + b"x",
        b"<b>" * 20_000 + b"<p>" * 1000 + b"x",
        b"<table>" * 20_000 + b"x",
        b"<ul><li>" * 20_000 + b"x",
        b"<select>" + b"<option>x" * 20_000,
        b"<a " + b" ".join(b"a%d=1" % number for number in range(20_000)) + b">x",
        b"<!-- " * 20_000,
    ],
    ids=lambda content: content[:8].decode(),
)
def test_hostile_pages_are_read_in_time(content: bytes) -> None:
    assert len(text_of(content, "text/html")) <= len(content)
    text_of(content, "")


def test_only_the_beginning_of_a_huge_page_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_text, "HTML_BYTES_MAX", 10)
    assert text_of(b"<p>0123456789", "text/html") == "0123456"


@given(content=st.binary(max_size=300), content_type=st.sampled_from(["text/html", "text/plain; charset=utf-16", ""]))
def test_any_bytes_give_some_text(content: bytes, content_type: str) -> None:
    text_of(content, content_type).encode("utf-8", "replace")


# -- records -----------------------------------------------------------------------------------------------------------


def test_a_record_as_others_read_it() -> None:
    capture = CAPTURE._replace(extra='{"languages": "spa,eng"}')
    stream = io.BytesIO(b"".join(wet_record(capture, "Wörter\nmehr", refers_to="<urn:uuid:1>")))
    iterator = ArchiveIterator(stream, check_digests="raise")
    record = next(iterator)
    headers = record.rec_headers
    assert headers.protocol == "WARC/1.1"
    assert record.rec_type == "conversion"
    assert headers.get_header("WARC-Target-URI") == "http://example.com/ü"
    assert headers.get_header("WARC-Date") == "2026-11-16T02:00:00Z"
    assert headers.get_header("WARC-Refers-To") == "<urn:uuid:1>"
    assert headers.get_header("WARC-Identified-Content-Language") == "spa,eng"
    assert headers.get_header("Content-Type") == "text/plain"
    assert record.content_stream().read().decode() == "Wörter\nmehr"
    assert record.digest_checker.passed
    assert next(iterator, None) is None


def test_the_same_capture_gives_the_same_record() -> None:
    assert wet_record(CAPTURE, "x") == wet_record(CAPTURE, "x")
    assert wet_record(CAPTURE, "x") != wet_record(CAPTURE._replace(url="http://example.com/"), "x")


def test_what_is_not_known_is_left_out() -> None:
    head = wet_record(CAPTURE._replace(extra='{"languages": "a\\r\\nb"}'), "x")[0]
    assert b"Refers-To" not in head
    assert b"Language" not in head
