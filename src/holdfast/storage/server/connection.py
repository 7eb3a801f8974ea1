"""One client's connection, as the server sees it: bytes in, frames out, and limits on everything.

A connection holds at most its buffer and the responses that the client has not taken yet. It reads no further while the
client does not take its responses, while too many requests wait, or while a large request has no share of the memory
that all large requests together may use (`MemoryBudget`): so what a client can make the server hold is bounded, and a
client that is held up slows nobody else down.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from holdfast.env.files import Buffer
from holdfast.errors import Busy, HoldfastError, MalformedInput, TooLarge
from holdfast.storage.server import wire
from holdfast.storage.server.handlers import WORKING_MAX, RequestHandlers
from holdfast.storage.server.handshake import NONCE_BYTES, ServerSide
from holdfast.storage.server.wire import FRAME, FRAME_BYTES, FRAME_REST, Type

if TYPE_CHECKING:
    from holdfast.storage.server.listener import VolumeServer

BUFFER_BYTES: Final = 64 << 10
LARGE_BYTES: Final = 1 << 20  # requests beyond this need a share of the budget
UNAUTHENTICATED_BYTES_MAX: Final = 1 << 10  # of a frame before the client is authenticated
_WRITE_HIGH_BYTES: Final = 4 << 20
_JOINED_BYTES_MAX: Final = 256 << 10


class MemoryBudget:
    """Memory for large requests, granted in the order in which it was requested. For the event loop."""

    def __init__(self, limit_bytes: int) -> None:
        self._free = limit_bytes
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    def take(self, size: int, granted: Callable[[], None]) -> bool:
        """Whether `size` bytes are granted at once; if not, `granted` is called when they are."""
        if not self._waiting and size <= self._free:
            self._free -= size
            return True
        self._waiting.append((size, granted))
        return False

    def give_back(self, size: int) -> None:
        self._free += size
        while self._waiting and self._waiting[0][0] <= self._free:
            size, granted = self._waiting.popleft()
            self._free -= size
            granted()

    def forget(self, granted: Callable[[], None]) -> None:
        """The connection that waits is gone."""
        self._waiting = deque(each for each in self._waiting if each[1] is not granted)
        self.give_back(0)


class ClientConnection(asyncio.BufferedProtocol):
    """For the event loop only."""

    def __init__(self, server: VolumeServer) -> None:
        self.server = server
        self._options = server.options
        self._transport: asyncio.Transport | None = None
        self._handshake: ServerSide | None = ServerSide(server.options.secret, server.env.random_bytes(NONCE_BYTES))
        self._handlers = RequestHandlers(self, server.service)
        self._handle = self._authenticate
        self._frame_bytes_max = UNAUTHENTICATED_BYTES_MAX
        self._buffer = bytearray(BUFFER_BYTES)
        self._start = self._end = 0
        self._share = self._share_wanted = 0  # of the budget, for the request that is arriving
        self._share_until_s = 0.0
        self._waits_for_share = False
        self._granted = self._take_share  # one object, so that it can be forgotten
        self._writing_paused = False
        self._reading_paused = False
        self._outstanding = 0
        self._unsent_bytes = 0
        self._moved_s = server.now()  # when the last byte came, or went

    # -- life ---------------------------------------------------------------------------------------------------

    @property
    def is_authenticated(self) -> bool:
        return self._handshake is None

    @property
    def is_connected(self) -> bool:
        return self._transport is not None

    @property
    def is_idle(self) -> bool:
        return self._outstanding == 0

    @property
    def unsent_bytes(self) -> int:
        """Of responses that the client has not taken yet."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)
        assert self._handshake is not None
        self.server.connections.add(self)
        transport.set_write_buffer_limits(high=_WRITE_HIGH_BYTES)
        self.send(Type.HELLO, 0, self._handshake.hello())

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._handlers.close()
        if self._waits_for_share:
            self.server.budget.forget(self._granted)
            self._waits_for_share = False
        self._return_share()
        self.server.lost(self)

    def close(self) -> None:
        """Responses that were sent still go out."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def is_stalled(self, now_s: float) -> bool:
        """Whether the client keeps the server waiting for too long."""
        if not self.is_authenticated:
            return now_s - self._moved_s > self._options.handshake_s
        unsent = self.unsent_bytes
        if unsent != self._unsent_bytes:
            self._unsent_bytes, self._moved_s = unsent, now_s
        if self._share and now_s > self._share_until_s:
            return True
        is_waiting = unsent > 0 or (self._end > self._start and not self._reading_paused)
        return is_waiting and now_s - self._moved_s > self._options.stall_s

    def tick(self, now_s: float) -> None:
        self._handlers.tick(now_s)

    # -- reading ------------------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        if self._handshake is None:  # or bytes that trickle in would keep an unauthenticated connection open for ever
            self._moved_s = self.server.now()
            if self.server.last_heard is not self:
                self.server.last_heard, self.server.last_heard_since_s = self, self._moved_s
        self._take_frames()

    def _take_frames(self) -> None:
        """Handles all whole frames that have arrived, unless the connection is held up."""
        if self._transport is None or self._transport.is_closing():
            return
        try:
            while self._end - self._start >= FRAME_BYTES and not self._is_held():
                length, kind, request = FRAME.unpack_from(self._buffer, self._start)
                length -= FRAME_REST
                if not 0 <= length <= self._frame_bytes_max:
                    raise self._bad_length(length)
                begin = self._start + FRAME_BYTES
                if self._end < begin + length:
                    if length > LARGE_BYTES and not self._share:
                        self._request_share(length)
                    break
                self._start = begin + length
                self._handle(kind, request, memoryview(self._buffer)[begin : self._start])
                if self._share:
                    self._return_share()
        except HoldfastError as error:
            self.server.committer.flush()
            self.server.log_rejected(self._transport, error)
            self.send(Type.FAILED, 0, wire.pack_failure(error))
            self.close()
            return
        if self._start == self._end and len(self._buffer) == BUFFER_BYTES:
            self._start = self._end = 0
        else:
            self._make_room()
        if self._is_held() != self._reading_paused and self.is_connected:
            self._pause_or_resume()

    def _bad_length(self, length: int) -> HoldfastError:
        if length < 0:
            return MalformedInput(f"a frame of length {length + FRAME_REST} is too short")
        return TooLarge(f"a message of {length} bytes is over the limit of {self._frame_bytes_max}")

    def _authenticate(self, kind: int, request: int, body: memoryview) -> None:
        if kind != Type.AUTH:
            raise MalformedInput("the client is not authenticated")
        assert self._handshake is not None
        welcome = self._handshake.welcome(body, self.server.service.facts())
        if not self.server.admit(self):
            raise Busy("the server has too many connections; try again later")
        self._handshake = None
        self._handle = self._handlers.handle
        self._frame_bytes_max = self._options.message_bytes_max
        self.send(Type.DONE, request, welcome)

    def _make_room(self) -> None:
        """There is room behind what has arrived, for the rest of its frame, but never much more than has arrived."""
        left = self._end - self._start
        if left == 0:
            self._start = self._end = 0
            if len(self._buffer) > BUFFER_BYTES:
                self._buffer = bytearray(BUFFER_BYTES)
            return
        if self._end < len(self._buffer) and (self._start == 0 or len(self._buffer) - self._end > BUFFER_BYTES // 2):
            return
        size = max(BUFFER_BYTES, len(self._buffer))
        if left == len(self._buffer):
            wanted = FRAME_BYTES - FRAME_REST + FRAME.unpack_from(self._buffer, self._start)[0]
            size = min(2 * size, max(size + BUFFER_BYTES, wanted))
        moved = bytearray(size)
        moved[:left] = memoryview(self._buffer)[self._start : self._end]
        self._buffer, self._start, self._end = moved, 0, left

    def _is_held(self) -> bool:
        return (
            self._writing_paused
            or self._waits_for_share
            or self._outstanding >= self._options.outstanding_max
            or len(self._handlers.working) >= WORKING_MAX  # each may have a large response
            or self.server.is_held
        )

    def _pause_or_resume(self) -> None:
        assert self._transport is not None
        self._reading_paused = not self._reading_paused
        if self._reading_paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()
            self._moved_s = self.server.now()

    def resume(self) -> None:
        """What held the connection up may be over; or the server takes no more requests."""
        if self._reading_paused or self.server.is_held:
            self._take_frames()

    # -- shares of the memory for large requests ---------------------------------------------------------------

    def _request_share(self, size: int) -> None:
        self._share_wanted = size
        if self.server.budget.take(size, self._granted):
            self._hold_share()
        else:
            self._waits_for_share = True

    def _take_share(self) -> None:
        self._waits_for_share = False
        self._hold_share()
        self.server.call_soon(self._take_frames)

    def _hold_share(self) -> None:
        self._share = self._share_wanted
        self._share_until_s = self.server.now() + self._options.stall_s + self._share / self._options.slowest_bytes_s

    def _return_share(self) -> None:
        if self._share:
            share, self._share = self._share, 0
            self.server.budget.give_back(share)

    # -- responding ---------------------------------------------------------------------------------------------

    def begin(self, size: int = 0) -> None:
        """A request waits for its response, and holds so many bytes until then."""
        self._outstanding += 1
        self.server.hold(1, size)

    def end(self, size: int = 0) -> None:
        """A request that waited has its response."""
        self._outstanding -= 1
        self.server.hold(-1, -size)
        if self._reading_paused:
            self._take_frames()

    def finish(self, frame: bytes, size: int) -> None:
        """The response to a commit."""
        if self._transport is not None:
            self._transport.write(frame)
        self.end(size)

    def send(self, kind: Type, request: int, *body: Buffer) -> None:
        """One response, one write. The event loop gathers those of one turn."""
        if self._transport is None:
            return
        size = sum(map(len, body))
        head = FRAME.pack(size + FRAME_REST, kind, request)
        if size <= _JOINED_BYTES_MAX:
            self._transport.write(b"".join((head, *body)))
        else:
            self._transport.writelines((head, *body))

    def pause_writing(self) -> None:
        self._writing_paused = True
        self._moved_s = self.server.now()

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._moved_s = self.server.now()
        self._take_frames()
