"""TLS, HTTP/2 and proxies (H5): the facts of a connection, and connections through others."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from fetching_servers import RawServer, certificate, fetching, job, ok, run, serving, settings, tls_context

from holdfast.crawl.job.job import Credential
from holdfast.crawl.processes.messages import FetchOutcome

NGINX = shutil.which("nginx") or "/usr/sbin/nginx"


def test_what_was_agreed_on_is_told_for_every_fetch_of_a_connection(tmp_path: Path) -> None:
    async def body() -> None:
        fetch = settings(resolve=(("localhost", "127.0.0.1"),))
        async with serving(ok(), tls_context(tmp_path)) as server, fetching(tmp_path, fetch) as fetcher:
            for _ in range(3):
                got = await fetcher.fetch(job(server.url(scheme="https", host="localhost")))
                facts = dict(got.facts)
                assert (got.outcome, got.body, got.protocols) == (FetchOutcome.OK, b"hello", ("http/1.1", "tls/1.3"))
                assert facts["WARC-Cipher-Suite"].startswith("TLS_")
                assert facts["Holdfast-Certificate"] == "self-signed certificate (18)"
            assert server.connections == 2, "one to learn that the certificate is not good, one for all fetches"
            assert [got.request] * 3 == server.requests

    run(body())


def test_a_good_certificate_is_called_so_and_one_for_another_host_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = tls_context(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))

    async def body() -> None:
        async with (
            serving(ok(), context) as server,
            fetching(tmp_path, settings(resolve=(("*", "127.0.0.1"),))) as fetcher,
        ):
            good = await fetcher.fetch(job(server.url(scheme="https", host="localhost")))
            assert dict(good.facts)["Holdfast-Certificate"] == "valid"
            assert server.connections == 1
            other = await fetcher.fetch(job(server.url(scheme="https", host="other.example")))
            assert "other.example" in dict(other.facts)["Holdfast-Certificate"]

    run(body())


def test_bad_certificates_can_be_refused(tmp_path: Path) -> None:
    async def body() -> None:
        fetch = settings(verify_tls=True)
        async with serving(ok(), tls_context(tmp_path)) as server, fetching(tmp_path, fetch) as fetcher:
            got = await fetcher.fetch(job(server.url(scheme="https")))
            assert (got.outcome, got.head) == (FetchOutcome.TLS, b"")
            assert "certificate" in got.detail

    run(body())


def test_a_server_that_does_not_speak_tls(tmp_path: Path) -> None:
    async def body() -> None:
        async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(100)
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(plain, "127.0.0.1", 0)
        async with fetching(tmp_path) as fetcher:
            port = server.sockets[0].getsockname()[1]
            got = await fetcher.fetch(job(f"https://127.0.0.1:{port}/"))
            assert got.outcome == FetchOutcome.TLS
        server.close()
        await server.wait_closed()

    run(body())


@asynccontextmanager
async def nginx(directory: Path) -> AsyncIterator[str]:
    """An nginx that speaks HTTP/2, on a port that was free a moment ago."""
    key, made = certificate(directory)
    (directory / "www").mkdir()
    (directory / "www" / "page.html").write_text("over two")
    async with serving(b"") as free:
        port = free.port
    temporary = "\n".join(
        f"{name}_temp_path {directory}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (directory / "nginx.conf").write_text(f"""daemon off; master_process off; pid {directory}/pid;
error_log {directory}/error.log; events {{}}
http {{ access_log off; {temporary}
server {{ listen 127.0.0.1:{port} ssl http2; ssl_certificate {made}; ssl_certificate_key {key};
root {directory}/www; }} }}""")
    process = subprocess.Popen(
        [NGINX, "-p", str(directory), "-c", str(directory / "nginx.conf")], stderr=subprocess.DEVNULL
    )
    try:
        await _answering(port, process)
        yield f"https://127.0.0.1:{port}/page.html"
    finally:
        process.terminate()
        process.wait(10)


async def _answering(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(500):
        assert process.poll() is None, "nginx did not start"
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.01)
        else:
            writer.close()
            return


@pytest.mark.skipif(not os.access(NGINX, os.X_OK), reason="no nginx here to speak HTTP/2")
def test_http2_is_written_as_http1(tmp_path: Path) -> None:
    async def body() -> None:
        async with nginx(tmp_path) as url:
            async with fetching(tmp_path, settings(per_host=4)) as fetcher:
                for got in await asyncio.gather(*(fetcher.fetch(job(url, number)) for number in range(8))):
                    assert (got.outcome, got.body) == (FetchOutcome.OK, b"over two")
                    assert got.head.startswith(b"HTTP/1.1 200 OK\r\nserver: nginx")
                    assert got.head.endswith(b"\r\n\r\n")
                    assert got.protocols[0] == "h2"
                    assert got.protocols[1].startswith("tls/1.")
                    assert dict(got.facts)["WARC-Cipher-Suite"]
                    assert got.request.startswith(b"GET /page.html HTTP/1.1\r\nHost: 127.0.0.1:")
            async with fetching(tmp_path / "one", settings(http2=False)) as fetcher:
                assert (await fetcher.fetch(job(url))).protocols[0] == "http/1.1"

    run(body())


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


@asynccontextmanager
async def proxying() -> AsyncIterator[RawServer]:
    """A proxy that connects for CONNECT, and answers itself what it is asked for in plain."""
    seen = RawServer()
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        seen.requests.append(request)
        method, target, _ = request.split(b" ", 2)
        if method != b"CONNECT":
            writer.write(ok(b"by proxy", "Connection: close"))
            writer.close()
            return
        theirs, to_them = await asyncio.open_connection("127.0.0.1", int(target.rpartition(b":")[2]))
        writer.write(b"HTTP/1.1 200 Connected\r\nX-Proxy: yes\r\n\r\n")
        tasks.update(map(asyncio.ensure_future, (_pipe(theirs, writer), _pipe(reader, to_them))))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    seen.port = server.sockets[0].getsockname()[1]
    yield seen
    server.close()
    await asyncio.gather(*tasks)
    await server.wait_closed()


def test_through_a_proxy_names_are_not_looked_up_here(tmp_path: Path) -> None:
    def lookup(name: str) -> list[str]:
        raise AssertionError("the proxy looks names up")

    async def body() -> None:
        async with proxying() as proxy:
            fetch = settings(proxy=f"http://127.0.0.1:{proxy.port}")
            async with fetching(tmp_path, fetch, lookup=lookup, allow_private=False) as fetcher:
                got = await fetcher.fetch(job("http://somewhere.example/a?b"))
                assert (got.outcome, got.body) == (FetchOutcome.OK, b"by proxy")
                assert [got.request] == proxy.requests
                assert got.request.startswith(
                    b"GET http://somewhere.example/a?b HTTP/1.1\r\nHost: somewhere.example\r\n"
                )
                refused = await fetcher.fetch(job("http://127.0.0.1/"))
                assert refused.outcome == FetchOutcome.PRIVATE
                assert len(proxy.requests) == 1

    run(body())


def test_tls_through_a_proxy(tmp_path: Path) -> None:
    async def body() -> None:
        async with serving(ok(b"secret"), tls_context(tmp_path)) as server, proxying() as proxy:
            fetch = settings(proxy=f"http://127.0.0.1:{proxy.port}")
            async with fetching(tmp_path, fetch) as fetcher:
                got = await fetcher.fetch(job(server.url(scheme="https", host="named.example")))
                assert (got.outcome, got.body) == (FetchOutcome.OK, b"secret")
                assert got.request == server.requests[0]
                assert got.head.startswith(b"HTTP/1.1 200 OK\r\n")
                assert proxy.requests[0].startswith(f"CONNECT named.example:{server.port} ".encode())

    run(body())


def test_a_proxy_of_the_environment_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")

    async def body() -> None:
        async with serving(ok()) as server, fetching(tmp_path) as fetcher:
            assert (await fetcher.fetch(job(server.url()))).body == b"hello"

    run(body())


@asynccontextmanager
async def socks(answer: bytes) -> AsyncIterator[RawServer]:
    """A SOCKS5 proxy (RFC 1928) that is also the server behind it; its requests are the names it was asked for."""
    seen = RawServer()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, methods = await reader.readexactly(2)
        if 2 in await reader.readexactly(methods):  # RFC 1929: user and password
            writer.write(b"\x05\x02")
            _, length = await reader.readexactly(2)
            user = await reader.readexactly(length)
            (length,) = await reader.readexactly(1)
            seen.requests.append(user + b":" + await reader.readexactly(length))
            writer.write(b"\x01\x00")
        else:
            writer.write(b"\x05\x00")
        *_, kind, length = await reader.readexactly(5)
        assert kind == 3, "a name, not an address"
        seen.requests.append(await reader.readexactly(length))
        await reader.readexactly(2)
        writer.write(b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50")
        seen.requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    seen.port = server.sockets[0].getsockname()[1]
    yield seen
    server.close()
    await server.wait_closed()


def test_through_socks_the_proxy_is_given_the_name(tmp_path: Path) -> None:
    async def body() -> None:
        async with (
            socks(ok(b"behind", "Connection: close")) as proxy,
            fetching(tmp_path, settings(proxy=f"socks5h://127.0.0.1:{proxy.port}")) as fetcher,
        ):
            got = await fetcher.fetch(job("http://hidden.example/x"))
            assert (got.outcome, got.body, got.ip) == (FetchOutcome.OK, b"behind", "")
            assert proxy.requests == [b"hidden.example", got.request]
            assert got.request.startswith(b"GET /x HTTP/1.1\r\n")

    run(body())


# -- credentials -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["url", "header"])
def test_only_a_proxy_is_given_what_it_wants(tmp_path: Path, given: str) -> None:
    """Not the server behind it, in plain or over TLS; and no record holds it."""
    line = b"\r\nProxy-Authorization: Basic bWU6c2VjcmV0\r\n"

    async def body() -> None:
        async with serving(ok(b"secret"), tls_context(tmp_path)) as server, proxying() as proxy:
            at = f"127.0.0.1:{proxy.port}"
            fetch = settings(proxy=f"http://me:secret@{at}")
            if given == "header":
                fetch = settings(proxy=f"http://{at}", headers=(("Proxy-Authorization", "Basic bWU6c2VjcmV0"),))
            async with fetching(tmp_path, fetch) as fetcher:
                got = await fetcher.fetch(job(server.url(scheme="https", host="named.example")))
                assert (got.outcome, got.body) == (FetchOutcome.OK, b"secret")
                assert got.request == server.requests[0]
                assert b"Proxy-Authorization" not in got.request
                plain = await fetcher.fetch(job("http://somewhere.example/"))
                assert b"Proxy-Authorization" not in plain.request
            assert len(proxy.requests) == 3, "one to learn that the certificate is not good"
            assert all(line in request for request in proxy.requests)

    run(body())


def test_user_and_password_for_socks(tmp_path: Path) -> None:
    async def body() -> None:
        async with (
            socks(ok(b"behind", "Connection: close")) as proxy,
            fetching(tmp_path, settings(proxy=f"socks5h://me:a%3Ab@127.0.0.1:{proxy.port}")) as fetcher,
        ):
            got = await fetcher.fetch(job("http://hidden.example/x"))
            assert (got.outcome, got.body) == (FetchOutcome.OK, b"behind")
            assert proxy.requests == [b"me:a:b", b"hidden.example", got.request]

    run(body())


def test_credentials_are_not_sent_where_the_certificate_is_not_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has come between would read them. What is fetched without any is fetched all the same."""
    context = tls_context(tmp_path)

    async def body(*, good: bool) -> None:
        async with serving(ok(), context) as server:
            bound = Credential(server.url("", scheme="https", host="localhost"), "Authorization", "Bearer secret")
            fetch = settings(resolve=(("*", "127.0.0.1"),), credentials=(bound,))
            async with fetching(tmp_path, fetch) as fetcher:
                other = await fetcher.fetch(job(server.url(scheme="https", host="other.example")))
                assert other.outcome == FetchOutcome.OK
                got = await fetcher.fetch(job(server.url(scheme="https", host="localhost")))
            if good:
                assert b"\r\nAuthorization: Bearer secret\r\n" in server.requests[-1]
                return
            assert got.outcome == FetchOutcome.TLS
            assert "credentials are sent to servers with a good certificate only" in got.detail
            assert b"Bearer secret" not in b"".join(server.requests)

    run(body(good=False))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
    run(body(good=True))
