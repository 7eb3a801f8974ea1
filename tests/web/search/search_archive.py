"""An archive to search in: many pages with one word in common, one with another, a few languages and types."""

from __future__ import annotations

from pathlib import Path

from pages_kept import answer, html, kept

import holdfast

MANY = 400
SCRIPT = "<script>alert(1)</script>"
HOSTILE = "http://hostile.example/title"
HOSTILE_PAGE = (
    "<title>&lt;script&gt;alert(1)&lt;/script&gt; \u202egnp.exe \u0000</title>"
    "<p>zeppelin &lt;img src=x onerror=alert(2)&gt; &lt;/mark&gt; \u202ebackwards\u200b &amp;amp; ende</p>"
)
PERSIAN = "<html lang=fa dir=rtl><title>می\u200cخواهم</title><p>من می\u200cخواهم کتاب بخوانم و دنیا را ببینم</p>"
GERMAN = (
    "<html lang=de><title>Der Hafen</title><p>Der Hafen liegt hinter der Insel, und das Meer ist heute ganz ruhig. "
    '<a href="http://town.example/">Zur Stadt</a></p>'
)
TOWN = (
    "<html lang=en><title>The town</title><p>The harbour of the town lies behind the island, and the tides are low. "
    '<a href="http://port.example/">The port</a></p>'
)
PORT = "<html lang=en><title>The port</title><p>Ships come and go with the tides of the harbour.</p>"


def few(path: Path) -> Path:
    """Eight captures of six addresses in two collections, from three years."""
    kept(
        path,
        [
            html("http://town.example/", "20230105101112", TOWN),
            html("http://town.example/", "20240305101112", TOWN.replace("low", "high")),
            html("http://port.example/", "20240405101112", PORT),
            html(HOSTILE, "20240505101112", HOSTILE_PAGE, charset="utf-8"),
            html("http://fa.example/", "20250105101112", PERSIAN, charset="utf-8"),
            answer(
                "http://town.example/gone", "20250205101112", "404 Not Found", ["Content-Type: text/plain"], b"no tides"
            ),
        ],
    )
    german = html("http://hafen.example/", "20250305101112", GERMAN)
    return kept(path, [german, html("http://port.example/", "20250405101112", PORT)], "news")


def many(path: Path, pages: int = MANY) -> Path:
    """So many more, on twenty hosts, over ten years."""
    for start in range(0, pages, 1000):
        some = [
            html(
                f"http://site{number % 20}.example/{number}",
                f"{2015 + number % 10}{1 + number % 12:02}01000000",
                f"<title>Page {number}</title>ubiquitous {number}",
            )
            for number in range(start, min(pages, start + 1000))
        ]
        kept(path, some)
    return path


def indexed(path: Path) -> Path:
    with holdfast.open(path) as archive:
        archive.index.update()
        archive.index.rank()
    return path
