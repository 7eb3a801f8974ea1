"""Markup is read as browsers do (W17): held against a parser that follows the HTML Standard."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from rewriting_scene import SCENE, parts, rewritten

from holdfast.formats.html.text import parsed_page
from holdfast.web.rewrite.addresses import rewrite

PARTS = st.sampled_from(
    parts(
        "<¦>¦/¦=¦\"¦'¦ ¦\n¦x¦-¦!¦<a ¦<A\thref=¦href=¦href=\"¦href='¦/y¦&amp;¦//z.org/¦http://z.org¦&#47;¦"
        "<!--¦-->¦--!>¦<!-->¦<!doctype ¦<?¦</¦</a>¦<p title=¦<script>¦</script>¦<script ¦<style>¦</style>¦"
        '<title>¦</title ¦<textarea>¦</textarea>¦<a href=/q>¦<a class="c" href="/q">¦<img src=\'/i\'>¦'
        "<img src=/i ¦<xmp>¦</xmp>¦<a/href=/q/>¦<iframe>¦</iframe>¦<![CDATA[¦]]>¦é¦\x00¦<b>¦</b¦../../..¦"
        "<noembed>¦</noembed/>"
    )
)
MODIFIERS = {"a": ("href", "mp_"), "img": ("src", "im_")}


def references(page: str) -> list[tuple[str, str]]:
    tree = parsed_page(page.encode(), "utf-8")
    found = []
    for element in tree.iter_elements(list(MODIFIERS)):
        value = element.attr(MODIFIERS[element.tag][0])
        if value is not None:
            found.append((element.tag, value))
    return found


@settings(max_examples=300)
@given(st.lists(PARTS, max_size=25).map("".join))
def test_exactly_what_a_browser_takes_for_a_link_is_rewritten(page: str) -> None:
    before = references(page)
    wanted = [(tag, rewrite(value, SCENE, MODIFIERS[tag][1])) for tag, value in before]
    assert references(rewritten(page)) == wanted
