"""Scripts and JSON: quoted strings that look like URLs.

    "https://example.com/a"        absolute, also as "https:\\/\\/example.com\\/a"         SPECULATIVE
    '/img/logo.png'  './page.html' from the root or with dots, ending as files do          SPECULATIVE
    'pixel.png'  'img/a.png'       names of files; in scripts only, not in JSON            SPECULATIVE
    import x from './x.js'         import('./x.js'), export ... from '/y.js'               EMBED

Scripts are not run, so this is a guess, and not of everything: a path without ending is more often none. Names of XML
namespaces look like URLs but are not.
"""

from __future__ import annotations

import re

from holdfast.formats.html.links.references import Hop, References

SCRIPT_BYTES_MAX = 8 << 20  # of a script; what lies beyond is not looked at
_ENDINGS = (
    "html?|xhtml|shtml|php|aspx?|jsp|cgi|css|m?js|json|xml|rss|atom|txt|pdf|docx?|xlsx?|pptx?|odt|ods|csv|zip|gz|"
    "png|jpe?g|gif|webp|avif|svg|ico|bmp|mp3|mp4|m4a|m4v|ogg|oga|ogv|opus|wav|webm|woff2?|ttf|otf|eot|wasm|vtt|m3u8"
)
_URLS = re.compile(
    r"""(?<=["'`=(])(?:(?P<absolute>https?://[\w.\-]+(?::\d+)?(?:[/?#][^\s"'`<>\\(){}]*+)?)(?=["'`\\<>\s)])"""
    rf"""|(?P<path>(?:\.{{1,2}}/|/)[\w\-./~%@+]{{0,1000}}\.(?:{_ENDINGS})(?:\?[^\s"'`<>\\{{}}]{{0,1000}}+)?+)(?=["'`\\]))""",
    re.ASCII,
)
_LETTERS = r"[\w\-~%@+]"
_NAMES = re.compile(  # directories have no dots, or they may be hosts; what is taken is not given back (`*+`)
    rf"""(?<=["'`])(?:{_LETTERS}{{1,100}}+/){{0,10}}+{_LETTERS}{{1,200}}+"""
    rf"""(?:\.(?!(?:{_ENDINGS})["'`?]){_LETTERS}{{1,100}}+){{0,20}}+\.(?:{_ENDINGS})"""
    r"""(?:\?[^\s"'`<>\\{}]{0,1000}+)?+(?=["'`])""",
    re.ASCII,
)
_IMPORTS = re.compile(
    r"""\b(?:import|from)(?:\s*+\(\s*+|\s*+)["']((?:\.{0,2}/|https?://)[^\s"'\\]{1,2000}+)["']""", re.ASCII
)
_NAMESPACES = (
    "http://www.w3.org/",
    "http://schema.org",
    "https://schema.org",
    "http://ns.adobe.com/",
    "http://purl.org/",
)
_ESCAPED_SLASHES = re.compile(r"\\(?:/|u002[fF])")


def add_script_references(text: str, references: References) -> None:
    """What a script may load, and what it imports for sure."""
    if "import" in text or "export" in text:
        references.add_all(_IMPORTS.findall(text), Hop.EMBED)
    text = _plain(text)
    _add_urls(text, references)
    references.add_all(_NAMES.findall(text), Hop.SPECULATIVE)


def add_json_references(text: str, references: References) -> None:
    """What looks like a URL in quotes."""
    _add_urls(_plain(text), references)


def _add_urls(text: str, references: References) -> None:
    for absolute, path in _URLS.findall(text):
        if not absolute.startswith(_NAMESPACES):
            references.add(absolute or path, Hop.SPECULATIVE)


def _plain(text: str) -> str:
    """With slashes and ampersands as they are meant."""
    if "\\" not in text:
        return text
    return _ESCAPED_SLASHES.sub("/", text).replace("\\u0026", "&")
