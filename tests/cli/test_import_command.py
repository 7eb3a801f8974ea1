"""`holdfast import`: every kind of input, faults named, and safe to interrupt and to run again (I3, N7)."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import zipfile
from pathlib import Path

import pytest
from program import Shell
from warcs import PAGES, SAMPLES, many_pages, write_warc

import holdfast
from holdfast.cli.captures.import_ import SUFFIXES

COUNTS = ("records", "added", "known", "refused", "lost", "lost_bytes", "truncated", "invalid")


PIPE_BYTES_MAX = 1 << 20  # that a pipe may hold before anybody reads


def captures(shell: Shell, directory: str = ".") -> list[str]:
    there = Shell(shell.directory / directory)
    return there.quick("cdx", "*", "--output", "text", "--fl", "urlkey,timestamp,digest,type").lines


# -- what can be imported ----------------------------------------------------------------------------------------------


def test_a_file_and_again(archive: Shell) -> None:
    write_warc(archive.directory / "pages.warc.gz")
    result = archive("import", "pages.warc.gz")
    assert result.lines == [
        "imported 10 records of 1 file: 10 added, 0 known already, 0 refused",
        result.lines[1],
    ]
    assert result.lines[1].startswith(
        "payloads: 0 new contents (0 B stored), 0 held already (0 B saved), 5 in batches ("
    )
    assert result.errors == ""
    assert len(captures(archive)) == len(PAGES)
    keys = archive.keys()
    again = archive("import", "pages.warc.gz")
    assert again.lines[0] == "imported 10 records of 1 file: 0 added, 10 known already, 0 refused"
    assert len(captures(archive)) == len(PAGES)
    assert archive.keys() == keys
    long = [(f"http://example.com/{number}", "2020-01-02T03:04:05Z", b"<p>long</p>" * 200) for number in range(2)]
    write_warc(archive.directory / "long.warc", long)
    payloads = archive("import", "long.warc").lines[1]
    assert payloads.startswith("payloads: 1 new content (")
    assert payloads.endswith("), 1 held already (2.1 KiB saved)")


def test_json_has_an_object_per_file_and_a_summary(archive: Shell) -> None:
    write_warc(archive.directory / "a.warc", PAGES[:2])
    write_warc(archive.directory / "b.warc.gz", PAGES[1:])
    *files, summary = archive("import", "a.warc", "b.warc.gz", "--json", "--jobs", "1").objects
    assert [each["file"] for each in files] == ["a.warc", "b.warc.gz"]
    size = (archive.directory / "a.warc").stat().st_size
    assert files[0] == {
        "event": "file",
        "file": "a.warc",
        "name": "a.warc",
        "bytes": size,
        "records": 4,
        "added": 4,
        "known": 0,
        "refused": 0,
        "lost": 0,
        "lost_bytes": 0,
        "truncated": 0,
        "invalid": 0,
        "complete": True,
        "error": None,
        "findings": [],
    }
    assert summary["event"] == "summary"
    assert (summary["files"], summary["files_failed"]) == (2, 0)
    assert all(summary[name] == sum(each[name] for each in files) for name in COUNTS)
    assert (summary["contents"], summary["references"], summary["known"]) == (0, 0, 2)
    assert summary["inline"] == len(PAGES)
    assert summary["inline_bytes"] > sum(len(body) for url, _, body in PAGES if not url.endswith("/"))


def test_a_folder_with_other_files_in_it(archive: Shell) -> None:
    folder = archive.directory / "crawl"
    (folder / "deep").mkdir(parents=True)
    write_warc(folder / "a.warc", PAGES[:1])
    write_warc(folder / "deep" / "B.WARC.GZ", PAGES[1:])
    (folder / "a.warc.open").write_bytes(b"WARC/1.1\r\n")
    (folder / "notes.txt").write_text("mine")
    result = archive("import", "crawl", "--json")
    assert {each["file"] for each in result.objects[:-1]} == {"crawl/a.warc", "crawl/deep/B.WARC.GZ"}
    assert result.errors == "note: skipped 2 files of other kinds in folders\n"
    assert "skipped 'crawl/notes.txt'" in archive("-v", "import", "crawl").errors
    assert len(captures(archive)) == len(PAGES)


def test_a_folder_without_anything(archive: Shell) -> None:
    (archive.directory / "crawl").mkdir()
    archive.file("crawl/notes.txt", "mine")
    result = archive("import", "crawl", code=3)
    assert result.errors.startswith("holdfast: nothing to import in 'crawl': ")
    assert all(suffix in result.errors for suffix in SUFFIXES)


def test_the_files_of_an_archive_are_passed_over(archive: Shell) -> None:
    """An archive is a folder, too, and often the current one: its own batches are no files to import."""
    write_warc(archive.directory / "first.warc")
    archive("import", "first.warc")
    (archive.directory / "more").mkdir()
    write_warc(archive.directory / "more" / "pages.warc")
    result = archive("import", ".")
    assert result.lines[0] == "imported 20 records of 2 files: 0 added, 20 known already, 0 refused"
    assert "note: the archive in '.' is passed over: 'holdfast export' writes files to import from it" in result.errors


def test_no_archive_is_made_for_files_that_are_missing(tmp_path: Path) -> None:
    result = Shell(tmp_path)("import", "--init", "missing.warc", code=3)
    assert result.errors == "holdfast: cannot use 'missing.warc': No such file or directory\n"
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_named_is_tried_whatever_its_name(archive: Shell) -> None:
    write_warc(archive.directory / "pages.warc")
    (archive.directory / "pages.warc").rename(archive.directory / "download.bin")
    assert "10 added" in archive("import", "download.bin").text


def test_names_that_are_no_utf_8(archive: Shell) -> None:
    (archive.directory / "crawl").mkdir()
    name = os.fsencode(archive.directory) + b"/crawl/caf\xe9.warc"
    with open(name, "wb") as file:
        file.write(b"nothing of value")
    result = archive("import", "crawl", code=11, PYTHONIOENCODING="utf-8:strict")
    assert result.output.startswith(b"crawl/caf\xe9.warc: lost at 0, 16 bytes: ")


def test_standard_input_pipes_and_a_wacz_there(archive: Shell) -> None:
    content = write_warc(archive.directory / "pages.warc.gz").read_bytes()
    (only, _) = archive("import", "-", "--json", "-c", "piped", input=content).objects
    assert (only["file"], only["name"], only["added"]) == ("-", "standard-input", 10)
    archive("export", "-o", "pages.wacz")
    wacz = (archive.directory / "pages.wacz").read_bytes()
    (member, _) = archive("import", "-", "--json", "-c", "zipped", input=wacz).objects
    assert member["file"].startswith("-:")
    assert member["complete"]
    assert archive("cdx", "example.com", "-c", "zipped").lines
    os.mkfifo(archive.directory / "pipe")
    writer = subprocess.Popen(["sh", "-c", "cat pages.warc.gz > pipe"], cwd=archive.directory)
    assert "10 added" in archive("import", "pipe", "-c", "pipe").text
    assert writer.wait() == 0


def test_collection_and_batch(archive: Shell) -> None:
    write_warc(archive.directory / "pages.warc.gz")
    archive("import", "pages.warc.gz", "-c", "news", "--batch", "week-1")
    (row, *_) = archive("cdx", "example.com", "--json").objects
    assert (row["collection"], row["record"]) == ("news", "week-1-0000000001")


def test_progress_is_shown_on_a_terminal_and_stays_out_of_the_data(archive: Shell) -> None:
    write_warc(archive.directory / "pages.warc.gz")
    terminal, end = pty.openpty()
    done = archive.run(
        archive.command("import", "pages.warc.gz", "--json"),
        stdout=subprocess.PIPE,
        stderr=end,
        env=archive.environment(TERM="vt100", COLUMNS="120"),
    )
    os.close(end)
    shown = os.read(terminal, 1 << 16)
    os.close(terminal)
    assert [json.loads(line)["event"] for line in done.stdout.splitlines()] == ["file", "summary"]
    assert b"importing" in shown
    assert b"/s" in shown or b"?" in shown  # the rate, as far as it is known


# -- what cannot -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "Missing argument 'PATH...'"),
        (["missing.warc"], 3, "cannot use 'missing.warc': No such file"),
        (["-", "-"], 2, "standard input ('-') can be read only once"),
        (["x", "--jobs", "0"], 2, "0 must be at least 1"),
        (["x", "--colour"], 2, "No such option '--colour'"),
        (["x", "--batch", "A B"], 2, "bad name 'A B'"),
        (["x", "-c", "../up"], 2, "bad name '../up'"),
    ],
)
def test_wrong_usage_changes_nothing(archive: Shell, arguments: list[str], code: int, message: str) -> None:
    result = archive.quick("import", *arguments, code=code)
    assert message in result.errors
    assert result.output == b""
    assert archive.keys() == []


def test_one_missing_file_stops_all_before_the_first_is_read(archive: Shell) -> None:
    write_warc(archive.directory / "pages.warc.gz")
    archive("import", "pages.warc.gz", "missing.warc", code=3)
    assert captures(archive) == []


def test_damage_is_passed_over_named_and_in_the_exit_code(archive: Shell) -> None:
    path = write_warc(archive.directory / "pages.warc.gz")
    content = bytearray(path.read_bytes())
    at = content.index(b"\x1f\x8b", 100) + 20
    content[at : at + 40] = bytes(40)
    path.write_bytes(content)
    result = archive("import", "pages.warc.gz", code=11)
    assert result.lines[0].startswith("pages.warc.gz: lost at ")
    assert any(line.startswith("faults: ") and "1 file not imported whole" in line for line in result.lines)
    (report, summary) = archive("import", "pages.warc.gz", "--json", code=11).objects
    assert report["lost"] >= 1
    finding = report["findings"][0]
    assert finding["kind"] == "lost"
    assert finding["offset"] <= at < finding["offset"] + finding["length"]
    assert finding["reason"]
    assert summary["files_failed"] == 1
    strict = archive("import", "pages.warc.gz", "--strict", code=11)
    assert strict.errors.startswith("holdfast: cannot import 'pages.warc.gz': ")


def test_many_faults_are_counted_and_all_shown_on_demand(archive: Shell) -> None:
    with (archive.directory / "bad.warc").open("wb") as file:
        for number in range(30):
            head = f"WARC/1.0\r\nWARC-Type: resource\r\nWARC-Date: someday {number}\r\nContent-Length: 1\r\n\r\n"
            file.write(head.encode() + b"x\r\n\r\n")
    result = archive("import", "bad.warc", "--batch", "one")
    invalid = [line for line in result.lines if line.startswith("bad.warc: invalid at ")]
    assert len(invalid) == 20
    assert any(line.endswith("; -v before the command shows more") for line in result.lines)
    verbose = archive("-v", "import", "bad.warc", "--batch", "two")
    assert len([line for line in verbose.lines if line.startswith("bad.warc: invalid at ")]) >= 30


def test_a_broken_wacz_does_not_stop_the_others(archive: Shell) -> None:
    archive.file("bad.wacz", b"PK\x03\x04 and nothing more")
    write_warc(archive.directory / "pages.warc.gz")
    result = archive("import", "bad.wacz", "pages.warc.gz", code=11)
    assert result.lines[0].startswith("bad.wacz: cannot open ")
    assert "10 added" in result.text
    assert archive("import", "bad.wacz", "--strict", code=11).output == b""


def test_a_truncated_record_is_imported_named_and_in_the_exit_code(archive: Shell) -> None:
    path = write_warc(archive.directory / "pages.warc")
    path.write_bytes(path.read_bytes()[:-20])
    result = archive("import", "pages.warc", code=11)
    assert result.lines[0].startswith("pages.warc: truncated at ")
    assert "faults: 0 ranges lost (0 B), 1 record truncated, 0 broken rules, 1 file not imported whole" in result.lines
    (report, summary) = archive("import", "pages.warc", "--json", code=11).objects
    assert (report["truncated"], summary["truncated"], report["findings"][0]["kind"]) == (1, 1, "truncated")
    archive("export", "--exact", "-o", "again")
    assert (archive.directory / "again" / "pages.warc").read_bytes() == path.read_bytes()
    assert archive("import", "pages.warc", "--strict", code=11).errors.startswith(
        "holdfast: cannot import 'pages.warc'"
    )


@pytest.mark.parametrize(
    ("name", "start", "named"),
    [("lz4", b"\x04\x22\x4d\x18\x60\x40", "LZ4"), ("old.lz4", b"\x02\x21\x4c\x18", "LZ4"), ("xz", b"\xfd7zXZ\0", "xz")],
)
def test_a_compression_that_is_not_read_is_named(archive: Shell, name: str, start: bytes, named: str) -> None:
    """LZ4 leaves heads of records as they are: they must not be taken for records."""
    path = write_warc(archive.directory / "pages.warc")
    archive.file(f"pages.warc.{name}", start + path.read_bytes())
    result = archive("import", f"pages.warc.{name}", code=11)
    size = (archive.directory / f"pages.warc.{name}").stat().st_size
    assert result.lines[0].startswith(
        f"pages.warc.{name}: lost at 0, {size} bytes: this file is compressed with {named}"
    )
    assert captures(archive) == []
    assert named in archive("import", f"pages.warc.{name}", "--strict", code=11).errors


def test_a_wacz_without_warcs_is_said_to_have_none(archive: Shell) -> None:
    for name, member, message in (
        ("empty.wacz", "pages/pages.jsonl", "without WARCs"),
        ("moved.wacz", "data/crawl.warc.gz", "unpack it and import 'data/crawl.warc.gz'"),
    ):
        with zipfile.ZipFile(archive.directory / name, "w") as zipped:
            zipped.writestr(member, "{}")
        result = archive("import", name, code=11)
        assert result.lines[0].startswith(f"{name}: '{name}' ")
        assert message in result.lines[0]


def test_what_is_no_archive_file_is_said_to_be_none(archive: Shell) -> None:
    archive.file("page.html", "<html>hello</html>")
    result = archive("import", "page.html", code=11)
    assert result.lines[0].startswith("page.html: lost at 0, 18 bytes: ")


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="needs the samples beside the project")
def test_real_files_of_warcio(archive: Shell) -> None:
    reports = archive("import", SAMPLES / "warcio", "--json", code=11).objects[:-1]
    by_name = {each["name"]: each for each in reports}
    assert by_name["example.warc.gz"]["lost"] == 0
    assert by_name["example.warc.gz"]["records"] == 6
    assert by_name["bad.arc"]["lost"] >= 1
    assert b"Example Domain" in archive("get", "http://example.com/", "--at", "2017").output


# -- Ctrl-C ------------------------------------------------------------------------------------------------------------


def test_ctrl_c_then_again_is_the_same_as_never(archive: Shell) -> None:
    """Readers are only so far ahead of what is added: when nearly all has been read, some of it is in."""
    content = write_warc(archive.directory / "many.warc", many_pages(2500)).read_bytes()
    archive("init", "whole")
    archive("-a", "whole", "import", "many.warc")
    running = archive.start("import", "-")
    assert running.stdin is not None
    running.stdin.write(content)  # and it stays open, so that the import cannot end by itself
    running.stdin.flush()
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=60) == 130
    _, errors = running.communicate()
    assert b"run the same command again to continue" in errors
    assert errors.endswith(b"holdfast: interrupted\n")
    assert b"Traceback" not in errors
    assert 0 < len(captures(archive)) <= 2500
    archive("check")
    archive("import", "many.warc")
    assert sorted(captures(archive)) == sorted(captures(archive, "whole"))
    assert len(archive.keys()) == len(Shell(archive.directory / "whole").keys())
    with holdfast.open(archive.directory, read_only=True) as opened:
        references = sum(report.stat.references for report in opened.volumes() if report.stat)
        inline = sum(total.inline for total in opened.catalog.totals()[0].values())
    assert references + inline == 2500


def test_ctrl_c_while_standard_input_is_silent(archive: Shell) -> None:
    content = write_warc(archive.directory / "pages.warc").read_bytes()
    running = archive.start("import", "-")
    assert running.stdin is not None
    running.stdin.write(content * (1 + PIPE_BYTES_MAX // len(content)))  # returns when most of it has been read
    running.stdin.flush()
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=30) == 130
    running.communicate()
    assert "10 records" in archive("import", "pages.warc").text
