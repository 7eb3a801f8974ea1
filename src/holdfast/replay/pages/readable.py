"""Addresses as people write them: names and paths in their own letters, one form wherever an address is shown.

An archive holds the same host as `bücher.example`, `xn--bcher-kva.example` or `b%C3%BCcher.example`, by who captured
it. All are one key to the catalog, so all are shown as the first. A label that mixes alphabets is left in its ASCII
form, for it may have been made to look like another one.
"""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import unquote_to_bytes

from ada_url import idna

_HOST = re.compile(r"([a-z][a-z0-9+.-]*://(?:[^/?#@]*@)?)([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL)
_LETTERS = re.compile(r"(?:%[89a-f][0-9a-f])+", re.IGNORECASE)  # escaped, beyond ASCII
_TOGETHER = frozenset(("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"))  # alphabets of one language
_LABEL_MAX = 63


def readable(url: str) -> str:
    """The URL with its host and its escaped letters in plain. It is the same URL to the catalog."""
    found = _HOST.fullmatch(url)
    if found is None:
        return _LETTERS.sub(_in_letters, url)
    return found[1] + readable_host(found[2]) + _LETTERS.sub(_in_letters, found[3])


def readable_host(host: str) -> str:
    """A host, with or without a port, in its own letters."""
    host = _LETTERS.sub(_in_letters, host)
    if "xn--" not in host.lower():
        return host
    return ".".join(map(_label, host.split(".")))


def _label(label: str) -> str:
    name, colon, port = label.partition(":")
    if not name.lower().startswith("xn--") or len(name) > _LABEL_MAX:
        return label
    try:
        plain = idna.decode(name.lower())
    except ValueError:
        return label
    return plain + colon + port if plain and _is_of_one_alphabet(plain) else label


def _is_of_one_alphabet(label: str) -> bool:
    """By the first word of each letter's name, which is that of its alphabet."""
    alphabets = {unicodedata.name(sign, "?").partition(" ")[0] for sign in label if sign.isalpha()}
    return len(alphabets) == 1 or alphabets <= _TOGETHER


def _in_letters(match: re.Match[str]) -> str:
    try:
        return unquote_to_bytes(match[0]).decode()
    except UnicodeDecodeError:
        return match[0]
