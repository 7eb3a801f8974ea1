"""Takeover of a volume in an object store: after its directory was lost, or from another machine that is gone."""

from __future__ import annotations

from pathlib import Path

from holdfast import config
from holdfast.archive.archive import purpose
from holdfast.env import REAL, Environment, WriterLock, paths
from holdfast.errors import UnknownName, UsageError


def take_over(path: str | Path, name: str, *, env: Environment = REAL) -> None:
    """Makes the archive the owner of the volume's objects, whoever was it. Durable on return.

    The archive need not be able to open: its only volume may be the one that was lost. Another owner that still lives
    is refused from its next upload on.
    """
    from holdfast.storage.volumes.object import take_over as take_over_volume

    root = Path(path)
    settings = config.load(root / paths.SETTINGS)
    volume = settings.volume_settings(name)
    if volume is None:
        raise UnknownName(f"unknown volume {name!r}: known are {', '.join(v.name for v in settings.volume)}")
    if not volume.url:
        raise UsageError(f"volume {name!r} is not in an object store: it has no 'url'")
    lock = WriterLock(root / paths.LOCK, purpose())
    try:
        directory = root / volume.path if volume.path else paths.volume_directory(root, name)
        env.files.remove(root / paths.FILTERS)  # they may not match the volume from now on
        take_over_volume(directory, volume, settings.store, env)
    finally:
        lock.release()
