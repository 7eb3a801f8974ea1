"""Fetches from servers good and bad (H5): what is kept is what was sent, whatever was sent."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from fetching_servers import Answer, fetched_from, fetching, job, ok, run, sends, serving, settings

from holdfast.crawl.fetch.transfer import BodyLimits, ResponseBody
from holdfast.crawl.processes.messages import FetchOutcome

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


def test_a_percent_sign_that_escapes_nothing_is_escaped(tmp_path: Path) -> None:
    """As other clients write it: some servers answer 400 otherwise. The URL of the record stays as it was found."""

    async def body() -> None:
        async with serving(ok()) as server, fetching(tmp_path) as fetcher:
            url = server.url("/100%/a%2/%41?b=5%&c=%zz")
            got = await fetcher.fetch(job(url))
            assert [got.request] == server.requests
            assert got.request.startswith(b"GET /100%25/a%252/%41?b=5%&c=%zz HTTP/1.1\r\n")
            assert got.job.url == url

    run(body())


def test_the_recorded_request_is_what_the_server_received(tmp_path: Path) -> None:
    async def body() -> None:
        fetch = settings(headers=(("X-Mine", "1"), ("accept", "text/plain"), ("X-Empty", "")), user_agent="Tester/2")
        async with serving(ok(b"", "Set-Cookie: a=b")) as server, fetching(tmp_path, fetch) as fetcher:
            conditional = {"etag": '"x\xe9"', "modified": "Mon, 01 Jan 2024 00:00:00 GMT", "via": server.url("/from")}
            paths = ("/", "/a/../b/./c?x=[1]|{}&%2f%2F", "/%7euser//x?", "/~'()*!;,@:$&+=")
            got = [await fetcher.fetch(job(server.url(path), **conditional)) for path in paths]
            assert [fetched.request for fetched in got] == server.requests
            assert b"Cookie: a=b\r\n" in server.requests[1]
            assert b'If-None-Match: "x\xe9"\r\n' in server.requests[0]
            assert server.requests[1].startswith(b"GET /a/../b/./c?x=[1]|{}&%2f%2F HTTP/1.1\r\nHost: 127.0.0.1:")
            assert b"User-Agent: Tester/2\r\n" in server.requests[0]
            assert server.requests[0].lower().count(b"\r\naccept:") == 1
            assert server.connections == 1

    run(body())


def test_what_a_page_in_a_browser_asks_for_is_sent_and_recorded(tmp_path: Path) -> None:
    contents: list[bytes] = []

    async def answer(request: bytes, writer: asyncio.StreamWriter) -> bool:
        writer.write(ok(b"" if request.startswith(b"HEAD") else b"yes"))
        return request.startswith((b"GET", b"HEAD", b"OPTIONS"))

    async def body() -> None:
        async with serving(answer) as server, fetching(tmp_path) as fetcher:
            for method, content in (
                ("POST", b"a=1"),
                ("", b""),
                ("HEAD", b""),
                ("PUT", b""),
                ("OPTIONS", b""),
                ("", b""),
            ):
                fields = (("Content-Type", "text/x"), ("X-Page", "1"), ("Accept", "image/*")) if method else ()
                server.requests.clear()
                got = await fetcher.fetch(job(server.url("/x"), method=method, content=content, fields=fields))
                assert got.outcome == FetchOutcome.OK
                assert got.request == server.requests[0] + content
                assert got.request.startswith((method or "GET").encode() + b" /x HTTP/1.1\r\n")
                assert (b"\r\nX-Page: 1\r\n" in got.request) == bool(method)
                assert got.request.lower().count(b"\r\naccept:") == 1
                contents.append(got.body)

    run(body())
    assert contents == [b"yes", b"yes", b"", b"yes", b"yes", b"yes"]


def test_head_and_body_are_kept_as_sent(tmp_path: Path) -> None:
    async def body() -> None:
        head = b"HTTP/1.1 299 Odd  Reason\r\nX-A:1\r\nx-a:  2 \r\nContent-Encoding: gzip\r\nContent-Length: 7\r\n\r\n"
        got = await fetched_from(tmp_path, sends(head + b"notgzip", stays=True))
        assert (got.outcome, got.head, got.body, got.size) == (FetchOutcome.OK, head, b"notgzip", 7)
        assert (got.ip, got.protocols, got.truncated) == ("127.0.0.1", ("http/1.1",), "")
        assert got.transferred == len(head) + 7
        assert got.started > 0 and got.elapsed > 0

    run(body())


def test_informational_heads_and_trailers_are_no_part_of_the_head(tmp_path: Path) -> None:
    async def body() -> None:
        early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
        head = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
        got = await fetched_from(tmp_path, sends(early + head + b"3\r\nabc\r\n0\r\nX-Trailer: 1\r\n\r\n", stays=True))
        assert (got.head, got.body, got.truncated) == (head, b"abc", "")

    run(body())


CUT = [
    ("length too long", sends(HEAD + b"Content-Length: 100\r\n\r\nhalf"), b"half", "disconnect"),
    ("length too short", sends(HEAD + b"Content-Length: 4\r\n\r\nfourfive"), b"four", ""),
    ("no length", sends(HEAD + b"\r\nto the end"), b"to the end", ""),
    ("chunk cut", sends(HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"), b"ab", "disconnect"),
    ("no last chunk", sends(HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"), b"ab", "disconnect"),
    ("chunk size odd", sends(HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\nzz\r\n"), b"ab", "disconnect"),
    ("longer than allowed", sends(HEAD + b"\r\n" + b"x" * 3000), b"x" * 1000, "length"),
    ("exactly as allowed", sends(HEAD + b"\r\n" + b"x" * 1000), b"x" * 1000, ""),
]


@pytest.mark.parametrize(("answer", "content", "truncated"), [case[1:] for case in CUT], ids=[c[0] for c in CUT])
def test_what_came_of_a_body_is_kept_and_says_if_it_is_not_whole(
    tmp_path: Path, answer: Answer, content: bytes, truncated: str
) -> None:
    async def body() -> None:
        got = await fetched_from(tmp_path, answer, body_bytes_max=1000)
        assert (got.outcome, got.body, got.size, got.truncated) == (FetchOutcome.OK, content, len(content), truncated)

    run(body())


def test_a_broken_connection_in_the_body(tmp_path: Path) -> None:
    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> bool:
        writer.write(HEAD + b"Content-Length: 100\r\n\r\nhalf")
        await writer.drain()
        writer.transport.abort()
        return False

    async def body() -> None:
        got = await fetched_from(tmp_path, answer)
        assert got.outcome in (FetchOutcome.OK, FetchOutcome.DROPPED)  # a reset may overtake the bytes
        assert got.truncated == ("disconnect" if got.outcome == FetchOutcome.OK else "")

    run(body())


BAD = [
    ("nothing", sends(b""), FetchOutcome.DROPPED),
    ("garbage", sends(b"SSH-2.0-OpenSSH_9.2\r\n\r\nxx"), FetchOutcome.PROTOCOL),
    ("HTTP/0.9", sends(b"<html>hello</html>"), FetchOutcome.PROTOCOL),
    ("half a head", sends(b"HTTP/1.1 200 OK\r\nX: "), FetchOutcome.DROPPED),
    ("a huge head", sends(b"HTTP/1.1 200 OK\r\n" + b"X: yyyyyyyyyyyyyyy\r\n" * 300 + b"\r\n"), FetchOutcome.PROTOCOL),
    ("a huge field", sends(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000 + b"\r\n\r\n"), FetchOutcome.PROTOCOL),
    ("no end of heads", sends(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 400_000), FetchOutcome.PROTOCOL),
    ("length of no number", sends(HEAD + b"Content-Length: -5\r\n\r\nabc"), FetchOutcome.PROTOCOL),
]


@pytest.mark.parametrize(("answer", "outcome"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_what_is_no_response_is_told_apart(tmp_path: Path, answer: Answer, outcome: str) -> None:
    async def body() -> None:
        got = await fetched_from(tmp_path, answer, head_bytes_max=4096)
        assert (got.outcome, got.head, got.body) == (outcome, b"", b"")
        assert got.detail

    run(body())


def _dripping(start: bytes) -> Answer:
    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> bool:
        writer.write(start)
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    return answer


def test_a_server_that_drips_for_ever_is_cut_off(tmp_path: Path) -> None:
    async def body() -> None:
        got = await fetched_from(tmp_path, _dripping(HEAD + b"\r\n"), fetch_timeout_s=0.3)
        assert (got.outcome, got.truncated) == (FetchOutcome.OK, "time")
        assert got.size > 0 and set(got.body) == {ord("x")}

        got = await fetched_from(tmp_path, _dripping(HEAD + b"X-Slow: "), fetch_timeout_s=0.3)
        assert got.outcome == FetchOutcome.TIMEOUT

    run(body())


def test_a_server_that_says_nothing_is_left_after_the_stall_time(tmp_path: Path) -> None:
    async def silent(_request: bytes, _writer: asyncio.StreamWriter) -> bool:
        await asyncio.sleep(60)
        return False

    async def body() -> None:
        got = await fetched_from(tmp_path, silent, stall_timeout_s=1.0)
        assert got.outcome == FetchOutcome.TIMEOUT

    run(body())


def test_an_endless_body_goes_through_a_file_and_ends(tmp_path: Path) -> None:
    async def endless(_request: bytes, writer: asyncio.StreamWriter) -> bool:
        writer.write(HEAD + b"\r\n")
        while True:
            writer.write(b"0123456789abcdef" * 4096)
            await writer.drain()

    async def body() -> None:
        got = await fetched_from(tmp_path, endless, body_bytes_max=3 << 20, memory_bytes_max=1 << 20)
        assert (got.outcome, got.truncated, got.size, got.body) == (FetchOutcome.OK, "length", 3 << 20, b"")
        content = Path(got.spool).read_bytes()
        assert len(content) == 3 << 20
        assert content == (b"0123456789abcdef" * (3 << 16))
        assert Path(got.spool).parent == tmp_path / "spool"

    run(body())


def test_a_body_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    """While it comes, or only when all has come: the system says it when it is too late for the one or the other."""
    for number, size in enumerate((100, 1 << 20)):
        name = tmp_path / f"{number}"
        name.symlink_to("/dev/full")
        body = ResponseBody(BodyLimits(8 << 20, 10, 1000), tmp_path)
        body.begin(name.name)
        assert body.take(b"x" * size) == (None if size == 100 else -1)
        body.settle()
        assert "No space left on device" in body.failure and f"'{tmp_path}'" in body.failure
        body.drop()
        assert list(tmp_path.iterdir()) == []
        body.begin("next")
        assert body.take(b"small") is None
        assert (body.failure, body.end()) == ("", (b"small", ""))


def test_nobody_there(tmp_path: Path) -> None:
    async def body() -> None:
        async with serving(ok()) as server:
            gone = server.url()
        async with fetching(tmp_path) as fetcher:
            got = await fetcher.fetch(job(gone))
            assert got.outcome == FetchOutcome.CONNECT
            assert "connect" in got.detail.lower()
            for wrong in ("ftp://example.com/", "file:///etc/passwd", "http:///x", "http://example.com/a b"):
                assert (await fetcher.fetch(job(wrong))).outcome == FetchOutcome.INVALID

    run(body())


def test_not_modified_and_redirects_are_captures(tmp_path: Path) -> None:
    async def body() -> None:
        for line, status in ((b"304 Not Modified", b"304"), (b"301 Moved", b"301")):
            answer = b"HTTP/1.1 " + line + b"\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"
            async with serving(answer) as server, fetching(tmp_path) as fetcher:
                got = await fetcher.fetch(job(server.url()))
                assert (got.outcome, got.head, got.body) == (FetchOutcome.OK, answer, b"")
                assert got.head.split()[1] == status
                assert len(server.requests) == 1

    run(body())


def test_a_connection_that_the_server_closed_meanwhile_is_no_failure(tmp_path: Path) -> None:
    async def body() -> None:
        async with serving(sends(ok())) as server, fetching(tmp_path) as fetcher:
            for _ in range(5):
                assert (await fetcher.fetch(job(server.url()))).body == b"hello"
            assert server.connections == 5

    run(body())


def test_many_at_once_share_connections(tmp_path: Path) -> None:
    async def body() -> None:
        async with serving(ok()) as server, fetching(tmp_path, settings(per_host=4)) as fetcher:
            jobs = [job(server.url(f"/{number}"), number) for number in range(300)]
            got = await asyncio.gather(*(fetcher.fetch(each) for each in jobs))
            assert [fetched.job for fetched in got] == jobs
            assert all(fetched.body == b"hello" for fetched in got)
            assert len(server.requests) == 300
            assert server.connections <= 4
            assert fetcher.stats()["active"] == 0

    run(body())


def test_closing_breaks_off_and_leaves_no_file(tmp_path: Path) -> None:
    async def body() -> None:
        answer = _dripping(HEAD + b"\r\n" + b"x" * 200_000)
        async with serving(answer) as server, fetching(tmp_path, settings(memory_bytes_max=1000)) as fetcher:
            fetcher.submit(job(server.url()), lambda fetched: pytest.fail("it was broken off"))
            while not list((tmp_path / "spool").iterdir()):
                await asyncio.sleep(0.01)
        assert list((tmp_path / "spool").iterdir()) == []

    run(body())
