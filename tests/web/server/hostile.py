"""Requests that are wrong, each in one way, with the statuses that may answer them."""

from __future__ import annotations

HOST = b"Host: 127.0.0.1\r\n"
CHUNKED = b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"


def _get(target: bytes, *lines: bytes) -> bytes:
    return b"GET " + target + b" HTTP/1.1\r\n" + HOST + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


def _post(*lines: bytes, body: bytes = b"") -> bytes:
    return b"POST / HTTP/1.1\r\n" + HOST + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body


# What no server may make anything of: RFC 9112 has the rule for each.
MALFORMED: dict[str, tuple[bytes, int]] = {
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two hosts": (b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400),
    "a host that is not ours": (b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
    "a host that looks like ours": (b"GET / HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n", 421),
    "a host with a user": (b"GET / HTTP/1.1\r\nHost: 127.0.0.1@evil.example\r\n\r\n", 421),
    "a host in the target that is not ours": (_get(b"http://evil.example/"), 421),
    "two hosts and a target with one": (b"GET http://127.0.0.1/ HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400),
    "a local host that is no name": (b'GET / HTTP/1.1\r\nHost: a;b"*.localhost\r\n\r\n', 421),
    "a body behind a wish for another protocol": (
        _post(b"Connection: Upgrade", b"Upgrade: h2c", b"Content-Length: 3", body=b"abc"),
        400,
    ),
    "chunks behind a wish for another protocol": (
        _post(b"Connection: Upgrade", b"Upgrade: h2c", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
        400,
    ),
    "a user in the target": (_get(b"http://127.0.0.1@evil.example/"), 400),
    "version 0.9": (b"GET /\r\n\r\n", 400),
    "version 2.0": (b"GET / HTTP/2.0\r\n" + HOST + b"\r\n", 400),
    "the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    "length and chunks": (_post(b"Content-Length: 4", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n"), 400),
    "chunks and length": (_post(b"Transfer-Encoding: chunked", b"Content-Length: 4", body=b"0\r\n\r\n"), 400),
    "two lengths": (_post(b"Content-Length: 4", b"Content-Length: 5", body=b"abcd"), 400),
    "the same length twice": (_post(b"Content-Length: 4", b"Content-Length: 4", body=b"abcd"), 400),
    "a list of lengths": (_post(b"Content-Length: 4, 4", body=b"abcd"), 400),
    "a signed length": (_post(b"Content-Length: +4", body=b"abcd"), 400),
    "a negative length": (_post(b"Content-Length: -1"), 400),
    "another transfer encoding": (_post(b"Transfer-Encoding: xchunked", body=b"0\r\n\r\n"), 400),
    "two transfer encodings": (_post(b"Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"), 400),
    "a space before the colon": (_post(b"Transfer-Encoding : chunked", body=b"0\r\n\r\n"), 400),
    "a chunk size that is none": (CHUNKED + b"zz\r\nab\r\n0\r\n\r\n", 400),
    "a chunk size as in C": (CHUNKED + b"0x2\r\nab\r\n0\r\n\r\n", 400),
    "a chunk size beyond all": (CHUNKED + b"ffffffffffffffffff\r\nab\r\n0\r\n\r\n", 400),
    "a chunk longer than it says": (CHUNKED + b"2\r\nabcd\r\n0\r\n\r\n", 400),
    "chunks that end by LF": (CHUNKED + b"2\nab\n0\n\n", 400),
    "a folded field": (_get(b"/", b"X-A: b\r\n c"), 400),
    "a field folded by a tab": (_get(b"/", b"X-A: b\r\n\tc"), 400),
    "NUL in a field": (_get(b"/", b"X-A: b\0c"), 400),
    "NUL in a name": (_get(b"/", b"X\0A: bc"), 400),
    "NUL in the target": (_get(b"/\0"), 400),
    "CR in a field": (_get(b"/", b"X-A: b\rc"), 400),
    "LF in a field": (_get(b"/", b"X-A: b\nX-B: c"), 400),
    "lines that end by LF": (b"GET / HTTP/1.1\nHost: 127.0.0.1\n\n", 400),
    "a space in a name": (_get(b"/", b"X A: b"), 400),
    "a line without a colon": (_get(b"/", b"XA"), 400),
    "a field without a name": (_get(b"/", b": x"), 400),
    "a space in the target": (_get(b"/a b"), 400),
    "a fragment in the target": (_get(b"/a#b"), 400),
    "no target": (b"GET HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "a target without a slash": (_get(b"x"), 400),
    "CONNECT": (b"CONNECT 127.0.0.1:80 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "OPTIONS *": (b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "a method that is none": (b"BREW / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "a method in lower case": (b"get / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "a target of 100 KB": (_get(b"/" + b"a" * 100_000), 414),
    "a field of 100 KB": (_get(b"/", b"X: " + b"a" * 100_000), 431),
    "a name of 100 KB": (_get(b"/", b"X" * 100_000 + b": a"), 431),
    "two hundred fields": (_get(b"/", *[b"X: a"] * 200), 431),
    "a body beyond all": (_post(b"Content-Length: 99999999999999"), 413),
}

# Well-formed, and up to no good: the server may find nothing there, or nothing wrong with it.
TRICKS = (
    b"/../../../../etc/passwd",
    b"/%2e%2e/%2e%2e/etc/passwd",
    b"/static/../../errors.py",
    b"/static/%2e%2e/%2e%2e/errors.py",
    b"/static/..%2f..%2ferrors.py",
    b"/static/..%5c..%5cerrors.py",
    b"/static//etc/passwd",
    b"/static/%00",
    b"/static/style.css%00.html",
    b"/_hf/../site.py",
    b"/_hf/%2e%2e/site.py",
    b"//evil.example/",
    b"//evil.example/%2e%2e",
    b"/\\evil.example/",
    b"/..\\..\\windows\\win.ini",
    b"/%5c%5cevil.example",
    b"/%",
    b"/%zz",
    b"/%00",
    b"/%ff%fe",
    b"/main/20260101000000/",
    b"/main/20260101000000mp_/",
    b"/main/99999999999999/http://example.com/",
    b"/main/00000000000000/http://example.com/",
    b"/main/2026/javascript:alert(1)",
    b"/main/2026mp_/file:///etc/passwd",
    b"/main/2026id_/http://[::1",
    b"/main/2026id_/http://example.com:99999999/",
    b"/main/2026id_/http://example.com/%0d%0aSet-Cookie:%20a=b",
    b"/main/*/%0d%0aX:%20y",
    b"/main/timemap/link/http://example.com/%0d%0aX:%20y",
    b"/main/timegate/http://example.com/%0d%0aX:%20y",
    b"/main/cdx?url=%00",
    b"/main/cdx?url=http://example.com/&filter=~url:((((((((((a%2B)%2B)%2B)%2B)%2B)%2B)%2B)%2B)%2B)%2Bb",
    b"/main/cdx?url=*&limit=-1&offset=99999999999999999999&page=-1",
    b"/main/cdx?resumeKey=%ff%ff&collapse=x:y:z&fl=,,,&sort=x",
    b"/main/record/../../../holdfast.toml",
    b"/cdx/search/cdx?url=" + b"a." * 2000,
    b"/../main/2026/http://example.com/",
    b"/" + b"a/" * 5000,
    b"/" + b"%25" * 5000,
)
