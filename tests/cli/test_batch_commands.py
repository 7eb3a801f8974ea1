"""`holdfast batch`, `reindex` and `status`: what there is, whether it is sound, and the catalog made anew."""

from __future__ import annotations

import shutil

from program import Shell
from warcs import PAGES, write_warc


def test_list_and_show(filled: Shell) -> None:
    heading, row = filled.quick("batch", "list").lines
    assert heading.split() == ["NAME", "STATE", "CAPTURES", "PAYLOADS", "FILES", "ON", "DISK"]
    assert row.split()[:3] == ["pages", "open", "5"]
    (facts,) = filled.quick("batch", "list", "--json").objects
    assert (facts["name"], facts["sealed"], facts["captures"], facts["last_serial"]) == ("pages", False, 5, 11)
    shown = filled.quick("batch", "show", "pages").text
    assert "1 file: pages.warc.gz" in shown
    assert filled.quick("batch", "show", "pages", "--json").objects == [facts | {"sources": ["pages.warc.gz"]}]
    assert "no batch 'nope': known are pages" in filled.quick("batch", "show", "nope", code=2).errors


def test_an_archive_without_batches(archive: Shell) -> None:
    assert len(archive.quick("batch", "list").lines) == 1
    assert archive.quick("batch", "list", "--json").output == b""
    assert archive.quick("batch", "verify").output == b""
    assert "no batch '202601': the archive has none yet" in archive.quick("batch", "show", "202601", code=2).errors
    assert archive("reindex").text == "the catalog has 0 captures\n"
    (facts,) = archive("status", "--json").objects
    assert (facts["captures"], facts["collections"], facts["batches"]) == (0, {}, {})


def test_a_sealed_batch_takes_no_more(filled: Shell) -> None:
    assert filled("batch", "seal", "pages").text == "batch 'pages' is sealed\n"
    write_warc(filled.directory / "more.warc", [("http://new.org/", "2022-01-01T00:00:00Z", b"new")])
    refused = filled("import", "more.warc", "--batch", "pages", code=8)
    assert "pages" in refused.errors
    (facts,) = filled.quick("batch", "list", "--json").objects
    assert facts["sealed"]
    assert filled.quick("status", "--json").objects[0]["inline"] == len(PAGES)
    assert ", sealed, 11 records (" in filled("batch", "verify", "pages").errors


def test_verify_names_a_fault(filled: Shell) -> None:
    (path,) = (filled.directory / "batches" / "pages").glob("records-*")
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 0xFF
    path.write_bytes(content)
    result = filled("batch", "verify", code=5)
    assert result.lines[0].startswith("fault: ")
    assert path.name in result.lines[0]
    *faults, summary = filled("batch", "verify", "pages", "--json", code=5).objects
    assert {each["event"] for each in faults} == {"fault"}
    assert (summary["event"], summary["clean"], summary["faults"]) == ("summary", False, len(faults))


def test_reindex_of_a_sound_a_missing_and_a_damaged_catalog(filled: Shell) -> None:
    rows = filled.quick("cdx", "*").lines
    catalog = filled.directory / "catalog"
    assert filled("reindex", "--json").objects == [{"captures": len(PAGES)}]
    assert filled.quick("cdx", "*").lines == rows
    shutil.rmtree(catalog)
    assert "run 'holdfast reindex'" in filled.quick("cdx", "*", code=5).errors
    assert filled("reindex").text == "the catalog has 5 captures\n"
    assert filled.quick("cdx", "*").lines == rows
    (catalog / "CURRENT").write_bytes(b"nonsense")
    assert "run 'holdfast reindex'" in filled.quick("cdx", "*", code=5).errors
    assert filled("reindex").text == "the catalog has 5 captures\n"
    assert filled.quick("cdx", "*").lines == rows
    assert "10 known" in filled("import", "pages.warc.gz").text


def test_status_by_collection_and_batch(filled: Shell) -> None:
    filled("import", "pages.warc.gz", "-c", "second", "--batch", "more")
    (facts,) = filled("status", "--json").objects
    assert facts["captures"] == 2 * len(PAGES)
    assert facts["collections"].keys() == {"main", "second"}
    assert facts["collections"]["main"] == facts["collections"]["second"]
    assert facts["batches"]["more"] == facts["collections"]["second"] | {"sealed": False}
    assert facts["inline_bytes"] == 2 * facts["collections"]["main"]["payload_bytes"]
    text = filled("status").text
    assert "captures              10\n" in text
    assert "\nCOLLECTION  CAPTURES  PAYLOADS\n" in text
    assert "\nBATCH  CAPTURES  PAYLOADS\n" in text
