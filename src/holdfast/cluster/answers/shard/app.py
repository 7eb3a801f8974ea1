"""The application of the peer port for requests that concern several URLs: the shard of this node over HTTP (H8).

A request is a POST of a message as of the node protocol: JSON, then raw bytes. So is the response; a failure has its
own content type, so that the other node raises the same error.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from holdfast.cluster.answers.scatter import FAILURE_TYPE
from holdfast.cluster.answers.shard.operations import OPERATIONS
from holdfast.cluster.answers.shard.shard import NodeShard, answer
from holdfast.cluster.answers.studies import STUDY, StudyFrames
from holdfast.cluster.copies.partitions import unpack_partitions
from holdfast.cluster.copies.protocol.messages import hexadecimal, pack_body, text, unpack_body
from holdfast.errors import HoldfastError, MalformedInput
from holdfast.storage.server.wire import pack_failure
from holdfast.web.request import body_of
from holdfast.web.server.bounded_scan import in_thread

log = logging.getLogger("holdfast.cluster")
REQUEST_BYTES_MAX = 64 << 20
_TYPE = "application/octet-stream"


class ShardApp:
    """For the thread of the event loop."""

    def __init__(self, shard: NodeShard) -> None:
        self._shard = shard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response: Response
        try:
            body = await body_of(Request(scope, receive), REQUEST_BYTES_MAX)
            operation, head, partitions = self._request(body)
            if operation == STUDY:
                frames = StudyFrames(self._shard, head, partitions)
                response = StreamingResponse(_sent(frames), media_type=_TYPE)
            else:
                response = Response(await in_thread(self._answer, operation, head, partitions), media_type=_TYPE)
        except HoldfastError as error:
            if error.http_status >= 500:
                log.error("a request of another node failed: %s", error)
            response = Response(pack_failure(error), error.http_status, media_type=FAILURE_TYPE)
        await response(scope, receive, send)

    def _request(self, body: bytes) -> tuple[str, dict[str, Any], frozenset[int]]:
        """Operation, its arguments, and partitions."""
        message, _ = unpack_body(body)
        partitions = unpack_partitions(hexadecimal(message, "partitions"), self._shard.rule.partitions)
        head = message.get("head")
        if not isinstance(head, dict):
            raise MalformedInput("a request of another node has no head")
        return text(message, "operation"), head, partitions

    def _answer(self, operation: str, head: dict[str, Any], partitions: frozenset[int]) -> bytes:
        response, parts = answer(self._shard, OPERATIONS, operation, head, partitions)
        return pack_body(response, *parts)


async def _sent(frames: StudyFrames) -> AsyncIterator[bytes]:
    """All frames. If the other node is gone, the study stops."""
    try:
        while frame := await in_thread(frames.next):
            yield frame
    finally:
        frames.stop()
