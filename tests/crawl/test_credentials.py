"""Credentials go to their origin alone, and stay out of the archive (W17)."""

from __future__ import annotations

import json
import stat
import subprocess
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import zstandard
from crawl_runs import NAME, crawled, job_for, make_archive, program, running, write_job_file
from crawl_sites import HOST, LittleWeb, linking, page, records_of
from hostile_web.exchange import Answer, Request, plain

import holdfast
from holdfast.crawl.frontier import Frontier
from holdfast.crawl.job.credentials import bound, credential_of, read_credentials
from holdfast.crawl.job.job import CrawlJob, Credential, FetchSettings
from holdfast.crawl.paths import COOKIES, CREDENTIALS, FRONTIER, JOB
from holdfast.crawl.report.crawls import crawl_directory, keep_job, kept_credentials, kept_job
from holdfast.errors import UsageError

SECRET = "c0ffee-and-harbour"
TOKEN = f"Bearer {SECRET}-token"
COOKIE = f"session={SECRET}-cookie"
MARK = "a-mark-that-is-recorded"
OTHER = "third.example"
SEED = "https://example.com/"


# -- where they are sent -----------------------------------------------------------------------------------------------


def web_of_two() -> LittleWeb:
    """A site that embeds from, links and redirects to a host of somebody else, whose sitemap is there, too."""
    web = LittleWeb({})
    there = f"http://{OTHER}:PORT"

    def home(request: Request) -> Answer:
        port = web.url("/").rpartition(":")[2].rstrip("/")
        at = there.replace("PORT", port)
        return page(f'<img src="{at}/pixel.png">' + linking("/moved", f"{at}/page", "/back"), ("Set-Cookie", "seen=1"))

    web.set("/", home)
    web.set("/moved", lambda request: plain(302, "", ("Location", web.url(f"{OTHER}/landing"))))
    web.set("/back", page("behind the login"))
    web.set("/robots.txt", lambda request: plain(200, f"Sitemap: {web.url(f'{OTHER}/sitemap.xml')}\n"))
    web.set(f"{OTHER}/robots.txt", plain(200, "User-agent: *\nDisallow:\n"))
    web.set(f"{OTHER}/sitemap.xml", plain(200, "<urlset/>", kind="application/xml"))
    web.set(f"{OTHER}/pixel.png", plain(200, "no picture", kind="image/png"))
    web.set(f"{OTHER}/landing", page("landed"))
    web.set(f"{OTHER}/page", lambda request: plain(302, "", ("Location", web.url("/back"))))
    return web


def secret_headers(**more: Any) -> dict[str, Any]:
    return {"headers": (("Authorization", TOKEN), ("Cookie", COOKIE), ("X-Mark", MARK)), **more}


def sent_to(web: LittleWeb, host: str) -> dict[str, dict[str, str]]:
    return {entry.target: dict(entry.headers) for entry in web.log() if entry.host == host}


def test_headers_with_secrets_go_to_the_origins_of_the_seeds_alone(tmp_path: Path) -> None:
    path, web = make_archive(tmp_path / "archive"), web_of_two()
    with web.serving():
        crawled(path, job_for(web, **secret_headers()))  # type: ignore[arg-type]
        theirs, ours = sent_to(web, OTHER), sent_to(web, HOST)
    assert set(theirs) == {"/robots.txt", "/sitemap.xml", "/pixel.png", "/landing", "/page"}
    assert SECRET not in repr(theirs)
    assert {fields["x-mark"] for fields in theirs.values()} == {MARK}
    assert {fields["authorization"] for fields in ours.values()} == {TOKEN}
    assert all(COOKIE in fields["cookie"] for fields in ours.values())
    assert ours["/back"]["cookie"] == f"{COOKIE}; seen=1"
    assert {stat.S_IMODE((crawl_directory(path, NAME) / name).stat().st_mode) for name in (COOKIES, CREDENTIALS)} == {
        0o600
    }


def test_another_port_or_scheme_is_another_origin(tmp_path: Path) -> None:
    path, web, near = make_archive(tmp_path / "archive"), LittleWeb({}), LittleWeb({"/": page("near")})
    with web.serving(), near.serving():
        web.set("/", page(linking(near.url("/"))))
        crawled(path, job_for(web, **secret_headers()))  # type: ignore[arg-type]
        assert SECRET in repr(sent_to(web, HOST))
        assert "/" in sent_to(near, HOST)
        assert SECRET not in repr(near.log())


def test_a_credential_goes_to_the_origin_that_it_names(tmp_path: Path) -> None:
    """Also one that no seed is of, and under any name of a field."""
    path, web = make_archive(tmp_path / "archive"), web_of_two()
    with web.serving():
        origin = web.url(f"{OTHER}/").rstrip("/")
        given = (Credential(origin, "X-Api-Key", SECRET),)
        crawled(path, job_for(web, credentials=given))  # type: ignore[arg-type]
        theirs, ours = sent_to(web, OTHER), sent_to(web, HOST)
    assert {fields.get("x-api-key") for fields in theirs.values()} == {SECRET}
    assert SECRET not in repr(ours)
    assert not places_of(SECRET, path) - {f"crawls/{NAME}/{CREDENTIALS}"}


# -- where they are written --------------------------------------------------------------------------------------------


def test_no_file_of_the_archive_holds_a_secret_but_the_one_that_must(tmp_path: Path) -> None:
    path, web = make_archive(tmp_path / "archive"), web_of_two()
    with web.serving():
        crawled(path, job_for(web, **secret_headers()))  # type: ignore[arg-type]
    assert places_of(SECRET, path) == {f"crawls/{NAME}/{CREDENTIALS}"}
    assert any(place.startswith("batches/") for place in places_of(MARK, path))  # the scan looks into compressed files
    with holdfast.open(path, read_only=True) as archive:
        (request, *_) = records_of(archive, "request", web.url("/back"))
        message = request.message()
    assert b"\r\nCookie: seen=1\r\n" in message
    assert b"Authorization" not in message
    assert SECRET not in (crawl_directory(path, NAME) / JOB).read_text()


def test_records_hold_them_if_that_is_asked_for(tmp_path: Path) -> None:
    path, web = make_archive(tmp_path / "archive"), web_of_two()
    with web.serving():
        crawled(path, job_for(web, **secret_headers(record_credentials=True)))  # type: ignore[arg-type]
    with holdfast.open(path, read_only=True) as archive:
        (request, *_) = records_of(archive, "request", web.url("/back"))
        assert f"Authorization: {TOKEN}\r\n".encode() in request.message()
        assert f"Cookie: {COOKIE}; seen=1\r\n".encode() in request.message()
    assert any(place.startswith("batches/") for place in places_of(SECRET, path))


def places_of(text: str, archive: Path) -> set[str]:
    """The files in which a text stands: as it is, or in anything compressed, or in a frontier."""
    found = set()
    for path in (each for each in archive.rglob("*") if each.is_file()):
        if any(text.encode() in content for content in contents_of(path.read_bytes())):
            found.add(str(path.relative_to(archive)))
    for job in archive.glob(f"crawls/*/{JOB}"):
        frontier = Frontier(job.parent / FRONTIER, follow=True)
        try:
            if text in repr([*frontier.rows(), *frontier.hosts(), frontier.totals]):
                found.add(f"crawls/{job.parent.name}/{FRONTIER}")
        finally:
            frontier.close()
    return found


def contents_of(data: bytes) -> Iterator[bytes]:
    yield data
    for magic, unpacked in ((b"\x28\xb5\x2f\xfd", _of_zstd), (b"\x1f\x8b\x08", _of_gzip), (b"\x78", _of_zlib)):
        at = data.find(magic)
        while at >= 0:
            yield unpacked(data[at:])
            at = data.find(magic, at + 1)


def _of_zstd(data: bytes) -> bytes:
    try:
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    except zstandard.ZstdError:
        return b""


def _of_gzip(data: bytes) -> bytes:
    try:
        return zlib.decompressobj(31).decompress(data)
    except zlib.error:
        return b""


def _of_zlib(data: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(data)
    except zlib.error:
        return b""


# -- how long they are kept --------------------------------------------------------------------------------------------


def test_a_crawl_that_goes_on_has_its_credentials_still(tmp_path: Path) -> None:
    path, web = make_archive(tmp_path / "archive"), web_of_two()
    with web.serving():
        given = tmp_path / "secrets"
        given.write_text(f"# for the harbour\n\n{web.url('/').rstrip('/')} Authorization: {TOKEN}\n")
        resolve = ("--resolve", f"{HOST}=127.0.0.1", "--resolve", f"{OTHER}=127.0.0.1")
        words = ("crawl", web.url("/"), "--name", NAME, *resolve, "--delay", "0", "--limit", "1")
        said = program(path, *words, "--credentials", given).stderr
        assert "credentials  Authorization for http://" in said
        assert f"'{given}' holds credentials and others may read it: 'chmod 600 {given}'" in said
        given.chmod(0o600)
        web.clear_log()
        said = program(path, "crawl", "--resume", NAME, "--limit", "10").stderr
        assert {fields["authorization"] for fields in sent_to(web, HOST).values()} == {TOKEN}
        assert "others may read it" not in said
        web.clear_log()
        said = program(path, "crawl", "--resume", NAME, "--credentials", "/dev/null").stderr
        assert f"changed for the crawl '{NAME}': credentials" in said
        assert SECRET not in repr(web.log())
    assert not (crawl_directory(path, NAME) / CREDENTIALS).exists()
    assert places_of(SECRET, path) == set()


def test_a_later_seed_does_not_get_what_was_given_before(tmp_path: Path) -> None:
    keep_job(tmp_path, job_of(headers=(("Authorization", TOKEN),)))
    kept = kept_job(tmp_path, "x")
    assert kept is not None
    assert kept.fetch.headers == ()
    assert kept.fetch.credentials == ()
    grown = replace(kept, seeds=(SEED, "https://later.example/"))
    grown = replace(grown, fetch=replace(grown.fetch, credentials=kept_credentials(tmp_path, "x")))
    assert bound(grown).fetch.credentials == (Credential("https://example.com", "Authorization", TOKEN),)


def test_what_a_command_shows_has_no_secret(tmp_path: Path) -> None:
    path = make_archive(tmp_path / "archive")
    job = tmp_path / "job.toml"
    write_job_file(job, job_of(headers=(("Authorization", TOKEN),), proxy=f"http://me:{SECRET}@proxy.example:3128"))
    words = ("crawl", job, "--dry-run")
    shown = program(path, *words, "--json")
    assert SECRET not in shown.stdout + shown.stderr
    fetch = json.loads(shown.stdout)["job"]["fetch"]
    assert fetch["credentials"] == [
        {"origin": "https://example.com", "name": "Authorization"},
        {"origin": "http://proxy.example:3128", "name": "Proxy-Authorization"},
    ]
    assert fetch["proxy"] == "http://proxy.example:3128"
    shown = program(path, *words)
    assert SECRET not in shown.stdout + shown.stderr
    assert "credentials  Authorization for https://example.com" in shown.stdout


def test_the_list_of_processes_does_not_show_them(tmp_path: Path) -> None:
    """Of any process of the crawl, once it fetches."""
    path, asked, go_on = make_archive(tmp_path / "archive"), Event(), Event()

    def home(request: Request) -> Answer:
        asked.set()
        go_on.wait(60)
        return page("here")

    web = LittleWeb({"/": home, "/robots.txt": plain(404, "")})
    with web.serving():
        words = ("crawl", web.url("/"), "--resolve", f"{HOST}=127.0.0.1", "--header", f"Authorization: {TOKEN}")
        with running(path, *words, "--no-sitemap") as run:
            try:
                assert asked.wait(60)
                shown = subprocess.run(["ps", "-eww", "-o", "args"], capture_output=True, text=True, check=True).stdout
                assert "Authorization: ***" in shown
                assert SECRET not in shown
            finally:
                go_on.set()
            run.ended()
        assert sent_to(web, HOST)["/"]["authorization"] == TOKEN


# -- what is given -----------------------------------------------------------------------------------------------------


def job_of(**fetch: Any) -> CrawlJob:
    return CrawlJob(seeds=(SEED,), name="x", fetch=FetchSettings(**fetch))


def test_secrets_are_bound_to_origins() -> None:
    own = Credential("https://example.com", "authorization", "Basic own")
    job = job_of(headers=(("Authorization", TOKEN), ("cookie", COOKIE), ("A", "b"), ("Cookie", "")), credentials=(own,))
    fetch = bound(job).fetch
    assert fetch.headers == (("A", "b"), ("Cookie", ""))  # an empty one is no secret, and keeps all cookies back
    assert fetch.credentials == (own, Credential("https://example.com", "cookie", COOKIE))
    assert bound(bound(job)) == bound(job)
    assert SECRET not in repr(bound(job))


def test_what_a_proxy_is_given_goes_to_the_proxy() -> None:
    fetch = bound(job_of(proxy="http://me:a%40b@proxy.example:3128")).fetch
    assert fetch.proxy == "http://proxy.example:3128"
    assert fetch.credentials == (Credential(fetch.proxy, "Proxy-Authorization", "Basic bWU6YUBi"),)
    fetch = bound(job_of(proxy="socks5h://p:1", headers=(("Proxy-Authorization", "Basic YTpi"),))).fetch
    assert fetch.credentials == (Credential("socks5h://p:1", "Proxy-Authorization", "Basic YTpi"),)
    with pytest.raises(UsageError, match="a SOCKS proxy takes user and password"):
        bound(job_of(proxy="socks5h://p:1", headers=(("Proxy-Authorization", "Bearer abc"),)))
    with pytest.raises(UsageError, match="'Proxy-Authorization' is for a proxy: name it with --proxy"):
        bound(job_of(headers=(("Proxy-Authorization", "Basic x"),)))


def test_credentials_as_they_are_written() -> None:
    assert credential_of("HTTPS://Example.com:443/ X-Api-Key:  a: b ") == Credential(
        "https://example.com", "X-Api-Key", "a: b"
    )
    lines = ["# mine", "", "http://a.example:8000 Cookie: a=b; c=d\n"]
    assert read_credentials(lines, "x") == (Credential("http://a.example:8000", "Cookie", "a=b; c=d"),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"Authorization: {SECRET}", "not a credential: write 'https://example.com Name: value'"),
        (
            f"https://example.com {SECRET}",
            "not a credential for 'https://example.com': write 'https://example.com Name",
        ),
        (f"https://example.com/private/ A: {SECRET}", "is not an origin: write scheme, host and port"),
        (f"ftp://example.com A: {SECRET}", "is not an origin: write scheme, host and port"),
        (f"https://example.com Host: {SECRET}", "the header 'Host' is written for each request"),
        ("https://example.com A:", "not a credential for 'https://example.com'"),
    ],
)
def test_mistakes_are_told_without_the_secret(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        credential_of(text)
    assert SECRET not in str(caught.value)
    with pytest.raises(UsageError, match="'secrets', line 2: "):
        read_credentials(["", text], "secrets")


def test_a_header_that_is_none_is_told_without_its_value(tmp_path: Path) -> None:
    path = make_archive(tmp_path / "archive")
    said = program(path, "crawl", SEED, "--header", f"Authorization {SECRET}\x01: b", code=2).stderr
    assert "is not a header: write 'Name: value'" in said
    assert SECRET not in said
    said = program(path, "crawl", SEED, "--proxy", f"ftp://me:{SECRET}@h", code=2).stderr
    assert "must begin with one of" in said
    assert SECRET not in said
    said = program(path, "crawl", f"https://me:{SECRET}@example.com/", code=2).stderr
    assert "has a user name in it: give it with --credentials" in said
    assert SECRET not in said
