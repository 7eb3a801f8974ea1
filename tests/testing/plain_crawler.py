"""A crawler of few lines that shares no code with the product but the joining of URLs: the second opinion on `Web`."""

from __future__ import annotations

import gzip
import http.client
import re
import ssl
import zlib
from collections import deque
from contextlib import suppress
from email.message import Message
from html.parser import HTMLParser
from urllib.parse import quote

import brotli
from hostile_web.generator import Web

from holdfast.urls import parse

_SRC = {"iframe", "frame", "script", "img"}
_STYLE = re.compile(r"""url\(\s*['"]?([^'")\s]+)|@import\s+["']([^"']+)""")
_IN_SCRIPT = re.compile(r'"((?:https?://|/)[^"\s]+\.html)"')
_META = re.compile(rb'charset="?([\w-]+)')


class Reply:
    def __init__(self, status: int, headers: Message, content: bytes) -> None:
        self.status = status
        self.headers = headers
        self.content = content


class Client:
    """Asks the hosts of a web, each address over one connection."""

    def __init__(self, web: Web) -> None:
        self._addresses = dict(web.resolve)
        self._open: dict[tuple[str, str], http.client.HTTPConnection] = {}

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._open.values():
            connection.close()

    def get(self, url: str, **headers: str) -> Reply:
        parts = parse(url)
        assert parts is not None
        address = self._addresses[parts.host]
        connection = self._connection(parts.scheme, address, int(parts.port))
        target = parts.path + (f"?{parts.search}" if parts.search else "")
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        fields |= {"Host": f"{parts.host}:{parts.port}", "Accept-Encoding": "gzip, br, deflate"}
        connection.request("GET", target, headers=fields)
        response = connection.getresponse()
        return Reply(response.status, response.headers, unpacked(response.read(), response.headers))

    def _connection(self, scheme: str, address: str, port: int) -> http.client.HTTPConnection:
        if (scheme, address) not in self._open:
            self._open[scheme, address] = (
                http.client.HTTPSConnection(address, port, context=trusting())
                if scheme == "https"
                else http.client.HTTPConnection(address, port)
            )
        return self._open[scheme, address]


def trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def unpacked(content: bytes, headers: Message) -> bytes:
    coding = headers.get("Content-Encoding", "")
    if coding == "gzip":
        return gzip.decompress(content)
    return brotli.decompress(content) if coding == "br" else zlib.decompress(content) if coding else content


class _Links(HTMLParser):
    """Collects what is written; `base` is told apart."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.base = ""
        self._within = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attributes}
        self._within = tag
        if tag == "base":
            self.base = self.base or values.get("href", "")
        elif tag in _SRC and "src" in values:
            self.found.append(values["src"])
        elif tag == "form":
            self.found.append(values["action"].partition("?")[0] + "?")
        elif tag == "input":
            mark = "" if self.found[-1].endswith("?") else "&"
            self.found[-1] += f"{mark}{values['name']}={values.get('value', '')}"
        elif tag == "meta" and values.get("http-equiv", "").lower() == "refresh":
            self.found.append(values["content"].partition("=")[2])
        elif "href" in values:
            self.found.append(values["href"])
        self.found += [part.split()[0] for part in values.get("srcset", "").split(",") if part]
        self.found += _styled(values.get("style", ""))

    def handle_data(self, data: str) -> None:
        if self._within == "style":
            self.found += _styled(data)
        elif self._within == "script":
            self.found += _IN_SCRIPT.findall(data)

    def handle_endtag(self, tag: str) -> None:
        self._within = ""


def _styled(text: str) -> list[str]:
    return [first or second for first, second in _STYLE.findall(text)]


def links(url: str, reply: Reply) -> set[str]:
    """Absolute, without fragments."""
    kind = reply.headers.get("Content-Type", "")
    base, found = url, []
    if "Location" in reply.headers:
        found = [reply.headers["Location"]]
    elif reply.status == 200 and kind.startswith("text/html"):
        parser = _Links()
        text, charset = _decoded(reply.content, reply.headers)
        parser.feed(text)
        parser.close()
        joined = parse(parser.base, url) if parser.base else None
        base, found = (joined.href if joined else url), [_encoded(text, charset) for text in parser.found]
    elif kind == "text/css":
        found = _styled(reply.content.decode())
    elif kind == "text/javascript":
        found = _IN_SCRIPT.findall(reply.content.decode())
    found += re.findall("<([^>]+)>", reply.headers.get("Link", ""))
    parts = [parse(text, base) for text in found]
    return {part.href.partition("#")[0] for part in parts if part is not None and part.scheme in ("http", "https")}


def _encoded(text: str, charset: str) -> str:
    """With the query in the page's own character set."""
    path, mark, query = text.strip().partition("?")
    safe = "".join(chr(code) for code in range(33, 127))
    return path + mark + quote(query, safe=safe, encoding="utf-8" if charset == "utf-16" else charset)


def _decoded(content: bytes, headers: Message) -> tuple[str, str]:
    if content.startswith(b"\xff\xfe"):
        return content.decode("utf-16"), "utf-16"
    meta = _META.search(content)
    charset = headers.get_param("charset") or (meta[1].decode() if meta else "utf-8")
    return content.decode(str(charset)), str(charset)


def listed(client: Client, url: str) -> set[str]:
    """The pages of a sitemap, and of those that it names."""
    reply = client.get(url)
    content = reply.content
    with suppress(OSError):
        content = gzip.decompress(content)
    text = content.decode().replace("&amp;", "&")
    if "<sitemapindex" in text:
        return set().union(*(listed(client, part) for part in re.findall(r"<loc>(.*?)</loc>", text)))
    found = re.findall(r"<(?:loc|link)>\s*(\S+?)\s*</", text)
    return set(found if "<" in text else text.split())


def crawled(web: Web) -> dict[str, int]:
    """Every URL from the seeds on with its status; what failed for a while is asked for again."""
    found: dict[str, int] = {}
    with Client(web) as client:
        queue = deque([*web.seeds, *listed(client, web.seeds[0] + "sitemap-index.xml")])
        while queue:
            url = queue.popleft()
            if url in found or not web.allowed(url):
                continue
            reply = client.get(url)
            while reply.status in (429, 500, 503):
                reply = client.get(url)
            found[url] = reply.status
            queue.extend(links(url, reply))
    return found
