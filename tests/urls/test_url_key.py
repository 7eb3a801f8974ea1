"""Keys against tables, against the package whose keys the world uses, and by their laws (I2)."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from url_samples import sample

from holdfast.urls import canonical, host_key, parse, url_key

SESSION = "0123456789abcdef0123456789abcdef"
ASP = "4hqa0555fwsecu455xqckv45"

KEYS = {
    "http://www.Example.com/": "com,example)/",
    "http://www2.example.com:80/Path/Index.HTML?B=2&a=1&&c": "com,example)/path/index.html?&a=1&b=2&c",
    "https://www.example.com:443/a/": "com,example)/a",
    "https://example.com:80/a": "com,example:80)/a",
    "http://127.0.0.1:43813/pages/1f/31.html?b&a": "1,0,0,127:43813)/pages/1f/31.html?a&b",
    "http://10.2.3.4/a/": "4,3,2,10)/a",
    "http://user:pw@example.com:8080": "com,example:8080)/",
    "http://example.com/a//../b/./c//": "com,example)/a/b/c",
    "http://example.com/a%2f..%2fb": "com,example)/b",
    "http://example.com/%7Efoo/%41%2f%3F%23%25": "com,example)/~foo/a/?%23%25",
    "http://example.com/%e9%C3%89/É x": "com,example)/%e9%c3%89/%c3%89%20x",
    "http://example.com/?b=%2525&a-b=1&a=2&a&b=c%26_": "com,example)/?_&a&a=2&a-b=1&b=%25&b=c",
    "http://example.com/?a=b=c&a=b-c": "com,example)/?a=b-c&a=b=c",
    "http://example.com/?": "com,example)/",
    f"http://example.com/x?jsessionid={SESSION}&a=1": "com,example)/x?a=1",
    f"http://example.com/x?a=1&PHPSESSID={SESSION}": "com,example)/x?&a=1",
    f"http://example.com/x?sid={SESSION}&sid={SESSION}": f"com,example)/x?&sid={SESSION}",
    f"http://example.com/x?sid={SESSION}0": f"com,example)/x?sid={SESSION}0",
    "http://example.com/x?ASPSESSIONIDABCDEFGH=ABCDEFGHIJKLMNOPQRSTUVWX&a=1": "com,example)/x?a=1",
    "http://example.com/x?b=1&cfid=123&cftoken=4567&a=b": "com,example)/x?a=b&b=1",
    f"http://example.com/x;jsessionid={SESSION}": f"com,example)/x;jsessionid={SESSION}",
    f"http://example.com/(S({ASP}))/({ASP})/m.aspx?p": "com,example)/m.aspx?p",
    f"http://example.com/({ASP})/m.html": f"com,example)/({ASP})/m.html",
    "http://127.0.0.1:8080/a": "1,0,0,127:8080)/a",
    "http://3279880203/blah": "11,0,127,195)/blah",
    "http://[2001:DB8::1]:8080/a": "2001:db8::1:8080)/a",
    "http://www.bücher.de/straße?ö": "de,xn--bcher-kva)/stra%c3%9fe?%c3%b6",
    "http://.example..com./": "com,example)/",
    "http://www.com/": "com)/",
    "http://www/": "www)/",
    "http://www12x.foo.com/": "com,foo,www12x)/",
    "http://ex ample.com/": "com,ex%20ample)/",
    "http://foo.com%3a90/": "com:90,foo)/",
    "http://999.1.1.1:80/": "1,1,1,999)/",
    "example.com/Path": "com,example)/path",
    "//example.com/a": "com,example)/a",
    "localhost:8080/": "localhost:8080",
    "dns:www.Example.com": "dns:www.example.com",
    "urn:X-wpull:log": "urn:x-wpull:log",
    "urn:uuid:Ab c/": "urn:uuid:ab%20c",
    "metadata://gnu.org/software/wget/warc/MANIFEST.txt": "org,gnu)/software/wget/warc/manifest.txt",
    "warcinfo:/foo.warc.gz/archive-commons.0.0.1": "warcinfo:/foo.warc.gz/archive-commons.0.0.1",
    "screenshot:http://www.foo.com/?b=1&a=2#frag": "screenshot:http://www.foo.com?a=2&b=1",
    "urn:view:http://www.foo.com/A?b=1&a=2": "urn:view:http://www.foo.com/a?a=2&b=1",
    "filedesc://Foo.arc.gz": "filedesc://Foo.arc.gz",
    "ftp://www.example.com:21/a/": "com,example:21)/a",
    "whois://whois.arin.net/foo": "net,arin,whois)/foo",
    "data:text/html,<a b>": "data:text/html,<a%20b>",
    "file:///etc/Passwd": "file:/etc/passwd",
    "": "-",
}

# Odd URLs, where a URL and its canonical form having one key matters more: ours, and that of the other tools.
DIFFERENT = {
    "http://example.com/../a": ("com,example)/a", "com,example)/../a"),
    "http://example.com/a\\b": ("com,example)/a/b", "com,example)/a\\b"),
    "http://0x7f.1/": ("1,0,0,127)/", "1,0x7f)/"),
    "http://faß.de/": ("de,xn--fa-hia)/", "de,fass)/"),
    "http://[::ffff:1.2.3.4]/": ("::ffff:102:304)/", "4,3,2,::ffff:1)/"),
    "filedesc:a b": ("filedesc:a%20b", "filedesc:a b"),
    "urn:?b&a": ("urn:?a&b", "urn:/?a&b"),
}

HOST = st.from_regex(r"(www[0-9]?\.)?[a-z][a-z0-9-]{0,5}[a-z](\.[A-Z]?[a-z]{2,4}){0,2}(:80|:8080)?", fullmatch=True)
PATH = st.from_regex(r"(/([A-Za-z0-9._~!$'()*+,;=:@ é-]|%[2-7][0-9A-F]|%C3%A9){0,6}){0,4}", fullmatch=True)
QUERY = st.from_regex(r"(\?([a-cA-C0-9=&+;/?-]|%[2-7][0-9A-F]|é| ){0,20}(&sid=[0-9a-f]{31,32})?)?", fullmatch=True)
URLS = st.builds(
    "{}://{}{}{}{}".format, st.sampled_from(["http", "https"]), HOST, PATH, QUERY, st.just("") | st.just("#x")
)


@pytest.mark.parametrize(("url", "key"), KEYS.items())
def test_keys(url: str, key: str) -> None:
    assert url_key(url) == key


@pytest.mark.parametrize(("url", "keys"), DIFFERENT.items())
def test_keys_of_odd_urls(url: str, keys: tuple[str, str]) -> None:
    assert url_key(url) == keys[0]


@pytest.mark.parametrize("url", [*KEYS, *DIFFERENT])
def test_the_tables_above_are_what_others_compute(url: str) -> None:
    surt = pytest.importorskip("surt", reason="the package surt is not installed")
    assert surt.surt(url) == (KEYS[url] if url in KEYS else DIFFERENT[url][1])


@given(URLS)
def test_ordinary_urls_have_the_keys_that_others_compute(url: str) -> None:
    surt = pytest.importorskip("surt", reason="the package surt is not installed")
    theirs = surt.surt(url)
    if "/.." not in theirs.partition("?")[0]:  # see DIFFERENT
        assert url_key(url) == theirs


# -- tables of urlcanon ------------------------------------------------------------------------------------------------
# `unescapeRepeatedly`, `alphaRorderQuery`, `massageHost` and `stripPathSessionId` test parts of a key: they are put in
# a URL. `google` and `googleSupplementalFromSurt` test a form that keeps `www`, `?` and capitals, and `Canonicalizer.*`
# forms that keep the scheme: both sides are keyed, so that what they hold to be the same must have one key.

PARTS = {
    "unescapeRepeatedly": "http://host/{}",
    "alphaRorderQuery": "http://host/?{}",
    "massageHost": "http://{}/",
    "stripPathSessionId": "http://host{}",
}
SAME = ["Canonicalizer.DefaultIA", "Canonicalizer.IA", "google", "googleSupplementalFromSurt"]
# Bytes that are not UTF-8, which the table writes as characters: no text, so no key can know them.
NO_TEXT = {"http://\x01\x80.com/", "â\x98\x83.com"}


def section(name: str) -> dict[str, str]:
    table: dict[str, dict[str, str]] = json.loads(sample("urls/urlcanon/surt.json").read_text())
    return table[name]


def test_keys_of_the_table_of_surts() -> None:
    assert {url: url_key(url) for url in section("defaultIASurt")} == section("defaultIASurt")


@pytest.mark.parametrize("name", SAME)
def test_urls_that_are_the_same_have_one_key(name: str) -> None:
    assert [url for url, same in section(name).items() if url_key(url) != url_key(same) and url not in NO_TEXT] == []


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_keys(name: str) -> None:
    form = PARTS[name]
    assert [
        part for part, same in section(name).items() if url_key(form.format(part)) != url_key(form.format(same))
    ] == []


# -- laws --------------------------------------------------------------------------------------------------------------


@given(st.text(st.characters()) | st.text(st.characters()).map("http://{}".format) | st.text().map("x:{}".format))
@example("http://\ud800/")
@example("x://h:٣/")
@example("http://a b:٣/")
def test_any_text_has_a_key_of_visible_ascii(url: str) -> None:
    assert re.fullmatch(r"[!-~]+", url_key(url))


@given(URLS | st.text().map("http://{}".format) | st.text().map("https://example.com/{}".format))
def test_a_url_and_its_canonical_form_have_one_key(url: str) -> None:
    if parse(url):
        assert url_key(canonical(url)) == url_key(url)


@given(URLS)
def test_keys_of_a_host_begin_with_its_own(url: str) -> None:
    parsed = parse(url)
    assert parsed is not None
    assert re.match(rf"{re.escape(host_key(parsed.host))}(:\d+)?\)/", url_key(url))


@pytest.mark.parametrize(
    ("host", "key"),
    [("www.Example.com.", "com,example"), ("Bücher.de", "de,xn--bcher-kva"), ("[::1]", "::1"), ("", "")],
)
def test_host_key(host: str, key: str) -> None:
    assert host_key(host) == key


@pytest.mark.parametrize(
    "text",
    ["%25" * 9, "%" + "25" * 50_000, "%" * 50_000 + "3" * 50_000, "cfid=" * 20_000, f"({ASP})/" * 4000, "/." * 50_000],
)
def test_hostile_urls_take_no_long_time(text: str) -> None:
    """No pattern may run for minutes; the run's own time limit would tell."""
    for url in (f"http://h/x.aspx/{text}", f"http://h/?{text}", f"x:{text}", f"http://{text}/"):
        assert re.fullmatch(r"[!-~]+", url_key(url))
