"""The head of a request: what it must be like before anything is made of it.

Where two readers of one request could come to different ends (two lengths, a length and chunks, two hosts, a field name
with a space), the request is refused: such differences are what smuggled requests are made of.
"""

from __future__ import annotations

import re

from holdfast.web.server.listen import Hosts, name_in

Fields = list[tuple[bytes, bytes]]

VERSIONS = ("1.1", "1.0")
_ABSOLUTE = re.compile(rb"https?://([^/?#@]+)(?=[/?]|$)", re.IGNORECASE)
_NOT_IN_TARGET = re.compile(rb"[^!\"$-~]")
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]")
_SHOWN_MAX = 80
_FOLDED = re.compile(rb"[\x00\r\n]")


class Refusal(Exception):
    """A request that the application does not get to see."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def body_length(fields: Fields, version: str) -> int:
    """The length that the body has by its own word; 0 if it is chunked. Raises Refusal for any contradiction."""
    lengths, coded = [], False
    for name, value in fields:
        if name == b"content-length":
            lengths.append(value)
        elif name == b"transfer-encoding":
            if coded or value.strip().lower() != b"chunked" or version != "1.1":
                raise Refusal(400, "of transfer encodings only chunked is known, once, in HTTP/1.1")
            coded = True
        if _FOLDED.search(value):
            raise Refusal(400, "a header field goes over several lines")
    if len(lengths) + coded > 1:
        raise Refusal(400, "the request says more than once how long its body is")
    if not lengths:
        return 0
    if not lengths[0].isdigit() or len(lengths[0]) > 18:
        raise Refusal(400, "the length of the body is not a number")
    return int(lengths[0])


def verify_host(fields: Fields, version: str, hosts: Hosts) -> None:
    """Raises Refusal unless the request is for us."""
    named = [value for name, value in fields if name == b"host"]
    if len(named) > 1 or (not named and version != "1.0"):
        raise Refusal(400, "the request must name one host")
    if named and not hosts.accepts(named[0]):
        name = repr(name_in(named[0]).decode("ascii", "replace")[:_SHOWN_MAX])
        told = f"host name {name} is not among those this server answers to: add it to 'serve.hosts' in holdfast.toml"
        raise Refusal(421, told.encode("ascii", "replace").decode())


def escaped_line(data: bytes) -> bytes:
    """The bytes with which a request begins, those of its first line beyond ASCII escaped: people type `?url=bücher.de`
    where their programs do not do it for them, and no other reader takes such bytes for anything else."""
    line, end, rest = data.partition(b"\n")
    return _BEYOND_ASCII.sub(lambda found: b"%%%02X" % found[0][0], line) + end + rest


def target_of(target: bytes, fields: Fields) -> tuple[bytes, bytes]:
    """Path and query. A proxy's form, with scheme and host, is understood; its host is the one that counts."""
    absolute = _ABSOLUTE.match(target)
    if absolute is not None:
        fields[:] = [field for field in fields if field[0] != b"host"]
        fields.append((b"host", absolute[1]))
        target = target[absolute.end() :]
        if not target.startswith(b"/"):
            target = b"/" + target
    if not target.startswith(b"/") or _NOT_IN_TARGET.search(target):
        raise Refusal(400, "the address must begin with a slash, and hold only ASCII characters other than # and space")
    path, _, query = target.partition(b"?")
    return path, query
