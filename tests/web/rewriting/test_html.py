"""Elements of pages (W17): what is rewritten, with which modifier, and what is left alone."""

from __future__ import annotations

import pytest
from rewriting_scene import SCENE, at, page, rewritten

HOST = "https://example.com"
PAGE, FRAME, IMAGE, SCRIPT, SHEET, OBJECT = (
    at(modifier) + HOST for modifier in ("mp_", "if_", "im_", "js_", "cs_", "oe_")
)

ELEMENTS = {
    '<a href="/x">': f'<a href="{PAGE}/x">',
    "<a href=/x>": f"<a href={PAGE}/x>",
    "<a href='/x'>": f"<a href='{PAGE}/x'>",
    "<A HREF = '/X' id=1>": f"<A HREF = '{PAGE}/X' id=1>",
    '<a/href="/x"/>': f'<a/href="{PAGE}/x"/>',
    '<a title=">" href="/x">': f'<a title=">" href="{PAGE}/x">',
    '<a title="x"href="/x">': f'<a title="x"href="{PAGE}/x">',
    '<a href="/x" href="/y">': f'<a href="{PAGE}/x" href="/y">',
    '<a href="/x?a=1&amp;copy=2&lt=3">': f'<a href="{PAGE}/x?a=1&amp;copy=2&lt=3">',
    '<a href="&#x2F;x">': f'<a href="{PAGE}&#x2F;x">',
    '<a href="&#47&sol;x.org/">': f'<a href="{at("mp_")}https:&#47&sol;x.org/">',
    '<a href="&#104;ttp://x.org/a">': f'<a href="{at("mp_")}&#104;ttp://x.org/a">',
    '<a href="http&colon;//x.org/a">': f'<a href="{at("mp_")}http&colon;//x.org/a">',
    '<a href="\n/x\t">': f'<a href="{PAGE}/x">',
    '<a href=" http://x.org/&quot;">': f'<a href="{at("mp_")}http://x.org/&quot;">',
    '<a href="http://x.org">': f'<a href="{at("mp_")}http://x.org/">',
    '<a href="https://x.org/a/../b">': f'<a href="{at("mp_")}https://x.org/b">',
    '<a href="/x" target="_blank" ping="/p">': f'<a href="{PAGE}/x" target="_self" data-hf-ping="/p">',
    "<a href=x target=_top>": '<a href=x target="_self">',
    '<a href=x target="content">': '<a href=x target="content">',
    '<area href="/x">': f'<area href="{PAGE}/x">',
    "<p onclick='location=1'>": "<p onclick='__hf_location=1'>",
    '<a href="javascript:go(top.x)" ONCLICK="return a.location">': (
        '<a href="javascript:go(__hf_top.x)" ONCLICK="return __hf_of(a).location">'
    ),
    '<link rel="stylesheet" href="/x" integrity="sha384-x">': (
        f'<link rel="stylesheet" href="{SHEET}/x" data-hf-integrity="sha384-x">'
    ),
    '<link href="/x" rel="Alternate StyleSheet">': f'<link href="{SHEET}/x" rel="Alternate StyleSheet">',
    '<link rel="shortcut icon" href="/x">': f'<link rel="shortcut icon" href="{IMAGE}/x">',
    "<link rel=preload as=font href=/x crossorigin>": f"<link rel=preload as=font href={IMAGE}/x crossorigin>",
    "<link rel=preload as=script href=/x>": f"<link rel=preload as=script href={SCRIPT}/x>",
    "<link rel=modulepreload href=/x>": f"<link rel=modulepreload href={SCRIPT}/x>",
    "<link rel=prefetch href=/x>": f"<link rel=prefetch href={PAGE}/x>",
    "<link rel=manifest href=/x>": f"<link rel=manifest href={PAGE}/x>",
    '<link rel="preconnect" href="https://x.org">': '<link rel="preconnect" data-hf-href="https://x.org">',
    "<link rel=dns-prefetch href=//x.org>": "<link rel=dns-prefetch data-hf-href=//x.org>",
    '<link rel=preload as=image imagesrcset="/a 1x, b 2x">': (
        f'<link rel=preload as=image imagesrcset="{IMAGE}/a 1x, b 2x">'
    ),
    '<script src="/x" integrity=y></script>': f'<script src="{SCRIPT}/x" data-hf-integrity=y></script>',
    '<script type=module src="//x.org/m.js"></script>': (
        f'<script type=module src="{at("js_")}https://x.org/m.js"></script>'
    ),
    '<img src="/x" srcset="/a 1x,/b,2 2x, c">': f'<img src="{IMAGE}/x" srcset="{IMAGE}/a 1x,{IMAGE}/b,2 2x, c">',
    '<script type="module" src="m.js"></script>': f'<script type="module" src="{SCRIPT}/dir/m.js"></script>',
    "<script type=module src=./m.js></script>": f'<script type=module src="{SCRIPT}/dir/m.js"></script>',
    "<link rel=modulepreload href=m.js>": f"<link rel=modulepreload href={SCRIPT}/dir/m.js>",
    '<script type=module>import "./m.js";import(a)</script>': (
        f'<script type=module>import "{SCRIPT}/dir/m.js";import(__hf_from(a))</script>'
    ),
    '<iframe sandbox="allow-scripts" src=x>': '<iframe sandbox="allow-scripts allow-same-origin" data-hf-boxed src=x>',
    "<iframe sandbox>": '<iframe sandbox="allow-same-origin" data-hf-boxed>',
    '<iframe sandbox="allow-same-origin">': '<iframe sandbox="allow-same-origin">',
    '<param name=movie value="/f.swf"><param name=x value="/y">': (
        f'<param name=movie value="{OBJECT}/f.swf"><param name=x value="/y">'
    ),
    '<img src="/x" data-src="/y" alt="/z">': f'<img src="{IMAGE}/x" data-src="/y" alt="/z">',
    '<source srcset="/a" type=image/webp>': f'<source srcset="{IMAGE}/a" type=image/webp>',
    '<video src="/v" poster="/p">': f'<video src="{IMAGE}/v" poster="{IMAGE}/p">',
    '<audio src="/v">': f'<audio src="{IMAGE}/v">',
    '<track src="/v">': f'<track src="{IMAGE}/v">',
    '<embed src="/e">': f'<embed src="{OBJECT}/e">',
    '<object data="/e">': f'<object data="{OBJECT}/e">',
    '<iframe src="/f"></iframe>': f'<iframe src="{FRAME}/f"></iframe>',
    '<frame src="/f">': f'<frame src="{at("fr_")}{HOST}/f">',
    '<input type=image src="/i" formaction="/f" formtarget=_blank>': (
        f'<input type=image src="{IMAGE}/i" formaction="{PAGE}/f" formtarget="_self">'
    ),
    '<form action="/f" target=_parent>': f'<form action="{PAGE}/f" target="_self">',
    '<svg><image xlink:href="/i"/><use href="/s#a"/><a xlink:href="/p">': (
        f'<svg><image xlink:href="{IMAGE}/i"/><use href="{IMAGE}/s#a"/><a xlink:href="{PAGE}/p">'
    ),
    '<body background="/b"><td BACKGROUND=/b>': f'<body background="{IMAGE}/b"><td BACKGROUND={IMAGE}/b>',
    '<p style="background:url(/b)">': f'<p style="background:url({IMAGE}/b)">',
    "<p style=\"background:url(&quot;/b&quot;);x:'&amp;'\">": (
        f'<p style="background:url(&quot;{IMAGE}/b&quot;);x:&#39;&amp;&#39;">'
    ),
    "<style>@import '/a';</style>": f"<style>@import '{SHEET}/a';</style>",
    '<meta http-equiv="Refresh" content="0; URL=\'/x\'">': (
        f'<meta http-equiv="Refresh" content="0; URL=&#39;{PAGE}/x&#39;">'
    ),
    "<meta http-equiv=refresh content=5;/x>": f'<meta http-equiv=refresh content="5;{PAGE}/x">',
    '<meta http-equiv="Content-Security-Policy" content="x">': (
        '<meta data-hf-http-equiv="Content-Security-Policy" content="x">'
    ),
    '<script type="speculationrules">{"prefetch":[]}</script>': (
        '<script type="hf-speculationrules">{"prefetch":[]}</script>'
    ),
    '<script type="importmap">{"imports": {"a": "/a.js", "b": "./b.js"}, "integrity": {}}</script>': (
        f'<script type="importmap">{{"imports": {{"a": "{SCRIPT}/a.js", "b": "{SCRIPT}/dir/b.js"}}}}</script>'
    ),
    '<script type="application/ld+json">{"@id": "/x", "a": "location"}</script>': (
        '<script type="application/ld+json">{"@id": "/x", "a": "location"}</script>'
    ),
    '<script>import("/x.js")</script>': None,
}
LEFT_ALONE = [
    '<a href="x/y.html#z">',
    '<a href="../y">',
    '<a href="?a=/b">',
    '<a href="#/b">',
    '<a href="mailto:x@y.z">',
    "<a href=\"javascript:go('/x')\">",
    '<a href="html/http">',
    "<a href>",
    '<a href="">',
    '<img src="data:image/gif;base64,R0/">',
    '<div data-href="/x" title="http://x.org/">',
    '<meta property="og:image" content="http://x.org/">',
    "<!-- <a href=/x> -->",
    "<!--><p><!--->",
    "<!-- --!><!-- a -- b - ->-->",
    "<!doctype html public '-//W3C//DTD'>",
    "<?php <a href=/x ?>",
    "<![CDATA[ <a href=/x ]]>",
    "<title><a href=/x></title>",
    "<textarea><a href=/x></textarea>",
    "<xmp><img src=/x></xmp>",
    "<noembed><img src=/x></noembed>",
    "<iframe><img src=/x></iframe>",
    "<script>var a = '<a href=/x>';</script>",
    "<script><!-- <script> '</script>' <a href=/x> --></script>",
    "</a href=/x>",
    "</ a href=/x>",
    "a < b <3 <=",
    "<p title='<a href=/x>'>",
    '<p title="<a href=/x>"',
    "<plaintext><a href=/x>",
    '<div href="/x" src="/y" action="/z">',
    "<button onclick=\"go('/x')\">",
    '<a href="javascript:void(0)" onclick="a(&quot;location&quot;)">',
    f'<a href="{PAGE}/x">',
    f"<img src={IMAGE}/x>",
]


@pytest.mark.parametrize(("markup", "wanted"), [pair for pair in ELEMENTS.items() if pair[1]])
def test_what_an_element_refers_to_is_in_the_archive(markup: str, wanted: str) -> None:
    assert rewritten(markup) == wanted
    assert rewritten(f"<p>x{markup}y") == f"<p>x{wanted}y"


@pytest.mark.parametrize("markup", LEFT_ALONE)
def test_what_needs_nothing_keeps_every_byte(markup: str) -> None:
    assert rewritten(markup) == markup


@pytest.mark.parametrize(("markup", "wanted"), [pair for pair in ELEMENTS.items() if pair[1]])
def test_rewriting_twice_is_rewriting_once(markup: str, wanted: str) -> None:
    if "data-hf-" not in wanted:
        assert rewritten(wanted) == wanted


def test_what_follows_the_base_is_relative_to_it() -> None:
    markup = (
        '<img src="/a"><base href="//cdn.org/v1/"><base href="/no/"><img src="/b"><img src="../c"><img src="../../d">'
    )
    assert rewritten(markup) == (
        f'<img src="{IMAGE}/a"><base href="{at("mp_")}https://cdn.org/v1/"><base href="/no/">'
        f'<img src="{at("im_")}https://cdn.org/b"><img src="../c"><img src="{at("im_")}https://cdn.org/d">'
    )


def test_a_base_without_a_path_gets_one() -> None:
    assert rewritten('<base href="http://cdn.org">') == f'<base href="{at("mp_")}http://cdn.org/">'


def test_scripts_in_the_page_go_through_the_rewriter_of_scripts() -> None:
    assert f'"{SCRIPT}/x.js"' in rewritten('<script type="module">import a from "/x.js"</script>')
    assert rewritten("<script>1</script>") == "<script>1</script>"


def test_markup_behind_raw_text_is_read_again() -> None:
    for name in ("script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes"):
        markup = f"<{name}><b></{name}x></{name.upper()} ><a href='/x'>"
        assert rewritten(markup) == markup.replace("/x'", f"{PAGE}/x'"), name


def test_a_page_within_a_page_is_rewritten_with_its_own_head() -> None:
    done = page(b"<iframe srcdoc=\"<p>&amp;amp;</p><a href='/x'>\"></iframe>", head=b"<i>").decode()
    assert (
        done == f'<i><iframe srcdoc="&lt;i&gt;&lt;p&gt;&amp;amp;&lt;/p&gt;&lt;a href=&#39;{PAGE}/x&#39;&gt;"></iframe>'
    )


def test_sections_of_character_data_count_in_drawings_only() -> None:
    section = "<![CDATA[ > <a href='/x'> ]]>"
    done = section.replace("/x", f"{PAGE}/x")
    assert rewritten(f"<svg>{section}</svg>{section}<math>{section}") == f"<svg>{section}</svg>{done}<math>{section}"


def test_xml_closes_what_html_does_not() -> None:
    markup = '<?xml version="1.0"?><html><head/><body><script src="/x"/><a href="/y?a&amp;b"/><![CDATA[<a href="/x">]]>'
    wanted = markup.replace("<head/>", "<head></head>").replace('/x"/>', f'{SCRIPT}/x"/>')
    assert rewritten(markup, is_xml=True) == wanted.replace("/y?", f"{PAGE}/y?").replace(f'{SCRIPT}/x">]]', '/x">]]')


def test_a_host_of_odd_letters_cannot_break_out_of_a_value() -> None:
    from dataclasses import replace

    odd = replace(SCENE, url="http://a\"b'c&lt/")
    assert '"' not in rewritten("<a href=/x>", scene=odd)
    assert rewritten("<img src='/x'>", scene=odd).count("'") == 2
