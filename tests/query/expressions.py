"""Queries by chance: texts and trees, for tests of the language and of its answers."""

from __future__ import annotations

from hypothesis import strategies as st

from holdfast.query.language.fields import COMPARED, MATCHES, SIGNS
from holdfast.query.language.lexer import has_word, is_bare_value, is_bare_word
from holdfast.query.language.parser import PREFIX_MIN
from holdfast.query.language.syntax import (
    Compare,
    Everything,
    Expression,
    Match,
    Phrase,
    Prefix,
    Words,
    conjunction,
    disjunction,
    negation,
)

_HOSTS = st.sampled_from(
    ["example.com", "a.b.example.org", "localhost", "127.0.0.1", "xn--mnchen-3ya.de", "edu", "::1", "www.com"]
)
_URLS = st.sampled_from(
    [
        "http://www-db.stanford.edu/",
        "https://en.wikipedia.org/wiki/Foo_(bar)",
        "http://example.com:8080/a?b=(c",
        "example.com/a?b=(c",
        'http://example.com/a b"c',
        "http://example.com/)",
        "\\\\server\\share",
    ]
)
_VALUES = {
    "site": _HOSTS,
    "domain": _HOSTS,
    "type": st.sampled_from(["text/html", "image", "pdf", "application/rss+xml"]),
    "lang": st.sampled_from(["en", "de", "-"]),
    "from": st.sampled_from(["2", "2020", "202011", "20201130235959"]),
    "to": st.sampled_from(["1999", "20200229"]),
    "url": _URLS,
    "page-id": st.sampled_from(["05d8a9b2c4e1f730", "ffffffffffffffff"]),
    "links-to": _URLS,
    "linked-from": _URLS,
    "collection": st.sampled_from(["main", "a-b.c"]),
    "batch": st.sampled_from(["202611", "crawl_1"]),
}
assert set(_VALUES) == set(MATCHES)

texts = st.text(min_size=1, max_size=30).filter(has_word).map(lambda text: " ".join(text.split()))
fields = st.sampled_from(["", "title"])
phrases = st.builds(Phrase, fields, texts | st.sampled_from(["OR", "not", "-a", "a:b", "size>1", "a*", "*a"]))
_bare = texts.filter(lambda text: is_bare_word(text) and is_bare_value(text) and not text.endswith("*"))
_beginnings = _bare.filter(lambda text: text[-1].isalnum() and sum(map(str.isalnum, text)) >= PREFIX_MIN)
words = phrases | st.builds(Words, fields, _bare) | st.builds(Prefix, fields, _beginnings)
matches = st.one_of(*(st.builds(Match, st.just(name), values) for name, values in _VALUES.items()))
_whole = st.integers(0, 10**15 - 1) | st.integers(0, 5000).map(lambda count: count << 10)
compares = st.builds(
    Compare, st.sampled_from([name for name in COMPARED if name != "rank"]), st.sampled_from(SIGNS), _whole
) | st.builds(
    Compare, st.just("rank"), st.sampled_from(SIGNS), st.integers(0, 10**12).map(lambda parts: round(parts / 10**6, 6))
)
terms = st.one_of(words, matches, compares)


def _grown(parts: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(parts, min_size=1, max_size=4)
    return several.map(conjunction) | several.map(disjunction) | parts.map(negation)


expressions: st.SearchStrategy[Expression] = st.recursive(terms | st.just(Everything()), _grown, max_leaves=12)
