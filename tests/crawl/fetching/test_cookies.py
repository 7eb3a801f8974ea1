"""Cookies (RFC 6265): kept for a crawl, given back to whom they belong, and to nobody else."""

from __future__ import annotations

from http.cookiejar import MozillaCookieJar
from pathlib import Path

import pytest
from fetching_servers import fetching, job, ok, run, serving, settings
from hypothesis import given
from hypothesis import strategies as st

from holdfast.crawl.fetch.cookies import COOKIES_MAX, DOMAIN_COOKIES_MAX, Jar

NOW = 1_700_000_000.0


def _after(line: str, host: str = "www.example.com", path: str = "/dir/page") -> Jar:
    jar = Jar()
    jar.take(line, host, path, NOW)
    return jar


GIVEN = [
    ("a=1", "www.example.com", "/dir/x", "a=1"),
    ("a=1", "www.example.com", "/dir", "a=1"),
    ("a=1", "www.example.com", "/directory", ""),
    ("a=1", "www.example.com", "/", ""),
    ("a=1", "example.com", "/dir/x", ""),
    ("a=1", "sub.www.example.com", "/dir/x", ""),
    ("a=1; Path=/", "www.example.com", "/", "a=1"),
    ("a=1; path=relative", "www.example.com", "/dir/x", "a=1"),
    ("a=1; Domain=example.com; Path=/", "example.com", "/", "a=1"),
    ("a=1; Domain=.Example.com; Path=/", "deep.sub.example.com", "/?q", "a=1"),
    ("a=1; Domain=com; Path=/", "www.example.com", "/", ""),
    ("a=1; Domain=co.uk; Path=/", "www.example.com", "/", ""),
    ("a=1; Domain=other.com; Path=/", "other.com", "/", ""),
    ("a=1; Domain=ample.com; Path=/", "www.example.com", "/", ""),
    ("a=1; Path=/; Max-Age=10", "www.example.com", "/", "a=1"),
    ("a=1; Path=/; Max-Age=0", "www.example.com", "/", ""),
    ("a=1; Path=/; Max-Age=-1", "www.example.com", "/", ""),
    ("a=1; Path=/; Expires=Wed, 15-Nov-2023 00:00:00 GMT", "www.example.com", "/", "a=1"),
    ("a=1; Path=/; Expires=Wed, 15 Nov 2000 00:00:00 GMT", "www.example.com", "/", ""),
    ("a=1; Path=/; Expires=whenever", "www.example.com", "/", "a=1"),
    ("a=1; Path=/; Secure", "www.example.com", "/", ""),
    (' a = "1 2" ; Path=/', "www.example.com", "/", 'a="1 2"'),
    ("nameless; Path=/", "www.example.com", "/", "nameless"),
    ("", "www.example.com", "/", ""),
    ("a=x\x01y; Path=/", "www.example.com", "/", ""),
    ("a=" + "x" * 5000, "www.example.com", "/dir/x", ""),
]


@pytest.mark.parametrize(("line", "host", "path", "value"), GIVEN)
def test_a_cookie_goes_where_it_belongs(line: str, host: str, path: str, value: str) -> None:
    assert _after(line).value(host, path, secure=False, now=NOW) == value


def test_secure_cookies_go_over_tls_only_and_expired_ones_nowhere() -> None:
    jar = _after("a=1; Secure; Path=/; Max-Age=10")
    assert jar.value("www.example.com", "/", secure=True, now=NOW) == "a=1"
    assert jar.value("www.example.com", "/", secure=True, now=NOW + 11) == ""


def test_longer_paths_first_and_a_new_value_replaces_the_old() -> None:
    jar = _after("a=1; Path=/")
    jar.take("b=2; Path=/dir", "www.example.com", "/", NOW)
    jar.take("a=3; Path=/", "www.example.com", "/", NOW)
    assert jar.value("www.example.com", "/dir/x", secure=False, now=NOW) == "b=2; a=3"
    jar.take("a=; Path=/; Max-Age=0", "www.example.com", "/", NOW)
    assert jar.value("www.example.com", "/dir/x", secure=False, now=NOW) == "b=2"
    assert len(jar) == 1


def test_the_file_is_one_that_others_read(tmp_path: Path) -> None:
    jar = _after("a=1; Path=/; Max-Age=9999999999")
    jar.take("b=2; Domain=example.com; Secure", "www.example.com", "/dir/x", NOW)
    assert jar.changed
    jar.save(tmp_path / "cookies.txt", NOW)
    assert not jar.changed
    again = Jar()
    again.load(tmp_path / "cookies.txt")
    asked = {"secure": True, "now": NOW}
    assert again.value("www.example.com", "/dir/x", **asked) == jar.value("www.example.com", "/dir/x", **asked)
    assert len(again) == 2
    theirs = MozillaCookieJar(tmp_path / "cookies.txt")
    theirs.load(ignore_discard=True, ignore_expires=True)
    assert {(cookie.domain, cookie.name, cookie.value) for cookie in theirs} == {
        ("www.example.com", "a", "1"),
        (".example.com", "b", "2"),
    }


SIGNS = [*map(chr, (*range(0x20), *range(0x7F, 0xA0))), "\u2028", "\u2029"]  # each ends a line or a field somewhere
INJECTED = "victim.example\tFALSE\t/\tFALSE\t0\tsid\tevil"


@pytest.mark.parametrize("sign", SIGNS, ids=ascii)
def test_no_field_of_a_cookie_breaks_out_of_its_line(tmp_path: Path, sign: str) -> None:
    """A server must not write cookies of other sites into the file, whoever reads it."""
    jar = Jar()
    inner = f"x{sign}{INJECTED}{sign}y"
    for line in (f"a=b; Path=/{inner}", f"a={inner}", f"{inner}=b", f"a=b; Domain={inner}evil.example"):
        jar.take(line, "www.evil.example", "/", NOW)
    jar.take("a=b", f"www{sign}evil.example", "/", NOW)
    jar.take("a=b", "www.evil.example", f"/{inner}/page", NOW)
    assert len(jar) == 0
    jar.take("good=1", "www.evil.example", "/", NOW)
    path = tmp_path / "cookies.txt"
    jar.save(path, NOW)
    again = Jar()
    again.load(path)
    assert len(again) == 1


def test_a_file_is_read_by_lines_and_by_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "cookies.txt"
    mine = "mine.example\tFALSE\t/\tFALSE\t{}\t{}\t{}"
    lines = [
        mine.format(0, "a", "1") + "\r",  # as it is written on Windows
        *(mine.format(0, f"b{number}", f"x{sign}{INJECTED}") for number, sign in enumerate("\x85\x0b\x0c\x1c\u2028")),
        f"mine.example\tFALSE\t/\r{INJECTED}",
        mine.format("\u00b2", "c", "no number"),
        mine.format("9" * 400, "d", "2"),
    ]
    path.write_bytes("\n".join(lines).encode())
    jar = Jar()
    jar.load(path)
    assert jar.value("victim.example", "/", secure=False, now=NOW) == ""
    assert jar.value("mine.example", "/", secure=False, now=NOW) == "a=1; d=2"
    jar.save(path, NOW)


def test_there_is_an_end_to_cookies() -> None:
    jar = Jar()
    for number in range(DOMAIN_COOKIES_MAX + 50):
        jar.take(f"n{number}=1", "one.example", "/", NOW)
    assert len(jar) == DOMAIN_COOKIES_MAX
    for number in range(COOKIES_MAX + 50):
        jar.take("a=1", f"h{number}.example", "/", NOW)
    assert len(jar) <= COOKIES_MAX


@given(st.text(), st.text(alphabet="abc./=;\t\n", max_size=20))
def test_no_line_breaks_the_jar(line: str, host: str) -> None:
    jar = _after(line, host or "h")
    value = jar.value(host or "h", "/dir/x", secure=True, now=NOW)
    assert "\n" not in value and "\r" not in value


def test_a_crawl_gives_cookies_back_and_keeps_them(tmp_path: Path) -> None:
    async def body() -> None:
        async with serving(ok(b"", "Set-Cookie: id=7; Path=/", "set-cookie: other=8")) as server:
            for expected in ([b"", b"id=7; other=8"], [b"id=7; other=8"] * 2):
                server.requests.clear()
                async with fetching(tmp_path) as fetcher:
                    for _ in range(2):
                        got = await fetcher.fetch(job(server.url("/")))
                sent = [request.partition(b"Cookie: ")[2].partition(b"\r\n")[0] for request in server.requests]
                assert sent == expected
                assert got.request == server.requests[-1]
            server.requests.clear()
            async with fetching(tmp_path / "none", settings(cookies=False)) as fetcher:
                for _ in range(2):
                    await fetcher.fetch(job(server.url("/")))
            assert not any(b"Cookie" in request for request in server.requests)
            assert not (tmp_path / "none" / "cookies.txt").exists()

    run(body())
