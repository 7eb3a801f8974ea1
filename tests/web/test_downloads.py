"""Records and WARC files for download, checked by other people's readers (I10, H8)."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages_kept import html, kept
from serving import Served, ask, serving

import holdfast
from holdfast.archive.ingest.exchange import Exchange, page
from holdfast.config import AccessRule, ServeSettings
from holdfast.web.auth.access import Access

fastwarc = pytest.importorskip("fastwarc.warc")
warcio = pytest.importorskip("warcio.archiveiterator")
checker = pytest.importorskip("warcio.checker")

A = "http://a.example"
TIME = "20240102030405"
LARGE = bytes(range(256)) * (3 << 12)  # 3 MiB
REQUEST = b"GET /asked HTTP/1.1\r\nHost: a.example\r\n\r\n"
SAMPLES = Path(__file__).parents[3] / "shared" / "samples" / "warc"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
    captures = [
        html(f"{A}/", TIME),
        Exchange(f"{A}/asked", head, b"<p>answered", TIME, REQUEST),
        page(f"{A}/film.mp4", LARGE, "video/mp4", TIME),
        *(html(f"{A}/few/{n}", TIME) for n in range(5)),
    ]
    path = kept(tmp_path_factory.mktemp("downloads") / "archive", captures)
    return kept(path, [html("http://news.example/", TIME)], "news")


@pytest.fixture(scope="module")
def served(path: Path) -> Iterator[Served]:
    with serving(path) as there:
        yield there


def record_of(served: Served, url: str, collection: str | None = None) -> str:
    capture = served.site.archive.catalog.newest(url, collection)
    assert capture is not None
    return str(capture.record)


def read(body: bytes) -> list[tuple[str, str | None, bytes]]:
    """Type, URL and block of each record, as both readers have them."""
    theirs = [
        (each.rec_type, each.rec_headers.get_header("WARC-Target-URI"), each.raw_stream.read())
        for each in warcio.ArchiveIterator(io.BytesIO(body), no_record_parse=True)
    ]
    others = [
        (each.headers.get("WARC-Type"), each.headers.get("WARC-Target-URI"), each.reader.read())
        for each in fastwarc.ArchiveIterator(io.BytesIO(body), parse_http=False)
    ]
    assert others == theirs
    return theirs


@pytest.mark.parametrize("name", ["", "film.mp4"])
def test_a_record_comes_byte_for_byte_as_warc(served: Served, path: Path, name: str) -> None:
    record = record_of(served, f"{A}/{name}")
    got = ask(f"{served.controls}/main/record/{record}")
    assert (got.status, got.headers["content-type"]) == (200, "application/warc")
    assert got.headers["content-disposition"] == f'attachment; filename="{record}.warc"'
    with holdfast.open(path, read_only=True) as archive:
        assert got.body == b"".join(archive.get(f"{A}/{name}").raw())
    assert [each[:2] for each in read(got.body)] == [("response", f"{A}/{name}")]


def test_a_record_is_found_in_its_collection_only_and_by_a_proper_id(served: Served) -> None:
    record = record_of(served, "http://news.example/", "news")
    assert ask(f"{served.controls}/news/record/{record}").status == 200
    assert ask(f"{served.controls}/all/record/{record}").status == 200
    assert ask(f"{served.controls}/main/record/{record}").status == 404
    assert ask(f"{served.controls}/main/record/202001-0000009999").status == 404
    assert ask(f"{served.controls}/main/record/nonsense").status == 400
    assert ask(f"{served.controls}/main/record/{record}", "POST", b"").status == 400


def test_a_warc_of_what_a_query_finds_has_the_requests_beside_the_responses(served: Served) -> None:
    got = ask(f"{served.controls}/main/warc?url=a.example/*&filter=!=mime:video/mp4")
    assert (got.status, got.headers["content-type"]) == (200, "application/warc")
    records = read(got.body)
    assert records[0][0] == "warcinfo"
    assert ("request", f"{A}/asked", REQUEST) in records
    responses = [each[1] for each in records if each[0] == "response"]
    assert sorted(str(each) for each in responses) == sorted(
        [f"{A}/", f"{A}/asked", *(f"{A}/few/{n}" for n in range(5))]
    )
    assert len(records) == 1 + len(responses) + 1


def test_a_large_record_goes_through_in_parts(served: Served) -> None:
    got = ask(f"{served.controls}/main/warc?url={A}/film.mp4")
    assert read(got.body)[1][2].endswith(LARGE)


def test_the_digests_of_a_warc_hold(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "made.warc.gz"
    file.write_bytes(ask(f"{served.controls}/main/warc?url=*").body)
    arguments = type("Arguments", (), {"inputs": [str(file)], "verbose": False})
    made = checker.Checker(arguments)
    made.process_all()
    assert made.exit_value == 0


def test_the_whole_of_the_archive_comes_back_into_another(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "made.warc.gz"
    file.write_bytes(ask(f"{served.controls}/all/warc?url=*").body)
    holdfast.init(tmp_path / "other")
    with holdfast.open(tmp_path / "other") as archive:
        assert all(report.added for report in archive.import_files([file]))
        assert archive.get(f"{A}/film.mp4").payload() == LARGE


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the shared samples are not on this machine")
def test_originals_of_revisits_come_along_if_they_are_asked_for(tmp_path: Path) -> None:
    holdfast.init(tmp_path / "archive")
    with holdfast.open(tmp_path / "archive") as archive:
        names = ("20130729-heritrix-original", "20130729-heritrix-revisit-with-http-headers")
        list(archive.import_files([SAMPLES / "iipc-dedup" / f"{name}.warc.gz" for name in names]))
    with serving(tmp_path / "archive") as there:
        found = {row.capture.type: row.capture for row in there.site.archive.search(holdfast.CaptureQuery(url="*"))}
        query = f"url={found['revisit'].url}&filter==type:revisit"
        alone = read(ask(f"{there.controls}/main/warc?{query}").body)
        assert [each[0] for each in alone] == ["warcinfo", "revisit"]
        both = read(ask(f"{there.controls}/main/warc?{query}&resolveRevisits=true").body)
        assert sorted(each[0] for each in both) == ["response", "revisit", "warcinfo"]


def test_too_much_is_refused_before_the_first_byte(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for records_max, bytes_max in ((3, 1 << 30), (100, 1000)):
        monkeypatch.setattr("holdfast.web.replay.downloads.RECORDS_MAX", records_max)
        with serving(path, ServeSettings(download_bytes_max=bytes_max)) as there:
            got = ask(f"{there.controls}/main/warc?url=*")
            assert (got.status, "narrow it" in got.text) == (413, True)
            assert ask(f"{there.controls}/main/warc?url={A}/").status == 200


def test_nothing_found_and_nonsense_are_told_apart(served: Served) -> None:
    assert ask(f"{served.controls}/main/warc?url=http://nowhere.example/").status == 404
    assert ask(f"{served.controls}/main/warc?url=*&filter=~url:(").status == 400
    assert ask(f"{served.controls}/main/warc").status == 400
    head = ask(f"{served.controls}/main/warc?url=*", "HEAD")
    assert (head.status, head.body) == (200, b"")


def test_what_a_rule_hides_cannot_be_downloaded(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    first, asked = record_of(served, f"{A}/"), record_of(served, f"{A}/asked")
    rules = [AccessRule("exclude", url=f"{A}/"), AccessRule("block", prefix=f"{A}/asked")]
    monkeypatch.setattr(served.site, "access", Access(rules))
    assert ask(f"{served.controls}/main/record/{first}").status == 404
    assert ask(f"{served.controls}/main/record/{asked}").status == 451
    found = {str(each[1]) for each in read(ask(f"{served.controls}/main/warc?url=*").body)}
    assert found.isdisjoint({f"{A}/", f"{A}/asked"})
    assert f"{A}/few/1" in found
