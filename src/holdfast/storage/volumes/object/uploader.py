"""The thread that moves staged segments into the store, and deletes there what compactions have replaced.

Uploads are done in the order in which segments were staged, and an object is deleted only when everything that was
staged before is uploaded: so a compacted segment is in the store before those that it replaces go. Before each upload
and each deletion the thread asks whether the store is still ours.

A store that is away is asked again and again, with growing pauses; meanwhile segments wait here, up to
`stage_bytes_max`, and then no more is taken (VolumeFull) until it is back.
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
LOOK_S = 5.0  # how often to ask whether the store is still ours, while something is written
READERS_S = 0.5  # how often to see whether an object that is to be deleted is still being read


class Uploader:
    """Runs from construction to `close`. Any thread may call any method."""

    def __init__(self, files: TieredFiles, stage_bytes_max: int) -> None:
        self._files = files
        self._bytes_max = stage_bytes_max
        self._state = threading.Condition()
        self._waiting: deque[tuple[str, int, bool]] = deque()  # name, bytes, whether the file stays here
        self._waiting_bytes = 0
        self._added = self._done = 0  # uploads ever; they are done in order
        self._doomed: deque[tuple[int, str]] = deque()  # how many uploads must be done first, key
        self._failure: HoldfastError | None = None  # of the last try
        self._replaced: Replaced | None = None
        self._written = False  # since the store was last asked whether it is ours
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=f"upload-{files.directory.name}", daemon=True)
        self._thread.start()

    # -- what others want ---------------------------------------------------------------------------------------

    def add(self, name: str, *, keep: bool = False) -> None:
        """The segment is to be uploaded; with `keep` the file here stays. Once is enough."""
        size = self._size(name)
        with self._state:
            if any(name == waiting for waiting, _, _ in self._waiting):
                return
            self._waiting.append((name, size, keep))
            self._waiting_bytes += 0 if keep else size
            self._added += 1
            self._state.notify_all()

    def _size(self, name: str) -> int:
        try:
            file = self._files.local.open(self._files.directory / name)
        except FileNotFoundError:
            return 0
        try:
            return file.size()
        finally:
            file.close()

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
                        f"{self._waiting_bytes} bytes wait in '{self._files.directory}' to be uploaded, and the store "
                        f"is away ({self._failure}); they are safe, and more is taken when it is back "
                        "(the limit is 'store.stage_bytes_max')"
                    )
                self._state.wait(PAUSE_MAX_S)
            if self._replaced is not None:
                raise type(self._replaced)(*self._replaced.args)

    @property
    def failure(self) -> HoldfastError | None:
        """Why nothing is uploaded at present; None if all is well."""
        return self._replaced or self._failure

    @property
    def waiting_bytes(self) -> int:
        return self._waiting_bytes

    def close(self) -> None:
        """Waits until everything is uploaded; if the store is away, it is tried once more and left staged."""
        with self._state:
            self._closing = True
            self._state.notify_all()
        self._thread.join()
        left = len(self._waiting)
        if left:
            log.warning("%d segments stay in '%s' to be uploaded: %s", left, self._files.directory, self.failure)

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
                        log.warning("nothing can be uploaded at present: %s", error)
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
        """Waits for something to do; None if this is the end."""
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
        """What can be deleted now. Who still reads a segment that was replaced may read it to its end."""
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
        """None if the segment is gone: compacted meanwhile."""
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
    """Puts the first `size` bytes of the file into the store, and makes sure that they are there. Raises VolumeDown."""
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
    if tag != expected:  # not every store makes its tags like this
        _compare(bucket, key, file, size)


def _compare(bucket: Bucket, key: str, file: File, size: int) -> None:
    for offset in range(0, size, PART_BYTES):
        length = min(PART_BYTES, size - offset)
        if bucket.read(key, offset, length) != file.read(offset, length):
            raise VolumeDown(f"'{bucket.url}/{key}' differs at {offset} or soon after from what was uploaded")
