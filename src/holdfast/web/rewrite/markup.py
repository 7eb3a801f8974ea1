"""Markup: the pattern that walks it, the end of raw text, and start tags that can be edited.

The walk is one pattern that passes over everything that stays as it is, in C, and stops at what may have to change:

    <p class=x>text <a href="next.html">…</a> <!-- <a href=/x> --> <a href="/wiki/Oak" title="Oak">
    └───────────── passed over: nothing to rewrite ──────────────┘ └────────┬─┘ a mark: put the archive's address here

It follows the tokenizer of the HTML Standard: comments with all their endings, attributes quoted or not, slashes as
white space, `<` where no tag begins. It is matched against the markup in lower case, of which no byte moves. A tag is
passed over if no attribute of it can need rewriting, by name or because its value is plainly relative; links and
pictures with one plain URL are marked; for all else, and for a tag that has no end, the match stops at the `<`.
Quantifiers are possessive (`*+`) and no construct is tried twice, so time grows with the number of bytes.

Content that is not markup ends where the HTML Standard says:

    <style> <!-- </style>                       at the first </style, whatever stands before it
    <script> <!-- <script> </script> </script>  within a comment that has a <script in it, at the second </script

A `Tag` has its attributes and collects edits. What is not changed keeps its bytes; a value that only gets a prefix
keeps its own; a value that becomes another is written between double quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from html.entities import html5
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
_CHECKED_NAMES = (
    rb"(?:href|src(?:set|doc)?|style|target|action|data|background|poster|integrity|ping|xlink:href|imagesrcset"
    rb"|form(?:action|target)|http-equiv|lowsrc|dynsrc|on[a-z]++)[\t\n\f\r =/>]"
)
_FREE_NAME_START = rb"[cegjkmnqruvwyz]"  # no such name begins with these: seen at once
_OTHER_NAME_START = rb"[^\t\n\f\r />cegjkmnqruvwyz]"
# Elements at which the walk always stops: the content of most of them is not markup.
_CHECKED_ELEMENTS = rb"(?:script|style|base|title|textarea|iframe|param|xmp|noembed|noframes|plaintext)[\t\n\f\r />]"
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
# What may stand before the first element of a page: comments of all kinds, the document type, <html>.
PROLOGUE: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?+(?:[\t\n\f\r ]++|<!--(?:-?>|(?:[^-]++|-(?!-!?>))*+--!?>)|<[!?](?!--)[^>]*+>"
    rb"|<html(?=[\t\n\f\r />])" + _ANY_ATTRIBUTES + rb">)*+"
)
HEAD: Final = re.compile(rb"<head(?=[\t\n\f\r />])" + _ANY_ATTRIBUTES + rb">")

# The walk's pattern marks three kinds of references for each of these, rooted, absolute and without a scheme, in groups
# of that order; the group after them is where it stopped.
MARKED: Final = ("mp_", "im_", "js_", "cs_")
STOP: Final = 3 * len(MARKED) + 1


@lru_cache(_PATTERNS_CACHED)
def walk_pattern(prefix: bytes, depth: int) -> re.Pattern[bytes]:
    """The pattern for pages of a collection, by their directory depth."""
    quiet = _quiet_attributes(min(depth, _DEPTH_MAX))
    name = rb"[^\t\n\f\r />]*+"
    skipped = (
        rb"/[a-z][a-z0-9]*+>",
        _FREE_ELEMENT_START + name + rb"(?:>|" + quiet + rb">)",
        rb"(?!" + _CHECKED_ELEMENTS + rb")" + _OTHER_ELEMENT_START + name + rb"(?:>|" + quiet + rb">)",
        rb"title>[^<]*+</title>",
        rb"script(?=[\t\n\f\r />])(?![^>]*type=.?module)" + quiet + rb"></script>",
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

    The commonest first. Most alternatives differ in their first letter, which the matcher compares quickly.
    """
    value = rb'(?:="[^"]*+"|' + _VALUE + rb")"
    up = rb"(?:\.\./){0,%d}+" % depth
    first = rb"(?:[a-gi-z0-9_\-~!$()*+,;=@:\x80-\xff]|h[a-su-z0-9_\-]|ht[a-su-z0-9_\-]|(?=[?#\"]))"
    script = rb"(?!javascript:(?!void\(0\)|;|//|\"))"
    relative = rb'="' + script + rb"(?:\./)?+" + up + first + _TAIL
    quiet = (
        rb'class="[^"]*+"',
        rb'id="[^"]*+"',
        rb"href" + relative,
        rb"src" + relative,
        rb'style="[^"(&\\]*+"',
        _FREE_NAME_START + rb"[^\t\n\f\r />=]*+" + value,
        rb"(?!" + _CHECKED_NAMES + rb")" + _OTHER_NAME_START + rb"[^\t\n\f\r />=]*+" + value,
    )
    return rb"(?:[\t\n\f\r /]++(?:" + rb"|".join(quiet) + rb"))*+" + _BETWEEN


_NAMES = (b"script", b"style", b"title", b"textarea", b"iframe", b"xmp", b"noembed", b"noframes")
ENDS: Final = {name: re.compile(rb"</" + name + rb"(?=[\t\n\f\r />])") for name in _NAMES} | {
    b"plaintext": re.compile(rb"(?!)")  # has no end
}
_IN_SCRIPT = re.compile(rb"</script(?=[\t\n\f\r />])|<!--")
_IN_COMMENT = re.compile(rb"-->|<(/?)script(?=[\t\n\f\r />])")
_IN_SCRIPT_IN_COMMENT = re.compile(rb"-->|</script(?=[\t\n\f\r />])")


def raw_text_end(low: bytes, at: int, name: bytes) -> int:
    """Where the end tag begins; -1 if there is none. `low` is in lower case."""
    if name == b"script":
        return _script_end(low, at)
    found = ENDS[name].search(low, at)
    return found.start() if found else -1


def _script_end(low: bytes, at: int) -> int:
    while found := _IN_SCRIPT.search(low, at):
        if found[0] != b"<!--":
            return found.start()
        at = found.start() + 2  # `<!-->` is a comment already
        while inside := _IN_COMMENT.search(low, at):
            at = inside.end()
            if inside[0] == b"-->":
                break
            if inside[1]:
                return inside.start()
            nested = _IN_SCRIPT_IN_COMMENT.search(low, at)
            if nested is None:
                return -1
            at = nested.end()
            if nested[0] == b"-->":
                break
        else:
            return -1
    return -1


Edit = tuple[int, int, bytes]
_UNQUOTED = 4  # the group of ATTRIBUTE that has a value without quotes; 1 is the name, 2 and 3 are the quoted ones
_REFERENCE = re.compile(r"&(?:#(?:[xX]([0-9a-fA-F]++)|([0-9]++));?+|([a-zA-Z][a-zA-Z0-9]*+)(;?+)(=?+))")
_STARTS_CACHED = 1024
_SCALARS_END = 0x110000
_CODE_POINT_DIGITS_MAX = 8
_ESCAPES = {ord("&"): "&amp;", ord('"'): "&quot;", ord("'"): "&#39;", ord("<"): "&lt;", ord(">"): "&gt;"}


class Tag:
    """One start tag of the markup `data`, of which `low` is the lower case."""

    __slots__ = ("_attributes", "_codec", "_data", "_found", "edits", "name")

    def __init__(self, found: re.Match[bytes], data: bytes, codec: str) -> None:
        self.name: bytes = found[1]
        self.edits: list[Edit] = []
        self._found, self._data, self._codec = found, data, codec
        attributes: dict[bytes, re.Match[bytes]] = {}
        for attribute in ATTRIBUTE.finditer(found.string, *found.span(2)):
            name = attribute[1]
            if name not in attributes:  # the first of a name counts
                attributes[name] = attribute
        self._attributes = attributes

    @property
    def is_closed(self) -> bool:
        """`<a/>`, which counts in XML and in drawings only."""
        return self._data[self._found.end() - 2] == ord("/")

    def names(self) -> Iterable[bytes]:
        return self._attributes

    def written(self) -> list[bytes]:
        """The tag with its changes, in parts."""
        at, end = self._found.span()
        edits = self.edits
        if not edits:
            return [self._data[at:end]]
        if len(edits) > 1:
            edits.sort()
        parts: list[bytes] = []
        for start, stop, instead in edits:
            parts += (self._data[at:start], instead)
            at = stop
        parts.append(self._data[at:end])
        return parts

    def value(self, name: bytes) -> str:
        """The value, with its character references resolved; '' if there is none."""
        attribute = self._attributes.get(name)
        if attribute is None or (group := attribute.lastindex or 1) == 1:
            return ""
        start, end = attribute.span(group)
        text = self._data[start:end].decode(self._codec, "replace")
        if "\0" in text:
            text = text.replace("\0", "\ufffd")
        return unreferenced(text) if "&" in text else text

    def word(self, name: bytes) -> str:
        """The value in lower case, without white space around it."""
        return self.value(name).strip().lower()

    def change(self, name: bytes, old: str, new: str) -> None:
        """Replaces the value of an attribute; `old` is what `value` returned."""
        if old == new:
            return
        attribute = self._attributes[name]
        group = attribute.lastindex or 1
        start, end = attribute.span(group)
        if new.endswith(old):
            self.edits.append((start, start, _put_before(new[: len(new) - len(old)])))
            return
        written = b'"' + escaped(new).encode(self._codec, "xmlcharrefreplace") + b'"'
        self.edits.append((start, end, written) if group == _UNQUOTED else (start - 1, end + 1, written))

    def add(self, name: bytes, mark: str, value: str) -> None:
        """Replaces the value of an attribute, and adds the attribute `mark` to the tag."""
        attribute = self._attributes[name]
        written = f'{name.decode()}="{escaped(value)}" {mark}'
        self.edits.append(
            (attribute.start(1), self._end_of(attribute), written.encode(self._codec, "xmlcharrefreplace"))
        )

    def _end_of(self, attribute: re.Match[bytes]) -> int:
        """Where the attribute ends, with the quote of its value."""
        group = attribute.lastindex or 1
        return attribute.end(group) + (group not in (1, _UNQUOTED))

    def disarm(self, name: bytes) -> None:
        """Renames an attribute, so that browsers do not know it."""
        start = self._attributes[name].start(1)
        self.edits.append((start, start, b"data-hf-"))


def escaped(text: str) -> str:
    """For an attribute's value, of HTML and XML, with or without quotes."""
    return text.translate(_ESCAPES)


@lru_cache(_STARTS_CACHED)
def _put_before(text: str) -> bytes:
    """The escaped beginning of an address; many addresses share it."""
    return escaped(text).encode("ascii", "xmlcharrefreplace")


def unreferenced(text: str) -> str:
    """Resolves character references as in attributes: `&copy=1` is none there, `&copy;` and `&copy ` are."""
    return _REFERENCE.sub(_meant, text)


def _meant(match: re.Match[str]) -> str:
    hexadecimal, decimal, name, semicolon, equals = match.groups()
    if name is None:
        return _by_number(hexadecimal, 16) if hexadecimal else _by_number(decimal, 10)
    if semicolon:
        return html5.get(name + semicolon, name and f"&{name};") + equals
    return match[0] if equals or name not in html5 else html5[name]


def _by_number(digits: str, radix: int) -> str:
    digits = digits.lstrip("0")
    number = int(digits or "0", radix) if len(digits) <= _CODE_POINT_DIGITS_MAX else _SCALARS_END
    if number == 0 or number >= _SCALARS_END or 0xD800 <= number < 0xE000:
        return "\ufffd"
    if 0x80 <= number < 0xA0:  # meant as windows-1252, says the standard
        return bytes((number,)).decode("cp1252", "ignore") or chr(number)
    return chr(number)
