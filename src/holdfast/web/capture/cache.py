"""Answers that were made once are kept for a while: rewriting a page costs more than finding it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import NamedTuple

_OVERHEAD = 500  # bytes of a reply beside its body


class CachedReply(NamedTuple):
    """A whole answer. Headers are in the form that ASGI wants."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class ReplyCache:
    """The replies asked for last, up to a number of bytes. For the thread of the event loop."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._reply_bytes_max = bytes_max // 8  # one of more would drive out too many others
        self._replies: OrderedDict[Hashable, CachedReply] = OrderedDict()
        self._bytes = 0

    def get(self, key: Hashable) -> CachedReply | None:
        reply = self._replies.get(key)
        if reply is not None:
            self._replies.move_to_end(key)
        return reply

    def put(self, key: Hashable, reply: CachedReply) -> None:
        size = len(reply.body) + _OVERHEAD
        if size > self._reply_bytes_max or key in self._replies:
            return
        self._replies[key] = reply
        self._bytes += size
        while self._bytes > self._bytes_max:
            _, old = self._replies.popitem(last=False)
            self._bytes -= len(old.body) + _OVERHEAD

    def __len__(self) -> int:
        return len(self._replies)
