"""The parts of a comparison: sequences, lines and words, pictures (N9). Whatever the input, an answer comes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.formats.media import dimensions
from holdfast.formats.record import Headers
from holdfast.model import Capture, RecordId
from holdfast.web.ui.comparison.compare import header_difference, link_difference
from holdfast.web.ui.comparison.side import LINE_CHARS_MAX, PICTURE_BYTES, Side, lines_of
from holdfast.web.ui.comparison.text import DiffBudget, stretches, text_difference

ITEMS = st.lists(st.sampled_from("abcdefgh"), max_size=40)


def side(content: bytes, content_type: str = "text/html", **fields: str) -> Side:
    capture = Capture(
        "com,example)/", "20200102030405", "http://example.com/", content_type, "200", "-", 1, 0, "a.warc", "response",
        len(content), "-", RecordId("202001", 1), "main",
    )  # fmt: skip
    named = [("Content-Type", content_type), *fields.items()]
    return Side(capture, 200, Headers(named), content, size=len(content))


@given(a=ITEMS, b=ITEMS)
@settings(max_examples=300)
def test_stretches_lead_from_the_one_to_the_other(a: list[str], b: list[str]) -> None:
    at_a = at_b = 0
    for part in stretches(a, b, DiffBudget()):
        assert (part.a_start, part.b_start) == (at_a, at_b)
        assert (a[part.a_start : part.a_end] == b[part.b_start : part.b_end]) == part.is_equal
        at_a, at_b = part.a_end, part.b_end
    assert (at_a, at_b) == (len(a), len(b))


@given(a=st.lists(st.sampled_from("ab"), max_size=14), b=st.lists(st.sampled_from("ab"), max_size=14))
@settings(max_examples=300)
def test_without_anchors_the_shortest_edit_is_found(a: list[str], b: list[str]) -> None:
    common = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, one in enumerate(a):
        for j, other in enumerate(b):
            common[i + 1][j + 1] = common[i][j] + 1 if one == other else max(common[i][j + 1], common[i + 1][j])
    doubled_a, doubled_b = [*a, *"abab"], [*"abab", *b]  # nothing occurs once: there are no anchors
    kept = sum(part.a_end - part.a_start for part in stretches(a * 2, b * 2, DiffBudget()) if part.is_equal)
    assert kept >= 2 * common[-1][-1]
    assert stretches(doubled_a, doubled_a, DiffBudget())[0].is_equal
    assert stretches(doubled_a, doubled_b, DiffBudget())


@pytest.mark.parametrize("period", [1, 2, 3, 100_000])
def test_a_hundred_thousand_lines_that_differ_are_compared_in_bounded_steps(period: int) -> None:
    a = [f"old {number % period}" for number in range(100_000)]
    b = [f"new {number % period}" if number % 7 else f"old {number % period}" for number in range(100_000)]
    found = text_difference(a, b)
    assert found.removed and found.added
    assert len(found.lines) < 10_000
    assert found.not_shown or found.is_rough


def test_lines_and_words_that_changed_are_marked() -> None:
    found = text_difference(["Title", "A cat sat here.", "End"], ["Title", "A dog sat here.", "New", "End"])
    assert [(line.kind, line.a, line.b) for line in found.lines] == [
        ("same", 1, 1), ("removed", 2, None), ("added", None, 2), ("added", None, 3), ("same", 3, 4),
    ]  # fmt: skip
    assert [span.text for span in found.lines[1].spans if span.is_changed] == ["cat"]
    assert [span.text for span in found.lines[2].spans if span.is_changed] == ["dog"]
    assert (found.added, found.removed, found.kept) == (2, 1, 2)


def test_equal_lines_far_from_a_change_are_left_out() -> None:
    a = [f"line {number}" for number in range(100)]
    found = text_difference(a, [*a[:50], "changed", *a[51:]])
    assert [line.kind for line in found.lines] == [
        "skipped", "same", "same", "same", "removed", "added", "same", "same", "same", "skipped",
    ]  # fmt: skip
    assert found.lines[0].count == 47
    assert text_difference(a, a).is_empty


def test_the_text_of_a_page_is_compared_without_its_markup() -> None:
    lines, is_cut = lines_of(side(b"<title>T</title><script>x()</script><p>One<p>Two")) or ([], True)
    assert (lines, is_cut) == (["T", "One", "Two"], False)


def test_binary_called_text_is_no_text() -> None:
    assert lines_of(side(bytes(range(256)) * 40)) is None
    assert lines_of(side(bytes(range(256)) * 40, "text/plain")) is None


def test_lines_without_end_are_folded() -> None:
    lines, _ = lines_of(side(b"var a=1;" * 100_000, "text/javascript")) or ([], True)
    assert max(map(len, lines)) <= LINE_CHARS_MAX
    whole, _ = lines_of(side(b"x" * 100_000, "text/plain")) or ([], True)
    assert {len(line) for line in whole} == {LINE_CHARS_MAX}


def test_words_of_hostile_lines_are_compared_in_bounded_steps() -> None:
    a = ["a b " * 240 for _ in range(2000)]
    found = text_difference(a, ["b a " * 240 for _ in range(2000)])
    assert found.added == found.removed == 2000


def test_links_that_came_and_went() -> None:
    a = side(b'<a href="/old">o</a><a href="/kept">k</a><img src="/i.png">')
    found = link_difference(a, side(b'<a href="/kept">k</a><a href="/new">n</a><img src="/i.png">'))
    assert [link.url for link in found.added] == ["http://example.com/new"]
    assert [link.url for link in found.removed] == ["http://example.com/old"]
    assert (found.kept, found.is_cut) == (2, False)
    assert found.as_dict()["added"] == [{"url": "http://example.com/new", "role": "link"}]


def test_headers_by_what_became_of_them() -> None:
    found = header_difference(side(b"", Date="1", Server="a", Gone="x"), side(b"", Date="2", Server="b", New="y"))
    assert [(row.name, row.state, row.is_usual) for row in found.rows] == [
        ("gone", "removed", False),
        ("new", "added", False),
        ("server", "changed", False),
        ("date", "changed", True),
        ("content-type", "same", False),
    ]
    assert found.changed == 4


PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + struct.pack(">II", 640, 480) + b"\x08\x02\0\0\0"
JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xff\xc0\x00\x11\x08" + struct.pack(">HH", 480, 640) + b"\x03"


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (PNG, (640, 480)),
        (b"GIF89a" + struct.pack("<HH", 640, 480), (640, 480)),
        (JPEG, (640, 480)),
        (b"BM" + bytes(16) + struct.pack("<ii", 640, -480), (640, 480)),
        (b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + b"\x7f\x02\0\xdf\x01\0", (640, 480)),
        (b"RIFF\0\0\0\0WEBPVP8L" + bytes(5) + (639 | 479 << 14).to_bytes(4, "little"), (640, 480)),
        (b"RIFF\0\0\0\0WEBPVP8 " + bytes(10) + struct.pack("<HH", 640, 480), (640, 480)),
        (b"P1 " + b"1" * PICTURE_BYTES, (0, 0)),
        (PNG[:20], (0, 0)),
        (b"\xff\xd8" + b"\xff" * 50, (0, 0)),
        (b"\xff\xd8\xff\xe0\0\0" * 3, (0, 0)),
        (b"", (0, 0)),
        (b"<svg>", (0, 0)),
    ],
)
def test_dimensions_of_pictures(data: bytes, size: tuple[int, int]) -> None:
    assert dimensions(data) == size


@given(
    st.binary(max_size=200), st.sampled_from([b"\xff\xd8", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"RIFF1234WEBPVP8L", b"BM"])
)
def test_no_bytes_stop_the_reader_of_pictures(data: bytes, magic: bytes) -> None:
    width, height = dimensions(magic + data)
    assert width >= 0 and height >= 0
