"""`holdfast cdx` and `holdfast get`: captures by URL and time, and what they hold."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from pathlib import Path

import pytest
from program import Shell
from warcs import PAGES

from holdfast.catalog.query.query import MATCHES as QUERY_MATCHES
from holdfast.catalog.query.query import SORTS
from holdfast.catalog.query.render import OUTPUTS as RENDERED
from holdfast.cli.captures.cdx import OUTPUTS, cdx
from holdfast.cli.options import MATCHES
from holdfast.urls import page_id, page_id_text

FIELDS = ("--output", "text", "--fl", "url,timestamp")
FIRST, SECOND, ABOUT, COPY, OTHER = (
    f"{url} {date.translate({45: '', 58: '', 84: '', 90: ''})}" for url, date, _ in PAGES
)


def test_choices_are_those_of_the_catalog() -> None:
    assert MATCHES == QUERY_MATCHES
    assert sorted(OUTPUTS) == sorted(RENDERED)
    (sort,) = [option for option in cdx.params if option.name == "sort"]
    assert tuple(sort.type.choices) == SORTS  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["example.com"], [FIRST, SECOND]),
        (["--url", "http://example.com/about"], [ABOUT]),
        (["example.com/*"], [FIRST, SECOND, ABOUT, COPY]),
        (["*.example.com"], [FIRST, SECOND, ABOUT, COPY]),
        (["other.org", "--match", "domain"], [OTHER]),
        (["example.com", "--matchType", "host", "--limit", "1"], [FIRST]),
        (["*"], [FIRST, SECOND, ABOUT, COPY, OTHER]),
        (["--match", "all", "--from", "2020-07", "--to", "2020"], [COPY, OTHER]),
        (["*", "--filter", "=timestamp:20200601000000"], [ABOUT]),
        (["*", "--filter", "!~url:.*example", "--filter", "status:200"], [OTHER]),
        (["example.com", "--sort", "reverse"], [SECOND, FIRST]),
        (["example.com", "--closest", "2021"], [SECOND, FIRST]),
        (["example.com", "--limit", "-1"], [SECOND]),
        (["example.com", "--offset", "1"], [SECOND]),
        (["*", "--collapse", "urlkey"], [FIRST, ABOUT, COPY, OTHER]),
        (["example.com", "--match", "range", "--to-url", "example.com/about"], [FIRST, SECOND]),
        (["example.com", "-c", "main"], [FIRST, SECOND]),
        (["example.com:80"], [FIRST, SECOND]),
        (["example.com:80/ab*"], [ABOUT]),
        (["--url", "example.com:80", "--match", "range", "--to-url", "example.com:80/about"], [FIRST, SECOND]),
        (["nowhere.net"], []),
    ],
)
def test_questions(shown: Shell, arguments: list[str], expected: list[str]) -> None:
    assert shown.quick("cdx", *arguments, *FIELDS).lines == expected


def test_forms(shown: Shell) -> None:
    (line,) = shown.quick("cdx", "other.org").lines
    key, timestamp, values = line.split(" ", 2)
    assert (key, timestamp) == ("org,other)/", "20200801000000")
    assert json.loads(values)["filename"] == "pages.warc.gz"
    (row,) = shown.quick("cdx", "other.org", "--json").objects
    assert row["url"] == "http://other.org/"
    assert row["record"] == "pages-0000000009"
    assert row["size"] > 0
    heading, *rows = json.loads(shown.quick("cdx", "example.com", "--output", "json", "--showDupeCount").text)
    assert heading[-1] == "dupecount"
    assert [each[-1] for each in rows] == ["0", "0"]
    assert shown.quick("cdx", "other.org", "--output", "cdx").lines[0].startswith(" CDX ")
    assert 'rel="first last memento"' in shown.quick("cdx", "other.org", "--output", "link").text


def test_pages_and_resume_keys(shown: Shell) -> None:
    assert shown.quick("cdx", "*", "--show-num-pages").text == "1\n"
    assert shown.quick("cdx", "*", "--show-num-pages", "--json").objects == [{"pages": 1}]
    assert len(shown.quick("cdx", "*", "--page", "0").lines) == len(PAGES)
    *rows, empty, key = shown.quick("cdx", "*", *FIELDS, "--limit", "3", "--show-resume-key").lines
    assert (rows, empty) == ([FIRST, SECOND, ABOUT], "")
    assert shown.quick("cdx", "*", *FIELDS, "--resume-key", key).lines == [COPY, OTHER]
    assert shown.quick("cdx", "*", "--json", "--limit", "1", "--show-resume-key").objects[-1].keys() == {"resume_key"}


def test_captures_are_written_to_a_file(shown: Shell, tmp_path: Path) -> None:
    printed = shown.quick("cdx", "other.org", "--format", "text").text
    shown.quick("cdx", "other.org", "--format", "text", "-o", tmp_path / "captures.txt")
    assert (
        (tmp_path / "captures.txt").read_text() == printed == shown.quick("cdx", "other.org", "--output", "text").text
    )
    assert "exclude each other" in shown.quick("cdx", "*", "--format", "text", "--json", code=2).errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no URL given"),
        (["a.com", "--url", "b.com"], "two URLs given"),
        (["*", "--from", "soon"], "bad time 'soon'"),
        (["*", "--filter", "stats:200"], "did you mean 'status'?"),
        (["*", "--fl", "urlkye"], "did you mean 'urlkey'?"),
        (["*", "--format", "xml"], "'xml' is not one of"),
        (["*", "--resume-key", "xyz"], "malformed resume key 'xyz'"),
        (["a.com", "--match", "range"], "needs the end of the range"),
    ],
)
def test_wrong_questions(archive: Shell, arguments: list[str], message: str) -> None:
    result = archive.quick("cdx", *arguments, code=2)
    assert message in result.errors
    assert result.output == b""


def test_reader_that_goes_away(filled: Shell) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = filled.run(filled.command("cdx", "*"), stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


# -- get ---------------------------------------------------------------------------------------------------------------


def test_get_by_url_time_and_record(shown: Shell) -> None:
    assert shown.quick("get", "http://example.com/").output == b"<html>second</html>"
    assert shown.quick("get", "example.com", "--at", "2020").output == b"<html>first</html>"
    assert shown.quick("get", "pages-0000000001").output == b"<html>first</html>"
    raw = shown.quick("get", "example.com", "--raw").output
    assert raw[:2] == b"\x1f\x8b"
    assert gzip.decompress(raw) == b"<html>second</html>"


def test_get_not_newer_than_a_time(filled: Shell) -> None:
    """The captures are of 2020 and 2021: December 2020 is nearer to the second."""
    assert filled.quick("get", "example.com", "--at", "202012").output == b"<html>second</html>"
    assert filled.quick("get", "example.com", "--at", "202012", "--pick", "not-newer").output == b"<html>first</html>"
    told = filled.quick("get", "example.com", "--at", "2021", "--pick", "not-newer", "--json").objects[0]
    assert told["timestamp"] == "20210102030405"
    none = filled.quick("get", "example.com", "--at", "2019", "--pick", "not-newer", code=3)
    assert none.errors.endswith("no capture of 'example.com' up to 2019; the first after it is of 20200102030405\n")
    filled.quick("get", "example.com", "--pick", "newest", code=2)
    settings = filled.directory / "holdfast.toml"
    settings.write_text(f'{settings.read_text()}\n[records]\npick = "not-newer"\n')
    assert filled.quick("get", "example.com", "--at", "202012").output == b"<html>first</html>"
    nearest = filled.quick("get", "example.com", "--at", "202012", "--pick", "nearest")
    assert nearest.output == b"<html>second</html>"


def test_get_by_the_page_id_of_webbase(shown: Shell) -> None:
    (facts,) = shown.quick("get", "example.com", "--json").objects
    text = facts["page_id"]
    assert text == page_id_text(page_id("http://example.com/"))
    assert shown.quick("get", f"page-id:{text}").output == b"<html>second</html>"
    assert shown.quick("get", f"page-id:{text.upper()}", "--at", "2020").output == b"<html>first</html>"
    assert "no capture has the page id" in shown.quick("get", f"page-id:{'0' * 16}", code=3).errors
    assert "in collection 'elsewhere'" in shown.quick("get", f"page-id:{text}", "-c", "elsewhere", code=3).errors
    assert "16 hexadecimal digits" in shown.quick("get", "page-id:17", code=2).errors


def test_get_parts(shown: Shell) -> None:
    head = shown.quick("get", "other.org", "--headers").output
    assert head == b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n"
    record = shown.quick("get", "example.com/about", "--record").output
    assert record.startswith(b"WARC/1.")
    assert record.endswith(b"<html>about</html>\r\n\r\n")
    with gzip.open(shown.directory / "pages.warc.gz") as file:
        assert record in file.read()


def test_get_into_a_file(filled: Shell) -> None:
    assert filled("get", "other.org", "-o", "page.html").output == b""
    assert (filled.directory / "page.html").read_bytes() == b"<html>other</html>"
    (facts,) = filled("get", "other.org", "-o", "page.html", "--json").objects
    assert (facts["file"], facts["written"], facts["record"]) == ("page.html", 18, "pages-0000000009")
    assert filled("get", "other.org", "-o", "-").output == b"<html>other</html>"
    assert "cannot use 'no/such/page'" in filled("get", "other.org", "-o", "no/such/page", code=3).errors


def test_get_tells_in_json_what_it_found(shown: Shell) -> None:
    (facts,) = shown.quick("get", "other.org", "--json").objects
    assert (facts["url"], facts["timestamp"], facts["status"]) == ("http://other.org/", "20200801000000", "200")
    assert ["Content-Encoding", "gzip"] in facts["headers"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["http://example.com/abuot"], "such as 'http://example.com/about'"),
        (["http://nowhere.net/"], "nor of anything else on its host"),
        (["http://other.org/", "-c", "elsewhere"], "collection 'main' has it"),
        (["pages-0000004711"], "record pages-0000004711 does not exist"),
    ],
)
def test_get_what_is_not_here(shown: Shell, arguments: list[str], message: str) -> None:
    result = shown.quick("get", *arguments, code=3)
    assert message in result.errors
    assert result.output == b""


def test_an_empty_archive_says_so(archive: Shell) -> None:
    assert "add some with 'holdfast crawl' or 'holdfast import'" in archive.quick("get", "example.com", code=3).errors
    assert archive.quick("cdx", "*").output == b""
    assert archive.quick("cdx", "*", "--output", "json").text.startswith('[["urlkey"')
