"""Every failure Holdfast reports, in one tree.

    HoldfastError                 exit 1
    ├── UsageError                exit 2    the caller asked for something that makes no sense
    │   ├── MalformedKey                    a contentkey that cannot be parsed
    │   ├── UnknownName                     no such codec, volume, signature, organization or placement
    │   ├── MalformedQuery                  a filter, time, field or resume key that cannot be understood
    │   ├── MalformedToken                  a stream's token that is damaged, or of another stream or archive
    │   └── InvalidSetting                  holdfast.toml holds a wrong key or value
    ├── NotFound                  exit 3    what was asked for is not here
    │   ├── ArchiveNotFound                 the directory holds no archive
    │   ├── ContentNotFound                 no block answers to the contentkey
    │   ├── CaptureNotFound                 no capture of the URL, or no record under the id
    │   ├── IndexNotFound                   the archive has no index of words yet
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
    ├── VolumeFull                exit 7    no space left for new contents
    ├── Denied                    exit 8    the operating system or a volume's state forbids it
    │   ├── VolumeReadOnly                  the volume takes no new contents
    │   ├── BatchSealed                     the batch takes no new records
    │   ├── Blocked                         an access rule of the archive forbids to show it
    │   ├── Unauthorized                    a request without a token that it needs
    │   └── Throttled                       too many wrong tokens, or streams; try again later
    ├── VolumeDown                exit 9    a volume cannot be opened or has failed
    ├── TooLarge                  exit 10   a content beyond `content_bytes_max`
    ├── MalformedInput            exit 11   a file to be imported is damaged or breaks the rules of its format
    └── CrawlFailed               exit 12   a crawl that could not fetch a single one of its seeds

The command line exits with `exit_code`, servers answer with `http_status`, and retry loops look at `retryable`.
A message says the error first, quotes its subject, and ends with the repair where there is one.
"""

from __future__ import annotations

from typing import ClassVar


class HoldfastError(Exception):
    """The root: catching it catches everything Holdfast raises on purpose."""

    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False


class UsageError(HoldfastError):
    """The request itself is wrong; nothing was changed."""

    exit_code = 2
    http_status = 400


class MalformedKey(UsageError):
    """A string that is not a contentkey."""


class UnknownName(UsageError):
    """A codec, volume, signature, organization or placement that nobody registered, or a word that is none of a few."""


class MalformedQuery(UsageError):
    """A filter, time, field or resume key that cannot be understood."""


class MalformedToken(UsageError):
    """A token that no stream of this archive with these options gave out."""


class InvalidSetting(UsageError):
    """A setting with an unknown name or a value out of range."""


class NotFound(HoldfastError):
    """What was asked for is not here."""

    exit_code = 3
    http_status = 404


class ArchiveNotFound(NotFound):
    """The directory holds no archive."""


class ContentNotFound(NotFound):
    """No block answers to the contentkey."""


class CaptureNotFound(NotFound):
    """No capture of the URL at that time, or no record under the id."""


class FileNotAtHand(CaptureNotFound):
    """The capture is known, but the file that holds its record by reference is away or is another one."""


class IndexNotFound(NotFound):
    """No index of words yet, or one that reaches less far than a token's stream: `holdfast index update` makes it."""


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
    """The index of words, metadata and links cannot be read. It is derived: `holdfast index build` rebuilds it."""


class DamagedFrontier(Damaged):
    """What a crawl knows of its URLs cannot be read. Its captures are safe; the crawl can be begun anew."""


class FormatTooNew(HoldfastError):
    """A file written by a later release; this one leaves it untouched."""

    exit_code = 6


class VolumeFull(HoldfastError):
    """The volume's disk has no room; what was acknowledged before is safe."""

    exit_code = 7
    http_status = 507
    retryable = True


class Denied(HoldfastError):
    """The operating system or a volume's state forbids the operation."""

    exit_code = 8
    http_status = 403


class VolumeReadOnly(Denied):
    """The volume takes no new contents."""


class BatchSealed(Denied):
    """The batch takes no new records."""


class Blocked(Denied):
    """An access rule of the archive forbids to show the capture."""

    http_status = 451


class Unauthorized(Denied):
    """A request to the server needs a token and has none, or a wrong one."""

    http_status = 401


class Throttled(Denied):
    """Too much at once from one address: wrong tokens, of which even a right one has to wait then, or streams."""

    http_status = 429
    retryable = True


class VolumeDown(HoldfastError):
    """A volume cannot be opened, or failed earlier and refuses to go on."""

    exit_code = 9
    http_status = 503
    retryable = True


class TooLarge(HoldfastError):
    """A content larger than the configured limit."""

    exit_code = 10
    http_status = 413


class MalformedInput(HoldfastError):
    """A file to be imported is damaged or breaks the rules of its format. The message gives file, offset and fault."""

    exit_code = 11
    http_status = 400


class CrawlFailed(HoldfastError):
    """A crawl came to its end without any response. What it knows is kept: the same command tries again."""

    exit_code = 12
    http_status = 502
    retryable = True
