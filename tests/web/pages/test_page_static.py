"""Style sheets and scripts: kept by browsers for good, never mixed up, and readable in light and dark (P)."""

from __future__ import annotations

import gzip
import re

import brotli
import pytest
from page_visits import ask
from serving import Served

from holdfast.web.ui.static_files import STATIC, assets, static_path

# Text, ground, least contrast: WCAG 2.2 asks for 4.5 of text, and 3 of borders that must be seen.
PAIRS = [
    *((text, ground, 4.5) for text in ("ink", "soft", "accent", "warn", "bad") for ground in ("ground", "panel")),
    *((text, "accent-soft", 4.5) for text in ("ink", "soft", "accent")),
    *(("accent-ink", "accent", 4.5), ("warn", "warn-soft", 4.5), ("bad", "bad-soft", 4.5)),
    *(("edge", ground, 3.0) for ground in ("ground", "panel")),
]


def colours(scheme: str) -> dict[str, str]:
    text = (STATIC / "style.css").read_text()
    light, dark = re.findall(r":root \{(.*?)\}", text, re.DOTALL)[:2]
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", dark if scheme == "dark" else light))


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(scheme: str) -> None:
    named = colours(scheme)
    assert colours("light").keys() == colours("dark").keys()
    faint = [(text, ground) for text, ground, least in PAIRS if contrast(named[text], named[ground]) < least]
    assert faint == []


def test_contrast_is_that_of_the_standard() -> None:
    assert round(contrast("#ffffff", "#000000"), 1) == 21.0
    assert round(contrast("#777777", "#ffffff"), 2) == 4.48


def test_motion_is_only_for_those_who_like_it_and_nothing_is_from_elsewhere() -> None:
    for path in STATIC.iterdir():
        text = path.read_text()
        before = text.partition("prefers-reduced-motion: no-preference")[0]
        assert re.findall(r"transition:|animation:|behavior: smooth", before) == [], path.name
        assert re.findall(r"url\(|@import|https?://(?!www\.w3\.org)", text) == [], path.name
        assert re.findall(r"innerHTML\s*\+?=[^=]|insertAdjacentHTML|document\.write", text) == [], path.name
        assert "eval(" not in text, path.name


def test_assets_are_kept_for_good_under_their_version(served: Served) -> None:
    for name in assets():
        visit = ask(served.controls, static_path(name), {})
        assert visit.body == (STATIC / name).read_bytes()
        assert visit.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert visit.headers["x-content-type-options"] == "nosniff"


def test_assets_by_another_version_are_asked_for_again(served: Served) -> None:
    visit = ask(served.controls, "/static/style.css?v=old", {})
    assert visit.headers["cache-control"] == "no-cache"
    again = ask(served.controls, "/static/style.css?v=old", {"If-None-Match": visit.headers["etag"]})
    assert (again.status, again.body) == (304, b"")


def test_assets_come_compressed_to_those_who_can_read_it(served: Served) -> None:
    plain = (STATIC / "style.css").read_bytes()
    packed = ask(served.controls, "/static/style.css", {"Accept-Encoding": "gzip, br"})
    assert packed.headers["content-encoding"] == "br"
    assert brotli.decompress(packed.body) == plain
    zipped = ask(served.controls, "/static/style.css", {"Accept-Encoding": "br;q=0, gzip"})
    assert zipped.headers["content-encoding"] == "gzip"
    assert gzip.decompress(zipped.body) == plain
    assert len({packed.headers["etag"], zipped.headers["etag"]}) == 2


@pytest.mark.parametrize("name", ["nothing.css", "..%2fsite.py", "%2e%2e", "style.css/", ""])
def test_nothing_else_is_served(served: Served, name: str) -> None:
    assert ask(served.controls, f"/static/{name}").status == 404
