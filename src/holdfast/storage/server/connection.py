"""One client's connection, as the server sees it: bytes in, frames out, and limits on everything.

A connection holds at most its buffer and the answers that the client has not taken yet. It reads no further while the
client does not take its answers, while too many requests wait, or while a large request has no share of the memory
that all large requests together may use (`Budget`): so what a client can make the server hold is bounded, and a
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
from holdfast.storage.server.dispatch import Dispatch
from holdfast.storage.server.handshake import NONCE_BYTES, ServerSide
from holdfast.storage.server.wire import FRAME_BYTES, Type

if TYPE_CHECKING:
    from holdfast.storage.server.server import VolumeServer

BUFFER_BYTES: Final = 64 << 10
LARGE_BYTES: Final = 1 << 20  # requests beyond this need a share of the budget
UNAUTHENTICATED_BYTES_MAX: Final = 1 << 10  # of a frame before the client is authenticated
_WRITE_HIGH_BYTES: Final = 4 << 20
_JOINED_BYTES_MAX: Final = 256 << 10


class MemoryBudget:
    """Memory for large requests, given out in the order of asking. For the event loop."""

    def __init__(self, limit_bytes: int) -> None:
        self._free = limit_bytes
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    def take(self, size: int, granted: Callable[[], None]) -> bool:
        """Whether `size` bytes are given at once; if not, `granted` is called when they are."""
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
        """Who waits is gone."""
        self._waiting = deque(each for each in self._waiting if each[1] is not granted)
        self.give_back(0)


class ClientConnection(asyncio.BufferedProtocol):
    """For the event loop only."""

    def __init__(self, server: VolumeServer) -> None:
        self.server = server
        self._options = server.options
        self._transport: asyncio.Transport | None = None
        self._handshake: ServerSide | None = ServerSide(server.options.secret, server.env.random_bytes(NONCE_BYTES))
        self._dispatch = Dispatch(self, server.service)
        self._buffer = bytearray(BUFFER_BYTES)
        self._start = self._end = 0
        self._share = self._waited_for = 0  # of the budget, for the request that is arriving
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
    def is_unauthenticated(self) -> bool:
        """Whether the client is not authenticated yet."""
        return self._handshake is not None

    @property
    def is_connected(self) -> bool:
        return self._transport is not None

    @property
    def is_idle(self) -> bool:
        return self._outstanding == 0

    @property
    def unsent_bytes(self) -> int:
        """Of answers that the client has not taken yet."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)
        assert self._handshake is not None
        self.server.arrived(self)
        transport.set_write_buffer_limits(high=_WRITE_HIGH_BYTES)
        self._send(Type.HELLO, 0, self._handshake.hello())

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._dispatch.close()
        if self._waits_for_share:
            self.server.budget.forget(self._granted)
            self._waits_for_share = False
        self._return_share()
        self.server.left(self)

    def close(self) -> None:
        """What was answered still goes out."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def stalled(self, now_s: float) -> bool:
        """Whether the client keeps the server waiting for too long."""
        if self.is_unauthenticated:
            return now_s - self._moved_s > self._options.handshake_s
        unsent = self.unsent_bytes
        if unsent != self._unsent_bytes:
            self._unsent_bytes, self._moved_s = unsent, now_s
        if self._share and now_s > self._share_until_s:
            return True
        is_waiting = unsent > 0 or (self._end > self._start and not self._reading_paused)
        return is_waiting and now_s - self._moved_s > self._options.stall_s

    def let_go(self, now_s: float) -> None:
        """Gives up what the client has begun, and does not seem to go on with."""
        self._dispatch.let_go(now_s)

    # -- reading ------------------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        if not self.is_unauthenticated:  # or bytes that trickle in would keep an unauthenticated client here for ever
            self._moved_s = self.server.now()
        self._take_frames()

    def _take_frames(self) -> None:
        try:
            while self._transport is not None and not self._is_held() and self._take_frame():
                pass
        except HoldfastError as error:
            self.server.complain(self._transport, error)
            self._send(Type.FAILED, 0, wire.pack_failure(error))
            self.close()
            return
        if self._transport is not None:
            self._make_room()
            self._pause_or_resume()

    def _take_frame(self) -> bool:
        """Whether a whole frame was there, and was dealt with."""
        available = self._end - self._start
        if available < FRAME_BYTES:
            return False
        kind, request, length = wire.unpack_frame(self._buffer, self._start)
        limit = UNAUTHENTICATED_BYTES_MAX if self.is_unauthenticated else self._options.message_bytes_max
        if length > limit:
            raise TooLarge(f"a message of {length} bytes is over the limit of {limit}")
        if available < FRAME_BYTES + length:
            if length > LARGE_BYTES and not self._share:
                self._ask_for_share(length)
            return False
        body = memoryview(self._buffer)[self._start + FRAME_BYTES : self._start + FRAME_BYTES + length]
        self._start += FRAME_BYTES + length
        self._handle(kind, request, body)
        self._return_share()
        return True

    def _handle(self, kind: int, request: int, body: memoryview) -> None:
        if self._handshake is None:
            self._dispatch.question(kind, request, body)
            return
        if kind != Type.AUTH:
            raise MalformedInput("the client is not authenticated")
        welcome = self._handshake.welcome(body, self.server.service.facts())
        if not self.server.admit(self):
            raise Busy("the server has too many connections; try again later")
        self._handshake = None
        self._send(Type.DONE, request, welcome)

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
            wanted = FRAME_BYTES + wire.unpack_frame(self._buffer, self._start)[2]
            size = min(2 * size, max(size + BUFFER_BYTES, wanted))
        moved = bytearray(size)
        moved[:left] = memoryview(self._buffer)[self._start : self._end]
        self._buffer, self._start, self._end = moved, 0, left

    def _is_held(self) -> bool:
        is_busy = self._outstanding >= self._options.outstanding_max or self._dispatch.is_busy
        return self._writing_paused or self._waits_for_share or is_busy or self.server.takes_no_questions

    def _pause_or_resume(self) -> None:
        assert self._transport is not None
        held = self._is_held()
        if held and not self._reading_paused:
            self._transport.pause_reading()
        elif not held and self._reading_paused:
            self._transport.resume_reading()
            self._moved_s = self.server.now()
        self._reading_paused = held

    # -- shares of the memory for large requests ---------------------------------------------------------------

    def _ask_for_share(self, size: int) -> None:
        self._waited_for = size
        if self.server.budget.take(size, self._granted):
            self._hold_share()
        else:
            self._waits_for_share = True

    def _take_share(self) -> None:
        self._waits_for_share = False
        self._hold_share()
        self.server.soon(self._take_frames)

    def _hold_share(self) -> None:
        self._share = self._waited_for
        self._share_until_s = self.server.now() + self._options.stall_s + self._share / self._options.slowest_bytes_s

    def _return_share(self) -> None:
        if self._share:
            share, self._share = self._share, 0
            self.server.budget.give_back(share)

    # -- answering ----------------------------------------------------------------------------------------------

    def begin(self, size: int = 0) -> None:
        """A request waits for its answer, and holds so many bytes until then."""
        self._outstanding += 1
        self.server.hold(1, size)

    def end(self, kind: Type, request: int, *body: Buffer, size: int = 0) -> None:
        """The answer to a request that has waited."""
        self._outstanding -= 1
        self.server.hold(-1, -size)
        self._send(kind, request, *body)
        self.go_on()

    def go_on(self) -> None:
        """What held the connection up may be over."""
        if self._reading_paused and self._transport is not None:
            self._take_frames()

    def hold_still(self) -> None:
        """The server takes no more requests."""
        if self._transport is not None and not self._transport.is_closing():
            self._pause_or_resume()

    def answer(self, kind: Type, request: int, *body: Buffer) -> None:
        """An answer at once, or one of several."""
        self._send(kind, request, *body)

    def _send(self, kind: Type, request: int, *body: Buffer) -> None:
        if self._transport is None:
            return
        size = sum(map(len, body))
        head = wire.frame_head(kind, request, size)
        if size <= _JOINED_BYTES_MAX:
            self._transport.write(b"".join([head, *body]))
        else:
            self._transport.writelines([head, *body])

    def pause_writing(self) -> None:
        self._writing_paused = True
        self._moved_s = self.server.now()

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._moved_s = self.server.now()
        self._take_frames()
