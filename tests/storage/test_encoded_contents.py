"""Contents that another process has encoded: stored so if the volume can hold them, else encoded again."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import holdfast
from holdfast.errors import DamagedBlock
from holdfast.storage.codec import train_dictionary
from holdfast.storage.maintenance.check import CheckOptions
from holdfast.storage.store.encoder import ContentEncoder, ContentEncoding, EncodedContent
from holdfast.storage.store.put import StoreHints

_FRAME = "<html><head><title>%d</title></head><body class='page'><div id='nav'>Home | News</div>%s</body></html>"


def pages(seed: int, count: int = 60) -> list[bytes]:
    random = Random(seed)
    return [(_FRAME % (number, random.randbytes(400).hex())).encode() for number in range(count)]


def put(archive: holdfast.Archive, encoder: ContentEncoder, contents: list[bytes]) -> list[holdfast.Stored]:
    signatures = archive.contents.sign(contents)
    encoded = [
        encoder.encode(content, "text/html", signature) for content, signature in zip(contents, signatures, strict=True)
    ]
    return archive.contents.put_encoded(encoded, StoreHints(signatures, ["text/html"] * len(contents)))


def codecs(archive: holdfast.Archive, stored: list[holdfast.Stored]) -> set[str]:
    return {archive.contents.stat(each.key).codec for each in stored}


def test_a_dictionary_trained_meanwhile(tmp_path: Path) -> None:
    """W10: contents encoded without it, or with an older one, stay valid; encoders learn of it later."""
    path = tmp_path / "archive"
    holdfast.init(path)
    with holdfast.open(path) as archive:
        plain = archive.contents.encoding()
        assert plain == ContentEncoding()
        encoder, kept = ContentEncoder(plain), pages(1)
        assert codecs(archive, put(archive, encoder, kept)) == {"zstd"}
        archive.train("v0")
        first = archive.contents.encoding()
        assert first is not None
        assert first.dictionary
        late = pages(2)
        assert codecs(archive, put(archive, encoder, late)) == {"zstd"}, "the encoder does not know of it yet"
        encoder.use(first)
        with_first = pages(3)
        assert codecs(archive, put(archive, encoder, with_first)) == {"zstd-dict"}
        archive.train("v0")
        assert archive.contents.encoding() != first
        older = pages(4)
        stored = put(archive, encoder, older)
        assert codecs(archive, stored) == {"zstd-dict"}
        everything = [*kept, *late, *with_first, *older]
        stored = archive.contents.store_batch(everything)
        assert all(each.duplicate and each.references == 2 for each in stored)
        assert [archive.contents.get(each.key) for each in stored] == everything
    assert holdfast.check(path, CheckOptions(deep=True)).clean


def test_duplicates(tmp_path: Path) -> None:
    """W5: of equal contents one block is written, whoever encoded them; the encoder does not encode again."""
    path = tmp_path / "archive"
    holdfast.init(path)
    with holdfast.open(path) as archive:
        one, other = ContentEncoder(ContentEncoding()), ContentEncoder(ContentEncoding())
        content = pages(1)[0]
        (signature,) = archive.contents.sign([content])
        assert isinstance(one.encode(content, "text/html", signature), EncodedContent)
        assert one.encode(content, "text/html", signature) is content
        stored = [*put(archive, other, [content, content]), *put(archive, one, [content])]
        assert [each.duplicate for each in stored] == [False, True, True]
        assert archive.contents.stat(stored[0].key).references == 3
    assert holdfast.check(path, CheckOptions(deep=True)).clean


@pytest.mark.parametrize("kind", ["text/html", "image/png"])
def test_what_does_not_shrink_stays_as_it_is(kind: str) -> None:
    content = Random(0).randbytes(5000)
    encoded = ContentEncoder(ContentEncoding()).encode(content, kind, b"1")
    assert isinstance(encoded, EncodedContent)
    assert (encoded.encoded.codec, encoded.encoded.data, len(encoded)) == ("none", content, 5000)


def test_a_dictionary_that_the_home_volume_lacks(tmp_path: Path) -> None:
    """The content is decoded and encoded again for its volume; with several volumes none is encoded ahead."""
    path = tmp_path / "archive"
    holdfast.init(path, holdfast.Plan(volumes=2))
    with holdfast.open(path) as archive:
        assert archive.contents.encoding() is None
        contents = pages(1, 200)
        archive.contents.store_batch(contents)
        archive.train("v0")
        dictionary = archive.contents._store.encodings.newest(archive.contents._store.volume("v0"))
        assert dictionary is not None
        new = pages(2, 40)
        stored = put(archive, ContentEncoder(ContentEncoding(dictionary.data)), new)
        found = {(each.key.volume, archive.contents.stat(each.key).codec) for each in stored}
        assert found == {("v0", "zstd-dict"), ("v1", "zstd")}
        assert [archive.contents.get(each.key) for each in stored] == new
    assert holdfast.check(path, CheckOptions(deep=True)).clean


def test_a_dictionary_that_nobody_has(tmp_path: Path) -> None:
    """It cannot be decoded: an error, and nothing changes."""
    path = tmp_path / "archive"
    holdfast.init(path)
    with holdfast.open(path) as archive:
        foreign = ContentEncoding(train_dictionary(pages(5, 300), 2048).data)
        with pytest.raises(DamagedBlock, match="no volume has dictionary"):
            put(archive, ContentEncoder(foreign), pages(1))
        assert not [*archive.contents.listing()]
