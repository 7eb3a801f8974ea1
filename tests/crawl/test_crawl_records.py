"""What a crawl puts into the archive: messages as they went over the wire, each content once, valid for other tools."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import socket
import subprocess
import sys
from base64 import b32encode
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from crawl_runs import NAME, captured, crawled, job_for, log_rows, make_archive
from crawl_sites import HOST, LittleWeb, captures_of, linking, page, records_of
from hostile_web import Web
from hostile_web.exchange import Answer, Request, plain
from hostile_web.tls import tls_available
from waiting import wait_until
from warcio.archiveiterator import ArchiveIterator
from warcio.bufferedreaders import ChunkedDataReader

import holdfast
from holdfast import Archive, ExportOptions, Selection
from holdfast.crawl.fetch.request import USER_AGENT
from holdfast.crawl.job.job import CrawlJob, FetchSettings
from holdfast.crawl.parse.records import Recorder
from holdfast.crawl.paths import SPOOL
from holdfast.crawl.processes.messages import Fetched, FetchJob, FetchOutcome
from holdfast.crawl.report.crawls import crawl_directory
from holdfast.records.stored_record import StoredRecord
from holdfast.storage.signature import RABIN64, SHA256, Signature

NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
BIG = Random(3).randbytes(3 << 20)
WORDS = b"<!doctype html><p>" + b"words of the sea " * 300
ROBOTS = "User-agent: *\nDisallow: /no\n"
HTML = ("Content-Type", "text/html; charset=utf-8")
_CUT = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5000\r\n\r\n<p>cut"


@pytest.fixture(scope="module", autouse=True)
def contents_only() -> Iterator[None]:
    """Payloads of every size are contents of the store."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdfast.records.draft.REPEATED_BYTES_MAX", 0)
        yield


def every_kind() -> LittleWeb:
    """A web with each kind of answer."""
    web = LittleWeb({"/": page(linking("/chunked", "/gzip", "/cut", "/empty", "/big", "/copy", "/moved", "/again"))})
    web.set("/chunked", Answer(200, (HTML,), WORDS, chunked=True))
    web.set("/gzip", Answer(200, (HTML, ("Content-Encoding", "gzip")), gzip.compress(WORDS, mtime=0), chunked=True))
    web.set("/copy", Answer(200, (HTML,), WORDS))
    web.set("/cut", Answer(200, body=_CUT, raw=True, close=True))
    web.set("/empty", Answer(200, (HTML,), b"", chunked=True))
    web.set("/big", Answer(200, (("Content-Type", "application/octet-stream"),), BIG, chunked=True))
    web.set("/moved", plain(301, "", ("Location", "/copy#part")))
    web.set("/again", _again)
    web.set("/robots.txt", plain(200, ROBOTS))
    return web


def _again(request: Request) -> Answer:
    return Answer(304) if request.header("if-none-match") else page("again", ("ETag", '"1"'))


def little_job(web: LittleWeb, **more: Any) -> CrawlJob:
    return job_for(web, sitemap=False, memory_bytes_max=100_000, retries=0, **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, LittleWeb]:
    """Two visits of the web of every kind."""
    path = make_archive(tmp_path_factory.mktemp("records") / "archive")
    web = every_kind()
    with web.serving():
        for _ in range(2):
            crawled(path, little_job(web))
        web.log_kept = web.log()  # type: ignore[attr-defined]
    return path, web


Kept = tuple[Path, LittleWeb]


def first(archive: Archive, web: LittleWeb, name: str, kind: str = "response") -> StoredRecord:
    return records_of(archive, kind, web.url(name))[0]


def test_request_and_response_are_those_of_the_wire(kept: Kept) -> None:
    """W17: every byte of the head, the request as sent, addresses and protocol."""
    path, web = kept
    with holdfast.open(path, read_only=True) as archive:
        record, request = first(archive, web, "/copy"), first(archive, web, "/copy", "request")
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 5118\r\n\r\n"
        assert record.message() == head + WORDS
        authority = web.url("/").split("/")[2]
        assert request.message().startswith(f"GET /copy HTTP/1.1\r\nHost: {authority}\r\n".encode())
        assert f"\r\nUser-Agent: {USER_AGENT}\r\n".encode() in request.message()
        assert f"\r\nReferer: {web.url('/')}\r\n".encode() in request.message()
        assert request.message().endswith(b"\r\n\r\n")
        assert _fields(request.message()) == _seen(web, "/copy")
        assert request.headers.get("WARC-Concurrent-To") == record.headers.get("WARC-Record-ID")
        assert {each.headers.get("WARC-IP-Address") for each in (record, request)} == {"127.0.0.1"}
        assert record.headers.get("WARC-Protocol") == "http/1.1"
        assert record.headers.get("WARC-Payload-Digest") == _sha1(WORDS)


def _fields(message: bytes) -> list[tuple[str, str]]:
    lines = message.decode().split("\r\n")[1:-2]
    return [(name.lower(), value) for name, value in (line.split(": ", 1) for line in lines)]


def _seen(web: LittleWeb, target: str) -> list[tuple[str, str]]:
    """The fields that the server had from its first request for the target."""
    entries = [entry for entry in web.log_kept if entry.target == target]  # type: ignore[attr-defined]
    return list(entries[0].headers)


def _sha1(content: bytes) -> str:
    return "sha1:" + b32encode(hashlib.sha1(content, usedforsecurity=False).digest()).decode()


def test_a_chunked_body_is_stored_once_and_is_one(kept: Kept) -> None:
    """W17, N1: the head says chunked, so that the block is; the content is that of its copy."""
    path, web = kept
    with holdfast.open(path, read_only=True) as archive:
        chunked, copy = first(archive, web, "/chunked"), first(archive, web, "/copy")
        assert chunked.entry.contents == copy.entry.contents
        assert chunked.http_bytes().endswith(b"\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert b"".join(chunked.block())[len(chunked.http_bytes()) :] == b"13fe\r\n" + WORDS + b"\r\n0\r\n\r\n"
        assert chunked.payload() == copy.payload() == WORDS
        empty = first(archive, web, "/empty")
        assert empty.message().endswith(b"\r\n\r\n0\r\n\r\n")
        assert empty.payload() == b""
        packed = first(archive, web, "/gzip")
        assert packed.payload() == gzip.compress(WORDS, mtime=0), "as it was sent"


def test_contents_are_stored_once_whatever_their_urls(kept: Kept) -> None:
    """N1: of all that was fetched twice and under several names."""
    path, web = kept
    with holdfast.open(path, read_only=True) as archive:
        stored = sum(report.stat.content_bytes for report in archive.volumes() if report.stat is not None)
    bodies = [WORDS, gzip.compress(WORDS, mtime=0), BIG, b"<p>cut", ROBOTS.encode()]
    bodies += [made.body for name in ("/", "/empty") if isinstance(made := web.pages[HOST + name], Answer)]
    bodies.append(page("again").body)
    assert stored == sum(len(body) for body in bodies)


def test_a_large_body_goes_through_a_file_and_arrives_exactly(kept: Kept) -> None:
    """W17: and the file is gone."""
    path, web = kept
    with holdfast.open(path, read_only=True) as archive:
        for record in records_of(archive, "response", web.url("/big")):
            assert hashlib.sha256(record.payload()).digest() == hashlib.sha256(BIG).digest()
            assert record.headers.get("WARC-Payload-Digest") == _sha1(BIG)
    assert list((crawl_directory(path, NAME) / SPOOL).iterdir()) == []
    results = [row["result"] for row in log_rows(path, "fetch") if row["url"] == web.url("/big")]
    assert results == ["new", "unchanged"]


@pytest.mark.parametrize("algorithm", [SHA256, RABIN64], ids=lambda algorithm: algorithm.name)
def test_a_body_in_a_file_is_signed_with_the_algorithm_of_the_archive(algorithm: Signature, tmp_path: Path) -> None:
    recorder = Recorder("web", algorithm.digest)
    spool = tmp_path / "body"
    spool.write_bytes(BIG)
    job = FetchJob(1, "http://site.test/big", "site.test")
    in_file = recorder.payload(Fetched(job, FetchOutcome.OK, spool=str(spool), size=len(BIG)))
    assert in_file == recorder.payload(Fetched(job, FetchOutcome.OK, body=BIG, size=len(BIG)))
    assert in_file.signature == algorithm.digest(BIG)


def test_what_was_cut_off_and_what_moved_is_said(kept: Kept) -> None:
    """W17: WARC-Truncated; redirects are captures of their own."""
    path, web = kept
    with holdfast.open(path, read_only=True) as archive:
        cut = first(archive, web, "/cut")
        assert (cut.headers.get("WARC-Truncated"), cut.payload()) == ("disconnect", b"<p>cut")
        assert first(archive, web, "/moved").http_bytes().startswith(b"HTTP/1.1 301 Moved Permanently\r\n")
    redirect = captures_of(path, web.url("/moved"))[0]
    assert redirect.status == "301"


def test_robots_txt_and_the_crawl_itself_are_recorded(kept: Kept) -> None:
    """W17: what was allowed when, and who asked; a warcinfo for each visit."""
    path, web = kept
    with holdfast.open(path, read_only=True) as archive:
        assert archive.get(web.url("/robots.txt")).payload() == ROBOTS.encode()
        infos = [record.message().decode() for record in records_of(archive, "warcinfo")]
    assert len(infos) == 2
    assert f"description: visit 2 of the crawl '{NAME}'" in infos[1]
    assert all("software: Holdfast " in info and "robots: obey" in info for info in infos)


def test_other_tools_find_no_fault(kept: Kept, tmp_path: Path) -> None:
    """W17, L3: warcio reads chunked, gzip, truncated, redirected, revisited and large records, and finds them right.

    Its own check takes the framing of chunks for payload, which the standard does not (webrecorder/warcio#74, #75).
    """
    path, _ = kept
    exported = tmp_path / "out.warc.gz"
    with holdfast.open(path, read_only=True) as archive:
        archive.export(Selection(), exported, ExportOptions("warc.gz"))
        kinds = Counter(record.entry.type for record in records_of(archive))
    assert set(kinds) == {"warcinfo", "request", "response", "revisit"}
    command = [sys.executable, "-m", "warcio.cli", "check", "-v", str(exported)]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    assert told.count("offset ") == 1 + kinds.total(), "the first is the warcinfo of the export"
    faults = [line.strip() for line in told.splitlines() if "fail" in line]
    assert Counter(line.split(" sha1:")[0] for line in faults) == {"payload digest failed": 8}, told
    with exported.open("rb") as file:
        chunked = [_checked(record) for record in ArchiveIterator(file) if record.rec_type == "response"]
    assert chunked.count(True) == 8


def _checked(record: Any) -> bool:
    """Whether the record is chunked; its payload has the digest that it says in any case."""
    is_chunked = (record.http_headers.get_header("Transfer-Encoding") or "") == "chunked"
    stream = ChunkedDataReader(record.raw_stream, raise_exceptions=True) if is_chunked else record.raw_stream
    body = b"".join(iter(lambda: stream.read(1 << 16), b""))
    assert record.rec_headers.get_header("WARC-Payload-Digest") == _sha1(body)
    return is_chunked


# -- other crawls ------------------------------------------------------------------------------------------------------


def test_cookies_go_back_to_who_gave_them(tmp_path: Path) -> None:
    """W17: for the length of the crawl, and not to others; or not at all."""
    web = LittleWeb({"/": page(linking("/a"), ("Set-Cookie", "tide=high; Path=/")), "/a": page(linking("/b"))})
    path = make_archive(tmp_path / "archive")
    with web.serving():
        web.set("/b", page(linking(web.url("other.example/"))))
        web.set("other.example/", page("elsewhere"))
        crawled(path, little_job(web))
        sent = {entry.host + entry.target: dict(entry.headers).get("cookie") for entry in web.log()}
        assert sent[f"{HOST}/a"] == sent[f"{HOST}/b"] == "tide=high"
        assert (sent[f"{HOST}/"], sent["other.example/"]) == (None, None)
        web.clear_log()
        crawled(path, little_job(web, name="plain", cookies=False))
        assert [entry for entry in web.log() if "cookie" in dict(entry.headers)] == []
    with holdfast.open(path, read_only=True) as archive:
        assert b"\r\nCookie: tide=high\r\n" in first(archive, web, "/a", "request").message()


def test_captures_are_of_the_collection_that_was_asked_for(tmp_path: Path) -> None:
    """W17: `--collection`."""
    web = LittleWeb({"/": page("here")})
    path = make_archive(tmp_path / "archive")
    with web.serving():
        crawled(path, little_job(web, collection="harbour", headers=(("X-Mark", "a"),), user_agent="Gull/1.0"))
        assert dict(web.log()[-1].headers)["x-mark"] == "a"
        assert dict(web.log()[-1].headers)["user-agent"] == "Gull/1.0"
    with holdfast.open(path, read_only=True) as archive:
        assert {record.entry.collection for record in records_of(archive)} == {"harbour"}
        assert archive.get(web.url("/"), collection="harbour").payload() == page("here").body
        assert "http-header-user-agent: Gull/1.0" in records_of(archive, "warcinfo")[0].message().decode()


@pytest.mark.skipif(not tls_available(), reason="the openssl command is not installed")
def test_tls_is_noted(tmp_path: Path) -> None:
    """W17: protocol and cipher; a certificate that nobody vouches for is no obstacle, and is said."""
    path = make_archive(tmp_path / "archive")
    with Web(seed=1, hosts=1, pages=8, tls=True, pauses=0, flaky=0).serving() as served:
        crawled(path, job_for(served, sitemap=False))
        want = {url for url in served.web.reachable(sitemap=False) if url.startswith("https:")}
    assert want
    assert want <= captured(path)
    with holdfast.open(path, read_only=True) as archive:
        record = archive.get(min(want))
        protocols = [value for name, value in record.headers if name.lower() == "warc-protocol"]
        assert protocols[0] == "http/1.1"
        assert protocols[1].startswith("tls/1.")
        assert record.headers.get("WARC-Cipher-Suite")


@contextmanager
def nginx(directory: Path) -> Iterator[str]:
    """Pages over HTTP/2, on a port that was free a moment ago."""
    made = directory / "made.pem"
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*request, "-keyout", made, "-out", directory / "own.pem"], check=True, capture_output=True)
    (directory / "www").mkdir()
    (directory / "www" / "index.html").write_text('<!doctype html><a href="two.html">two</a>')
    (directory / "www" / "two.html").write_bytes(WORDS)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    names = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = " ".join(f"{name}_temp_path {directory}/{name};" for name in names)
    (directory / "nginx.conf").write_text(f"""daemon off; master_process off; pid {directory}/pid;
error_log {directory}/error.log; events {{}} http {{ access_log off; {temporary}
types {{ text/html html; }} gzip on; gzip_min_length 1;
server {{ listen 127.0.0.1:{port} ssl http2; ssl_certificate {directory}/own.pem; ssl_certificate_key {made};
root {directory}/www; }} }}""")
    process = subprocess.Popen([NGINX, "-p", directory, "-c", directory / "nginx.conf"], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: _answers(port), "nginx")
        yield f"https://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait(10)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not os.access(NGINX, os.X_OK) or not tls_available(), reason="no nginx here to speak HTTP/2")
def test_http2_is_recorded_so_that_others_can_read_it(tmp_path: Path) -> None:
    """W17: written as HTTP/1.1, which is all that a WARC can hold; the protocol is said; every digest is right."""
    path = make_archive(tmp_path / "archive")
    with nginx(tmp_path) as url:
        for _ in range(2):
            crawled(path, CrawlJob(seeds=(url,), name=NAME, sitemap=False, fetch=FetchSettings(delay=0.0)))
    exported = tmp_path / "out.warc.gz"
    with holdfast.open(path, read_only=True) as archive:
        record = records_of(archive, "response", f"{url}two.html")[0]
        assert record.headers.get("WARC-Protocol") == "h2"
        assert record.http_bytes().startswith(b"HTTP/1.1 200 OK\r\n")
        assert gzip.decompress(record.payload()) == WORDS
        assert [each.payload() for each in records_of(archive, "revisit", f"{url}two.html")] == [record.payload()]
        archive.export(Selection(), exported, ExportOptions("warc.gz"))
    command = [sys.executable, "-m", "warcio.cli", "check", str(exported)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout) == (0, "")
