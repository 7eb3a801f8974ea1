"""Links of pages (W17, issue 4.4): every element that refers to something, with the hop it stands for."""

from __future__ import annotations

import pytest
from links_reading import DIR, SITE, URL, found

from holdfast.formats.html.links.references import Hop

E, L, R, X, F = Hop.EMBED, Hop.LINK, Hop.REDIRECT, Hop.SPECULATIVE, Hop.FORM

ELEMENTS = [
    ("<a href=x>", {f"{DIR}/x": L}),
    ("<a href=' x\n'>", {f"{DIR}/x": L}),
    ("<A HREF=/x#part>", {f"{SITE}/x": L}),
    ("<area href=//other.org>", {"http://other.org/": L}),
    ("<img src=x longdesc=d lowsrc=l>", {f"{DIR}/x": E, f"{DIR}/l": E, f"{DIR}/d": L}),
    ("<img srcset='a.jpg 1x, b,c.jpg 2x,d.jpg'>", {f"{DIR}/a.jpg": E, f"{DIR}/b,c.jpg": E, f"{DIR}/d.jpg": E}),
    ("<picture><source srcset='a 10w,\n b (x, y) 20w, c'>", {f"{DIR}/a": E, f"{DIR}/b": E, f"{DIR}/c": E}),
    ("<img srcset='data:image/png;base64,AA== 1x, b 2x'>", {f"{DIR}/b": E}),
    ("<script src=x></script>", {f"{DIR}/x": E}),
    ("<link rel=stylesheet href=x>", {f"{DIR}/x": E}),
    ("<link rel='alternate StyleSheet' href=x>", {f"{DIR}/x": E}),
    ("<link rel='shortcut icon' href=x>", {f"{DIR}/x": E}),
    ("<link rel=preload href=x imagesrcset='y 1x'>", {f"{DIR}/x": E, f"{DIR}/y": E}),
    ("<link rel=modulepreload href=x><link rel=manifest href=y>", {f"{DIR}/x": E, f"{DIR}/y": E}),
    ("<link rel=next href=x><link rel=canonical href=y>", {f"{DIR}/x": L, f"{DIR}/y": L}),
    ("<link rel=alternate href=x><link href=y>", {f"{DIR}/x": L, f"{DIR}/y": L}),
    ("<link rel=dns-prefetch href=//x.org><link rel=preconnect href=//y.org>", {}),
    ("<iframe src=x></iframe>", {f"{DIR}/x": E}),
    ("<iframe srcdoc='<base href=/no/><img src=x>'></iframe>", {f"{DIR}/x": E}),
    ("<frameset><frame src=x></frameset>", {f"{DIR}/x": E}),
    ("<video src=x poster=y><source src=z><track src=t></video>", {f"{DIR}/{name}": E for name in "xyzt"}),
    ("<audio src=x></audio><embed src=y>", {f"{DIR}/x": E, f"{DIR}/y": E}),
    ("<object data=x codebase=/c><param name=movie value=y></object>", {f"{SITE}/c/x": E, f"{DIR}/y": E}),
    (
        "<applet code=a.B archive='x.jar, y.jar' codebase=c></applet>",
        {f"{DIR}/c/a/B.class": E, f"{DIR}/c/x.jar": E, f"{DIR}/c/y.jar": E},
    ),
    ("<input type=IMAGE src=x><input src=y>", {f"{DIR}/x": E}),
    ("<body background=x><table background=y><tr><td background=z>", {f"{DIR}/{name}": E for name in "xyz"}),
    ("<meta http-equiv=Refresh content='5; URL=x'>", {f"{DIR}/x": R}),
    ("<meta http-equiv=refresh content=\"0;url='x'\">", {f"{DIR}/x": R}),
    ("<meta http-equiv=refresh content=30>", {}),
    ("<meta property=og:image content=x><meta name=twitter:image content=y>", {f"{DIR}/x": E, f"{DIR}/y": E}),
    ("<meta property=og:url content=x><meta name=description content=y.html>", {f"{DIR}/x": L}),
    ("<p style='background: url(x)'>", {f"{DIR}/x": E}),
    ("<style>@import 'x'; p { background: url(y) }</style>", {f"{DIR}/x": E, f"{DIR}/y": E}),
    ("<script>var a = '/x.html', b = 'https://other.org/y'</script>", {f"{SITE}/x.html": X, "https://other.org/y": X}),
    ("<script>image.src = 'x.png'</script><p onclick=\"image.src = 'y.png'\">", {f"{DIR}/x.png": X, f"{DIR}/y.png": X}),
    ("<script type=module>import { a } from './x.js'</script>", {f"{DIR}/x.js": E}),
    ("<svg><image href=x /><use xlink:href=y#part /><a xlink:href=z>", {f"{DIR}/x": E, f"{DIR}/y": E, f"{DIR}/z": L}),
    ("<img data-src=x data-srcset='y 1x, z 2x'><div data-src=w data-bg=v>", {f"{DIR}/{name}": X for name in "xyzwv"}),
    ("<button onclick=\"location.href='/x.php'\">", {f"{SITE}/x.php": X}),
    ("<noscript><img src=x></noscript>", {f"{DIR}/x": E}),
    ("<template><a href=x></template><p><template shadowrootmode=open><a href=y>", {f"{DIR}/x": L, f"{DIR}/y": L}),
]


@pytest.mark.parametrize(("markup", "links"), ELEMENTS, ids=[markup[:40] for markup, _ in ELEMENTS])
def test_an_element_gives_its_links(markup: str, links: dict[str, str]) -> None:
    assert found(f"<!doctype html>{markup}") == links


@pytest.mark.parametrize(
    "markup",
    [
        "<a href='#top'>",
        "<a href=''>",
        "<a href=page.html>",
        "<a href='javascript:x()'>",
        "<a href='java\nscript:x()'>",
        "<a href='MAILTO:a@b.c'>",
        "<a href='data:text/html,x'><img src=' data:image/png,'>",
        "<a href='ftp://example.com/x'>",
        "<a href='http://[bad'>",
        "<a href='http://'>",
        "<!-- <a href=x> -->",
        "<title><a href=x></title>",
        "<textarea><a href=x></textarea>",
        "<p title='<a href=x>'>",
    ],
)
def test_what_is_no_link(markup: str) -> None:
    assert found(markup) == {}


@pytest.mark.parametrize(
    ("base", "links"),
    [
        ("<base href=/b/>", {f"{SITE}/b/x": L}),
        ("<base target=t><base href=//other.org/b/c><base href=/no/>", {"http://other.org/b/x": L}),
        ("<a href=y><base href=/b/>", {f"{SITE}/b/y": L, f"{SITE}/b/x": L}),
        ("<base href='data:text/plain,'>", {f"{DIR}/x": L}),
        ("<base href='http://[bad'>", {f"{DIR}/x": L}),
        ("<base href=''>", {f"{DIR}/x": L}),
    ],
)
def test_the_first_base_counts_for_all(base: str, links: dict[str, str]) -> None:
    assert found(f"{base}<a href=x>") == links


@pytest.mark.parametrize(
    ("form", "links"),
    [
        ("<form action='f?old#x'><input name=q><input type=hidden name=l value='a b'>", {f"{DIR}/f?q=&l=a+b": F}),
        (
            "<form action=f><select name=s><option>1<option selected>2</select><textarea name=t>\nx",
            {f"{DIR}/f?s=2&t=x": F},
        ),
        ("<form action=f><input type=checkbox name=c><input type=checkbox name=d checked>", {f"{DIR}/f?d=on": F}),
        ("<form method=GET action=f><input type=submit name=go value=Go>", {f"{DIR}/f?": F}),
        ("<form><input name=q value=1>", {f"{URL}?q=1": F}),
        ("<form><input name=q>", {}),
        ("<form method=post action=f><input name=q>", {}),
        ("<form action=f><input type=PASSWORD name=p>", {}),
        ("<form action=f>" + "<input name=q value=1>" * 65, {}),
        ("<form action=f><input name=q value=" + "x" * 2048 + ">", {}),
        ("<form action=f><input name=q value=é>", {f"{DIR}/f?q=%C3%A9": F}),
    ],
)
def test_a_form_is_sent_as_it_comes(form: str, links: dict[str, str]) -> None:
    assert found(form) == links


def test_the_strongest_hop_wins() -> None:
    assert found("<script>x = '/x.png'</script><a href=/x.png></a><img src=/x.png>") == {f"{SITE}/x.png": E}
    assert found("<script>x = '/x.png'</script><a href=/x.png>") == {f"{SITE}/x.png": L}


def test_the_strongest_come_first_then_in_order() -> None:
    assert [*found("<a href=b><img src=c><a href=a><a href=b#x>")] == [f"{DIR}/c", f"{DIR}/b", f"{DIR}/a"]


@pytest.mark.parametrize(
    ("content_type", "content", "is_page"),
    [
        ("application/xhtml+xml", "<a href='x'/>", True),
        ("", "<!doctype html><a href=x>", True),
        ("", "words <a href=x>", False),
        ("application/xml", "<html xmlns='http://www.w3.org/1999/xhtml'><a href='x'/></html>", True),
        ("application/xml", "<rss><a href='x'/></rss>", False),
        ("image/svg+xml", "<svg><a href='x'/></svg>", True),
        ("text/plain", "<a href=x>", False),
        ("image/png", "<a href=x>", False),
    ],
)
def test_only_pages_are_read_as_pages(content_type: str, content: str, is_page: bool) -> None:
    assert found(content, content_type) == ({f"{DIR}/x": L} if is_page else {})


def test_the_style_sheet_of_an_xml_document() -> None:
    assert found('<?xml-stylesheet type="text/css" href="x.css"?><svg/>', "image/svg+xml") == {f"{DIR}/x.css": E}
