"""Making, opening and taking over object-store volumes.

The directory of a volume knows its store (file `objects`), so that it can be opened by its directory alone. Opening for
writing looks whether the store is ours, and works without it: then nothing can be read that is only there, and what is
written is staged until it is back.
"""

from __future__ import annotations

import logging
import shutil
from dataclasses import replace
from pathlib import Path

from holdfast.config import StoreSettings, VolumeSettings
from holdfast.env import Environment, paths
from holdfast.errors import Busy, DamagedBlock, NotFound, UsageError, VolumeDown
from holdfast.storage.identity import new_identity, read_identity, write_identity
from holdfast.storage.volumes.object.bucket import Bucket
from holdfast.storage.volumes.object.ownership import (
    Attachment,
    Ownership,
    new_attachment,
    newest_term,
    read_attachment,
    write_attachment,
)
from holdfast.storage.volumes.object.tiered_files import TieredFiles
from holdfast.storage.volumes.object.volume import ObjectReader, ObjectVolume
from holdfast.storage.volumes.spec import VolumeSpec

log = logging.getLogger("holdfast.storage.volumes.object")


def create_object_volume(directory: Path, volume: VolumeSettings, settings: StoreSettings, env: Environment) -> None:
    """Makes an empty volume at `volume.url`, durably. Neither the directory nor the store may hold one already."""
    if volume.organization != "log":
        raise UsageError(f"a volume in an object store is of organization log, not {volume.organization!r}")
    if env.files.exists(directory / paths.VOLUME):
        raise UsageError(f"'{directory}' holds a volume already")
    bucket = _bucket(volume.url, settings)
    if newest_term(bucket) or bucket.size(paths.VOLUME) is not None:
        raise UsageError(
            f"'{bucket.url}' holds a volume already; choose another prefix, or take it over "
            "('holdfast volume take-over')"
        )
    attachment = new_attachment(env, bucket.url, 1)
    write_attachment(env.files, directory, attachment)
    files = _tiered(env, directory, bucket, attachment, settings)
    files.ownership.claim()
    identity = new_identity(env, volume, settings.signature)
    write_identity(replace(env, files=files), directory, identity)
    bucket.close()
    open_object_volume(volume, directory, settings, env).close()


def open_object_volume(
    volume: VolumeSettings, directory: Path, settings: StoreSettings, env: Environment
) -> ObjectVolume:
    """Opens for writing. Of `volume` only name and url count; without a url, the directory alone says where it is.

    Raises Busy if the store belongs to another directory, VolumeDown if the directory was lost.
    """
    name = volume.name
    require_attached(volume, directory, env)
    files = _attached(directory, settings, env, follow=False)
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
        log.warning("volume %r is opened without its store: %s", name, error)
    try:
        return ObjectVolume(_spec(name, directory, settings, replace(env, files=files)), files)
    except FileNotFoundError as error:
        raise VolumeDown(f"volume {name!r} cannot be opened: {error}; run 'holdfast check --repair'") from error


def open_object_reader(
    volume: VolumeSettings, directory: Path, settings: StoreSettings, env: Environment
) -> ObjectReader:
    """Opens for reading, while another process may write to it. `volume` as of `open_object_volume`."""
    require_attached(volume, directory, env)
    files = _attached(directory, settings, env, follow=True)
    files.load()
    return ObjectReader(_spec(volume.name, directory, settings, replace(env, files=files)), files)


def tiered_environment(directory: Path, settings: StoreSettings, env: Environment) -> Environment:
    """The environment for checking and repairing a volume: it sees the segments in the store, too.

    A VOLUME file that is missing or damaged is restored from the store.
    """
    files = _attached(directory, settings, env, follow=True)
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
    """Raises if the directory is lost, or belongs to another store than the connector says."""
    try:
        found = read_attachment(env.files, directory).url
    except FileNotFoundError:
        raise VolumeDown(
            f"volume {volume.name!r} is not attached to '{volume.url}': '{directory / paths.OBJECTS}' is missing; if "
            f"the directory was lost, run 'holdfast volume take-over {volume.name}'"
        ) from None
    if volume.url and found != volume.url.rstrip("/"):
        raise UsageError(f"volume {volume.name!r} is at '{found}', the connector says '{volume.url}'")


def take_over(directory: Path, volume: VolumeSettings, settings: StoreSettings, env: Environment) -> None:
    """Makes the directory the owner of the volume in the store, whoever was it; durable on return.

    The other owner is refused from its next upload on; what it had not uploaded stays with it. Segments that lie in
    this directory from an earlier ownership, and never reached the store, are set aside in `lost/`. The keydir is made
    anew at the next opening. Does nothing if the directory is the owner already.
    """
    bucket = _bucket(volume.url, settings)
    try:
        term = newest_term(bucket)
        if not term or bucket.size(paths.VOLUME) is None:
            raise NotFound(f"'{bucket.url}' holds no volume")
        if _owns(bucket, directory, env, settings):
            return
        _set_aside(directory, env)
        attachment = new_attachment(env, bucket.url, term + 1)
        write_attachment(env.files, directory, attachment)
        files = _tiered(env, directory, bucket, attachment, settings)
        files.ownership.claim()
        files.restore_identity()
        files.restore()
        files.adopt()
    finally:
        bucket.close()


def _owns(bucket: Bucket, directory: Path, env: Environment, settings: StoreSettings) -> bool:
    """Whether the directory is the owner, and no old copy of it."""
    try:
        attachment = read_attachment(env.files, directory)
        if attachment.url != bucket.url:
            return False
        files = _tiered(env, directory, bucket, attachment, settings)
        files.ownership.claim()
        if files.load():
            files.reconcile()
    except (FileNotFoundError, Busy, DamagedBlock):
        return False
    return True


def _set_aside(directory: Path, env: Environment) -> None:
    """What an earlier ownership left: segments are kept for a person to look at, derived files go."""
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


def _attached(directory: Path, settings: StoreSettings, env: Environment, *, follow: bool) -> TieredFiles:
    attachment = read_attachment(env.files, directory)
    bucket = _bucket(attachment.url, settings)
    return _tiered(env, directory, bucket, attachment, settings, follow=follow)


def _tiered(
    env: Environment,
    directory: Path,
    bucket: Bucket,
    attachment: Attachment,
    settings: StoreSettings,
    *,
    follow: bool = False,
) -> TieredFiles:
    ownership = Ownership(bucket, attachment, directory)
    return TieredFiles(env.files, directory, ownership, settings.object_cache_bytes, follow=follow)


def _bucket(url: str, settings: StoreSettings) -> Bucket:
    return Bucket(url, timeout_s=settings.object_timeout_s, requests_max=settings.object_requests_max)


def _spec(name: str, directory: Path, settings: StoreSettings, env: Environment) -> VolumeSpec:
    from holdfast.storage.volumes.organizations import identified

    return identified(name, directory, settings, env)
