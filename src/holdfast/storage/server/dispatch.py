"""From requests to answers: which part of the service a request is for, and on which thread it is answered.

Look-ups and reads of blocks are answered on the event loop: a hand-over to a thread would cost more than they do. So
are claims of contents that are not here. All other commits go to the committing thread. What reads or writes a lot goes
to threads of its own.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from holdfast.env.files import Buffer
from holdfast.errors import Busy, HoldfastError, MalformedInput, UsageError
from holdfast.storage.server import wire
from holdfast.storage.server.committer import Commit, Result
from holdfast.storage.server.handlers import VolumeHandlers
from holdfast.storage.server.wire import Type, WireReader
from holdfast.storage.volume import Block, DamageNoting, IdempotencyKey, Operation, ScanPosition
from holdfast.storage.volumes.damage import KnownDamage
from holdfast.storage.volumes.faults import CheckProgress, note_faults
from holdfast.storage.volumes.organizations import compact_volume, find_organization

if TYPE_CHECKING:
    from holdfast.storage.server.connection import ClientConnection

SIGNATURES_TOGETHER = 20_000
SEEN_MAX = 256  # tickets of one connection that are known when they come again
WORKING_MAX = 4  # requests of one connection that threads are busy with
_PROGRESS_BYTES = 64 << 20  # after which a client is told that a long work goes on
_BEAT_S = 5.0  # between two signs of life while a request takes long
_U64 = struct.Struct(">Q")
_SHARE = struct.Struct(">d")


class Dispatch:
    """The requests of one connection. For the event loop."""

    def __init__(self, connection: ClientConnection, service: VolumeHandlers) -> None:
        self._connection = connection
        self._service = service
        self._scan: tuple[ScanPosition | None, bool, Iterator[list[Block]]] | None = None
        self._scanned_s = 0.0  # when a batch of it was handed out last
        self._signatures: Iterator[bytes] | None = None
        self._seen: dict[tuple[bytes, int], None] = {}  # the last tickets, the oldest first
        self._working = 0  # requests that threads are busy with
        self._handlers: dict[int, Callable[[int, memoryview], None]] = {
            Type.PROBE: self._probe,
            Type.FETCH: self._fetch,
            Type.COMMIT: self._commit,
            Type.VOID: self._void,
            Type.SCAN: self._scan_on,
            Type.SIGNATURES: self._signatures_on,
            Type.STAT: self._stat,
            Type.DICTIONARY: self._dictionary,
            Type.ADD_DICTIONARY: self._add_dictionary,
            Type.NEWS: self._news,
            Type.COMPACT: self._compact,
            Type.CHECK: self._check,
            Type.DAMAGED: self._note_damaged,
        }

    def question(self, kind: int, request: int, body: memoryview) -> None:
        """Answers now or later. A request that cannot be understood ends the connection: raises MalformedInput."""
        handler = self._handlers.get(kind)
        self._service.requests += 1
        if handler is None:
            self._fail(request, UsageError(f"unknown request {kind}: the client may be of a later release"))
            return
        try:
            handler(request, body)
        except MalformedInput:
            raise
        except HoldfastError as error:
            self._fail(request, error)

    @property
    def is_busy(self) -> bool:
        """Whether further requests should wait: each that a thread is busy with may have a large answer."""
        return self._working >= WORKING_MAX

    def let_go(self, now_s: float) -> None:
        """A scan that nobody goes on with is given up. Its mark tells where, should its client do so after all."""
        if self._scan is not None and now_s - self._scanned_s > self._service.options.scan_kept_s:
            self._scan = None

    def close(self) -> None:
        self._scan = self._signatures = None

    def _done(self, request: int, *body: Buffer) -> None:
        self._connection.answer(Type.DONE, request, *body)

    def _fail(self, request: int, error: HoldfastError) -> None:
        self._connection.answer(Type.FAILED, request, wire.pack_failure(error))

    # -- at once ------------------------------------------------------------------------------------------------

    def _probe(self, request: int, body: memoryview) -> None:
        signatures = wire.unpack_signatures(body)
        self._service.verify_signatures(signatures)
        self._done(request, wire.pack_facts(self._service.probe(signatures)))

    def _fetch(self, request: int, body: memoryview) -> None:
        keys = wire.unpack_keys(body)
        self._service.verify_keys(keys)
        blocks = self._service.fetch(keys)
        parts: list[Buffer] = [len(blocks).to_bytes(4, "big")]
        for block in blocks:
            if block is None:
                parts.append(b"\0")
            else:
                parts.append(b"\1")
                parts += wire.pack_block(block)
        self._done(request, *parts)

    def _news(self, request: int, body: memoryview) -> None:
        reader = WireReader(body)
        (since,) = reader.fields(_U64)
        reader.end()
        position, signatures = self._service.news(since)
        known = b"\0" if signatures is None else b"\1" + wire.pack_signatures(signatures)
        self._done(request, _U64.pack(position), known)

    # -- by the committing thread -------------------------------------------------------------------------------

    def _commit(self, request: int, body: memoryview) -> None:
        reader = WireReader(body)
        idempotency_key = wire.read_idempotency_key(reader)
        operations = wire.read_operations(reader)
        if self._is_repeated(idempotency_key):
            self._turn_down(request, idempotency_key, len(body))
            return
        self._service.verify(operations)
        nothing = self._service.unclaimed(operations)
        if nothing is not None:
            self._done(request, wire.pack_outcomes(nothing))
        else:
            self._submit(request, operations, idempotency_key, len(body))

    def _is_repeated(self, idempotency_key: IdempotencyKey) -> bool:
        """Whether the ticket was here before. A client never repeats itself on one connection: the network did."""
        name = (idempotency_key.client, idempotency_key.sequence)
        if name in self._seen:
            return True
        self._seen[name] = None
        if len(self._seen) > SEEN_MAX:
            del self._seen[next(iter(self._seen))]
        return False

    def _turn_down(self, request: int, idempotency_key: IdempotencyKey, size: int) -> None:
        """Not even looked up: if it was refused the first time, its client has been told so, and must be right.

        It waits its turn nevertheless: the answer to the first one must not come second.
        """
        error = UsageError(f"commit {idempotency_key.sequence} has come on this connection before")
        self._connection.begin(size)
        self._connection.server.committer.submit(
            Commit([], None, lambda _: self._connection.end(Type.FAILED, request, wire.pack_failure(error), size=size))
        )

    def _void(self, request: int, body: memoryview) -> None:
        reader = WireReader(body)
        idempotency_key = wire.read_idempotency_key(reader)
        reader.end()
        self._submit(request, None, idempotency_key, len(body))

    def _submit(
        self, request: int, operations: list[Operation] | None, idempotency_key: IdempotencyKey, size: int
    ) -> None:
        def committed(result: Result) -> None:
            if isinstance(result, HoldfastError):
                self._connection.end(Type.FAILED, request, wire.pack_failure(result), size=size)
            else:
                body = b"" if result is None else wire.pack_outcomes(result)
                self._connection.end(Type.DONE, request, body, size=size)

        self._connection.begin(size)
        self._connection.server.committer.submit(Commit(operations, idempotency_key, committed))

    # -- by threads ---------------------------------------------------------------------------------------------

    def _scan_on(self, request: int, body: memoryview) -> None:
        reader = WireReader(body)
        counted, has_mark = bool(reader.u8()), bool(reader.u8())
        mark = None
        if has_mark:
            key = wire.read_key(reader)
            mark = ScanPosition(key, reader.fields(_U64)[0])
            self._service.verify_keys([key])
        reader.end()
        if self._scan is None or self._scan[:2] != (mark, counted):
            self._scan = (mark, counted, self._service.scan(mark, counted=counted))
        batches = self._scan[2]
        self._scan = None  # while a thread goes on with it, nobody else may

        def go_on() -> Callable[[], None]:
            batch = next(batches, [])
            parts: list[Buffer] = [len(batch).to_bytes(4, "big")]
            for block in batch:
                parts.append(wire.pack_key(block.key))
                parts += wire.pack_block(block)

            def tell() -> None:
                if batch and self._connection.is_connected:
                    self._scan = (batch[-1].mark, counted, batches)
                    self._scanned_s = self._connection.server.now()
                self._connection.end(Type.DONE, request, *parts)

            return tell

        self._in_thread(request, go_on)

    def _signatures_on(self, request: int, body: memoryview) -> None:
        """The first signatures, or those that follow; an empty list is the end."""
        reader = WireReader(body)
        anew = bool(reader.u8())
        reader.end()
        left = self._service.volume.signatures() if anew or self._signatures is None else self._signatures
        self._signatures = None  # while a thread goes on with it, nobody else may

        def go_on() -> Callable[[], None]:
            batch = [each for _, each in zip(range(SIGNATURES_TOGETHER), left, strict=False)]
            packed = wire.pack_signatures(batch)

            def tell() -> None:
                if self._connection.is_connected:
                    self._signatures = left
                self._connection.end(Type.DONE, request, packed)

            return tell

        self._in_thread(request, go_on)

    def _stat(self, request: int, body: memoryview) -> None:
        WireReader(body).end()
        self._in_thread(request, lambda: self._told(request, self._service.stat()))

    def _dictionary(self, request: int, body: memoryview) -> None:
        reader = WireReader(body)
        number = reader.u32() if reader.u8() else None
        reader.end()

        def read() -> Callable[[], None]:
            found = self._service.volume.dictionary(number)
            packed = b"" if found is None else found[0].to_bytes(4, "big") + found[1]
            return lambda: self._connection.end(Type.DONE, request, packed)

        self._in_thread(request, read)

    def _add_dictionary(self, request: int, body: memoryview) -> None:
        reader = WireReader(body)
        number, data = reader.u32(), bytes(reader.rest())

        def add() -> Callable[[], None]:
            self._service.add_dictionary(number, data)
            return lambda: self._connection.end(Type.DONE, request)

        self._in_thread(request, add)

    def _note_damaged(self, request: int, body: memoryview) -> None:
        keys = wire.unpack_keys(body)
        self._service.verify_keys(keys)

        def note() -> Callable[[], None]:
            volume: object = self._service.volume
            if isinstance(volume, DamageNoting):
                volume.note_damaged(keys)
            return lambda: self._connection.end(Type.DONE, request)

        self._in_thread(request, note)

    def _compact(self, request: int, body: memoryview) -> None:
        reader = WireReader(body)
        (share,) = reader.fields(_SHARE)
        reader.end()
        if not 0 <= share <= 1:
            raise MalformedInput(f"{share} is no share of dead bytes")

        def compact() -> Callable[[], None]:
            with self._long_work():
                done = compact_volume(self._service.volume, float(share), self._progress(request))
                if self._service.options.capacity_bytes:
                    self._service.look_at_disk()
            return self._told(request, asdict(done))

        self._in_thread(request, compact)

    def _check(self, request: int, body: memoryview) -> None:
        WireReader(body).end()
        spec = self._service.spec

        def check() -> Callable[[], None]:
            with self._long_work():
                watch = CheckProgress(self._progress(request), None, spec.env)
                found = list(find_organization(spec.identity.organization).check(spec, watch))
            note_faults(spec.name, KnownDamage(spec.env, spec.directory), found)
            faults = [asdict(fault) | {"key": str(fault.key) if fault.key else None} for fault in found]
            facts = {"faults": faults, "notes": watch.notes, "blocks": watch.blocks, "bytes": watch.bytes}
            return self._told(request, facts)

        self._in_thread(request, check)

    def _told(self, request: int, facts: dict[str, Any]) -> Callable[[], None]:
        packed = json.dumps(facts).encode()
        return lambda: self._connection.end(Type.DONE, request, packed)

    def _long_work(self) -> _LongWork:
        return _LongWork(self._service)

    def _progress(self, request: int) -> Callable[[int], None]:
        """Tells the client, from a thread, how many bytes have been done since it was told last; or ends the work."""
        gathered = 0

        def advance(size: int) -> None:
            nonlocal gathered
            if self._connection.server.is_stopping:
                raise Busy("the server stops; try again when it is back")
            gathered += size
            if gathered >= _PROGRESS_BYTES:
                packed, gathered = _U64.pack(gathered), 0
                self._connection.server.soon(self._connection.answer, Type.PROGRESS, request, packed)

        return advance

    def _in_thread(self, request: int, work: Callable[[], Callable[[], None]]) -> None:
        """`work` is done in a thread; what it returns is called on the event loop. Meanwhile the client is told so."""
        connection, server = self._connection, self._connection.server
        connection.begin()
        self._working += 1
        beat = server.every(_BEAT_S, lambda: connection.answer(Type.PROGRESS, request, _U64.pack(0)))

        def worked() -> Callable[[], None]:
            finish = work()

            def ended() -> None:
                beat.cancel()
                self._working -= 1
                finish()

            return ended

        def failed(error: HoldfastError) -> None:
            beat.cancel()
            self._working -= 1
            connection.end(Type.FAILED, request, wire.pack_failure(error))

        server.in_thread(worked, failed)


class _LongWork:
    """One check or compaction of a volume at a time."""

    def __init__(self, service: VolumeHandlers) -> None:
        self._lock = service.long_work

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise Busy("the volume is being checked or compacted already; try again later")

    def __exit__(self, *_: object) -> None:
        self._lock.release()
