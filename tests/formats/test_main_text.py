"""The main text of pages: what a reader came for, and nothing of what stands around it on every page."""

from __future__ import annotations

import pytest

from holdfast.formats.html.text import is_html, main_text_of

STORY = (
    "The harbour was rebuilt in the spring, after the storm had taken the old pier away, and nobody in the town "
    "was surprised when the ships came back within a week, one after the other, as if nothing had happened. "
)
PAGE = f"""<!doctype html><html><head><title>Harbour</title><style>p {{ color: red }}</style></head><body>
<nav class="menu"><ul><li><a href="/">Start</a></li><li><a href="/news">All news</a></li></ul></nav>
<div id="cookie-banner" class="banner">We value your cookies</div>
<main><article><h1>The harbour is back</h1><p>{STORY}</p><p>{STORY}</p></article></main>
<aside class="sidebar"><h2>Related</h2><a href="/a">Ten things about piers</a></aside>
<footer class="footer">Imprint and privacy</footer><script>track("reader")</script></body></html>"""


def test_the_story_is_kept_and_what_is_around_it_is_not() -> None:
    text = main_text_of(PAGE.encode(), "text/html")
    assert text.startswith("The harbour is back")
    assert text.count("as if nothing had happened") == 2
    for noise in ("All news", "cookies", "piers", "Imprint", "track", "color"):
        assert noise not in text


@pytest.mark.parametrize(
    ("charset", "said", "inside"),
    [
        ("windows-1251", "windows-1251", ""),
        ("windows-1251", "", "windows-1251"),
        ("utf-8", "", ""),
        ("utf-8", "utf-8", ""),
    ],
)
def test_bytes_become_characters_as_in_a_browser(charset: str, said: str, inside: str) -> None:
    meta = f'<meta charset="{inside}">' if inside else ""
    story = "Гавань снова открыта, и корабли вернулись в город через неделю после бури. " * 4
    content = f"<html><head>{meta}</head><body><p>{story}</p></body></html>".encode(charset)
    content_type = f"text/html; charset={said}" if said else "text/html"
    assert main_text_of(content, content_type) == story.strip()


@pytest.mark.parametrize(
    "markup",
    [
        "<div>" * 100_000 + "x",
        "<div>" * 1_900 + "x" + "</div>" * 50,
        "<div>" * 3_000 + "x" + "</div>" * 3_000,
        "<ul><li>" * 20_000,
        "<p>a <b>c</b></p>" * 20_000,
        "<!--" * 50_000,
        "<table><tr><td>" * 10_000,
        "\0\ufffd<",
        "",
    ],
    ids=["deep", "less deep", "closed", "lists", "long", "comments", "tables", "odd", "nothing"],
)
def test_no_page_takes_for_ever(markup: str) -> None:
    assert isinstance(main_text_of(markup.encode(), "text/html"), str)


def test_a_deep_page_still_has_its_text() -> None:
    text = main_text_of(f"<html><body>{'<div>' * 3000}<p>{STORY}</p><p>{STORY}</p>".encode(), "text/html")
    assert "the ships came back" in text


def test_what_is_a_page() -> None:
    assert is_html(b"", "text/html; charset=utf-8") and is_html(b" <!doctype html>x")
    assert not is_html(b"<!doctype html>x", "text/plain") and not is_html(b"%PDF-1.7")
