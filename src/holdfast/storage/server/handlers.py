"""The requests of one connection, and on which thread each is handled.

Look-ups and reads of blocks are handled on the event loop: a hand-over to a thread would cost more than they do.
Commits go to the committer. What reads or writes a lot goes to a pool of threads.
"""

from __future__ import annotations

import json
import logging
import struct
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING

from holdfast.env.files import Buffer
from holdfast.errors import Busy, HoldfastError, MalformedInput, UsageError, VolumeDown
from holdfast.storage.server import wire
from holdfast.storage.server.committer import Commit
from holdfast.storage.server.service import VolumeService
from holdfast.storage.server.wire import Type, WireReader
from holdfast.storage.volume import Block, DamageNoting, IdempotencyKey, ScanPosition
from holdfast.storage.volumes.damage import CheckProgress, KnownDamage, note_faults
from holdfast.storage.volumes.organizations import compact_volume, find_organization

if TYPE_CHECKING:
    from holdfast.storage.server.connection import ClientConnection

log = logging.getLogger("holdfast.server")

SIGNATURES_TOGETHER = 20_000
SEEN_MAX = 256  # idempotency keys of one connection that are recognized when they come again
WORKING_MAX = 4  # requests of one connection that threads handle
_PROGRESS_BYTES = 64 << 20  # after which progress is reported
_COMMITS = (Type.COMMIT, Type.VOID)  # a tuple: the hash of an enum member is slow
_SIGN_OF_LIFE_S = 5.0  # between two while a request takes long
_U64 = struct.Struct(">Q")
_SHARE = struct.Struct(">d")
_SIGN_OF_LIFE = _U64.pack(0)


class RequestHandlers:
    """For the event loop, but for the work that is handed to threads."""

    def __init__(self, connection: ClientConnection, service: VolumeService) -> None:
        self._connection = connection
        self._server = connection.server
        self._service = service
        self._scan: tuple[ScanPosition | None, bool, Iterator[list[Block]]] | None = None
        self._scanned_s = 0.0  # when a batch of it was sent last
        self._signatures: Iterator[bytes] | None = None
        self._seen: dict[tuple[bytes, int], None] = {}  # the last idempotency keys, the oldest first
        self.working: dict[object, tuple[int, float]] = {}  # requests of threads, and when their client heard last
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

    def handle(self, kind: int, request: int, body: memoryview) -> None:
        """Responds now or later. A malformed request ends the connection: raises MalformedInput."""
        handler = self._handlers.get(kind)
        if kind not in _COMMITS:
            self._server.last_read_s = self._server.now()
        try:
            if handler is None:
                raise UsageError(f"unknown request {kind}: the client may be of a later release")
            handler(request, body)
        except MalformedInput:
            raise
        except HoldfastError as error:
            self._connection.send(Type.FAILED, request, wire.pack_failure(error))

    def tick(self, now_s: float) -> None:
        """Sends signs of life; gives up a scan that its client does not continue. Its position says where it was."""
        for work, (request, heard_s) in self.working.items():
            if now_s - heard_s > _SIGN_OF_LIFE_S:
                self.working[work] = request, now_s
                self._connection.send(Type.PROGRESS, request, _SIGN_OF_LIFE)
        if self._scan is not None and now_s - self._scanned_s > self._service.options.scan_kept_s:
            self._scan = None

    def close(self) -> None:
        self._scan = self._signatures = None

    # -- on the event loop --------------------------------------------------------------------------------------

    def _probe(self, request: int, body: memoryview) -> None:
        signatures = wire.unpack_signatures(body)
        self._service.verify_signatures(signatures)
        self._connection.send(Type.DONE, request, wire.pack_facts(self._service.probe(signatures)))

    def _fetch(self, request: int, body: memoryview) -> None:
        keys = wire.unpack_keys(body)
        self._service.verify_keys(keys)
        blocks = self._service.fetch(keys)
        parts: list[Buffer] = [len(blocks).to_bytes(4, "big")]
        for block in blocks:
            parts += wire.pack_block(block)
        self._connection.send(Type.DONE, request, *parts)

    def _news(self, request: int, body: memoryview) -> None:
        reader = WireReader(body)
        since = reader.u64()
        reader.end()
        position, signatures = self._service.news(since)
        known = b"\0" if signatures is None else b"\1" + wire.pack_signatures(signatures)
        self._connection.send(Type.DONE, request, _U64.pack(position), known)

    # -- by the committer ---------------------------------------------------------------------------------------

    def _commit(self, request: int, body: memoryview) -> None:
        idempotency_key, operations = wire.read_commit(body)
        if self._is_repeated(idempotency_key):
            # Not even looked up: if it was refused the first time, its client knows, and must be right. It waits its
            # turn, because the response to the first one must not come second.
            error = UsageError(f"commit {idempotency_key.sequence} has come on this connection before")
            self._submit(Commit(self._connection, request, len(body), idempotency_key, None, error))
            return
        self._service.verify(operations)
        self._submit(Commit(self._connection, request, len(body), idempotency_key, operations))

    def _is_repeated(self, idempotency_key: IdempotencyKey) -> bool:
        """Whether the key was here before. A client never repeats itself on one connection: the network did."""
        name, seen = idempotency_key[:2], self._seen
        if name in seen:
            return True
        seen[name] = None
        if len(seen) > SEEN_MAX:
            del seen[next(iter(seen))]
        return False

    def _void(self, request: int, body: memoryview) -> None:
        reader = WireReader(body)
        idempotency_key = wire.read_idempotency_key(reader)
        reader.end()
        self._submit(Commit(self._connection, request, len(body), idempotency_key, None))

    def _submit(self, commit: Commit) -> None:
        self._connection.begin(commit.size)
        self._server.committer.submit(commit)

    # -- by threads ---------------------------------------------------------------------------------------------

    def _in_thread(
        self, request: int, work: Callable[[], list[Buffer]], finished: Callable[[], None] | None = None
    ) -> None:
        """The response is what `work` returns in a thread; `finished` is called on the event loop before it is sent."""
        self._connection.begin()
        self.working[work] = request, self._server.now()

        def run() -> None:
            kind, body = Type.DONE, []
            try:
                body = work()
            except HoldfastError as error:
                kind, body = Type.FAILED, [wire.pack_failure(error)]
            except Exception as error:  # the edge of the process: the client must get a response
                log.exception("a request failed")
                kind, body = Type.FAILED, [wire.pack_failure(VolumeDown(f"the server failed: {error!r}"))]
            self._server.call_soon(respond, kind, body)

        def respond(kind: Type, body: list[Buffer]) -> None:
            del self.working[work]
            if finished is not None and kind is Type.DONE and self._connection.is_connected:
                finished()
            self._connection.send(kind, request, *body)
            self._connection.end()

        self._server.threads.submit(run)

    def _scan_on(self, request: int, body: memoryview) -> None:
        reader = WireReader(body)
        counted, has_position = bool(reader.u8()), bool(reader.u8())
        position = None
        if has_position:
            key = wire.read_key(reader)
            position = ScanPosition(key, reader.u64())
            self._service.verify_keys([key])
        reader.end()
        if self._scan is None or self._scan[:2] != (position, counted):
            self._scan = (position, counted, self._service.scan(position, counted=counted))
        batches = self._scan[2]
        batch: list[Block] = []
        self._scan = None  # while a thread continues it, no other may

        def read() -> list[Buffer]:
            batch.extend(next(batches, ()))
            parts: list[Buffer] = [len(batch).to_bytes(4, "big")]
            for block in batch:
                parts.append(wire.pack_key(block.key))
                parts += wire.pack_block(block)
            return parts

        def keep() -> None:
            if batch:
                self._scan = (batch[-1].mark, counted, batches)
                self._scanned_s = self._server.now()

        self._in_thread(request, read, keep)

    def _signatures_on(self, request: int, body: memoryview) -> None:
        """The first signatures, or those that follow; an empty list is the end."""
        reader = WireReader(body)
        from_start = bool(reader.u8())
        reader.end()
        left = self._service.volume.signatures() if from_start or self._signatures is None else self._signatures
        self._signatures = None  # while a thread continues it, no other may

        def keep() -> None:
            self._signatures = left

        self._in_thread(request, lambda: [wire.pack_signatures(list(islice(left, SIGNATURES_TOGETHER)))], keep)

    def _stat(self, request: int, body: memoryview) -> None:
        WireReader(body).end()
        self._in_thread(request, lambda: [json.dumps(self._service.stat()).encode()])

    def _dictionary(self, request: int, body: memoryview) -> None:
        reader = WireReader(body)
        number = reader.u32() if reader.u8() else None
        reader.end()

        def read() -> list[Buffer]:
            found = self._service.volume.dictionary(number)
            return [] if found is None else [found[0].to_bytes(4, "big"), found[1]]

        self._in_thread(request, read)

    def _add_dictionary(self, request: int, body: memoryview) -> None:
        reader = WireReader(body)
        number, data = reader.u32(), reader.rest()

        def add() -> list[Buffer]:
            self._service.add_dictionary(number, data)
            return []

        self._in_thread(request, add)

    def _note_damaged(self, request: int, body: memoryview) -> None:
        keys = wire.unpack_keys(body)
        self._service.verify_keys(keys)

        def note() -> list[Buffer]:
            volume: object = self._service.volume
            if isinstance(volume, DamageNoting):
                volume.note_damaged(keys)
            return []

        self._in_thread(request, note)

    def _compact(self, request: int, body: memoryview) -> None:
        reader = WireReader(body)
        (share,) = reader.fields(_SHARE)
        reader.end()
        if not 0 <= share <= 1:
            raise MalformedInput(f"{share} is not a share of dead bytes")

        def compact() -> list[Buffer]:
            with self._service.long_work():
                done = compact_volume(self._service.volume, float(share), self._progress(request))
                if self._service.options.capacity_bytes:
                    self._service.measure_disk()
            return [json.dumps(asdict(done)).encode()]

        self._in_thread(request, compact)

    def _check(self, request: int, body: memoryview) -> None:
        WireReader(body).end()
        spec = self._service.spec

        def check() -> list[Buffer]:
            with self._service.long_work():
                watch = CheckProgress(self._progress(request), None, spec.env)
                found = list(find_organization(spec.identity.organization).check(spec, watch))
            note_faults(spec.name, KnownDamage(spec.env, spec.directory), found)
            faults = [asdict(fault) | {"key": str(fault.key) if fault.key else None} for fault in found]
            report = {"faults": faults, "notes": watch.notes, "blocks": watch.blocks, "bytes": watch.bytes}
            return [json.dumps(report).encode()]

        self._in_thread(request, check)

    def _progress(self, request: int) -> Callable[[int], None]:
        """Reports, from a thread, how many bytes have been done since the last report; or ends the work."""
        gathered = 0

        def advance(size: int) -> None:
            nonlocal gathered
            if self._server.is_stopping:
                raise Busy("the server is stopping; try again when it is back")
            gathered += size
            if gathered >= _PROGRESS_BYTES:
                packed, gathered = _U64.pack(gathered), 0
                self._server.call_soon(self._connection.send, Type.PROGRESS, request, packed)

        return advance
