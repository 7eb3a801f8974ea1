"""Files with defects: what any public reader yields of them is held, shown, exported, given back exactly (N3, N7)."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import redirect_stderr
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from damaged_warcs import NOISE, dated, defects, gz, length, line_ends, page
from warcio.archiveiterator import ArchiveIterator as WarcioIterator

import holdfast
from holdfast import Archive, CaptureQuery, ExportOptions, Selection
from holdfast.archive.ingest import file_reader
from holdfast.archive.ingest.importer import ImportReport
from holdfast.formats.io.open import open_records
from holdfast.formats.record import FindingKind
from holdfast.records.references import reference_drafts
from holdfast.streams.options import StreamOptions
from holdfast.streams.outputs.warc import Warc

fastwarc_warc = pytest.importorskip("fastwarc.warc")
FILES = defects()
# The records that are not whole, or not as their heads say; all others come through without a mark.
TRUNCATED = {
    "short-redirect", "short-page", "head-only", "head-cut", "member-cut", "member-cut-amid", "member-damaged",
    "length-over-5", "length-over-50", "length-over-9999999",
    "length-over-5-gz", "length-over-50-gz", "length-over-9999999-gz", "lengths-wrong",
}  # fmt: skip


@dataclass(frozen=True)
class Imported:
    """All the files in one archive."""

    path: Path
    archive: Archive
    reports: dict[str, ImportReport]


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Imported]:
    folder = tmp_path_factory.mktemp("damaged")
    for name, content in FILES.items():
        (folder / filename(name)).write_bytes(content)
    holdfast.init(folder / "archive")
    with holdfast.open(folder / "archive") as archive:
        reports = {report.name: report for report in archive.import_files([folder / filename(name) for name in FILES])}
        yield Imported(folder / "archive", archive, {name: reports[filename(name)] for name in FILES})


def filename(name: str) -> str:
    return f"{name}.warc.gz" if FILES[name].startswith(b"\x1f\x8b") else f"{name}.warc"


def by_warcio(content: bytes) -> dict[str, tuple[str, bytes]]:
    """URL, status and payload of the captures that warcio yields before it gives up."""
    found: dict[str, tuple[str, bytes]] = {}
    with redirect_stderr(io.StringIO()):
        try:
            for record in WarcioIterator(io.BytesIO(content)):
                if url := record.rec_headers.get_header("WARC-Target-URI"):
                    status = record.http_headers.get_statuscode() if record.http_headers else ""
                    found[url] = (status, record.raw_stream.read())
        except Exception:  # whatever it raises, it ends there
            return found
    return found


def by_fastwarc(content: bytes) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    try:
        for record in fastwarc_warc.ArchiveIterator(io.BytesIO(content)):
            if url := record.headers.get("WARC-Target-URI"):
                found[url] = b""
                found[url] = record.reader.read()
    except OSError:
        return found
    return found


def captures(archive: Archive, name: str) -> dict[str, holdfast.Capture]:
    query = CaptureQuery(url=f"{name}.example/*")
    return {row.capture.url: row.capture for row in archive.search(query)}


def plain(content: bytes) -> bytes:
    """The bytes of a file without its compression, as far as they can be decompressed."""
    if not content.startswith(b"\x1f\x8b"):
        return content
    out = b""
    while content:
        inflater = zlib.decompressobj(31)
        out += inflater.decompress(content)
        content = inflater.unused_data
    return out


@pytest.mark.parametrize("name", FILES)
def test_what_any_reader_yields_is_held(imported: Imported, name: str) -> None:
    held = captures(imported.archive, name)
    warcio, fastwarc = by_warcio(FILES[name]), by_fastwarc(FILES[name])
    assert len(warcio) >= 1
    assert set(warcio) | set(fastwarc) <= set(held)
    for url, (status, _) in warcio.items():
        if status:
            assert held[url].status == status, url
    report = imported.reports[name]
    assert (report.lost, report.error) == (0, None), report.findings
    assert sum(1 for each in held.values() if '"truncated"' in each.extra) == (name in TRUNCATED)
    assert report.truncated == (name in TRUNCATED)


@pytest.mark.parametrize("name", ["short-redirect", "short-page", "member-cut", "member-cut-amid", "member-damaged"])
def test_a_truncated_record_has_what_the_readers_read_of_it(imported: Imported, name: str) -> None:
    url = f"http://{name}.example/2"
    _, theirs = by_warcio(FILES[name])[url]
    stored = imported.archive.get(url)
    assert stored.payload() == theirs
    assert len(theirs) > 0
    finding = next(each for each in imported.reports[name].findings if each.kind is FindingKind.TRUNCATED)
    assert finding.offset + finding.length <= len(FILES[name])
    assert "the block has" in finding.reason


def test_a_redirect_that_is_cut_keeps_its_location(imported: Imported) -> None:
    capture = captures(imported.archive, "short-redirect")["http://short-redirect.example/2"]
    assert capture.status == "302"
    assert json.loads(capture.extra)["redirect"] == "http://there.example/"


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("length")])
def test_a_wrong_length_costs_nothing(imported: Imported, name: str) -> None:
    """Each record has its own bytes, the neighbours among them, and each fault has its own range."""
    whole = {f"http://{name}.example/{number}" for number in (1, 2, 3, 4)}
    held = captures(imported.archive, name)
    assert set(held) == (whole if "/4" in plain(FILES[name]).decode() else {u for u in whole if not u.endswith("4")})
    for url in held:
        assert imported.archive.get(url).payload() == b"<p>line of text</p>\r\n" * 30 + url[-1:].encode()
    found = [each for each in imported.reports[name].findings if "the block has" in each.reason]
    assert len({(each.offset, each.length) for each in found}) == len(found)
    assert len(found) == (0 if name == "length-plus" else 2 if name == "lengths-wrong" else 1)


@pytest.mark.parametrize("coding", ["warc", "warc.gz"])
@pytest.mark.parametrize("name", FILES)
def test_a_plain_export_is_valid_whatever_came_in(imported: Imported, tmp_path: Path, name: str, coding: str) -> None:
    target = tmp_path / f"out.{coding}"
    selection = Selection(query=CaptureQuery(url=f"{name}.example/*"))
    imported.archive.export(selection, target, ExportOptions(coding))
    content = target.read_bytes()
    held = captures(imported.archive, name)
    warcio, fastwarc = by_warcio(content), by_fastwarc(content)
    assert set(warcio) == set(fastwarc) == set(held)
    for url, (status, payload) in warcio.items():
        assert payload == imported.archive.get(url).payload()
        assert status in (held[url].status, "")
    findings = []  # type: ignore[var-annotated]
    for record in open_records(io.BytesIO(content), report=findings.append):
        assert record.head.count(b"\n") == record.head.count(b"\r\n") == record.head.count(b"\r")
        record.finish()
        assert record.tail == b"\r\n\r\n"
    about = {finding.reason for finding in findings}
    assert about <= {"an HTTP message of Content-Type 'image/png'"}
    check = subprocess.run(
        [sys.executable, "-m", "warcio.cli", "check", str(target)], capture_output=True, text=True, check=False
    )
    assert (check.returncode, check.stdout) == (0, "")


def test_a_record_without_its_url_does_not_end_other_readers(archive: Archive, quick: Path) -> None:
    """A response must name its URL; warcio fails at one that does not, and reads nothing behind it."""
    one, two, three = (page("no-url", number) for number in (1, 2, 3))
    source = quick / "no-url.warc"
    source.write_bytes(one + two.replace(b"WARC-Target-URI", b"X-Target-URI") + three)
    archive.import_files([source])
    archive.export(Selection(), quick / "out.warc", ExportOptions("warc"))
    content = (quick / "out.warc").read_bytes()
    urls = {"http://no-url.example/1", "urn:uuid:00000000-0000-4000-8000-000000000002", "http://no-url.example/3"}
    assert set(by_warcio(content)) == set(by_fastwarc(content)) == urls


@pytest.mark.parametrize("name", FILES)
def test_exact_export_gives_the_bytes_back(imported: Imported, tmp_path: Path, name: str) -> None:
    target = tmp_path / filename(name)
    report = imported.archive.export(Selection(), target, ExportOptions("warc", exact=True, source=filename(name)))
    got = plain(target.read_bytes())
    if name in ("member-cut-amid", "member-damaged"):  # where the deflated data ends, only a reader can tell
        head, payload = page(name, 2, NOISE).split(NOISE)[0], imported.archive.get(f"http://{name}.example/2").payload()
        assert got == page(name, 1) + head + payload + page(name, 3)
    else:
        assert got == plain(FILES[name])
    assert any("not whole" in note for note in report.notes) == (name in TRUNCATED)


def test_rows_say_what_is_truncated(imported: Imported, tmp_path: Path) -> None:
    target = tmp_path / "out.cdxj"
    imported.archive.export(Selection(), target, ExportOptions("cdxj"))
    rows = [json.loads(line.split(" ", 2)[2]) for line in target.read_text().splitlines()]
    marked = {urlsplit(row["url"]).hostname for row in rows if row.get("truncated") == "unspecified"}
    assert marked == {f"{name}.example" for name in TRUNCATED}


def test_every_capture_is_replayed(imported: Imported) -> None:
    program = "from holdfast.cli.main import main; main()"
    command = [sys.executable, "-c", program, "-a", str(imported.path), "serve", "-p", "0", "--workers", "1", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            place = urlsplit(json.loads(process.stdout.readline())["pages"])
            connection = HTTPConnection(place.hostname or "", place.port, timeout=60)
            for name in FILES:
                for url, capture in captures(imported.archive, name).items():
                    connection.request("GET", f"/main/{capture.timestamp}id_/{url}")
                    response = connection.getresponse()
                    body = response.read()
                    assert body == imported.archive.get(url).payload(), url
                    assert response.status == (int(capture.status) if capture.status != "-" else 200), url
            connection.close()
        finally:
            process.terminate()
            process.wait(timeout=60)


def test_references_to_damaged_records_are_read_alike(imported: Imported, tmp_path: Path) -> None:
    """A line of CDX that points to such a record gives what an import of the file gives."""
    names = ["crcrlf", "short-page", "length-7", "member-cut"]
    holdfast.init(tmp_path / "other")
    settings = tmp_path / "other" / "holdfast.toml"
    settings.write_text(f"{settings.read_text()}\n[records]\nwarc_paths = ['{imported.path.parent}']\n")
    rows = tmp_path / "rows.cdxj"
    imported.archive.export(Selection(), rows, ExportOptions("cdxj"))
    lines = [
        line for line in rows.read_bytes().splitlines(keepends=True) if any(f"//{n}.".encode() in line for n in names)
    ]
    with holdfast.open(tmp_path / "other") as other:
        other.add_drafts(reference_drafts(lines, "main"))
        for name in names:
            url = f"http://{name}.example/2"
            assert other.get(url).payload() == imported.archive.get(url).payload()


def test_small_limits_and_large_records_change_nothing(archive: Archive, quick: Path) -> None:
    """Payloads in pieces, blocks that are streamed: the same bytes come out, and readers read what is exported."""
    large = {
        "large-lf": line_ends(page("large-lf", 1, NOISE * 40), b"\n") + page("large-lf", 2),
        "large-cut": page("large-cut", 1) + page("large-cut", 2, NOISE * 40)[:-3_000_000],
        "large-cut-gz": gz(page("large-cut-gz", 1)) + gz(page("large-cut-gz", 2, NOISE * 10))[:-500_000],
        "large-length": length(page("large-length", 1, NOISE * 10), 77) + page("large-length", 2),
    }
    for name, content in (FILES | large).items():
        path = quick / (f"{name}.warc.gz" if content.startswith(b"\x1f\x8b") else f"{name}.warc")
        path.write_bytes(content)
        (report,) = archive.import_files([path])
        assert (report.lost, report.error) == (0, None), report.findings
        archive.export(Selection(), quick / "again", ExportOptions("warc", exact=True, source=path.name))
        if name not in ("member-cut-amid", "member-damaged"):
            assert (quick / "again").read_bytes() == plain(content), name
    archive.export(Selection(), quick / "out.warc", ExportOptions("warc"))
    output = Warc()
    streamed = [output.begin()]
    for batch in archive.stream(StreamOptions(fields=output.fields)).batches():
        streamed += [bytes(piece) for piece in output.encode(batch)]
    for content in ((quick / "out.warc").read_bytes(), b"".join([*streamed, output.end()])):
        warcio, fastwarc = by_warcio(content), by_fastwarc(content)
        held = {row.capture.url for row in archive.search(CaptureQuery(url="*"))}
        assert set(warcio) == set(fastwarc) == held
        for name in large:
            for number in (1, 2):
                url = f"http://{name}.example/{number}"
                assert warcio[url][1] == archive.get(url).payload()


# -- dates ------------------------------------------------------------------------------------------------------------

SENT = "Date: Fri, 03 Jan 2020 00:00:09 GMT\r\n"


@pytest.mark.parametrize(
    ("date", "sent", "timestamp", "mark"),
    [
        ("2020-01-02T03:04:02Z", "", "20200102030402", None),
        ("2020-01-02T03:99:02Z", SENT, "20200102030000", "part"),
        ("no date", SENT, "20200103000009", "http"),
        ("", SENT, "20200103000009", "http"),
        ("no date", "", "20200102030401", "neighbour"),
    ],
)
def test_a_date_that_cannot_be_read_is_made_good_and_marked(
    quick: Path, date: str, sent: str, timestamp: str, mark: str | None
) -> None:
    (quick / "x.warc").write_bytes(page("x", 1) + dated(page("x", 2, extra=sent), date) + page("x", 3))
    holdfast.init(quick / "archive")
    with holdfast.open(quick / "archive") as archive:
        (report,) = archive.import_files([quick / "x.warc"])
        capture = captures(archive, "x")["http://x.example/2"]
        assert capture.timestamp == timestamp
        assert ("{}" if capture.extra == "-" else capture.extra) == json.dumps({"dateFrom": mark} if mark else {})
        named = [finding.reason for finding in report.findings if finding.reason.startswith(f"dated {timestamp} by ")]
        assert len(named) == bool(mark)
        archive.export(Selection(), quick / "out.warc", ExportOptions("warc"))
        archive.export(Selection(), quick / "again.warc", ExportOptions("warc", exact=True, source="x.warc"))
        archive.export(Selection(), quick / "out.cdxj", ExportOptions("cdxj"))
    assert (quick / "again.warc").read_bytes() == (quick / "x.warc").read_bytes()
    stamps = [record.timestamp for record in open_records(io.BytesIO((quick / "out.warc").read_bytes()), strict=True)]
    assert timestamp in stamps
    assert ((quick / "out.cdxj").read_text().count('"dateFrom"')) == bool(mark)


def test_records_at_the_beginning_have_the_date_of_the_next(quick: Path) -> None:
    parts = [dated(page("x", 1), "?"), dated(page("x", 2), "?"), page("x", 3)]
    (quick / "x.warc").write_bytes(b"".join(parts))
    (quick / "y.warc").write_bytes(dated(page("y", 1), "?"))
    holdfast.init(quick / "archive")
    with holdfast.open(quick / "archive") as archive:
        list(archive.import_files([quick / "x.warc", quick / "y.warc"]))
        held = captures(archive, "x")
        assert {each.timestamp for each in held.values()} == {"20200102030403"}
        assert [each.extra for each in held.values()] == ['{"dateFrom": "neighbour"}'] * 2 + ["-"]
        alone = captures(archive, "y")["http://y.example/1"]
        assert (alone.timestamp, alone.extra) == ("19700101000000", '{"dateFrom": "none"}')


def test_however_many_they_are(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first groups of a file are small, unless its records have no date yet."""
    monkeypatch.setattr(file_reader, "DRAFTS_MAX", 512)
    parts = [dated(page("x", number), "?") for number in range(1, 150)]
    (quick / "x.warc").write_bytes(b"".join([*parts, page("x", 150), *parts[:100]]))
    holdfast.init(quick / "archive")
    with holdfast.open(quick / "archive") as archive:
        archive.import_files([quick / "x.warc"])
        held = captures(archive, "x")
        assert {each.timestamp for each in held.values()} == {held["http://x.example/150"].timestamp}


@pytest.mark.parametrize("date", ["2020010203040?", "20209902", "-", "unknown"])
def test_dates_of_arc_files_too(quick: Path, date: str) -> None:
    block = b"HTTP/1.1 200 OK\r\n" + SENT.encode() + b"\r\nhello"
    line = f"http://x.example/1 192.0.2.1 {date} text/html {len(block)}\n".encode()
    about = b"1 1 InternetArchive\nURL IP-address Archive-date Content-type Archive-length\n"
    first = b"filedesc://x.arc 0.0.0.0 20190101000000 text/plain %d\n" % len(about) + about + b"\n"
    (quick / "x.arc").write_bytes(first + line + block + b"\n")
    holdfast.init(quick / "archive")
    with holdfast.open(quick / "archive") as archive:
        (report,) = archive.import_files([quick / "x.arc"])
        assert report.records == 2, report.findings
        capture = captures(archive, "x")["http://x.example/1"]
        assert capture.timestamp[:4] == "2020"
        assert '"dateFrom"' in capture.extra
