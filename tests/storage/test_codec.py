"""Codecs: what goes in comes out; what is not right is named, and never blows up."""

from __future__ import annotations

import tracemalloc
import zlib
from contextlib import suppress
from pathlib import Path
from random import Random

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import DamagedBlock, UnknownName, UsageError
from holdfast.storage import codec
from holdfast.storage.codec import (
    Codec,
    Dictionary,
    codec_names,
    compressible,
    find_codec,
    register_codec,
    train_dictionary,
)
from holdfast.storage.store.encoder import Encodings
from holdfast.storage.volume import Block, BlockKey, Encoded

NAMES = ["none", "zlib", "zstd", "brotli"]
contents = st.binary(max_size=2000) | st.binary(min_size=1, max_size=20).map(lambda part: part * 300)


def pages(count: int) -> list[bytes]:
    """Contents that have as much in common as the pages of a site."""
    random = Random(0)
    frame = "<html><head><title>%d</title></head><body class='page'><div id='nav'>Home | News</div>%s</body></html>"
    return [(frame % (number, random.randbytes(40).hex())).encode() for number in range(count)]


@pytest.fixture(scope="module")
def dictionary() -> Dictionary:
    return train_dictionary(pages(300), 2048)


@pytest.fixture(params=[*NAMES, "zstd-dict"], scope="module")
def each_codec(request: pytest.FixtureRequest, dictionary: Dictionary) -> Codec:
    return dictionary if request.param == "zstd-dict" else find_codec(request.param)


# -- round trips -------------------------------------------------------------------------------------------------------


@given(content=contents)
def test_what_goes_in_comes_out(each_codec: Codec, content: bytes) -> None:
    stored = each_codec.encode(content)
    assert each_codec.decode(stored, len(content)) == content
    assert each_codec.decode(memoryview(bytes(stored)), len(content)) == content
    assert bytes(each_codec.encode(memoryview(content))) == bytes(stored)


def test_the_stored_bytes_are_what_other_programs_read() -> None:
    content = b"".join(pages(20))
    assert zlib.decompress(find_codec("zlib").encode(content)) == content
    assert zstandard.decompress(bytes(find_codec("zstd").encode(content))) == content
    assert brotli.decompress(bytes(find_codec("brotli").encode(content))) == content


def test_a_dictionary_makes_pages_smaller_and_can_be_made_again_from_its_bytes(dictionary: Dictionary) -> None:
    (page,) = pages(1)
    stored = dictionary.encode(page)
    assert len(stored) < len(find_codec("zstd").encode(page))
    again = Dictionary(dictionary.data)
    assert (again.id, again.decode(stored, len(page))) == (dictionary.id, page)


def test_too_few_samples_make_no_dictionary() -> None:
    with pytest.raises(ValueError, match="cannot train a dictionary from 2 samples"):
        train_dictionary([b"a", b"b"], 2048)


# -- wrong data --------------------------------------------------------------------------------------------------------


@given(content=contents, difference=st.integers(-3, 3).filter(bool))
def test_a_wrong_size_is_damage(each_codec: Codec, content: bytes, difference: int) -> None:
    size = len(content) + difference
    if size >= 0:
        with pytest.raises(DamagedBlock, match=f"cannot decode {each_codec.name} data"):
            each_codec.decode(each_codec.encode(content), size)


@given(data=st.binary(max_size=200), size=st.integers(0, 1000))
def test_any_bytes_are_damage_or_a_content_of_that_size(each_codec: Codec, data: bytes, size: int) -> None:
    with suppress(DamagedBlock):
        assert len(each_codec.decode(data, size)) == size


@given(content=contents, position=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_is_damage_or_keeps_the_size(
    each_codec: Codec, content: bytes, position: float, bit: int
) -> None:
    data = bytearray(each_codec.encode(content))
    if data:
        data[int(position * len(data))] ^= 1 << bit
    with suppress(DamagedBlock):
        assert len(each_codec.decode(bytes(data), len(content))) == len(content)


def test_the_wrong_dictionary_is_damage(dictionary: Dictionary) -> None:
    other = train_dictionary([page.upper() for page in pages(400)], 2048)
    with pytest.raises(DamagedBlock):
        other.decode(dictionary.encode(pages(1)[0]), len(pages(1)[0]))


def test_a_bomb_does_not_go_off(each_codec: Codec) -> None:
    """64 MB of zeros take a few bytes; decoding them as 1000 bytes must not make them all."""
    bomb = bytes(each_codec.encode(bytes(64 << 20)))
    tracemalloc.start()
    try:
        with pytest.raises(DamagedBlock):
            each_codec.decode(bomb, 1000)
        assert tracemalloc.get_traced_memory()[1] < len(bomb) + (4 << 20)
    finally:
        tracemalloc.stop()


# -- many at once ------------------------------------------------------------------------------------------------------


class DictionaryVolume:
    """As much of a volume as encodings ask for."""

    name = "v0"

    def __init__(self, *dictionaries: Dictionary) -> None:
        self._dictionaries = {each.id: each.data for each in dictionaries}

    def dictionary(self, number: int | None = None) -> tuple[int, bytes] | None:
        number = next(reversed(self._dictionaries), None) if number is None else number
        return (number, self._dictionaries[number]) if number in self._dictionaries else None


def blocks_of(encoded: list[Encoded]) -> list[Block]:
    return [Block(BlockKey(b"%d" % number), False, 1, each, Path(), 0, number) for number, each in enumerate(encoded)]


@pytest.fixture
def encodings() -> Encodings:
    return Encodings()


def test_decoding_many_is_decoding_each(dictionary: Dictionary, encodings: Encodings) -> None:
    volume = DictionaryVolume(dictionary)
    names = ["none", "zlib", "zstd", "zstd-dict", "brotli", "auto"]
    originals = pages(len(names) * 40)
    encoded = [encodings.encode(page, names[n % len(names)], None, volume) for n, page in enumerate(originals)]
    assert encodings.decode_all(blocks_of(encoded), volume) == originals
    assert {each.codec for each in encoded} == {"none", "zlib", "zstd", "zstd-dict", "brotli"}


def test_one_wrong_size_among_many_is_damage(dictionary: Dictionary, encodings: Encodings) -> None:
    volume = DictionaryVolume(dictionary)
    for name in ("zstd", "zstd-dict"):
        encoded = [encodings.encode(page, name, None, volume) for page in pages(40)]
        encoded[3] = encoded[3]._replace(size=encoded[3].size - 1)
        with pytest.raises(DamagedBlock):
            encodings.decode_all(blocks_of(encoded), volume)


def test_zstd_dict_needs_a_dictionary() -> None:
    with pytest.raises(UsageError, match="volume 'v0' has no dictionary"):
        Encodings().encode(b"abc", "zstd-dict", None, DictionaryVolume())
    with pytest.raises(DamagedBlock, match="volume 'v0' has no dictionary 00000007"):
        Encodings().decode(blocks_of([Encoded("zstd-dict", 7, 3, b"...")])[0], DictionaryVolume())


# -- choosing ----------------------------------------------------------------------------------------------------------


def test_auto_compresses_what_gets_smaller(dictionary: Dictionary) -> None:
    encodings = Encodings()
    plain, trained = DictionaryVolume(), DictionaryVolume(dictionary)
    page = pages(1)[0] * 3
    assert encodings.encode(page, "auto", "text/html", plain).codec == "zstd"
    assert Encodings().encode(page, "auto", "text/html", trained).codec == "zstd-dict"
    assert encodings.encode(b"", "auto", None, plain) == Encoded("none", 0, 0, b"", checksum=0)
    assert encodings.encode(Random(0).randbytes(500), "auto", None, plain).codec == "none"
    assert encodings.encode(page, "auto", "image/jpeg", plain).codec == "none"
    assert encodings.encode(b"", "zstd", None, plain).codec == "zstd"  # as the caller says


@pytest.mark.parametrize("codec", ["auto", "none", "zlib", "zstd", "brotli"])
def test_an_encoded_content_brings_the_checksum_of_its_data(codec: str) -> None:
    encoded = Encodings().encode(pages(1)[0], codec, None, DictionaryVolume())
    assert encoded.checksum == zlib.crc32(encoded.data)


@pytest.mark.parametrize(
    ("content", "content_type", "expected"),
    [
        (b"<html>", None, True),
        (b"<html>", "text/html; charset=utf-8", True),
        (b"", None, True),
        (b"\x89PNG\r\n", None, False),
        (b"\x1f\x8b\x08", "text/html", False),  # a content-encoding that the server left on
        (b"(\xb5/\xfd", "text/html", False),
        (b"anything", "image/webp", False),
        (b"anything", "IMAGE/WebP ", False),
        (b"<svg>", "image/svg+xml", True),
        (b"RIFF....WAVE", "audio/wav", True),
        (b"anything", "application/zip", False),
        (b"anything", "application/json", True),
        (memoryview(b"PK\x03\x04"), None, False),
    ],
)
def test_what_compression_is_likely_to_pay_for(content: bytes, content_type: str | None, expected: bool) -> None:
    assert compressible(content, content_type) is expected


# -- names -------------------------------------------------------------------------------------------------------------


def test_an_unknown_codec_names_those_known() -> None:
    with pytest.raises(UnknownName, match=r"unknown codec .nonsense.: known are auto, brotli, none, zlib, zstd"):
        find_codec("nonsense")


def test_a_registered_codec_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "_known", dict(codec._known))

    class Reversed:
        name = "reversed"

        def encode(self, content: bytes) -> bytes:
            return bytes(content)[::-1]

        def decode(self, stored: bytes, size: int) -> bytes:
            return bytes(stored)[::-1]

    register_codec(Reversed())
    assert find_codec("reversed").decode(b"cba", 3) == b"abc"
    assert "reversed" in codec_names()


def test_a_codec_is_loaded_by_its_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "_known", dict(codec._known))
    (tmp_path / "swab_codec.py").write_text(
        "class Swab:\n"
        "    name = 'swab'\n"
        "    def encode(self, content): return bytes(content).swapcase()\n"
        "    def decode(self, stored, size): return bytes(stored).swapcase()\n"
        "SWAB = Swab()\n"
    )
    info = tmp_path / "swab_codec-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: swab-codec\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[holdfast.codecs]\nswab = swab_codec:SWAB\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "swab" in codec_names()
    assert find_codec("swab").encode(b"aBc") == b"AbC"
