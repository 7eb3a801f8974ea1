"""H5: sitemaps in every form are read; those of the hostile, too, without raising, hanging or filling the memory."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.crawl.parse import sitemaps
from holdfast.crawl.parse.sitemaps import Sitemap, read_sitemap

SAMPLES = Path(__file__).parents[3] / "shared" / "samples" / "crawl" / "sitemaps"

needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the shared samples are not on this machine")

AT = "http://example.com"
URLSET = '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{}</urlset>'


def _read(text: str | bytes, content_type: str = "") -> Sitemap:
    content = text.encode() if isinstance(text, str) else text
    return read_sitemap(content, f"{AT}/dir/sitemap.xml", content_type)


def _urls(text: str | bytes, content_type: str = "") -> list[str]:
    return _read(text, content_type).urls


LOCATIONS = [
    ("plain", "<url><loc>http://example.com/a</loc></url>", ["/a"]),
    ("blanks", "<url>\n <loc>\n\thttp://example.com/a \n</loc></url>", ["/a"]),
    ("twice", "<url><loc>/a</loc></url><url><loc>http://example.com/a#top</loc></url>", ["/a"]),
    ("relative", "<url><loc>b</loc></url>", ["/dir/b"]),
    ("entities", "<url><loc>/?a=1&amp;b=2&#38;c=3&#x26;d</loc></url>", ["/?a=1&b=2&c=3&d"]),
    ("bare ampersands", "<url><loc>/?a=1&copy=2</loc></url>", ["/?a=1&copy=2"]),
    ("cdata", "<url><loc><![CDATA[http://example.com/?a=1&b=<]]></loc></url>", ["/?a=1&b=%3C"]),
    ("comments", "<url><!-- <loc>/no</loc> --><loc>/a</loc></url>", ["/a"]),
    ("attributes", '<url x="1"><loc type="page">/a</loc></url>', ["/a"]),
    ("capitals", "<URL><LOC>/a</LOC></URL>", ["/a"]),
    ("tags not closed", "<url><loc>/a<url><loc>/b", ["/a", "/b"]),
    ("comment not closed", "<url><loc>/a</loc></url><!-- <url><loc>/b</loc>", ["/a", "/b"]),
    ("cut within a tag", "<url><loc>/a</loc></url><url><lo", ["/a"]),
    ("other schemes", "<url><loc>ftp://example.com/a</loc><loc>javascript:x</loc><loc>http://[</loc></url>", []),
    (
        "pictures after pages",
        "<url><loc>/a</loc><i:i><i:loc>/p</i:loc></i:i></url><url><loc>/b</loc></url>",
        "/a /b /p",
    ),
    ("other elements", "<url><loc>/a</loc><location>/b</location><locs>/c</locs></url>", ["/a"]),
    ("surrogates", "<url><loc>/&#xD800;&#1114112;</loc></url>", ["/%EF%BF%BD%EF%BF%BD"]),
]


@pytest.mark.parametrize(("name", "text", "paths"), LOCATIONS, ids=[row[0] for row in LOCATIONS])
def test_locations(name: str, text: str, paths: list[str] | str) -> None:
    expected = paths.split() if isinstance(paths, str) else paths
    assert _urls(URLSET.format(text)) == [AT + path for path in expected]


def test_an_index_leads_to_sitemaps() -> None:
    index = "<sitemapindex><sitemap><loc>/a.xml</loc></sitemap><sitemap>/b.xml</sitemap></sitemapindex>"
    assert _read(index) == Sitemap([], [f"{AT}/a.xml", f"{AT}/b.xml"])


def test_pages_and_sitemaps_in_one_file_are_told_apart() -> None:
    mixed = "<urlset><url><loc>/a</loc></url><sitemap><loc>/b.xml</loc></sitemap></urlset>"
    assert _read(mixed) == Sitemap([f"{AT}/a"], [f"{AT}/b.xml"])


def test_feeds() -> None:
    rss = """<rss version="2.0"><channel><link>http://example.com/</link><atom:link rel="self" href="/feed"/>
      <item><link>/1</link><guid isPermaLink="false">http://example.com/id</guid>
        <enclosure url="/1.mp3" length="1"/></item>
      <item><guid>http://example.com/2</guid></item><item><guid>tag:x</guid></item></channel></rss>"""
    assert _urls(rss) == [f"{AT}{path}" for path in ("/", "/1", "/2", "/1.mp3")]
    rdf = """<rdf:RDF xmlns="http://purl.org/rss/1.0/"><item rdf:about="x"><link>/1</link></item></rdf:RDF>"""
    assert _urls(rdf) == [f"{AT}/1"]
    atom = """<feed><link rel='self' href='/feed'/><entry><link href="/1?a&amp;b"/><link rel="alternate" href="/2"/>
      <link rel="edit" href="/3"/></entry></feed>"""
    assert _urls(atom) == [f"{AT}/1?a&b", f"{AT}/2"]


def test_text() -> None:
    assert _urls("http://example.com/a\r\nnot a URL\n\n  HTTPS://example.com/b c\rhttp://example.com/d") == [
        f"{AT}/a",
        "https://example.com/b",
        f"{AT}/d",
    ]


def test_pages_that_are_no_sitemaps_give_nothing() -> None:
    page = '<!DOCTYPE html><html><head><link href="/style.css"></head><body><a href="/a">http://example.com/</a></html>'
    assert _read(page) == Sitemap([], [])
    assert _read(b"") == Sitemap([], [])
    assert _read(b"\x89PNG\r\n\x1a\n") == Sitemap([], [])


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "iso-8859-1"])
def test_codings(codec: str) -> None:
    text = f'<?xml version="1.0" encoding="{codec}"?>' + URLSET.format("<url><loc>/ä</loc></url>")
    assert _urls(text.encode(codec)) == [f"{AT}/%C3%A4"]
    assert _urls("http://example.com/ä".encode("latin-1"), "text/plain; charset=ISO-8859-1") == [f"{AT}/%C3%A4"]


@pytest.mark.parametrize("codec", ["zlib", "punycode", "nonsense", "utf-8-nonsense", "unicode_escape"])
def test_codings_that_are_none(codec: str) -> None:
    assert _urls(f'<?xml version="1.0" encoding="{codec}"?><url><loc>/a</loc></url>') == [f"{AT}/a"]


def test_gzip_whole_doubled_joined_and_damaged() -> None:
    lines = [f"{AT}/{number * 7919 % 10007}" for number in range(5000)]
    packed = gzip.compress("\n".join(lines).encode())
    assert _urls(packed) == lines
    assert _urls(gzip.compress(packed)) == lines
    assert _urls(packed + gzip.compress(b"\nhttp://example.com/more")) == [*lines, f"{AT}/more"]
    assert 100 < len(_urls(packed[: len(packed) // 2])) < 5000
    damaged = packed[: len(packed) // 2] + b"\xff" * 200 + packed[len(packed) // 2 + 200 :]
    assert _urls(damaged)[:100] == lines[:100]


def test_bombs_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sitemaps, "SITEMAP_BYTES_MAX", 1 << 20)
    bomb = gzip.compress(gzip.compress(b"http://example.com/a\n" * 3_000_000))
    assert _urls(bomb) == [f"{AT}/a"]
    monkeypatch.setattr(sitemaps, "URLS_MAX", 100)
    assert len(_urls("".join(f"<loc>/{number}</loc>" for number in range(1000)))) == 100
    assert len(_urls("\n".join(f"{AT}/{number}" for number in range(1000)))) == 100


def test_entities_are_never_expanded_nor_fetched(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("http://example.com/secret")
    document = f"""<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY lol "lol"><!ENTITY lol1 "&lol;&lol;">
      <!ENTITY x SYSTEM "file://{secret}">]><urlset><url><loc>/a</loc></url><url><loc>&x;</loc></url>
      <url><loc>/&lol1;</loc></url></urlset>"""
    assert _urls(document) == [f"{AT}/a", f"{AT}/dir/&x;", f"{AT}/&lol1;"]


@pytest.mark.parametrize(
    "content",
    [
        b"<!--",
        b"<![CDATA[",
        b"<loc>",
        b"<loc ",
        b"<loc>x</loc>",
        b"<",
        b"<a:",
        b"&#",
        b" ",
        b"\n",
        b"<link a=",
        b"http://",
    ],
)
def test_repeated_fragments_do_not_hang(content: bytes) -> None:
    _read(b"<urlset>" + content * (2_000_000 // len(content)))
    _read(content * (2_000_000 // len(content)))


FRAGMENTS = st.sampled_from(
    [
        "<urlset>",
        "<url>",
        "<loc>",
        "</loc>",
        "http://a/",
        "<![CDATA[",
        "]]>",
        "<!--",
        "-->",
        "&amp;",
        "<sitemap>",
        "<link ",
    ]
)


@settings(max_examples=200)
@given(st.binary(max_size=200), st.lists(FRAGMENTS, max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_any_bytes(content: bytes, fragments: list[str], url: str, content_type: str) -> None:
    text = "".join(fragments).encode()
    for case in (content, text, text + content, gzip.compress(text)[:-3] + content, b"\x1f\x8b" + content):
        found = read_sitemap(case, url, content_type)
        assert all(one.startswith(("http://", "https://")) for one in found.urls + found.sitemaps)


# File; how many URLs and sitemaps; the first of either.
SAMPLE_COUNTS = [
    ("atom.xml", 3, 0, "http://example.org/"),
    ("do-not-visit.txt", 1, 0, "http://www.example.com/do-not-visit-here"),
    ("sitemap-with-bom.txt", 2, 0, "http://www.domain.com/page1.html"),
    ("sitemap.badns.xml", 2, 0, "http://www.example.com/1"),
    ("sitemap.index.xml", 0, 15, "https://example.com/sitemap.jss?portalCode=10260&lang=en"),
    ("sitemap.ns.xml", 2, 0, "http://www.example.com/1"),
    ("sitemap.txt", 2, 0, "http://www.domain.com/page1.html"),
    ("sitemap.txt.gz", 5, 0, "http://www.example.com/"),
    ("xmlSitemap.gz", 5, 0, "http://www.example.com/"),
    ("extension/pagemaps-sitemap.xml", 2, 0, "http://www.example.com/foo"),
    ("extension/sitemap-images.xml", 3, 0, "http://www.example.com/images/some_image_landing_page.html"),
    ("extension/sitemap-links.xml", 3, 0, "http://www.example.com/english/"),
    ("extension/sitemap-mobile.xml", 3, 0, "http://www.example.com/mobile-friendly-1/"),
    ("extension/sitemap-news.xml", 2, 0, "http://www.example.org/business/article55.html"),
    ("extension/sitemap-videos.xml", 11, 0, "http://www.example.com/videos/some_video_landing_page.html"),
    ("extension/sitemap-videos-tvshow.xml", 6, 0, "https://example.org/my-tv-show/23/13/"),
    ("extension/shinpaideshou-news-sitemap.xml", 3, 0, "https://shinpaideshou.wordpress.com/2017/04/25/"),
    ("extension/hebdenbridgetimes-articles-sitemap.xml", 159, 0, "http://www.hebdenbridgetimes.co.uk/news/local/video"),
]


@needs_samples
@pytest.mark.parametrize(("name", "urls", "indexed", "first"), SAMPLE_COUNTS)
def test_samples_behave_as_their_names_say(name: str, urls: int, indexed: int, first: str) -> None:
    found = read_sitemap((SAMPLES / name).read_bytes(), "http://www.example.com/sitemap.xml")
    assert (len(found.urls), len(found.sitemaps)) == (urls, indexed)
    assert (found.urls + found.sitemaps)[0].startswith(first)


@needs_samples
def test_every_sample_is_named_here() -> None:
    names = {str(path.relative_to(SAMPLES)) for path in SAMPLES.rglob("*") if path.is_file()}
    assert names == {name for name, *_ in SAMPLE_COUNTS}
