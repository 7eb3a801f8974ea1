"""Reading WACZ: what is whole reads back; what is hostile is refused, what is damaged is named."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile
from pathlib import Path
from random import Random

import pytest
from wacz_samples import NAMES, findings, rewrite, write
from warcio.archiveiterator import ArchiveIterator

from holdfast.errors import MalformedInput
from holdfast.formats.io.open import open_records
from holdfast.formats.record import Finding, FindingKind
from holdfast.formats.wacz import reader as wacz_reader
from holdfast.formats.wacz.reader import DATAPACKAGE, DATAPACKAGE_DIGEST, PAGES, Wacz


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "made.wacz"
    write(made)
    return made


# -- reading -----------------------------------------------------------------------------------------------------------


def test_what_was_written_reads_back(path: Path) -> None:
    with Wacz(path) as wacz:
        assert wacz.names() == NAMES
        assert wacz.warcs == NAMES[:2]
        assert wacz.indexes == NAMES[2:4]
        urls = []
        for name in wacz.warcs:
            with wacz.open(name) as stream:
                urls += [
                    record.rec_headers.get_header("WARC-Target-URI")
                    for record in ArchiveIterator(stream, check_digests="raise")
                ]
        assert urls == [f"http://example.com/{number}" for number in range(20)]
        with wacz.open(PAGES) as stream:
            header, *pages = map(json.loads, stream)
    assert header["format"] == "json-pages-1.0"
    assert [(page["url"], page["ts"]) for page in pages] == [
        ("http://example.com/0", "2026-11-16T02:00:00Z"),
        ("http://example.com/ü", "2026-11-16T02:00:01Z"),
    ]
    assert findings(path) == []


def test_our_own_reader_reads_its_warcs(path: Path) -> None:
    with Wacz(path) as wacz:
        streams = [wacz.open(name) for name in wacz.warcs]
        urls = [record.url for stream in streams for record in open_records(stream, strict=True)]
    assert urls == [f"http://example.com/{number}" for number in range(20)]


def test_streams_of_several_members_do_not_disturb_one_another(path: Path) -> None:
    with Wacz(path) as wacz, zipfile.ZipFile(path) as archive:
        streams = {name: wacz.open(name) for name in wacz.names()}
        read = dict.fromkeys(streams, b"")
        while chunks := {name: chunk for name, stream in streams.items() if (chunk := stream.read(10))}:
            for name, chunk in chunks.items():
                read[name] += chunk
        assert read == {name: archive.read(name) for name in NAMES}


def test_stored_members_can_be_sought_in(path: Path) -> None:
    with Wacz(path) as wacz, wacz.open("archive/a.warc.gz") as stream:
        whole = stream.read()
        assert stream.seek(0, io.SEEK_END) == len(whole)
        assert stream.read(1) == b""
        stream.seek(5)
        assert stream.read(10) == whole[5:15]


def test_a_member_that_is_not_there_is_named(path: Path) -> None:
    with Wacz(path) as wacz, pytest.raises(MalformedInput, match=r"archive/none\.warc"):
        wacz.open("archive/none.warc")


# -- damage ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES[:5])
def test_a_changed_member_is_found_by_its_hash(name: str, path: Path) -> None:
    rewrite(path, lambda each, data: data[:-1] + b"?" if each == name else data)
    (found,) = findings(path)
    assert found.kind is FindingKind.INVALID
    assert name in found.reason
    assert "sha256" in found.reason
    with zipfile.ZipFile(path) as archive:
        assert found.offset == archive.getinfo(name).header_offset


def test_a_changed_size_is_found_too(path: Path) -> None:
    rewrite(path, lambda each, data: data + b"x" if each == "archive/a.warc.gz" else data)
    assert ["bytes, expected" in each.reason for each in findings(path)] == [True, False]


def test_a_changed_datapackage_is_found_by_its_digest(path: Path) -> None:
    rewrite(path, lambda each, data: data + b"\n" if each == DATAPACKAGE else data)
    (found,) = findings(path)
    assert f"'{DATAPACKAGE}': sha256" in found.reason


def test_missing_and_unlisted_members_are_found(path: Path) -> None:
    rewrite(path, lambda each, data: None if each == PAGES else data, {"archive/more.warc": b"WARC/1.1"})
    assert [(each.kind, each.reason) for each in findings(path)] == [
        (FindingKind.INVALID, f"'{PAGES}': missing"),
        (FindingKind.INVALID, f"'archive/more.warc': not listed in {DATAPACKAGE}"),
        (FindingKind.LOST, f"'{PAGES}': listed in {DATAPACKAGE}, but missing"),
    ]


@pytest.mark.parametrize("data", [None, b"", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"resources": 5}'])
def test_a_datapackage_that_is_none_is_named(data: bytes | None, path: Path) -> None:
    rewrite(path, lambda each, old: data if each == DATAPACKAGE else old)
    assert [each for each in findings(path) if DATAPACKAGE in each.reason]
    with Wacz(path) as wacz:
        assert wacz.warcs == NAMES[:2], "the records are there all the same"


@pytest.mark.parametrize("hash_", [None, "", "sha256:", "crc32:00", "shake_128:00", 7])
def test_hashes_of_unknown_kinds_are_named(hash_: object, path: Path) -> None:
    package = {"resources": [{"path": name, "hash": hash_} for name in NAMES[:5]]}
    rewrite(path, lambda each, data: json.dumps(package).encode() if each == DATAPACKAGE else data)
    assert (
        len([each for each in findings(path) if each.reason.startswith(tuple(f"'{name}'" for name in NAMES[:5]))]) == 5
    )


def test_md5_is_read(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        hashes = {name: hashlib.md5(archive.read(name), usedforsecurity=False).hexdigest() for name in NAMES[:5]}
    package = {"resources": [{"path": name, "hash": f"md5:{value}"} for name, value in hashes.items()]}
    changes = {DATAPACKAGE: json.dumps(package).encode(), DATAPACKAGE_DIGEST: None}
    rewrite(path, changes.get)
    assert findings(path) == []


def test_deflated_warcs_are_read_and_named(path: Path) -> None:
    with zipfile.ZipFile(path) as old:
        members = {name: old.read(name) for name in NAMES}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name, data in members.items():
            new.writestr(name, data)
    assert [each.reason for each in findings(path)] == [
        f"'{name}': deflated; WARCs are to be stored as they are" for name in NAMES[:2]
    ]
    with Wacz(path) as wacz, wacz.open("archive/a.warc.gz") as stream:
        assert stream.read() == members["archive/a.warc.gz"]


def test_any_flipped_byte_is_found_or_refused_and_never_crashes(path: Path) -> None:
    whole = path.read_bytes()
    random = Random(0)
    for _ in range(150):
        at = random.randrange(len(whole))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << random.randrange(8))]) + whole[at + 1 :])
        found: list[Finding] = []
        try:
            with Wacz(path) as wacz:
                wacz.verify(found.append)
                for name in wacz.warcs:
                    with wacz.open(name) as stream:
                        stream.read()
        except MalformedInput as error:
            assert str(path) in str(error)


def test_any_cut_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    for size in range(0, len(whole), 97):
        path.write_bytes(whole[:size])
        with pytest.raises(MalformedInput, match="as WACZ"):
            Wacz(path)


# -- hostility ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../a", "archive/../../a", "/etc/passwd", "C:/a", "archive\\..\\a", "archive/.."])
def test_names_that_lead_out_are_refused(name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.wacz", "w") as archive:
        archive.writestr(name, b"x")
    with pytest.raises(MalformedInput, match="leads out"):
        Wacz(tmp_path / "a.wacz")


def test_bombs_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.wacz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/a.warc", b"\0" * 10_000_000)
    with pytest.raises(MalformedInput, match="claims 10000000 bytes"):
        Wacz(tmp_path / "a.wacz")


def test_a_member_that_unpacks_to_more_than_it_says_gives_no_more(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.wacz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/a.warc", b"x" * 1000)
    data = (tmp_path / "a.wacz").read_bytes().replace(struct.pack("<I", 1000), struct.pack("<I", 10))
    (tmp_path / "a.wacz").write_bytes(data)
    with (
        Wacz(tmp_path / "a.wacz") as wacz,
        wacz.open("archive/a.warc") as stream,
        pytest.raises(MalformedInput, match="checksum"),
    ):
        stream.read()


def test_members_on_top_of_one_another_are_refused(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        second = archive.getinfo(NAMES[1]).header_offset
        end = archive.start_dir
    data = bytearray(path.read_bytes())
    at = data.index(struct.pack("<I", second), end)
    data[at : at + 4] = struct.pack("<I", 0)
    path.write_bytes(data)
    with pytest.raises(MalformedInput, match="lies on another"):
        Wacz(path)


@pytest.mark.parametrize(
    ("limit", "most", "reason"),
    [("_DIRECTORY_BYTES_MAX", 10, "directory is larger"), ("_MEMBERS_MAX", 2, "more than 2 members")],
)
def test_limits_hold(limit: str, most: int, reason: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wacz_reader, limit, most)
    with pytest.raises(MalformedInput, match=reason):
        Wacz(path)


def test_a_datapackage_larger_than_memory_may_hold_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wacz_reader, "_JSON_BYTES_MAX", 20)
    with Wacz(path) as wacz, pytest.raises(MalformedInput, match="larger than 20"):
        wacz.datapackage()


def test_what_is_no_zip_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.wacz").write_bytes(b"WARC/1.1\r\n" * 100)
    with pytest.raises(MalformedInput, match="not a zip"):
        Wacz(tmp_path / "a.wacz")


def test_encrypted_members_are_refused(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        end = archive.start_dir
    data = bytearray(path.read_bytes())
    data[end + 8] |= 1
    path.write_bytes(data)
    with Wacz(path) as wacz, pytest.raises(MalformedInput, match="encrypted"):
        wacz.open(NAMES[0])
