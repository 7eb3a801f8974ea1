"""Character sets (W17): labels and bytes as the WHATWG Encoding Standard has them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.formats.html.charset import UTF_8, decoded, encoding_named

LABELS = {
    "latin1": "windows-1252",
    "ISO-8859-1": "windows-1252",
    "us-ascii": "windows-1252",
    "ansi_x3.4-1968": "windows-1252",
    "iso_8859-5:1988": "ISO-8859-5",
    "ks_c_5601-1987": "EUC-KR",
    "gb_2312-80": "GBK",
    "x-sjis": "Shift_JIS",
    "iso-8859-8-i": "ISO-8859-8-I",
    "utf-16": "UTF-16LE",
    "iso-2022-kr": "replacement",
    "x-user-defined": "x-user-defined",
    "unicode-1-1-utf-8": UTF_8,
    "utf-7": "",
    "cp037": "",
    "nonsense": "",
    "é": "",
    "a\0b": "",
    "": "",
}


@pytest.mark.parametrize(("label", "encoding"), LABELS.items())
def test_a_label_names_an_encoding(label: str, encoding: str) -> None:
    assert encoding_named(label) == encoding
    assert decoded(b"x\xe9", label).encoding == (encoding or "windows-1252")


@pytest.mark.parametrize(
    ("content", "charsets", "text", "encoding"),
    [
        (b"\xef\xbb\xbf\xc3\xa9", ["latin1"], "é", UTF_8),
        (b"\xff\xfe\xe9\0", ["latin1"], "é", "UTF-16LE"),
        (b"\xc3\xa9", ["nonsense", "", "latin1"], "Ã©", "windows-1252"),
        (b"\xc3\xa9", [], "é", UTF_8),
        (b"\xe9", [], "é", "windows-1252"),
        (b"\xe9", ["utf-8"], "\ufffd", UTF_8),
    ],
)
def test_mark_then_charset_then_guess(content: bytes, charsets: list[str], text: str, encoding: str) -> None:
    assert decoded(content, *charsets) == (text, encoding)


@given(content=st.binary(max_size=100), label=st.sampled_from([*LABELS]) | st.text(max_size=20))
def test_any_bytes_have_characters(content: bytes, label: str) -> None:
    assert decoded(content, label).encoding
