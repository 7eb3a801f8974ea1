"""Display of times, sizes, languages and addresses. Archived text is hostile, and is made harmless here.

A control character or a mark that turns the direction of writing could make an address look like another one, so both
are shown as escapes. Quoting for HTML is the templates' part.

Addresses are shown as people write them, in their own letters. An archive holds the same host as `bücher.example`,
`xn--bcher-kva.example` or `b%C3%BCcher.example`, depending on who captured it. All are one key to the catalog, so all
are shown as the first. A label that mixes alphabets is left in its ASCII form: it may have been made to look like
another one.
"""

from __future__ import annotations

import re
import unicodedata
from calendar import month_name
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from urllib.parse import quote, unquote_to_bytes, urlencode

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


SHOWN_MAX = 160  # characters of an address before its middle is left out
_TAIL = 40
# C0, C1, soft hyphen, zero width, line and paragraph ends, directions, invisible operators, byte order mark, surrogates
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\xa0\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202f\u2060-\u206f\u3164\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)
_JOINERS = "\u200c\u200d"  # Persian, Indic scripts and some pictures are not what they are without them
_BLANKS = re.compile(r"\s+")
# What may stand in a path of ours as it is: '#' would end it, '\\' turn into '/', blanks and quotes be lost or doubled.
_PATH_SAFE = "/:?&=+,;@!$'()*~[]|%-._"


def visible(text: str) -> str:
    """The text with everything unseen written as escapes."""
    return _UNSEEN.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return quote(match[0].encode("utf-8", "surrogateescape" if "\udc80" <= match[0] <= "\udcff" else "surrogatepass"))


def plain(text: str, most: int = 0) -> str:
    """Words of a page, for people: blanks made one, everything unseen left out but what joins letters; cut if long."""
    words = _BLANKS.sub(" ", text if not most else text[: most * 4])
    words = _UNSEEN.sub(lambda match: match[0] if match[0] in _JOINERS else "", words)
    return words if not most or len(words) <= most else f"{words[:most].rstrip()} …"


def shown(url: str, most: int = SHOWN_MAX) -> str:
    """A URL for people: visible, and with its middle left out where it is long."""
    text = visible(url[: most * 2] + url[-_TAIL * 2 :] if len(url) > most * 2 + _TAIL * 2 else url)
    return text if len(text) <= most else f"{text[: most - _TAIL]} … {text[-_TAIL:]}"


def bare(url: str) -> str:
    """Without its scheme and in plain letters, as people write addresses."""
    plain = readable(url)
    scheme, slashes, rest = plain.partition("://")
    return rest if slashes and scheme in ("http", "https") else plain


def path_to(collection: str, timestamp: str, url: str, modifier: str = "") -> str:
    """The address on this server of a capture, or with '*' in the timestamp of a calendar."""
    escaped = quote(url.encode("utf-8", "surrogateescape"), safe=_PATH_SAFE)
    return f"/{collection}/{timestamp}{modifier}/{escaped}"


def compare_path(collection: str, url: str, first: str, second: str) -> str:
    """The address of the comparison of two captures of a URL."""
    return page_address("/compare", {"collection": collection, "url": url, "a": first, "b": second})


def page_address(path: str, values: Mapping[str, str], usual: Mapping[str, str] = MappingProxyType({})) -> str:
    """The address of a page with these parameters; what is empty or usual is left out."""
    given = {name: value for name, value in values.items() if value and value != usual.get(name)}
    return f"{path}?{urlencode(given, errors='surrogateescape')}" if given else path


def moment(timestamp: str) -> datetime | None:
    """None for times that never were, which archives hold as well."""
    try:
        return datetime.strptime(timestamp[:14].ljust(14, "0"), "%Y%m%d%H%M%S")
    except ValueError:
        return None


def in_words(timestamp: str) -> str:
    """'16 November 2026, 08:21:05 UTC'; shorter for a partial time."""
    year, month, day, clock = timestamp[:4], timestamp[4:6], timestamp[6:8], timestamp[8:14]
    words = [year]
    if month and "01" <= month <= "12":
        words.insert(0, month_name[int(month)])
        if day:
            words.insert(0, str(int(day)))
    elif month:
        return timestamp
    text = " ".join(words)
    if len(clock) == 2:
        return f"{text}, {clock} o’clock UTC"
    return f"{text}, {':'.join(clock[at : at + 2] for at in range(0, len(clock), 2))} UTC" if clock else text


def unit(timestamp: str) -> str:
    """The last unit of a partial time alone: 'March', '3 March', '13:00', '13:05'."""
    if len(timestamp) <= 8:
        return in_words(timestamp).removesuffix(timestamp[:4]).strip() or timestamp
    clock = timestamp[8:12].ljust(4, "0") + timestamp[12:]
    return ":".join(clock[at : at + 2] for at in range(0, len(clock), 2))


def iso(timestamp: str) -> str:
    """As machines read it, for the attribute `datetime`, as exact as it is; empty for times that never were."""
    if len(timestamp) < 8:
        return timestamp if len(timestamp) == 4 else f"{timestamp[:4]}-{timestamp[4:]}" * (len(timestamp) == 6)
    time = moment(timestamp)
    if time is None:
        return ""
    return f"{time:%Y-%m-%d}" if len(timestamp) == 8 else f"{time.isoformat()}Z"


def quoted(text: str) -> str:
    """As the value of a parameter in an address."""
    return quote(text.encode("utf-8", "surrogateescape"), safe="")


def count(number: int, noun: str = "", plural: str = "") -> str:
    """'12,345', or with a noun '1 capture', '2 captures'."""
    if not noun:
        return f"{number:,}"
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


# The languages that most pages of the web are in.
# fmt: off
_LANGUAGES = {
    "ar": "Arabic", "bg": "Bulgarian", "bn": "Bengali", "ca": "Catalan", "cs": "Czech", "da": "Danish",
    "de": "German", "el": "Greek", "en": "English", "es": "Spanish", "et": "Estonian", "eu": "Basque",
    "fa": "Persian", "fi": "Finnish", "fr": "French", "gl": "Galician", "he": "Hebrew", "hi": "Hindi",
    "hr": "Croatian", "hu": "Hungarian", "id": "Indonesian", "is": "Icelandic", "it": "Italian", "ja": "Japanese",
    "ka": "Georgian", "ko": "Korean", "la": "Latin", "lt": "Lithuanian", "lv": "Latvian", "mk": "Macedonian",
    "ms": "Malay", "nb": "Norwegian", "nl": "Dutch", "nn": "Norwegian (Nynorsk)", "no": "Norwegian", "pl": "Polish",
    "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sl": "Slovenian", "sq": "Albanian",
    "sr": "Serbian", "sv": "Swedish", "ta": "Tamil", "te": "Telugu", "th": "Thai", "tr": "Turkish", "uk": "Ukrainian",
    "ur": "Urdu", "vi": "Vietnamese", "zh": "Chinese",
}
# fmt: on


def language_name(code: str) -> str:
    """The name of a language; the code where it has none here."""
    return "unknown" if code == "-" else _LANGUAGES.get(code, code)
