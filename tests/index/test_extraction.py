"""What is found in a document of each kind, and what hostile ones come to."""

from __future__ import annotations

import zipfile

import pytest
from index_samples import DOCX, ODT, PPTX, XLSX, docx, odt, pdf, pptx, xlsx, zipped

from holdfast.formats.record import Headers
from holdfast.index.extract.extract import (
    Extracted,
    ExtractionLimits,
    LinkKind,
    OutLink,
    Payload,
    document_date,
    extract,
    language_of,
)

URL = "http://example.com/dir/page"
ENGLISH = "The whale is the largest animal that has ever lived, and it sings under water to those it knows."

PROSE = (
    "Its song can be heard for hundreds of miles, and changes from year to year. Nobody knows for sure what it means. "
    "Some think that it keeps the herd together on long journeys from the cold waters where there is food to the warm "
    "ones where the young are born; others believe that it is how one of them tells the rest who he is, where he has "
    "been and what he found. The hunters of old knew it well, since the wood of a ship carries the sound, and those "
    "who slept below the deck woke up from it and took it for ghosts."
)


LIMITS = ExtractionLimits()


def extracted(
    content: bytes,
    content_type: str = "",
    *,
    limits: ExtractionLimits = LIMITS,
    **more: str,
) -> Extracted:
    """`more` are header fields, with underscores for hyphens."""
    headers = Headers([(name.replace("_", "-"), value) for name, value in more.items()])
    return extract(Payload(URL, content, content_type, headers, 200), limits)


# -- kinds -------------------------------------------------------------------------------------------------------------


def test_page() -> None:
    content = f"""<html lang=en-GB><title> On
        Whales </title><meta property="article:published_time" content="2019-08-17T10:00:00+02:00">
        <script>var hidden = "no"</script><style>p {{ color: red }}</style>
        <h1>Whales</h1><p>{ENGLISH}<table><tr><td>one<td>two</table>
        <a href="../up#part">Up, <b>there</b></a> <a href=pic><img src=i.png alt="A picture"></a>
        <a href="mailto:a@b">mail</a><form action=search><input name=q></form></html>"""
    found = extracted(content.encode(), "text/html")
    assert found.title == "On Whales"
    assert found.text.splitlines()[:4] == ["Whales", ENGLISH, "one", "two"]
    assert "hidden" not in found.text
    assert found.language == "en"
    assert found.date == "20190817100000"
    assert set(found.links) == {
        OutLink("http://example.com/up", "link", "Up, there"),
        OutLink("http://example.com/dir/pic", "link", "A picture"),
        OutLink("http://example.com/dir/i.png", "embed", ""),
        OutLink("http://example.com/dir/search?q=", "form", ""),
    }
    assert found.failure == ""


def test_the_main_text_of_a_page() -> None:
    page = f"<nav>Home About</nav><main><h1>Whales</h1><p>{ENGLISH}</main><footer>Imprint</footer>"
    found = extracted(page.encode(), "text/html")
    assert found.text.splitlines() == ["Home About", "Whales", ENGLISH, "Imprint"]
    assert (found.main_text, found.rest) == (f"Whales\n{ENGLISH}", ["Home About\n", "\nImprint"])
    assert Extracted.unpack(found.pack()).main_text == found.main_text
    links = " ".join(f'<li><a href="/{number}">Go there</a>' for number in range(50))
    found = extracted(f"<div><ul>{links}</ul></div><div><p>{PROSE}</p><p>{PROSE}</p></div>".encode(), "text/html")
    assert found.main_text.startswith("Its song")
    assert "Go there" not in found.main_text


@pytest.mark.parametrize("page", ["<nav>Home</nav>", "<main> </main><p>Home", "<main></main>Home", "\ufdd1Ho\ufdd0me"])
def test_without_a_main_text_all_of_it_is(page: str) -> None:
    found = extracted(page.encode(), "text/html; charset=utf-8")
    assert (found.text, found.main_text, found.rest) == (found.text, found.text, [])
    assert found.text.endswith("me")


def test_a_main_text_is_cut_with_the_text() -> None:
    page = b"<nav>0123456789</nav><main>0123456789</main><footer>more</footer>"
    found = extracted(page, "text/html", limits=ExtractionLimits(text_characters=15))
    assert (found.text, found.main_text, found.rest) == ("0123456789\n0123", "0123", ["0123456789\n"])
    found = extracted(page, "text/html", limits=ExtractionLimits(text_characters=5))
    assert (found.text, found.main_text, found.rest) == ("01234", "", ["01234"])


def test_page_in_another_charset() -> None:
    found = extracted("<title>Привет</title>".encode("koi8-r"), "text/html; charset=koi8-r")
    assert found.title == "Привет"


def test_redirects_are_links() -> None:
    found = extract(Payload(URL, b"", "", Headers([("Location", "/new")]), 301), ExtractionLimits())
    assert found.links == (OutLink("http://example.com/new", "redirect", ""),)


def test_plain_text() -> None:
    found = extracted(ENGLISH.encode(), "text/plain")
    assert (found.text, found.title, found.language) == (ENGLISH, "", "en")


def test_feed() -> None:
    item = b"<item><title>One</title><description>It rains.</description></item>"
    feed = b"<rss><channel><title>News</title>" + item + b"</channel></rss>"
    found = extracted(feed, "application/rss+xml")
    assert found.title == "News"
    assert found.text.splitlines() == ["News", "One", "It rains."]


def test_pdf() -> None:
    found = extracted(pdf("Whales sing", "under water"), "application/pdf")
    assert found.title == "A Report"
    assert found.text.splitlines() == ["Whales sing", "under water"]
    assert found.date == "20190817120000"


@pytest.mark.parametrize("kind", ["", "application/octet-stream"])
def test_pdf_and_office_are_known_by_their_first_bytes(kind: str) -> None:
    assert extracted(pdf("Whales"), kind).text == "Whales"
    assert extracted(docx("Whales"), kind).text == "Whales"
    assert extracted(b"<!doctype html><title>Whales</title>", kind).title == "Whales"


def test_office_files() -> None:
    word = extracted(docx("Whales sing.", "Under water."), DOCX)
    assert (word.title, word.text, word.date) == ("On Whales", "Whales sing.\nUnder water.", "20210506070809")
    assert extracted(xlsx("blue", "grey"), XLSX).text.splitlines() == ["blue", "grey", "inline"]
    slides = [f"slide {number}" for number in range(1, 12)]
    assert extracted(pptx(*slides), PPTX).text.splitlines() == slides
    text = extracted(odt("Ein Wal.", "Zwei Wale."), ODT)
    assert (text.title, text.text, text.date) == ("Open", "Ein Wal.\nZwei Wale.", "20200203040506")


@pytest.mark.parametrize("kind", ["image/png", "text/css", "text/javascript", "application/json", "video/mp4"])
def test_other_kinds_have_no_text(kind: str) -> None:
    assert extracted(b"words words words", kind) == Extracted()


# -- languages, dates --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("en", ENGLISH),
        ("de", "Der Wal ist das größte Tier, das jemals gelebt hat, und er singt unter Wasser für seine Freunde."),
        ("fr", "La baleine est le plus grand animal qui ait jamais vécu, et elle chante sous l'eau pour les siens."),
        ("ru", "Кит — самое большое животное, которое когда-либо жило на земле, и он поёт под водой."),
        ("zh", "鲸是有史以来最大的动物,它在水下为它认识的同伴歌唱。鲸鱼生活在海洋里。"),
        ("ja", "クジラは史上最大の動物であり、水の中で仲間のために歌います。海に住んでいます。"),
        ("ko", "고래는 지금까지 살았던 가장 큰 동물이며 물속에서 아는 이들에게 노래를 부릅니다."),
        ("-", "short"),
        ("-", "12345 " * 50),
    ],
)
def test_language(code: str, text: str) -> None:
    assert language_of(text) == code


PORTUGUESE = "O mar é grande e as baleias cantam nele de noite. A casa da praia é branca. " * 20


def test_what_is_declared_counts_first() -> None:
    """A detector mistakes languages that are near to each other."""
    assert language_of("short", "sv") == "sv"
    assert language_of(PROSE, "sv") == "sv"
    assert language_of(PORTUGUESE) != "-"
    assert language_of(PORTUGUESE, "pt") == "pt"


@pytest.mark.parametrize(
    ("content", "kind", "fields"),
    [
        (f'<html lang="pt-BR"><body>{PORTUGUESE}', "text/html", ()),
        (f"<html xml:lang=pt><body>{PORTUGUESE}", "application/xhtml+xml", ()),
        (f'<html><body lang="pt">{PORTUGUESE}', "text/html", ()),
        (f'<meta http-equiv="Content-Language" content="pt, en"><body>{PORTUGUESE}', "text/html", ()),
        (f"<html><body>{PORTUGUESE}", "text/html", (("Content-Language", "pt"),)),
        (PORTUGUESE, "text/plain; charset=utf-8", (("Content-Language", "pt-PT"),)),
        (f"<rss><channel><language>pt-br</language><title>{PORTUGUESE}</title></channel></rss>", "text/xml", ()),
        (f"<rss><channel><title>{PORTUGUESE}</title></channel></rss>", "text/xml", (("Content-Language", "pt"),)),
    ],
)
def test_ways_to_declare_a_language(content: str, kind: str, fields: tuple[tuple[str, str], ...]) -> None:
    payload = Payload("http://mar.example/", content.encode(), kind, Headers(fields), 200)
    assert extract(payload, ExtractionLimits()).language == "pt"


# -- links -------------------------------------------------------------------------------------------------------------


def test_links_are_told_apart_by_who_follows_them() -> None:
    page = b"""
        <head><link rel=canonical href=/canonical><link rel=alternate href=/feed><link rel=stylesheet href=/s.css>
        <meta property="og:url" content="http://a.example/og"><link rel=next href=/both></head>
        <a href=/link>x</a> <a href=/both>y</a>
    """
    headers = Headers([("Link", "</field>; rel=next"), ("Content-Location", "/located")])
    found = extract(Payload("http://a.example/page", page, "text/html", headers, 200), ExtractionLimits())
    assert {link.url.removeprefix("http://a.example"): link.kind for link in found.links} == {
        "/canonical": LinkKind.RELATION,
        "/feed": LinkKind.RELATION,
        "/og": LinkKind.RELATION,
        "/field": LinkKind.RELATION,
        "/located": LinkKind.RELATION,
        "/s.css": LinkKind.EMBED,
        "/link": LinkKind.LINK,
        "/both": LinkKind.LINK,
    }
    fields = extract(Payload("http://a.example/x.bin", b"", "video/mp4", headers, 200), ExtractionLimits()).links
    assert {link.kind for link in fields} == {LinkKind.RELATION}


def test_a_page_may_link_to_itself() -> None:
    page = b"<a href=/page>here</a> <a href=page#part>there</a> <a href=#part>within</a>"
    found = extract(Payload("http://a.example/page", page, "text/html", Headers([]), 200), ExtractionLimits())
    assert [(link.url, link.kind, link.anchor) for link in found.links] == [
        ("http://a.example/page", LinkKind.LINK, "here")
    ]
    page = b"<a href=#part>within</a>"
    assert not extract(Payload("http://a.example/page", page, "text/html", Headers([]), 200), ExtractionLimits()).links


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("2003-04-15", "20030415000000"),
        ("2003-04", "20030401000000"),
        ("2003-04-15T08:13:06Z", "20030415081306"),
        ("D:20030415081306+02'00'", "20030415081306"),
        ("15 April 2003", ""),
        ("2003-13-01", ""),
        ("", ""),
    ],
)
def test_dates(text: str, digits: str) -> None:
    assert document_date(text) == digits


# -- hostile ones ------------------------------------------------------------------------------------------------------


def test_a_page_of_nothing_but_openings() -> None:
    found = extracted(b"<div>" * 200_000 + b"deep", "text/html")
    assert "deep" in found.text


def test_text_is_cut_off() -> None:
    assert len(extracted(b"word " * 10_000, "text/plain", limits=ExtractionLimits(text_characters=100)).text) == 100
    assert (
        len(extracted(b"<p>" + b"word " * 10_000, "text/html", limits=ExtractionLimits(text_characters=100)).text)
        == 100
    )
    assert (
        len(extracted(pdf(*["word " * 20] * 30), "application/pdf", limits=ExtractionLimits(text_characters=100)).text)
        <= 100
    )
    assert len(extracted(docx("word " * 1000), DOCX, limits=ExtractionLimits(text_characters=100)).text) <= 100


def test_what_is_too_large() -> None:
    small = ExtractionLimits(document_bytes=100)
    assert extracted(pdf("Whales"), "application/pdf", limits=small).failure == "too large"
    assert extracted(docx("Whales"), DOCX, limits=small).failure == "too large"
    page = extracted(b"<title>T</title>begins " + b"x" * 1000, "text/html", limits=small)
    assert (page.title, page.text[:6], page.failure) == ("T", "begins", "")


def test_zip_bomb() -> None:
    bomb = zipped({"word/document.xml": b"<w><t>" + b"a" * 50_000_000 + b"</t></w>"})
    assert len(bomb) < 100_000
    found = extracted(bomb, DOCX, limits=ExtractionLimits(document_bytes=1 << 20, text_characters=2 << 20))
    assert found.failure == "too large"
    assert len(found.text) <= 1 << 20


def test_zip_with_too_many_parts() -> None:
    parts: dict[str, str | bytes] = {f"{number}": b"" for number in range(20_001)}
    assert extracted(zipped(parts, zipfile.ZIP_STORED), DOCX).failure == "too large"


def test_entities_of_the_document_are_refused() -> None:
    laughs = '<!DOCTYPE w [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><w><p><t>before &b;</t></p></w>'
    found = extracted(zipped({"word/document.xml": laughs}), DOCX)
    assert (found.failure, found.text) == ("damaged", "")
    assert extracted(laughs.encode(), "text/xml").failure == "damaged"


def test_markup_nested_too_deeply() -> None:
    assert extracted(b"<a>" * 5000, "text/xml").failure == "damaged"


@pytest.mark.parametrize("kind", ["application/pdf", DOCX, ODT])
@pytest.mark.parametrize("content", [b"garbage", b"%PDF-1.7\n", b"PK\x03\x04", b"PK\x05\x06" + b"\0" * 18, b"\0" * 100])
def test_damaged_files(kind: str, content: bytes) -> None:
    found = extracted(content, kind)
    assert found.text == ""
    assert found.failure in ("damaged", "")


@pytest.mark.parametrize("whole", [pdf("Whales " * 50), docx("Whales " * 50)])
def test_files_that_are_cut_off_anywhere(whole: bytes) -> None:
    kind = "application/pdf" if whole.startswith(b"%PDF") else DOCX
    for length in range(0, len(whole), 97):
        assert extracted(whole[:length], kind).failure in ("damaged", "")
