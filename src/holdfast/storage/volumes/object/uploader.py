"""The thread that uploads staged segments and deletes objects that compactions have replaced.

Segments are uploaded in the order in which they were staged, and an object is deleted only after everything staged
before it is uploaded: so a compacted segment is in the store before those it replaces are deleted. Before each upload
and deletion the thread checks that the store is still ours.

If the store is down, the thread retries with growing pauses. Meanwhile up to `stage_bytes_max` of segments wait; beyond
that, writes fail (VolumeFull).
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from holdfast.env.files import File
from holdfast.errors import HoldfastError, VolumeDown, VolumeFull
from holdfast.storage.volumes.object.bucket import PART_BYTES, Bucket
from holdfast.storage.volumes.object.ownership import Replaced
from holdfast.storage.volumes.object.tiered_files import TieredFiles
from holdfast.storage.volumes.object.upload_list import HEAD_BYTES, Uploaded, segment_key

log = logging.getLogger("holdfast.storage.volumes.object")

PAUSE_MIN_S = 0.1
PAUSE_MAX_S = 10.0
LOOK_S = 5.0  # between checks of the ownership, during writes
READERS_S = 0.5  # between checks whether an object to delete is still being read


class Uploader:
    """Runs from construction to `close`. Any thread may call any method."""

    def __init__(self, files: TieredFiles, stage_bytes_max: int) -> None:
        self._files = files
        self._bytes_max = stage_bytes_max
        self._state = threading.Condition()
        self._waiting: deque[tuple[str, int, bool]] = deque()  # name, bytes, whether to keep the file
        self._waiting_bytes = 0
        self._added = self._done = 0  # uploads ever; they are done in order
        self._doomed: deque[tuple[int, str]] = deque()  # number of uploads to do first, key
        self._failure: HoldfastError | None = None  # of the last attempt
        self._replaced: Replaced | None = None
        self._written = False  # since the last check of the ownership
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=f"upload-{files.directory.name}", daemon=True)
        self._thread.start()

    # -- requests -----------------------------------------------------------------------------------------------

    def add(self, name: str, *, keep: bool = False) -> None:
        """Queues a segment for upload; with `keep` the local file stays. Idempotent."""
        size = self._files.size_here(name)
        with self._state:
            if any(name == waiting for waiting, _, _ in self._waiting):
                return
            self._waiting.append((name, size, keep))
            self._waiting_bytes += 0 if keep else size
            self._added += 1
            self._state.notify_all()

    def doom(self, keys: Sequence[str]) -> None:
        with self._state:
            self._doomed.extend((self._added, key) for key in keys)
            self._state.notify_all()

    def make_room(self) -> None:
        with self._state:
            self._written = True
            while self._waiting_bytes >= self._bytes_max and self._replaced is None:
                if self._failure is not None or not self._thread.is_alive():
                    raise VolumeFull(
                        f"{self._waiting_bytes} bytes in '{self._files.directory}' wait for upload, and the store is "
                        f"down ({self._failure}); they are durable, and writes resume when the store is back "
                        "(the limit is 'store.stage_bytes_max')"
                    )
                self._state.wait(PAUSE_MAX_S)
            if self._replaced is not None:
                raise type(self._replaced)(*self._replaced.args)

    @property
    def failure(self) -> HoldfastError | None:
        """Why uploads fail at present; None if they do not."""
        return self._replaced or self._failure

    def close(self) -> None:
        """Waits until everything is uploaded; if the store is down, tries once more and leaves the rest staged."""
        with self._state:
            self._closing = True
            self._state.notify_all()
        self._thread.join()
        left = len(self._waiting)
        if left:
            log.warning("%d segments in '%s' still wait for upload: %s", left, self._files.directory, self.failure)

    # -- the thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            with self._state:
                self._failure = VolumeDown(f"the uploading thread ended: {error!r}; open the archive again")
                self._state.notify_all()
            raise

    def _work(self) -> None:
        pause_s = PAUSE_MIN_S
        while (task := self._next_task()) is not None:
            try:
                self._files.ownership.check()
                task()
                pause_s = PAUSE_MIN_S
                with self._state:
                    self._failure = None
                    self._state.notify_all()
            except Replaced as error:
                self._end(error)
                return
            except HoldfastError as error:
                with self._state:
                    if self._failure is None:
                        log.warning("cannot upload at present: %s", error)
                    self._failure = error
                    self._state.notify_all()
                    if self._closing:
                        return
                    self._state.wait_for(lambda: self._closing, pause_s)
                pause_s = min(2 * pause_s, PAUSE_MAX_S)

    def _end(self, error: Replaced) -> None:
        log.error("%s", error)
        with self._state:
            self._replaced = error
            self._state.notify_all()

    def _next_task(self) -> Callable[[], None] | None:
        """Waits for the next task; None at the end."""
        with self._state:
            while True:
                if self._waiting:
                    return self._upload_next
                free = self._free_keys()
                if free:
                    return lambda: self._delete(free)
                if self._closing:
                    return None
                if not self._state.wait(READERS_S if self._doomed else LOOK_S) and self._written:
                    self._written = False
                    return lambda: None

    def _free_keys(self) -> list[str]:
        """Objects that can be deleted now. A reader may finish a segment that was replaced."""
        return [
            key
            for added, key in self._doomed
            if added <= self._done and (self._closing or not self._files.is_read(key))
        ]

    def _upload_next(self) -> None:
        with self._state:
            name, size, keep = self._waiting[0]
        facts = self._upload(name)
        if facts is not None:
            self._files.settle_upload(facts, keep=keep)
        with self._state:
            self._waiting.popleft()
            self._waiting_bytes -= 0 if keep else size
            self._done += 1
            known = {key for _, key in self._doomed}
            self._doomed.extend((self._done, key) for key in self._files.doomed if key not in known)
            self._state.notify_all()

    def _upload(self, name: str) -> Uploaded | None:
        """None if the segment was compacted meanwhile."""
        try:
            file = self._files.local.open(self._files.directory / name)
        except FileNotFoundError:
            return None
        try:
            size = file.size()
            facts = Uploaded(name, self._files.ownership.term, size, file.read(0, HEAD_BYTES))
            transfer(self._files.bucket, segment_key(facts.term, name), file, size)
        finally:
            file.close()
        return facts

    def _delete(self, keys: list[str]) -> None:
        for key in keys:
            self._files.bucket.delete(key)
        self._files.deleted(keys)
        with self._state:
            self._doomed = deque(each for each in self._doomed if each[1] not in keys)


def transfer(bucket: Bucket, key: str, file: File, size: int) -> None:
    """Uploads the first `size` bytes of the file and verifies them. Raises VolumeDown."""
    digests: list[bytes] = []

    def parts() -> Iterator[bytes]:
        digests.clear()
        for offset in range(0, size, PART_BYTES):
            part = file.read(offset, min(PART_BYTES, size - offset))
            digests.append(hashlib.md5(part, usedforsecurity=False).digest())
            yield part

    if size <= PART_BYTES:
        tag = bucket.put(key, b"".join(parts()))
        expected = digests[0].hex() if digests else ""
    else:
        tag = bucket.put_parts(key, parts())
        expected = f"{hashlib.md5(b''.join(digests), usedforsecurity=False).hexdigest()}-{len(digests)}"
    found = bucket.size(key)
    if found != size:
        raise VolumeDown(f"'{bucket.url}/{key}' has {found} bytes, {size} were uploaded")
    if tag != expected:  # not every store computes its tags like this
        _compare(bucket, key, file, size)


def _compare(bucket: Bucket, key: str, file: File, size: int) -> None:
    for offset in range(0, size, PART_BYTES):
        length = min(PART_BYTES, size - offset)
        if bucket.read(key, offset, length) != file.read(offset, length):
            raise VolumeDown(f"'{bucket.url}/{key}' differs from what was uploaded, at {offset} or later")
