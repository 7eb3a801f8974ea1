"""The error tree: every error that Holdfast raises.

    HoldfastError                 exit 1
    ├── UsageError                exit 2    the request is wrong; nothing was changed
    │   ├── MalformedKey                    a contentkey that cannot be parsed
    │   ├── UnknownName                     no such codec, volume, signature, organization or placement
    │   ├── MalformedQuery                  a filter, time, field or resume key that cannot be parsed
    │   ├── MalformedToken                  a stream's token that is damaged, or of another stream or archive
    │   ├── MissingExtra                    a part of Holdfast that is not installed; the message names the extra
    │   └── InvalidSetting                  holdfast.toml holds a wrong key or value
    ├── NotFound                  exit 3    the requested thing does not exist
    │   ├── ArchiveNotFound                 the directory holds no archive
    │   ├── ContentNotFound                 no block has the contentkey
    │   ├── CaptureNotFound                 no capture of the URL, or no record under the id
    │   ├── IndexNotFound                   the archive has no full-text index yet
    │   └── UnknownCollection               no collection of that name in the archive
    ├── Busy                      exit 4    another process is writing; try again later
    ├── Damaged                   exit 5    stored bytes are not what was written
    │   ├── DamagedBlock                    a block's header or data fails its checksum
    │   ├── DamagedKeydir                   the derived keydir cannot be read; it can be rebuilt
    │   ├── DamagedBatch                    a frame of a batch's journal fails its checksum
    │   ├── DamagedCatalog                  the derived catalog cannot be read; it can be rebuilt
    │   ├── DamagedIndex                    the derived index cannot be read; it can be rebuilt
    │   └── DamagedFrontier                 the state of a crawl cannot be read; its captures are safe
    ├── FormatTooNew              exit 6    written by a later release of Holdfast
    ├── FormatTooOld              exit 6    written by an earlier release; the message names the way over
    ├── VolumeFull                exit 7    no space left for new contents
    ├── Denied                    exit 8    the operating system or a volume's state forbids it
    │   ├── VolumeReadOnly                  the volume accepts no new contents
    │   ├── BatchSealed                     the batch accepts no new records
    │   ├── Blocked                         an access rule of the archive forbids showing it
    │   ├── Unauthorized                    a request without a token that it needs
    │   ├── NotAMember                      the cluster does not know, or no longer knows, this node or token
    │   └── Throttled                       too many wrong tokens, or streams; try again later
    ├── VolumeDown                exit 9    a volume cannot be opened or has failed
    ├── TooLarge                  exit 10   a content beyond `content_bytes_max`
    ├── MalformedInput            exit 11   a file to import is damaged or violates its format
    ├── CrawlFailed               exit 12   a crawl that could not fetch any of its seeds
    ├── ClusterDown               exit 13   the cluster's NATS service, or a node of it, does not respond
    └── PartialAnswer             exit 14   what was printed is all that the nodes that respond have

The command line exits with `exit_code`, servers respond with `http_status`, and retry loops check `retryable`.
A message states the error, quotes its subject, and ends with the repair, if there is one.
"""

from __future__ import annotations

import errno
from typing import ClassVar


class HoldfastError(Exception):
    """The root of all errors that Holdfast raises on purpose."""

    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False


class UsageError(HoldfastError):
    """The request is wrong; nothing was changed."""

    exit_code = 2
    http_status = 400


class MalformedKey(UsageError):
    """A string that is not a contentkey."""


class UnknownName(UsageError):
    """An unregistered codec, volume, signature, organization or placement, or an unknown word."""


class MalformedQuery(UsageError):
    """A filter, time, field or resume key that cannot be parsed."""


class MalformedToken(UsageError):
    """A token that does not belong to a stream of this archive with these options."""


class MissingExtra(UsageError):
    """A part of Holdfast that is not installed. The message names the extra of the package."""

    http_status = 501


class InvalidSetting(UsageError):
    """A setting with an unknown name or a value out of range."""


class NotFound(HoldfastError):
    """The requested thing does not exist."""

    exit_code = 3
    http_status = 404


class ArchiveNotFound(NotFound):
    """The directory holds no archive."""


class ContentNotFound(NotFound):
    """No block has the contentkey."""


class CaptureNotFound(NotFound):
    """No capture of the URL at that time, or no record under the id."""


class FileNotAtHand(CaptureNotFound):
    """The capture is known, but the file that its record refers to is missing or another one."""


class IndexNotFound(NotFound):
    """No full-text index yet, or one older than a token's stream: run `holdfast index update`."""


class UnknownCollection(NotFound):
    """No collection of that name in the archive."""


class Busy(HoldfastError):
    """Another process holds the writer's lock."""

    exit_code = 4
    http_status = 409
    retryable = True


class Damaged(HoldfastError):
    """Stored bytes are not what was written."""

    exit_code = 5


class DamagedBlock(Damaged):
    """A block's header or data fails its checksum."""


class DamagedKeydir(Damaged):
    """The keydir cannot be read. It is derived: `holdfast check --repair` rebuilds it."""


class DamagedBatch(Damaged):
    """A frame of a batch's journal fails its checksum."""


class DamagedCatalog(Damaged):
    """The catalog cannot be read. It is derived: `holdfast reindex` rebuilds it."""


class DamagedIndex(Damaged):
    """The full-text index cannot be read. It is derived: `holdfast index build` rebuilds it."""


class DamagedFrontier(Damaged):
    """The state of a crawl cannot be read. Its captures are safe; the crawl can be started again."""


class FormatTooNew(HoldfastError):
    """A file written by a later release. Left untouched."""

    exit_code = 6


class FormatTooOld(HoldfastError):
    """A file written by an earlier release, in a form that this one no longer reads; it is left untouched."""

    exit_code = 6


class VolumeFull(HoldfastError):
    """The volume's disk is full; everything acknowledged before is safe."""

    exit_code = 7
    http_status = 507
    retryable = True


class Denied(HoldfastError):
    """The operating system or a volume's state forbids the operation."""

    exit_code = 8
    http_status = 403


class VolumeReadOnly(Denied):
    """The volume accepts no new contents."""


class BatchSealed(Denied):
    """The batch accepts no new records."""


class Blocked(Denied):
    """An access rule of the archive forbids showing the capture."""

    http_status = 451


class Unauthorized(Denied):
    """A request without the token it needs, or with a wrong one."""

    http_status = 401


class NotAMember(Denied):
    """The cluster does not know, or no longer knows, this node, its certificate or its token."""


class Throttled(Denied):
    """Too many wrong tokens, or streams, from one address. After wrong tokens even a valid one must wait."""

    http_status = 429
    retryable = True


class VolumeDown(HoldfastError):
    """A volume cannot be opened, or refuses to continue after a failure."""

    exit_code = 9
    http_status = 503
    retryable = True


class TooLarge(HoldfastError):
    """A content larger than the configured limit."""

    exit_code = 10
    http_status = 413


class MalformedInput(HoldfastError):
    """A file to import is damaged or violates its format. The message has file, offset and fault."""

    exit_code = 11
    http_status = 400


class CrawlFailed(HoldfastError):
    """A crawl ended without any response. Its state is kept: the same command tries again."""

    exit_code = 12
    http_status = 502
    retryable = True


class ClusterDown(HoldfastError):
    """The cluster's NATS service, or a node that is needed, does not respond."""

    exit_code = 13
    http_status = 503
    retryable = True


class PartialAnswer(HoldfastError):
    """No node responds for some partitions of the cluster: the printed result is that of the others."""

    exit_code = 14
    http_status = 503
    retryable = True


def of_the_system(error: OSError) -> HoldfastError:
    """The error of the tree for an error of the operating system."""
    reason = error.strerror or str(error)
    message = f"cannot use '{error.filename}': {reason}" if error.filename else reason
    match error.errno:
        case errno.ENOENT:
            return NotFound(message)
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return Denied(message)
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            return VolumeFull(message)
        case _:
            return HoldfastError(message)
