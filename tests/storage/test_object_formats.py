"""Golden bytes of the files `objects` and `uploaded`."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.env import LocalFiles, paths
from holdfast.errors import DamagedBlock, FormatTooNew, InvalidSetting
from holdfast.storage import block
from holdfast.storage.volumes.object.bucket import Bucket
from holdfast.storage.volumes.object.ownership import Attachment, read_attachment, write_attachment
from holdfast.storage.volumes.object.upload_list import Uploaded, pack, parse

OBJECTS = b"HOLDFAST-OBJECTS/1\nurl s3://bucket/prefix\nterm 3\ntoken 8c5f1d0a7b6e4f32\n"
UPLOADED = b"HOLDFAST-UPLOADED/1\n000007-2.seg 3 4096 SE9MREZBU1Q=\n000009.seg 1 96 \ngone segments/000001/000007.seg\n"


def signed(text: bytes) -> bytes:
    return text + b"crc32 %08x\n" % block.checksum(text)


def test_the_attachment_is_this_text(tmp_path: Path) -> None:
    attachment = Attachment("s3://bucket/prefix", 3, "8c5f1d0a7b6e4f32")
    write_attachment(LocalFiles(), tmp_path, attachment)
    path = tmp_path / paths.OBJECTS
    assert path.read_bytes() == signed(OBJECTS) == OBJECTS + b"crc32 " + path.read_bytes()[-9:]
    assert read_attachment(LocalFiles(), tmp_path) == attachment
    path.write_bytes(signed(OBJECTS).replace(b"term 3", b"term 4"))
    with pytest.raises(DamagedBlock, match="checksum"):
        read_attachment(LocalFiles(), tmp_path)
    path.write_bytes(signed(OBJECTS.replace(b"OBJECTS/1", b"OBJECTS/2")))
    with pytest.raises(FormatTooNew):
        read_attachment(LocalFiles(), tmp_path)


def test_the_list_of_what_is_uploaded_is_this_text() -> None:
    uploaded = {
        "000009.seg": Uploaded("000009.seg", 1, 96),
        "000007-2.seg": Uploaded("000007-2.seg", 3, 4096, b"HOLDFAST"),
    }
    doomed = ["segments/000001/000007.seg"]
    assert pack(uploaded, doomed) == signed(UPLOADED)
    assert parse(signed(UPLOADED), Path("uploaded")) == (uploaded, doomed)
    for harmed in (UPLOADED, signed(UPLOADED)[:-3], signed(UPLOADED).replace(b"4096", b"4097"), b""):
        with pytest.raises(DamagedBlock):
            parse(harmed, Path("uploaded"))


@pytest.mark.parametrize("url", ["s3:///prefix", "file://host/directory", "https://example.org/", "nonsense"])
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidSetting, match="file:///directory"):
        Bucket(url)
