"""`holdfast diff`: two captures compared on the command line (N9)."""

from __future__ import annotations

import pytest
from program import Shell

import holdfast
from holdfast.archive.ingest.exchange import page

URL = "http://example.com/"


@pytest.fixture
def changed(archive: Shell) -> Shell:
    with holdfast.open(archive.directory) as opened:
        opened.add([page(URL, b"<title>T</title><p>One cat.<a href=/a>A</a>", timestamp="20200102030405")])
        opened.add([page(URL, b"<title>T</title><p>One dog.<a href=/b>B</a>", timestamp="20260102030405")])
    return archive


def test_lines_that_differ(changed: Shell) -> None:
    ran = changed("diff", URL, "2020", "2026")
    assert ran.lines[2:] == [" T", "-One cat.A", "+One dog.B"]
    assert "differs" in ran.errors


def test_links_and_headers(changed: Shell) -> None:
    links = changed.quick("diff", URL, "2020", "2026", "--links").lines
    assert links[2:] == ["-http://example.com/a", "+http://example.com/b", "@@ 0 links alike @@"]
    headers = changed.quick("diff", URL, "2020", "2026", "--headers").lines
    assert " content-type: text/html" in headers


def test_equal_captures_are_called_equal(changed: Shell) -> None:
    ran = changed.quick("diff", URL, "2020", "2021")
    assert "both are the capture of 20200102030405" in ran.errors


def test_captures_that_are_not_newer_than_the_times(changed: Shell) -> None:
    assert "differs" in changed.quick("diff", URL, "2020", "2025").errors
    ran = changed.quick("diff", URL, "2020", "2025", "--pick", "not-newer")
    assert "both are the capture of 20200102030405" in ran.errors


def test_json_tells_all(changed: Shell) -> None:
    told = changed.quick("diff", URL, "2020", "2026", "--json").objects[0]
    assert told["text"]["added"] == 1 and told["links"]["kept"] == 0 and told["is_same_content"] is False
    assert [span for line in told["text"]["lines"] for span in line["spans"] if span[1]] == [
        ["cat", True],
        ["A", True],
        ["dog", True],
        ["B", True],
    ]


def test_what_is_not_there_is_not_found(changed: Shell) -> None:
    changed.quick("diff", "http://nowhere.example/", "2020", "2021", code=3)
    changed.quick("diff", URL, "x", "2021", code=2)
