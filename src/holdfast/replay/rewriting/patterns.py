"""How markup is walked: one pattern that passes over everything that stays as it is, in C, and stops at what may not.

    <p class=x>text <a href="next.html">…</a> <!-- <a href=/x> --> <a href="/wiki/Oak" title="Oak">
    └───────────── passed over: nothing to rewrite ──────────────┘ └────────┬─┘ a mark: put the archive's address here

It follows the tokenizer of the HTML Standard: comments with all their endings, attributes quoted or not, slashes as
white space, `<` where no tag begins. It is matched against the markup in lower case, of which no byte moves.

A tag is passed over if no attribute of it can need rewriting, by name or because its value is plainly relative; links
and pictures with one plain URL are marked; for all else, and for a tag that has no end yet, the match stops at the `<`.

What is taken is never given back (`*+`), and no construct is tried twice, so time grows with the number of bytes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_DEPTH_MAX = 8  # of `../` that are counted in the pattern
_PATTERNS_CACHED = 512

_WS = rb"[\t\n\f\r ]"
_BETWEEN = rb"[\t\n\f\r /]*+"
_EQUALS = _WS + rb"*+=" + _WS + rb"*+"
_VALUE = rb"(?:" + _EQUALS + rb"""(?:"[^"]*+"|'[^']*+'|[^\t\n\f\r >"'][^\t\n\f\r >]*+|(?=>))|(?!""" + _WS + rb"*+=))"
_ANY_NAME = rb"[^\t\n\f\r />][^\t\n\f\r />=]*+"
_ANY_ATTRIBUTES = rb"(?:" + _BETWEEN + _ANY_NAME + _VALUE + rb")*+" + _BETWEEN

# Attributes that may have to be rewritten, whatever the element.
_TOLD_NAMES = (
    rb"(?:href|src(?:set|doc)?|style|target|action|data|background|poster|integrity|ping|xlink:href|imagesrcset"
    rb"|form(?:action|target)|http-equiv|lowsrc|dynsrc)[\t\n\f\r =/>]"
)
_FREE_NAME_START = rb"[cegjkmnoqruvwyz]"  # no such name begins with these: seen at once
_OTHER_NAME_START = rb"[^\t\n\f\r />cegjkmnoqruvwyz]"
# Elements that are always looked at: the content of most of them is not markup.
_TOLD_ELEMENTS = rb"(?:script|style|base|title|textarea|iframe|xmp|noembed|noframes|plaintext)[\t\n\f\r />]"
_FREE_ELEMENT_START, _OTHER_ELEMENT_START = rb"[acdefghjkloqruvwyz]", rb"[bimnpstx]"
# The rest of a path in which nothing is hidden (`..`, character references), then any query and fragment.
_TAIL = rb"""[^"&.?#%\t\n\r]*+(?:(?:\.(?!\.)|%(?!2e))[^"&.?#%\t\n\r]*+)*+(?:[?#][^"]*+)?+\""""
_HOST = rb"[a-z0-9][a-z0-9.\-]*+(?::[0-9]++)?+/"

TAG: Final = re.compile(rb"<([a-z][^\t\n\f\r />]*+)(" + _ANY_ATTRIBUTES + rb")>")
ATTRIBUTE: Final = re.compile(
    _BETWEEN
    + rb"("
    + _ANY_NAME
    + rb")(?:"
    + _EQUALS
    + rb"""(?:"([^"]*+)"|'([^']*+)'|([^\t\n\f\r >"'][^\t\n\f\r >]*+))?+)?+"""
)
COMMENT_END: Final = re.compile(rb"--!?>")
SPACE: Final = re.compile(rb"[\t\n\f\r ]*+")
# What may stand before the first element of a page: comments of all kinds, the document type, <html>.
PROLOGUE: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?+(?:[\t\n\f\r ]++|<!--(?:-?>|(?:[^-]++|-(?!-!?>))*+--!?>)|<[!?](?!--)[^>]*+>"
    rb"|<html(?=[\t\n\f\r />])" + _ANY_ATTRIBUTES + rb">)*+"
)
HEAD: Final = re.compile(rb"<head(?=[\t\n\f\r />])" + _ANY_ATTRIBUTES + rb">")

# The walk's pattern marks three kinds of references for each of these, rooted, absolute and without a scheme, in groups
# of that order; the group behind them is where it stopped.
MARKED: Final = ("mp_", "im_", "js_", "cs_")
STOP: Final = 3 * len(MARKED) + 1


@lru_cache(_PATTERNS_CACHED)
def walk_pattern(prefix: bytes, depth: int) -> re.Pattern[bytes]:
    """The pattern for pages of a collection that lie so many directories deep."""
    quiet = _quiet_attributes(min(depth, _DEPTH_MAX))
    name = rb"[^\t\n\f\r />]*+"
    skipped = (
        rb"/[a-z][a-z0-9]*+>",
        _FREE_ELEMENT_START + name + rb"(?:>|" + quiet + rb">)",
        rb"(?!" + _TOLD_ELEMENTS + rb")" + _OTHER_ELEMENT_START + name + rb"(?:>|" + quiet + rb">)",
        rb"title>[^<]*+</title>",
        rb"script(?=[\t\n\f\r />])" + quiet + rb"></script>",
        rb"/(?:[a-z]" + name + _ANY_ATTRIBUTES + rb">|[^a-z>][^>]*+>|>)",
        rb"!(?:--(?:-?>|(?:[^-]++|-(?!-!?>))*+--!?>)|(?!--|\[cdata\[)[^>]*+>)",
        rb"\?[^>]*+>",
        rb"(?=[^a-z/!?])",  # no tag at all
    )
    plain = (
        (rb'"(?:()/(?![/\\&\t\n\r]|' + re.escape(prefix.lower()[1:]) + rb")" + _TAIL)
        + (rb"|()https?://" + _HOST + _TAIL + rb"|()//" + _HOST + _TAIL + rb")")
        + (quiet + rb">")
    )
    marked = (
        rb"a(?=[\t\n\f\r ])" + quiet + rb"href=" + plain,
        rb"img(?=[\t\n\f\r ])" + quiet + rb"src=" + plain,
        rb"script(?=[\t\n\f\r ])" + quiet + rb"src=" + plain + rb"</script>",
        rb'link rel="stylesheet"(?=[\t\n\f\r ])' + quiet + rb"href=" + plain,
    )
    skip = rb"(?:[^<]*+<(?:" + rb"|".join(skipped) + rb"))*+[^<]*+"
    return re.compile(skip + rb"(?:<(?:" + rb"|".join(marked) + rb")|(<)|\Z)")


def _quiet_attributes(depth: int) -> bytes:
    """Attributes that need no rewriting: by their name, or because their value does not leave the site's directory.

    The commonest first, and each told by its first letter, which the matcher compares without further ado.
    """
    value = rb'(?:="[^"]*+"|' + _VALUE + rb")"
    up = rb"(?:\.\./){0,%d}+" % depth
    first = rb"(?:[a-gi-z0-9_\-~!$()*+,;=@:\x80-\xff]|h[a-su-z0-9_\-]|ht[a-su-z0-9_\-]|(?=[?#\"]))"
    relative = rb'="(?:\./)?+' + up + first + _TAIL
    quiet = (
        rb'class="[^"]*+"',
        rb'id="[^"]*+"',
        rb"href" + relative,
        rb"src" + relative,
        rb'style="[^"(&\\]*+"',
        _FREE_NAME_START + rb"[^\t\n\f\r />=]*+" + value,
        rb"(?!" + _TOLD_NAMES + rb")" + _OTHER_NAME_START + rb"[^\t\n\f\r />=]*+" + value,
    )
    return rb"(?:[\t\n\f\r /]++(?:" + rb"|".join(quiet) + rb"))*+" + _BETWEEN
