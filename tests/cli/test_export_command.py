"""`holdfast export`: every format, filters, and the imported files again (N3)."""

from __future__ import annotations

import gzip
import io
import os
import stat
from pathlib import Path

import pytest
from program import Shell
from warcio.archiveiterator import ArchiveIterator
from warcs import PAGES

from holdfast.archive.export import FORMATS as ALL_FORMATS
from holdfast.cli.captures.export import FORMATS
from holdfast.formats.warc.compose import WarcHead, record_parts

URLS = [url for url, _, _ in PAGES]


def responses(content: bytes) -> list[str]:
    found = ArchiveIterator(io.BytesIO(content))
    return [each.rec_headers.get_header("WARC-Target-URI") for each in found if each.rec_type == "response"]


def test_formats_are_those_of_the_library() -> None:
    assert sorted(FORMATS) == sorted(ALL_FORMATS)


@pytest.mark.parametrize(
    "name", ["x.warc", "x.warc.gz", "x.wacz", "x.tw", "x.cdxj", "x.cdx", "x.idx", "x.wet", "x.warc.zst"]
)
def test_the_suffix_tells_the_format(shown: Shell, name: str, tmp_path: Path) -> None:
    target = tmp_path / name
    (facts,) = shown.quick("export", "-o", target, "--json").objects
    assert str(target) in facts["files"]
    assert facts["records"] >= 4
    assert facts["bytes"] > 100
    assert target.stat().st_size > 0
    assert not list(tmp_path.glob("*.open"))


def test_warcs_are_read_by_warcio(filled: Shell) -> None:
    assert filled("export", "-o", "all.warc.gz").text.startswith("exported ")
    assert responses((filled.directory / "all.warc.gz").read_bytes()) == URLS


@pytest.mark.parametrize("more", [(), ("--file-size", "1G", "--format", "warc.gz")])
def test_older_warcs_on_request(filled: Shell, more: tuple[str, ...]) -> None:
    """WARC 1.0 has times of whole seconds, and other names of profiles; blocks are the same."""
    fine = "2020-03-01T00:00:00.123456Z"
    profile = "http://netpreserve.org/warc/%s/revisit/identical-payload-digest"
    head = WarcHead("revisit", fine, "<urn:uuid:1>", URLS[0], profile=profile % "1.1", refers_to_date=fine)
    (filled.directory / "new.warc").write_bytes(b"".join(record_parts(head, [b"HTTP/1.1 200 OK\r\n\r\nWARC/1.1\r\n"])))
    filled("import", "new.warc")
    blocks = {}
    for version in ("1.0", "1.1"):
        target = Path(version) if more else Path(f"{version}.warc.gz")
        filled("export", "-o", target, "--warc-version", version, *more)
        written = filled.directory / target
        (path,) = written.iterdir() if more else [written]
        with path.open("rb") as file:
            found = [(each.rec_headers, each.raw_stream.read()) for each in ArchiveIterator(file, no_record_parse=True)]
        blocks[version] = [block for _, block in found[1:]]
        assert {headers.protocol for headers, _ in found} == {f"WARC/{version}"}
        assert f"WARC File Format {version}".encode() in found[0][1]
        date = fine if version == "1.1" else "2020-03-01T00:00:00Z"
        (revisit,) = (headers for headers, _ in found if headers.get_header("WARC-Type") == "revisit")
        assert revisit.get_header("WARC-Profile") == profile % version
        assert revisit.get_header("WARC-Date") == date
        assert revisit.get_header("WARC-Refers-To-Date") == date
    assert blocks["1.0"] == blocks["1.1"]


def test_standard_output_and_filters(filled: Shell) -> None:
    assert (
        responses(filled("export", "*.example.com", "--from", "2020-06", "--format", "warc", "-o", "-").output)
        == URLS[1:4]
    )
    rows = filled("export", "--filter", "~url:.*other", "--format", "cdxj", "-o", "-").lines
    assert [row.split(" ")[0] for row in rows] == ["org,other)/"]
    assert responses(filled("export", "--batch", "pages", "--format", "warc.gz", "-o", "-").output) == URLS
    assert responses(filled("export", "-c", "elsewhere", "--format", "warc", "-o", "-").output) == []


def test_exactly_what_was_imported(filled: Shell) -> None:
    with gzip.open(filled.directory / "pages.warc.gz") as file:
        original = file.read()
    filled("export", "--exact", "-o", "again")
    with gzip.open(filled.directory / "again" / "pages.warc.gz") as file:
        assert file.read() == original
    streamed = filled("export", "--exact", "--source", "pages.warc.gz", "-o", "-").output
    assert gzip.decompress(streamed) == original
    assert (
        "no file 'other.warc' was imported"
        in filled("export", "--exact", "--source", "other.warc", "-o", "x", code=3).errors
    )


def test_several_files_in_a_directory(filled: Shell) -> None:
    (facts,) = filled("export", "--format", "warc", "--file-size", "4K", "-o", "many", "--json").objects
    assert len(facts["files"]) > 1
    found = [url for name in facts["files"] for url in responses((filled.directory / name).read_bytes())]
    assert found == URLS


def test_a_pipe_is_written_to_and_stays_one(filled: Shell) -> None:
    device = "/dev/null"
    assert stat.S_ISCHR(os.stat(device).st_mode)
    filled("export", "--format", "warc", "-o", device)
    assert stat.S_ISCHR(os.stat(device).st_mode)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "Missing option '-o'"),
        (["-o", "x.zip"], 2, "no format is known by the name 'x.zip'"),
        (["-o", "x", "--format", "pdf"], 2, "'pdf' is not one of"),
        (["-o", "-", "--format", "wacz"], 2, "cannot be written to standard output"),
        (["-o", "-", "--format", "warc", "--json"], 2, "--json needs -o PATH"),
        (["-o", "-", "--exact"], 2, "give --source"),
        (["-o", "x.warc", "--source", "y"], 2, "--source needs --exact"),
        (["-o", "x", "--exact", "example.com"], 2, "leave out --format and all filters"),
        (["-o", "x.warc", "--compress"], 2, "--compress is for"),
        (["-o", "x.cdxj", "--file-size", "1M"], 2, "--file-size is for"),
        (["-o", "x.cdxj", "--warc-version", "1.0"], 2, "--warc-version is for"),
        (["-o", "x.warc", "--match", "host"], 2, "need a URL"),
        (["-o", "x.warc", "--batch", "nope"], 2, "no batch 'nope': known are pages"),
        (["-o", "x.cdxj", "--batch", "nope"], 2, "no batch 'nope': known are pages"),
        *(
            (["-o", f"no/such/{name}"], 3, f"cannot write 'no/such/{name}': there is no directory 'no/such'")
            for name in ("x.warc", "x.wacz", "x.parquet", "x.cdxj", "x.idx")
        ),
    ],
)
def test_wrong_usage_leaves_no_file(
    shown: Shell, arguments: list[str], code: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(shown.directory.iterdir())
    assert message in shown.quick("export", *arguments, code=code).errors
    assert sorted(shown.directory.iterdir()) == before
    assert sorted(tmp_path.iterdir()) == []
