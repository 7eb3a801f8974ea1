"""The language: what is written is understood, printed back, and understood the same again; what is wrong is told."""

from __future__ import annotations

import re

import pytest
from expressions import expressions
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import MalformedQuery
from holdfast.query.language.fields import ALIASES, NAMES, SIGNS
from holdfast.query.language.lexer import CHARACTERS_MAX
from holdfast.query.language.parser import DEPTH_MAX, TERMS_MAX, parse
from holdfast.query.language.syntax import (
    And,
    Compare,
    Everything,
    Expression,
    Match,
    Not,
    Or,
    Phrase,
    Prefix,
    Words,
    canonical,
    quoted,
    terms,
)

A, B, C = Words("", "a"), Words("", "b"), Words("", "c")


@pytest.mark.parametrize(
    ("text", "expected", "printed"),
    [
        ("", Everything(), "*"),
        ("  ", Everything(), "*"),
        ("*", Everything(), "*"),
        ("* a", A, "a"),
        ("a", A, "a"),
        ('"a"', Phrase("", "a"), '"a"'),
        ("holdfa*", Prefix("", "holdfa"), "holdfa*"),
        ("title:holdfa**", Prefix("title", "holdfa"), "title:holdfa*"),
        ('"holdfa*"', Phrase("", "holdfa*"), '"holdfa*"'),
        ("or* Not**", And((Prefix("", "or"), Prefix("", "Not"))), "or* Not*"),  # no operators
        ("*fast", Phrase("", "*fast"), '"*fast"'),
        ("a  b", And((A, B)), "a b"),
        ('"a  b"', Phrase("", "a b"), '"a b"'),
        ("“a b”", Phrase("", "a b"), '"a b"'),
        ("a AND b and c", And((A, B, C)), "a b c"),
        ("a or b", Or((A, B)), "a OR b"),
        ("a b OR c", Or((And((A, B)), C)), "(a b) OR c"),
        ("a (b OR c)", And((A, Or((B, C)))), "a (b OR c)"),
        ("(a b) c", And((A, B, C)), "a b c"),
        ("a -b", And((A, Not(B))), "a -b"),
        ("a NOT b", And((A, Not(B))), "a -b"),
        ("not not a", A, "a"),
        ("--a", A, "a"),
        ("-(a b)", Not(And((A, B))), "-(a b)"),
        ('"or"', Phrase("", "or"), '"or"'),
        ("a-b", Words("", "a-b"), "a-b"),
        ("a & b – c", And((A, B, C)), "a b c"),
        ("a - b", And((A, B)), "a b"),
        ("a -& b", And((A, B)), "a b"),
        ("a NOT & b", And((A, B)), "a b"),
        ("a AND NOT -& b", And((A, B)), "a b"),
        ("a NOT &", A, "a"),
        ("a -", A, "a"),
        ("Re: a", And((Phrase("", "Re:"), A)), '"Re:" a'),
        ("12:30", Words("", "12:30"), "12:30"),
        ("a<b", Phrase("", "a<b"), '"a<b"'),
        ("Title:A", Words("title", "A"), "title:A"),
        ('title:"a \\"b\\""', Phrase("title", 'a "b"'), 'title:"a \\"b\\""'),
        ("intitle:a", Words("title", "a"), "title:a"),
        ('title:="a"', Phrase("title", "a"), 'title:"a"'),
        ("title:=a", Words("title", "a"), "title:a"),
        ("title:==a", Phrase("title", "=a"), 'title:"=a"'),
        ("title:>a", Phrase("title", ">a"), 'title:">a"'),
        ("site:WWW.Example.COM", Match("site", "example.com"), "site:example.com"),
        ("site:https://www.example.com:8080/a", Match("site", "example.com"), "site:example.com"),
        ("site:www.www.com", Match("site", "www.com"), "site:www.www.com"),
        ("domain:www2.www.com", Match("domain", "www.com"), "domain:www.www.com"),
        ("host:münchen.de", Match("site", "xn--mnchen-3ya.de"), "site:xn--mnchen-3ya.de"),
        ("site:[::1]", Match("site", "::1"), "site:::1"),
        ("domain:*.example.com", Match("domain", "example.com"), "domain:example.com"),
        ("domain:.EDU", Match("domain", "edu"), "domain:edu"),
        ("type:Text/HTML;charset=utf-8", Match("type", "text/html"), "type:text/html"),
        ("type:image/", Match("type", "image"), "type:image"),
        ("lang:EN-us", Match("lang", "en"), "lang:en"),
        ("lang:unknown", Match("lang", "-"), "lang:-"),
        ("from:2020-01-02T03:04:05Z", Match("from", "20200102030405"), "from:20200102030405"),
        ("to:2020", Match("to", "2020"), "to:2020"),
        ("status:404", Compare("status", "=", 404), "status:404"),
        (
            "status:4xx",
            And((Compare("status", ">=", 400), Compare("status", "<=", 499))),
            "status>=400 status<=499",
        ),
        ("size>1.5m", Compare("size", ">", 3 << 19), "size>1536K"),
        ("size:>=10KiB", Compare("size", ">=", 10240), "size>=10K"),
        ("size>1023.9999T", Compare("size", ">", 1125899796891461), "size>1125899796891461"),
        ("size<8388607T", Compare("size", "<", 8388607 << 40), "size<8388607T"),
        ("size<9223372036854775807", Compare("size", "<", 2**63 - 1), "size<9223372036854775807"),
        ("size=0", Compare("size", "=", 0), "size:0"),
        ("rank>1.50", Compare("rank", ">", 1.5), "rank>1.5"),
        ("inlinks<=10", Compare("inlinks", "<=", 10), "inlinks<=10"),
        (
            "links-to:http://a.org/x_(y) b",
            And((Match("links-to", "http://a.org/x_(y)"), B)),
            "links-to:http://a.org/x_(y) b",
        ),
        ("links-to:a.org:8080", Match("links-to", "http://a.org:8080"), "links-to:http://a.org:8080"),
        ("url:Localhost:80/x", Match("url", "http://Localhost:80/x"), "url:http://Localhost:80/x"),
        ("linked-from:a.org", Match("linked-from", "a.org"), "linked-from:a.org"),
        ("(links-to:http://a.org/x)", Match("links-to", "http://a.org/x"), "links-to:http://a.org/x"),
        ('url:"http://a.org/x y"', Match("url", "http://a.org/x y"), 'url:"http://a.org/x y"'),
        ("collection:main batch:202611", And((Match("collection", "main"), Match("batch", "202611"))), None),
        ('"\\\\"a', None, None),
    ],
)
def test_a_query_is_understood_and_printed_back(text: str, expected: Expression | None, printed: str | None) -> None:
    if expected is None:
        with pytest.raises(MalformedQuery):
            parse(text)
        return
    found = parse(text)
    assert found == expected
    assert canonical(found) == (printed or text)


@given(expressions)
@settings(max_examples=300)
def test_the_canonical_form_means_the_same(expression: Expression) -> None:
    text = canonical(expression)
    assert parse(text) == expression
    assert canonical(parse(text)) == text


@given(
    st.sampled_from([*NAMES, *ALIASES]),
    st.sampled_from([":", ":=", *SIGNS]),
    st.text(alphabet=st.sampled_from("abWw0129.:/@%2eT[]-_*?#=") | st.characters(), min_size=1, max_size=24)
    | st.from_regex(r"(www\d?\.){0,3}[a-z.:0-9]{1,8}", fullmatch=True)
    | st.from_regex(r"[0-9]{1,20}(\.[0-9]{1,6})?[kKmMgGtT]?", fullmatch=True),
    st.booleans(),
)
@settings(max_examples=1000)
def test_any_value_of_a_field_is_printed_as_it_is_understood(name: str, sign: str, value: str, is_quoted: bool) -> None:
    try:
        found = parse(f"{name}{sign}{quoted(value) if is_quoted else value}")
    except MalformedQuery:
        return
    printed = canonical(found)
    assert parse(printed) == found
    assert canonical(parse(printed)) == printed


@given(st.text(alphabet=st.sampled_from('ab "\\():-*<>=&\t“”ORANDnot.19é漢') | st.characters(), max_size=60))
@settings(max_examples=500)
def test_any_text_is_understood_or_refused(text: str) -> None:
    try:
        found = parse(text)
    except MalformedQuery:
        return
    printed = canonical(found)
    assert parse(printed) == found
    assert canonical(parse(printed)) == printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("titel:a", "unknown field 'titel' at character 1: did you mean 'title'?"),
        ("a foo:bar", "unknown field 'foo' at character 3: known are title, site"),
        ("rnak>5", "unknown field 'rnak' at character 1: did you mean 'rank'?"),
        ("http://example.com/", "unknown field 'http' at character 1: to find a URL, say url:..."),
        ("title: a", "nothing behind 'title:' at character 1: put the value right behind it"),
        ('title:""', "nothing behind 'title:' at character 1"),
        ('a "b c', "quotation that does not end at character 3"),
        ("a (b", "a parenthesis is not closed at character 3"),
        ("a (", "a parenthesis is not closed at character 3"),
        ("a b)", "a parenthesis is closed that was not opened at character 4"),
        ("a ()", "nothing between two parentheses at character 3"),
        ("a OR", "nothing behind 'OR' at character 3: give what it connects"),
        ("OR a", "nothing before 'OR' at character 1"),
        ("and", "nothing before 'and' at character 1"),
        ("a AND OR b", "nothing behind 'AND' at character 3"),
        ("a NOT", "nothing behind 'NOT' at character 3"),
        ("(a OR )", "nothing behind 'OR' at character 4"),
        ("&&", "no word in '&&'"),
        ('"&"', "no word in '&' at character 1"),
        ("a*", "prefix 'a*' is too short at character 1: give at least 2 letters before the star"),
        ("b a.-*", "prefix 'a.-*' is too short at character 3"),
        ("from:yesterday", "'from' at character 1: bad time 'yesterday'"),
        ("from:202013", "13 is out of range"),
        ("size>big", "bad size 'big': give bytes such as 4096, 50K or 1.5M"),
        ("size>99999999T", "bad size '99999999T': give less than 8388608T"),
        ("size<8388608T", "bad size '8388608T': give less than 8388608T"),
        ("size>9223372036854775808", "give less than 8388608T"),
        ('title:>"a"', "no word in '>' at character 1"),
        ("title:=", "nothing behind 'title:=' at character 1"),
        ("rank>high", "bad rank 'high'"),
        ("rank>1e5", "bad rank '1e5'"),
        ("inlinks>1.5", "bad number '1.5' for 'inlinks'"),
        ("status:ok", "bad number 'ok' for 'status'"),
        ("lang:klingon", "bad language 'klingon'"),
        ("type:<b>", "bad type '<b>'"),
        ("collection:A", "bad name 'A'"),
        ("site:", "nothing behind 'site:'"),
        ("site:/", "bad host '/'"),
        ("a\ud800", "an invalid character at character 2"),
        ("x" * (CHARACTERS_MAX + 1), f"at most {CHARACTERS_MAX} are taken"),
        ("(" * 40 + "a" + ")" * 40, f"more than {DEPTH_MAX} parentheses or negations"),
        ("NOT " * 40 + "a", f"more than {DEPTH_MAX} parentheses or negations"),
        ("a " * (TERMS_MAX + 1), f"more than {TERMS_MAX} terms"),
    ],
)
def test_what_is_malformed_is_told_with_its_place(text: str, message: str) -> None:
    with pytest.raises(MalformedQuery, match=re.escape(message)):
        parse(text)


def test_terms_know_whether_they_are_wanted() -> None:
    found = list(terms(parse("a -(b -c) OR *")))
    assert found == [(A, True), (B, False), (C, True)]
