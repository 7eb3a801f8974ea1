"""The language of a text: what the page says of itself; where it says nothing, by the letters that follow each other.

The detector (resiliparse) takes 0.1 ms for a text, and is right about most pages of prose. It mistakes languages that
are near to each other (Portuguese for Galician), and takes tables, names and code for Latin or Romanian. So it is asked
only where nothing is declared. Scripts that few languages use decide before it.
"""

from __future__ import annotations

import re

UNKNOWN = "-"
_CHARACTERS_MAX = 2000  # of a text that are looked at: more changes the answer in one of fifty pages, and costs in all
_LETTERS_MIN = 24
_RANK_MAX = 1000  # ranks grow with doubt
_CODE = re.compile(r"\s*([a-z]{2})(?:[-_].*)?\s*", re.IGNORECASE | re.DOTALL)
_NO_LETTERS = re.compile(r"[\W\d_]+")
_SCRIPTS = (  # the first of which a tenth of the letters are
    ("ja", re.compile("[\u3041-\u30ff]")),
    ("ko", re.compile("[\uac00-\ud7a3]")),
    ("zh", re.compile("[\u4e00-\u9fff]")),
    ("th", re.compile("[\u0e01-\u0e4e]")),
    ("el", re.compile("[\u0370-\u03ff]")),
    ("he", re.compile("[\u05d0-\u05ea]")),
    ("ka", re.compile("[\u10d0-\u10ff]")),
    ("hy", re.compile("[\u0531-\u0587]")),
)
_SCRIPT_SHARE_MIN = 0.1


def declared_language(text: str) -> str:
    """The code in an attribute `lang` or a header field (`de-AT`); '-' if there is none of two letters."""
    match = _CODE.fullmatch(text.partition(",")[0])
    return match[1].lower() if match else UNKNOWN


def language_of(text: str, declared: str = UNKNOWN) -> str:
    """The code of a text's language; `declared` is what the page says, and counts first."""
    if declared != UNKNOWN:
        return declared
    sample = text[:_CHARACTERS_MAX]
    letters = len(_NO_LETTERS.sub("", sample))
    if letters < _LETTERS_MIN:
        return UNKNOWN
    if not sample.isascii():
        for code, script in _SCRIPTS:
            if len(script.findall(sample)) >= letters * _SCRIPT_SHARE_MIN:
                return code
    from resiliparse.parse.lang import detect_fast

    found, rank = detect_fast(sample)
    return str(found)[:2] if found != "unknown" and rank <= _RANK_MAX else UNKNOWN
