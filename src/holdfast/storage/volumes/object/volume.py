"""Object-store volumes: log volumes on a file system with two tiers; created, opened and taken over.

The directory of a volume knows its store (file `objects`), so that the directory alone is enough to open it. Opening
for writing checks that the store is ours. If the store is down, the volume still opens: segments in the store cannot be
read, and new ones are staged until it is back.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.config import StoreSettings, VolumeSettings
from holdfast.env import Environment, paths
from holdfast.errors import Busy, DamagedBlock, NotFound, UsageError, VolumeDown, VolumeFull
from holdfast.storage.identity import new_identity, read_identity, write_identity
from holdfast.storage.volume import Block, BlockKey
from holdfast.storage.volumes.group_commit import uninterruptible
from holdfast.storage.volumes.local import VolumeSpec
from holdfast.storage.volumes.log.segment import SEGMENT_HEADER_BYTES
from holdfast.storage.volumes.log.volume import LogReader, LogVolume
from holdfast.storage.volumes.object.bucket import REQUESTS_MAX, Bucket
from holdfast.storage.volumes.object.ownership import (
    new_attachment,
    newest_term,
    read_attachment,
    write_attachment,
)
from holdfast.storage.volumes.object.tiered_files import WALK_BYTES, ObjectGone, TieredFiles
from holdfast.storage.volumes.object.uploader import Uploader

KEEP_BYTES_MAX = 16 << 20  # at close, a smaller tail is copied to the store and continues to grow
_Fetch = Callable[[Sequence[BlockKey]], list[Block | None]]


class _Fetcher:
    """Reads the blocks of a batch concurrently, if some of them are in the store."""

    def __init__(self, files: TieredFiles) -> None:
        self._files = files
        self._pool: ThreadPoolExecutor | None = None

    def fetch(self, read: _Fetch, keys: Sequence[BlockKey]) -> list[Block | None]:
        if len(keys) < 2 or not self._files.any_uploaded:
            return read(keys)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(REQUESTS_MAX, thread_name_prefix="fetch")
        share = -(-len(keys) // REQUESTS_MAX)
        shares = [keys[start : start + share] for start in range(0, len(keys), share)]
        return [block for part in self._pool.map(read, shares) for block in part]

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()


class ObjectVolume(LogVolume):
    """A log volume whose segments are uploaded. Threads: as `LogVolume`; the uploader has its own."""

    span_bytes = WALK_BYTES  # smaller reads are not read ahead

    def __init__(self, spec: VolumeSpec, files: TieredFiles) -> None:
        self._files = files
        self._fetcher = _Fetcher(files)
        self._staged_before = 0
        super().__init__(spec)
        self.uploader = Uploader(files, spec.settings.stage_bytes_max)
        files.uploads = self.uploader
        try:
            self._stage()
            self.uploader.doom(files.doomed)
        except BaseException:
            self.uploader.close()
            self.keydir.abandon()
            raise

    def fetch(self, keys: Sequence[BlockKey]) -> list[Block | None]:
        return self._fetcher.fetch(super().fetch, keys)

    def fetch_up_to(self, keys: Sequence[BlockKey], bytes_max: int) -> list[Block | None]:
        return self.fetch(keys[: len(self._fitting(keys, bytes_max))])

    # -- staging ------------------------------------------------------------------------------------------------

    def settle(self, prepared: object) -> None:
        """Stages a segment only when the log is durable beyond it: until then it may be cut back."""
        super().settle(prepared)
        if self._tail_number != self._staged_before:
            self._stage()

    @uninterruptible
    def seal(self) -> None:
        super().seal()
        self._stage()

    def _stage(self) -> None:
        """Queues every segment but the tail for upload."""
        self._staged_before = self._tail_number
        tail = self._tail_name()
        for name in self._files.staged():
            if name != tail:
                self.uploader.add(name)

    def _tail_name(self) -> str:
        if not self._tail_number:
            return ""
        generation = self.ledger.segments[self._tail_number].generation
        return self.segments.path(self._tail_number, generation).name

    # -- closing ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """As `LogVolume`; also uploads everything, unless the store is down."""
        if self._failure is None:
            self.flush()
            if self.uploader.failure is None:
                with suppress(VolumeFull, VolumeDown):  # the store just went down: the tail stays local
                    self._hand_over_tail()
        self.uploader.close()
        self._files.uploads = None
        super().close()
        self._fetcher.close()
        self._files.bucket.close()

    def _hand_over_tail(self) -> None:
        """Seals a large tail and copies a small one, so that many short runs do not make many small segments."""
        size = self.ledger.position.offset
        if not self._tail_number or size <= SEGMENT_HEADER_BYTES:
            return
        if size > min(KEEP_BYTES_MAX, self.settings.segment_bytes_max // 4):
            self.seal()
            return
        name = self._tail_name()
        known = self._files.uploaded(name)
        if known is None or (known.size, known.term) != (size, self._files.ownership.term):
            self.uploader.add(name, keep=True)


class ObjectReader(LogReader):
    """An object-store volume open for reading, while another process may write to it."""

    span_bytes = WALK_BYTES  # smaller reads are not read ahead

    def __init__(self, spec: VolumeSpec, files: TieredFiles) -> None:
        self._files = files
        self._fetcher = _Fetcher(files)
        super().__init__(spec)

    def fetch(self, keys: Sequence[BlockKey]) -> list[Block | None]:
        return self._fetcher.fetch(super().fetch, keys)

    def scan(self, **options: Any) -> Iterator[list[Block]]:
        """As `LogReader`. Unlike a file, an object that a compaction removes cannot be read to its end: then the scan
        continues after the last block delivered."""
        seen, failed_after = -1, -2
        while True:
            try:
                for batch in super().scan(**options):
                    fresh = [block for block in batch if block.serial > seen]
                    if fresh:
                        seen = fresh[-1].serial
                        yield fresh
                return
            except ObjectGone:
                if seen == failed_after:
                    raise  # missing twice: it is lost
                failed_after = seen
                self.refresh()

    def close(self) -> None:
        super().close()
        self._fetcher.close()
        self._files.bucket.close()


log = logging.getLogger("holdfast.storage.volumes.object")


def create_object_volume(directory: Path, volume: VolumeSettings, settings: StoreSettings, env: Environment) -> None:
    """Creates an empty volume at `volume.url`, durably. Neither the directory nor the store may hold one already."""
    if volume.organization != "log":
        raise UsageError(f"a volume in an object store is of organization log, not {volume.organization!r}")
    if env.files.exists(directory / paths.VOLUME):
        raise UsageError(f"'{directory}' holds a volume already")
    bucket = Bucket(volume.url)
    if newest_term(bucket) or bucket.size(paths.VOLUME) is not None:
        raise UsageError(
            f"'{bucket.url}' holds a volume already; choose another prefix, or take it over "
            "('holdfast volume take-over')"
        )
    attachment = new_attachment(env, bucket.url, 1)
    write_attachment(env.files, directory, attachment)
    files = TieredFiles(env.files, directory, bucket, attachment, follow=False)
    files.ownership.claim()
    identity = new_identity(env, volume, settings.signature)
    write_identity(replace(env, files=files), directory, identity)
    bucket.close()
    open_object_volume(volume, directory, settings, env).close()


def open_object_volume(
    volume: VolumeSettings, directory: Path, settings: StoreSettings, env: Environment
) -> ObjectVolume:
    """Opens for writing. Uses only name and url of `volume`; without a url, the directory determines the store.

    Raises Busy if the store belongs to another directory, VolumeDown if the directory was lost.
    """
    name = volume.name
    require_attached(volume, directory, env)
    files = _attached(directory, env, follow=False)
    known = files.load()
    try:
        files.ownership.claim()
        files.restore()
        if known:
            files.reconcile()
        else:
            files.adopt()
    except VolumeDown as error:
        if not known:
            raise
        log.warning("opened volume %r without its store: %s", name, error)
    try:
        return ObjectVolume(VolumeSpec.read(name, directory, settings, replace(env, files=files)), files)
    except FileNotFoundError as error:
        raise VolumeDown(f"volume {name!r} cannot be opened: {error}; run 'holdfast check --repair'") from error


def open_object_reader(
    volume: VolumeSettings, directory: Path, settings: StoreSettings, env: Environment
) -> ObjectReader:
    """Opens for reading, while another process may write to it. `volume` as of `open_object_volume`."""
    require_attached(volume, directory, env)
    files = _attached(directory, env, follow=True)
    files.load()
    return ObjectReader(VolumeSpec.read(volume.name, directory, settings, replace(env, files=files)), files)


def tiered_environment(directory: Path, env: Environment) -> Environment:
    """The environment for check and repair, with the segments in the store.

    Restores a missing or damaged VOLUME file from the store.
    """
    files = _attached(directory, env, follow=True)
    if not files.load():
        files.adopt()
    else:
        files.look()
    try:
        read_identity(env, directory)
    except (FileNotFoundError, DamagedBlock):
        files.restore_identity()
    return replace(env, files=files)


def require_attached(volume: VolumeSettings, directory: Path, env: Environment) -> None:
    """Raises if the directory is lost, or belongs to another store than `volume.url`."""
    try:
        found = read_attachment(env.files, directory).url
    except FileNotFoundError:
        raise VolumeDown(
            f"volume {volume.name!r} is not attached to '{volume.url}': '{directory / paths.OBJECTS}' is missing; if "
            f"the directory was lost, run 'holdfast volume take-over {volume.name}'"
        ) from None
    if volume.url and found != volume.url.rstrip("/"):
        raise UsageError(f"volume {volume.name!r} is at '{found}', the connector says '{volume.url}'")


def take_over(directory: Path, volume: VolumeSettings, env: Environment) -> None:
    """Makes the directory the owner of the volume in the store. Durable on return.

    The previous owner is refused from its next upload on, and keeps what it had not uploaded. Segments in this
    directory from an earlier ownership that never reached the store are moved to `lost/`. The next opening rebuilds the
    keydir. Idempotent.
    """
    bucket = Bucket(volume.url)
    try:
        term = newest_term(bucket)
        if not term or bucket.size(paths.VOLUME) is None:
            raise NotFound(f"'{bucket.url}' holds no volume")
        if _owns(bucket, directory, env):
            return
        _set_aside(directory, env)
        attachment = new_attachment(env, bucket.url, term + 1)
        write_attachment(env.files, directory, attachment)
        files = TieredFiles(env.files, directory, bucket, attachment, follow=False)
        files.ownership.claim()
        files.restore_identity()
        files.restore()
        files.adopt()
    finally:
        bucket.close()


def _owns(bucket: Bucket, directory: Path, env: Environment) -> bool:
    """True if the directory is the owner, not an old copy of it."""
    try:
        attachment = read_attachment(env.files, directory)
        if attachment.url != bucket.url:
            return False
        files = TieredFiles(env.files, directory, bucket, attachment, follow=False)
        files.ownership.claim()
        if files.load():
            files.reconcile()
    except (FileNotFoundError, Busy, DamagedBlock):
        return False
    return True


def _set_aside(directory: Path, env: Environment) -> None:
    """Moves segments of an earlier ownership to `lost/` and removes derived files."""
    files, lost = env.files, directory / paths.LOST
    segments = [name for name in files.names(directory) if paths.parse_segment_name(name)]
    if segments:
        files.make_directory(lost)
    for name in segments:
        files.rename(directory / name, lost / name)
    if segments:
        files.sync_directory(lost)
    files.remove(directory / paths.UPLOADED)
    if files.exists(directory):
        files.sync_directory(directory)
    shutil.rmtree(directory / paths.KEYDIR, ignore_errors=True)


def _attached(directory: Path, env: Environment, *, follow: bool) -> TieredFiles:
    attachment = read_attachment(env.files, directory)
    return TieredFiles(env.files, directory, Bucket(attachment.url), attachment, follow=follow)
