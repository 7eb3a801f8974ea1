"""Each trap of the test web does what its story says (W17)."""

from __future__ import annotations

import gzip
import re
import socket
import zlib
from collections.abc import Iterator
from contextlib import closing

import pytest
from hostile_web import SANE, Served, Web
from hostile_web.broken import BOMB_BYTES
from hostile_web.mazes import DEEP, LINKS, LONG
from hostile_web.traps import HYDRA, INSIDE, Trap, traps

from holdfast.urls import parse, registered_domain

WEB = Web(hosts=1, pages=1)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with WEB.serving() as served:
        yield served


def trap(served: Served, name: str) -> Trap:
    return next(one for one in served.web.traps if one.name == name)


def asked(served: Served, url: str, bytes_max: int = 1 << 30) -> bytes:
    """All that the server sends until it closes, or the first `bytes_max` bytes of it."""
    parts = parse(url)
    assert parts is not None
    with closing(socket.create_connection((address_of(served, parts.host), served.port), timeout=30)) as connection:
        target = parts.path + (f"?{parts.search}" if parts.search else "")
        fields = f"Host: {parts.host}:{served.port}\r\nConnection: close\r\n\r\n"
        connection.sendall(f"GET {target} HTTP/1.1\r\n{fields}".encode())
        received = bytearray()
        while len(received) < bytes_max and (part := connection.recv(min(1 << 16, bytes_max - len(received)))):
            received += part
        return bytes(received)


def address_of(served: Served, host: str) -> str:
    for name, address in served.resolve:
        if host == name or (name.startswith("*.") and host.endswith(name[1:])):
            return address
    return host


def entry(served: Served, name: str, bytes_max: int = 1 << 30) -> bytes:
    return asked(served, trap(served, name).entry, bytes_max)


def hrefs(answer: bytes) -> list[str]:
    return re.findall(r'(?:href|src)="([^"]*)"', answer.decode())


def test_every_trap_has_a_bound_and_its_own_host() -> None:
    found = traps(8080)
    assert len({one.name for one in found}) == len(found) == len({one.host for one in found}) > 30
    for one in found:
        parts = parse(one.entry)
        assert parts is not None and one.counts(parts.host)
        assert 0 <= one.requests_max(SANE) <= 4 * SANE.traps.host_urls_max
        assert [other.name for other in found if other.counts(parts.host)] == [one.name]


def test_every_trap_answers_at_its_entry_and_the_log_tells(served: Served) -> None:
    served.clear_log()
    resets = 0
    for one in served.web.traps:
        if one.entry.startswith("http:") and one.name != "silent":
            try:
                asked(served, one.entry, 10)
            except ConnectionResetError:
                resets += 1
    assert resets == 1
    silent = 1
    tls = 1
    asked(served, served.seeds[0])  # a request later than all of them
    log = served.log()
    reached = [one for one in served.web.traps if one.requests(log)]
    assert len(reached) == len(served.web.traps) - silent - tls


def test_mazes_go_on_for_ever(served: Served) -> None:
    assert hrefs(entry(served, "calendar")) == ["/calendar/2026/10/", "/calendar/2026/12/"]
    assert "/calendar/2027/01/" in hrefs(asked(served, at(served, "calendar", "/calendar/2026/12/")))
    assert hrefs(asked(served, at(served, "agenda", "/agenda?page=41"))) == ["/agenda?page=42", "/agenda?page=48"]
    assert hrefs(asked(served, at(served, "path-repeat", "/a/b/c/"))) == ["news/today/", "today/"]
    assert b"\r\nLocation: /hop/8\r\n" in asked(served, at(served, "redirects", "/hop/7"))
    assert b"\r\nLocation: /a\r\n" in asked(served, at(served, "redirect-loop", "/c"))
    assert b"\r\nLocation: /\r\n" in entry(served, "self-redirect")
    assert hrefs(entry(served, "css-chain")) == ["/0.css"]
    assert b'@import "6.css"' in asked(served, at(served, "css-chain", "/5.css"))


def at(served: Served, name: str, path: str) -> str:
    return f"http://{trap(served, name).host}:{served.port}{path}"


def test_session_ids_are_new_each_time(served: Served) -> None:
    first, second = (hrefs(entry(served, "session")) for _ in range(2))
    assert len(first) == 10 and not set(first) & set(second)
    plain = [[re.sub("[0-9a-f]{32}", "", link) for link in links] for links in (first, second)]
    assert plain[0] == plain[1]


def test_subdomains_have_subdomains_of_one_registered_domain(served: Served) -> None:
    links = [parse(link) for link in hrefs(asked(served, f"http://n5.{HYDRA}:{served.port}/"))]
    assert [link.host for link in links if link] == [f"n11.{HYDRA}", f"n12.{HYDRA}"]
    assert {registered_domain(link.host) for link in links if link} == {"example.net"}


def test_large_pages_are_large(served: Served) -> None:
    assert len(hrefs(entry(served, "many-links"))) == LINKS == 100_000
    assert sorted(map(len, hrefs(entry(served, "long-urls")))) == [6, LONG + 1, LONG + 2]
    assert len(asked(served, at(served, "long-urls", "/moved"))) > LONG
    assert entry(served, "deep").count(b"<") > DEEP == 100_000


def test_the_private_address_is_led_to_and_answers_with_a_secret(served: Served) -> None:
    assert len(hrefs(entry(served, "private"))) == 4
    address, name = (asked(served, at(served, "private", path)) for path in ("/by-address", "/by-name"))
    assert f"Location: http://{served.web.private_address}:{served.port}/secret".encode() in address
    assert f"Location: http://{INSIDE}:{served.port}/secret".encode() in name
    assert address_of(served, INSIDE) == served.web.private_address
    assert b"a secret" in asked(served, f"http://{INSIDE}:{served.port}/secret")


def test_the_bomb_is_small_on_the_wire_and_true(served: Served) -> None:
    head, _, body = entry(served, "bomb").partition(b"\r\n\r\n")
    assert b"Content-Encoding: gzip" in head
    assert BOMB_BYTES == 4 << 30 and len(body) < 6 << 20
    unpacker = zlib.decompressobj(31)
    assert unpacker.decompress(body, 1 << 20) == bytes(1 << 20)


def test_bytes_come_without_end_or_slowly(served: Served) -> None:
    assert len(entry(served, "endless-body", 5 << 20)) == 5 << 20
    assert entry(served, "slow-body", 80).endswith(b"..")
    assert entry(served, "slow-head", 28).endswith(b"X-Slow: sss")
    assert len(entry(served, "huge-head")) > 15 << 20


def test_broken_answers_are_broken_as_they_say(served: Served) -> None:
    assert b"\r\nzebra\r\n" in entry(served, "bad-chunks")
    assert b"\r\nffff\r\n" in entry(served, "cut-chunks")
    for name, claimed in (("short-body", 100_000), ("long-body", 100)):
        head, _, body = entry(served, name).partition(b"\r\n\r\n")
        assert f"Content-Length: {claimed}".encode() in head and len(body) not in (0, claimed)
    assert not entry(served, "garbage").startswith(b"HTTP")
    assert entry(served, "nothing") == b""
    with pytest.raises(ConnectionResetError):
        entry(served, "reset")
    with pytest.raises(gzip.BadGzipFile):
        gzip.decompress(entry(served, "false-gzip").partition(b"\r\n\r\n")[2])


def test_tls_is_answered_with_text(served: Served) -> None:
    with closing(socket.create_connection((served.web.trap_address, served.port), timeout=30)) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00")
        assert connection.recv(100).startswith(b"HTTP/1.1 400")
