"""Object-store volumes: `log` volumes whose segments are kept in an S3-compatible store or another directory.

Commits are appended to the tail segment in the volume's own directory and synced before they are acknowledged, as in
any log volume; the store may be slow or down. A segment that is no longer the tail is *staged*: a thread uploads it,
verifies the object, notes it durably in the file `uploaded`, and then removes the local file. The segment is then read
from the store by ranges. The keydir stays local and can be rebuilt; VOLUME and the dictionaries are in both places. So
a lost directory costs only the segments not yet uploaded.

    bucket         the store, through `obstore`; its failures become Holdfast's errors
    ownership      which directory may write to the store: one at a time
    upload_list    the file `uploaded`: which segments are in the store
    tiered_files   the file system of the log volume; objects are read by ranges, through a bounded cache
    uploader       the thread that uploads and deletes
    volume         `ObjectVolume` and `ObjectReader`; create, open and take over
"""
