"""Answers that were made once are kept for a while: rewriting a page costs more than finding it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from holdfast.env.lru import LruCache

_OVERHEAD = 500  # bytes of a reply beside its body


class CachedReply(NamedTuple):
    """A whole answer. Headers are in the form that ASGI wants."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


def _size(reply: CachedReply) -> int:
    return len(reply.body) + _OVERHEAD


class ReplyCache:
    """The replies asked for last, up to a number of bytes. For the thread of the event loop."""

    def __init__(self, bytes_max: int) -> None:
        self._reply_bytes_max = bytes_max // 8  # one of more would drive out too many others
        self._replies: LruCache[Hashable, CachedReply] = LruCache(bytes_max, _size)

    def get(self, key: Hashable) -> CachedReply | None:
        return self._replies.get(key)

    def put(self, key: Hashable, reply: CachedReply) -> None:
        if _size(reply) <= self._reply_bytes_max:
            self._replies.put(key, reply)

    def __len__(self) -> int:
        return len(self._replies)
