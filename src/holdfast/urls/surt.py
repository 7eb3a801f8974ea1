"""The key of a URL: a SURT, the *Sort-friendly URI Reordering Transform* of the web-archive world.

    http://www.Example.com:80/Path/?b=2&a=1#top      the URL
    └scheme┘└┬┘└────┬────┘└┬┘└─┬─┘ └──┬──┘└┬─┘
      gone  gone    │     gone │      │   gone
                    ▼          ▼      ▼
            com,example)     /path?a=1&b=2           its key

Captures that replay may substitute for each other have the same key; the keys of a host, and of a domain with all its
hosts, are adjacent. Keys are those of the Internet Archive, pywb and cdxj-indexer: percent-escapes are decoded
repeatedly, and only `%`, `#`, space, control and non-ASCII bytes are escaped again; everything is lower case; query
parameters are sorted; known session ids are removed; a host loses `www`, `www2` and the like.

Any text has a key. It is ASCII without space or control characters.

An http URL is first parsed as browsers do, so that a URL and its canonical form have one key. Here the keys of odd URLs
differ from those of other tools, which take `\\` in a path for a letter, keep `..` above the root, read `0x7f.1` as a
name, split an IPv6 address at the dots of an embedded IPv4 address, and encode `ß` in a host as `ss`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from operator import methodcaller

from ada_url import idna

from holdfast.urls.parse import parsed_url, scalar_values

EMPTY_KEY = "-"
_HTTP = ("https:", "http:")
_HOSTS_CACHED = 65_536
_UNESCAPES_MAX = 64  # deeper nesting is an attack; each level costs a pass
_SESSION_TEXT_MAX = 8192  # characters; longer texts could slow down the patterns
_ESCAPE = re.compile(r"%([0-9a-fA-F]{2})")
_UNSAFE = re.compile(r"[^!-~]|[%#]")  # what a key has only as escapes
_UNSETTLED = re.compile(r"[^!-~]|#|%(?![0189a-f][0-9a-f]|20|23|7f)", re.IGNORECASE)  # other than escapes that stay
# Most URLs are such that the parser would change nothing: a name or an IPv4 address, perhaps a port that is not the
# default of a scheme, a path and a query without escapes.
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_PLAIN = re.compile(
    rf"https?://([a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z][a-z0-9-]*|(?:{_OCTET}\.){{3}}{_OCTET})"
    r"((?::(?:[1-9][0-9]{3}|[1-5][0-9]{4}))?)((?:/[\w/.~!$&()*+,;=:@-]*)?)((?:\?[\w/.~!$&()*+,;=:@?-]*)?)",
    re.ASCII,
)
_BREAKS = {ord(sign): None for sign in "\t\r\n"}
_EDGES = "".join(map(chr, range(0x21)))  # stripped by parsers: controls and space
_SCHEME = re.compile(r"[a-z][a-z0-9+.\-]*:", re.IGNORECASE)
_AUTHORITY = re.compile(r"[^/?#]*")
_WWW = re.compile(r"^www\d*\.(?=.)")
_DOTS = re.compile(r"\.\.+")
_PARAMETER = methodcaller("partition", "=")  # sorts by name, then by value: `a=2` before `a-b=1`
_SLASHES = re.compile(r"//+")

# Session ids. The last of each kind is removed from a query, wherever a name ends like it: also `sid=` of `zsid=`.
_SESSION_HINT = re.compile(r"sid=|sessionid|cfid=")
_SESSIONS = tuple(
    re.compile(rf"(.*){session}(?:&(.*))?$")
    for session in (
        r"jsessionid=[0-9a-z]{32}",
        r"phpsessid=[0-9a-z]{32}",
        r"sid=[0-9a-z]{32}",
        r"aspsessionid[a-z]{8}=[a-z]{24}",
        r"cfid=(?:(?!cfid=)[^&])+&cftoken=[^&]+",
    )
)
# A path to an ASP.NET page loses the segment `(S(24 letters))` or `(24 letters)` before it.
_ASPX_SESSIONS = tuple(
    re.compile(rf"(.*/)\({session}\)/([^?]+\.aspx.*)$") for session in (r"(?:[a-z]\([0-9a-z]{24}\))+", r"[0-9a-z]{24}")
)


def url_key(url: str) -> str:
    """The SURT key of any text: `com,example)/path?a=1`. Never raises."""
    plain = _PLAIN.fullmatch(url)
    if plain is not None and "xn--" not in url and "/." not in url:
        host, port, path, search = plain.groups("")
        return f"{host_key(host)}{port}){_path_key(path)}{_query_key(search)}"
    parsed = parsed_url(url)
    if parsed is None or parsed.protocol not in _HTTP:
        return _key_of_odd(url)
    port = parsed.port
    host = host_key(parsed.hostname)
    if port and port != "0":
        host = f"{host}:{port}"
    return f"{host}){_path_key(parsed.pathname)}{_query_key(parsed.search)}"


@lru_cache(_HOSTS_CACHED)
def host_key(host: str) -> str:
    """The part of a key for `host`: `com,example`.

    Keys of the host begin with it and `)`, or `:`, port and `)`; those of its subdomains with it and `,`.
    """
    name = _escaped(_ascii_host(host)).strip(".")
    if name.startswith("["):
        return name.strip("[]")
    if ".." in name:
        name = _DOTS.sub(".", name)
    return ",".join(reversed(without_www(name).split(".")))


def without_www(host: str) -> str:
    """The host as in keys: without `www`, `www2` and the like, unless nothing else is left."""
    return _WWW.sub("", host) if host.startswith("www") else host


def _ascii_host(host: str) -> str:
    """`host` in lower case, as punycode if possible."""
    host = scalar_values(host).lower()
    if host.isascii():
        return host
    try:
        return idna.encode(host).decode("ascii") or host
    except ValueError:
        return host


def _escaped(text: str) -> str:
    """`text` in lower case with minimal escapes: all decoded, then only the necessary ones."""
    if _UNSETTLED.search(text) is None:
        return text.lower()
    octets = text.encode().decode("latin-1")  # one character per byte
    for _ in range(_UNESCAPES_MAX):
        octets, undone = _ESCAPE.subn(_unescape, octets)
        if not undone:
            break
    return _UNSAFE.sub(_escape, octets).lower()


def _unescape(match: re.Match[str]) -> str:
    return chr(int(match[1], 16))


def _escape(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02x}"


def _path_key(path: str) -> str:
    """The path with escapes, dots and double slashes resolved, without a trailing slash unless it is `/`."""
    if "%" in path:
        path = _escaped(path)
        if "/." in path:
            path = _without_dots(path)
    else:
        path = path.lower()
    if "//" in path:
        path = _SLASHES.sub("/", path)
    if ".aspx" in path and "(" in path:
        path = _cut(_ASPX_SESSIONS, path)
    if path.endswith("/") and path != "/":
        return path[:-1]
    return path or "/"


def _without_dots(path: str) -> str:
    """Resolves segments `.` and `..` that decoding produced."""
    kept: list[str] = []
    for segment in path.split("/")[1:]:
        if segment == "..":
            kept = kept[:-1]
        elif segment != ".":
            kept.append(segment)
    return "/" + "/".join(kept)


def _query_key(search: str) -> str:
    """The query with its question mark, sorted and without session ids; empty if nothing is left."""
    if len(search) < 2:
        return ""
    query = _escaped(search[1:]) if "%" in search else search[1:].lower()
    if "id" in query and _SESSION_HINT.search(query):
        query = _cut(_SESSIONS, query)
    if "&" in query:
        query = "&".join(sorted(query.split("&"), key=_PARAMETER))
    return f"?{query}" if query else ""


def _cut(sessions: tuple[re.Pattern[str], ...], text: str) -> str:
    """`text` without session ids. Each pattern has groups for the text before and after."""
    if len(text) <= _SESSION_TEXT_MAX:
        for session in sessions:
            if match := session.match(text):
                text = match[1] + (match[2] or "")
    return text


def _key_of_odd(url: str) -> str:
    """The key of a text that browsers do not parse as an http URL: another scheme, none, or an invalid host."""
    text = scalar_values(url).translate(_BREAKS).strip(_EDGES)
    if not text:
        return EMPTY_KEY
    if text.startswith("filedesc:"):
        return "".join(sign if "!" <= sign <= "~" else _escaped(sign) for sign in text)
    if _SCHEME.match(text) is None:
        text = "http://" + text.lstrip("/")
        if parsed_url(text) is not None:
            return url_key(text)
    scheme, _, rest = text.partition("#")[0].partition(":")
    scheme = scheme.lower()
    if scheme in ("http", "https"):
        rest = "//" + rest.lstrip("/")
    if rest.startswith("//"):
        authority = _AUTHORITY.match(rest, 2)
        assert authority is not None, "an authority may be empty, so it always matches"
        if authority[0]:
            return _key_of_authority(scheme, authority[0], rest[authority.end() :])
        rest = rest[2:]
    path, mark, query = rest.partition("?")
    return f"{scheme}:{_opaque_key(path)}{_query_key(_escaped(mark + query))}"


def _key_of_authority(scheme: str, authority: str, rest: str) -> str:
    place = authority.rpartition("@")[2]
    host, colon, port = place.rpartition(":")
    if not colon or not (port == "" or (port.isascii() and port.isdecimal())):
        host, port = place, ""
    port = port.lstrip("0")
    if (scheme, port) in (("http", "80"), ("https", "443")):
        port = ""
    path, mark, query = rest.partition("?")
    place = host_key(host) + (f":{port}" if port else "")
    return f"{place}){_path_key(_without_dots(_escaped(path)))}{_query_key(_escaped(mark + query))}"


def _opaque_key(path: str) -> str:
    path = _escaped(path)
    return path[:-1] if path.endswith("/") else path
