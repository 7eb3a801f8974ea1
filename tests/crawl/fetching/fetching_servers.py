"""Servers that keep the bytes they are sent, and answer as badly as a test wants."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvloop

from holdfast.crawl.fetch.fetcher import Fetcher
from holdfast.crawl.job.job import CrawlJob, FetchSettings
from holdfast.crawl.processes.messages import Fetched, FetchJob

Answer = Callable[[bytes, asyncio.StreamWriter], Awaitable[bool]]  # whether the connection stays


def run(body: Coroutine[Any, Any, None]) -> None:
    uvloop.run(body)


class RawServer:
    """What a server has seen."""

    def __init__(self) -> None:
        self.port = 0
        self.requests: list[bytes] = []
        self.connections = 0

    def url(self, path: str = "/", scheme: str = "http", host: str = "127.0.0.1") -> str:
        return f"{scheme}://{host}:{self.port}{path}"


@asynccontextmanager
async def serving(answer: Answer | bytes, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawServer]:
    """A server on a free port; bytes are sent as they are for each request, and the connection stays."""
    seen = RawServer()
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        seen.connections += 1
        try:
            await _converse(seen, answer, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, ssl.SSLError):
            pass
        finally:
            writer.close()
            tasks.discard(task)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    seen.port = server.sockets[0].getsockname()[1]
    try:
        yield seen
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.wait_for(server.wait_closed(), 5)


async def _converse(
    seen: RawServer, answer: Answer | bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    stays = True
    while stays:
        request = await reader.readuntil(b"\r\n\r\n")
        seen.requests.append(request)
        if isinstance(answer, bytes):
            writer.write(answer)
        else:
            stays = await answer(request, writer)
        await writer.drain()


def sends(*parts: bytes, stays: bool = False) -> Answer:
    """Sends the parts one after the other, then closes the connection unless it stays."""

    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> bool:
        for part in parts:
            writer.write(part)
            await writer.drain()
        return stays

    return answer


def ok(body: bytes = b"hello", *fields: str) -> bytes:
    head = "".join(f"{field}\r\n" for field in (*fields, f"Content-Length: {len(body)}"))
    return f"HTTP/1.1 200 OK\r\n{head}\r\n".encode() + body


def settings(**changes: Any) -> FetchSettings:
    return FetchSettings(**({"delay": 0.0, "per_host": 8} | changes))


@asynccontextmanager
async def fetching(directory: Path, fetch: FetchSettings | None = None, **more: Any) -> AsyncIterator[Fetcher]:
    job = CrawlJob(fetch=fetch or settings(), workers=16)
    fetcher = Fetcher(job, directory, **({"allow_private": True} | more))
    try:
        yield fetcher
    finally:
        fetcher.close()
        await asyncio.sleep(0)  # lets what was scheduled see that it is closed


def job(url: str, number: int = 1, **fields: Any) -> FetchJob:
    return FetchJob(number, url, url.split("/")[2], **fields)


async def fetched_from(directory: Path, answer: Answer | bytes, **changes: Any) -> Fetched:
    """One fetch from a server that answers so."""
    async with serving(answer) as server, fetching(directory, settings(**changes)) as fetcher:
        return await asyncio.wait_for(fetcher.fetch(job(server.url())), 20)


def certificate(directory: Path, name: str = "localhost") -> tuple[Path, Path]:
    """A key and its self-signed certificate."""
    key, made = directory / "key.pem", directory / "certificate.pem"
    options = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    files = ["-keyout", str(key), "-out", str(made), "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
    subprocess.run(["openssl", "req", *options, *files], check=True, capture_output=True, timeout=20)
    return key, made


def tls_context(directory: Path) -> ssl.SSLContext:
    key, made = certificate(directory)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, key)
    return context
