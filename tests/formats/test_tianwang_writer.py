"""Tianwang 1.0 written to the letter of its definition (I2)."""

from __future__ import annotations

import io
import re
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import UsageError
from holdfast.formats.io.open import open_records
from holdfast.formats.tianwang import TianwangWriter, page_attributes, tianwang_record

DATA = b"<html>XXXXXXXXXX\nXXXXXXXXXX</html>"
ATTRIBUTES = page_attributes(
    "http://www.pku.edu.cn/", "20030415081306", origin="http://www.somewhere.cn/", ip="162.105.129.12"
)


def test_the_definition_in_golden_bytes() -> None:
    assert tianwang_record(ATTRIBUTES, DATA) == (
        b"version: 1.0\n"
        b"url: http://www.pku.edu.cn/\n"
        b"origin: http://www.somewhere.cn/\n"
        b"date: Tue, 15 Apr 2003 08:13:06 GMT\n"
        b"ip: 162.105.129.12\n"
        b"length: 34\n"
        b"\n"
        b"<html>XXXXXXXXXX\nXXXXXXXXXX</html>"
        b"\n"
    )


def test_compressed_data_says_how_long_it_was() -> None:
    record = tianwang_record(ATTRIBUTES, DATA * 100, compress=True)
    head, _, rest = record.partition(b"\n\n")
    lines = head.split(b"\n")
    assert lines[0] == b"version: 1.0"
    assert lines[-2] == b"unzip-length: 3400"
    assert lines[-1] == b"length: %d" % (len(rest) - 1)
    assert zlib.decompress(rest[:-1]) == DATA * 100
    assert rest.endswith(b"\n")


def test_no_data_is_data_too() -> None:
    assert tianwang_record(ATTRIBUTES, b"").endswith(b"\nlength: 0\n\n\n")


def test_what_is_not_known_has_no_line() -> None:
    assert page_attributes("http://a/", "20030415081306") == [
        ("url", "http://a/"),
        ("date", "Tue, 15 Apr 2003 08:13:06 GMT"),
    ]


@pytest.mark.parametrize("value", ["a\nb", "a\r\nb", "a\rb", "\n", "a\n\nversion: 1.0"])
def test_values_with_line_ends_are_refused(value: str) -> None:
    with pytest.raises(UsageError, match="line end"):
        tianwang_record([("url", value), ("date", "x")], DATA)


@pytest.mark.parametrize("name", ["", "Url", "a b", "a:b", "a\nb", "ü", "version", "length", "unzip-length"])
def test_names_are_lower_case_and_not_those_of_the_frame(name: str) -> None:
    with pytest.raises(UsageError, match="attribute"):
        tianwang_record([*ATTRIBUTES, (name, "value")], DATA)


@pytest.mark.parametrize("missing", ["url", "date"])
def test_version_one_needs_url_and_date(missing: str) -> None:
    with pytest.raises(UsageError, match=missing):
        tianwang_record([pair for pair in ATTRIBUTES if pair[0] != missing], DATA)


def test_times_that_are_none_are_refused() -> None:
    with pytest.raises(UsageError, match="20031315081306"):
        page_attributes("http://a/", "20031315081306")


@given(
    values=st.lists(st.text(max_size=20).filter(lambda text: not set("\r\n") & set(text)), max_size=5),
    data=st.binary(max_size=300),
    compress=st.booleans(),
)
def test_head_and_data_can_be_told_apart(values: list[str], data: bytes, compress: bool) -> None:
    attributes = [*ATTRIBUTES, *((f"a{number}", value) for number, value in enumerate(values))]
    record = tianwang_record(attributes, data, compress=compress)
    head, _, rest = record.partition(b"\n\n")
    names = [line.partition(b":")[0].decode() for line in head.split(b"\n")]
    assert names == ["version", *dict(attributes), *(["unzip-length"] if compress else []), "length"]
    match = re.search(rb"\nlength: (\d+)$", head)
    assert match is not None
    assert int(match[1]) == len(rest) - 1
    assert (zlib.decompress(rest[:-1]) if compress else rest[:-1]) == data


def test_writer_gives_place_and_length_and_puts_nothing_between() -> None:
    sink = io.BytesIO()
    writer = TianwangWriter(sink)
    first = writer.write(ATTRIBUTES, DATA)
    second = writer.write(ATTRIBUTES, b"other")
    assert first == (0, len(tianwang_record(ATTRIBUTES, DATA)))
    assert second == (first[1], len(tianwang_record(ATTRIBUTES, b"other")))
    assert sink.getvalue() == tianwang_record(ATTRIBUTES, DATA) + tianwang_record(ATTRIBUTES, b"other")


@pytest.mark.parametrize("compress", [False, True])
def test_our_own_reader_reads_it(compress: bool) -> None:
    sink = io.BytesIO()
    writer = TianwangWriter(sink, compress=compress)
    places = [writer.write(ATTRIBUTES, DATA * number) for number in range(5)]
    seen = []
    for record in open_records(io.BytesIO(sink.getvalue()), strict=True):
        block = record.block.read()
        record.finish()
        assert (record.url, record.timestamp, record.ip) == (
            "http://www.pku.edu.cn/",
            "20030415081306",
            "162.105.129.12",
        )
        assert record.headers["origin"] == "http://www.somewhere.cn/"
        assert sink.getvalue()[record.offset : record.offset + record.length] == record.head + block + record.tail
        seen.append((record.offset, record.length))
    assert seen == places
