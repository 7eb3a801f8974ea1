"""Object-store volumes: a `log` volume whose segments rest in an S3-compatible store, or in a directory elsewhere.

What flows in are commits. They are appended to the tail segment in the volume's own directory and synced there before
they are acknowledged, as in any log volume; so the store may be slow or away without harm. Once a segment is no longer
the tail it is *staged*: a thread uploads it, makes sure that the store holds exactly these bytes, notes it durably in
the file `uploaded`, and only then takes the local file away. From then on it is read from the store by ranges. The
keydir stays local and can be rebuilt from the segments; VOLUME and the dictionaries are in both places. So a lost
directory costs what had not been uploaded yet, nothing else.

    bucket       the door to the store, through `obstore`; every failure becomes one of Holdfast's errors
    ownership    which directory may write to the store: one at a time, terms without gaps
    uploaded     the file that tells which segments are in the store
    ranges       reading objects: windows ahead for scans, a bounded cache
    tiered       `TieredFiles`: the file system that the log volume sees
    uploader     the thread that uploads and deletes
    volume       `ObjectVolume` and `ObjectReader`: log volumes on such a file system
    opening      making, opening and taking over
"""

from __future__ import annotations

from holdfast.storage.volumes.object.open import (
    create_object_volume,
    open_object_reader,
    open_object_volume,
    require_attached,
    take_over,
    tiered_environment,
)

__all__ = [
    "create_object_volume",
    "open_object_reader",
    "open_object_volume",
    "require_attached",
    "take_over",
    "tiered_environment",
]
