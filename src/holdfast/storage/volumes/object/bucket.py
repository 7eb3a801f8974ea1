"""An object store under one URL, with Holdfast's errors.

A missing object is FileNotFoundError; a store that is unreachable, or sends an invalid response, is VolumeDown; one
that refuses access is Denied. After a timeout, requests fail at once for `_AWAY_S`, so that an operation of several
requests waits only once. Any thread may call any method.

Credentials and endpoint come from the environment variables that AWS tools use.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from holdfast.env.extras import require
from holdfast.env.files import Buffer, LocalFiles
from holdfast.errors import Denied, InvalidSetting, VolumeDown

TIMEOUT_S = 30.0  # of one request, including retries
REQUESTS_MAX = 16  # at a time, per volume; each may take 4 MiB of memory
PART_BYTES = 8 << 20  # larger objects are sent in parts of this size
_PARTS_AT_ONCE = 4  # which bounds the memory of an upload
_RETRIES_MAX = 3
_CONNECT_TIMEOUT_S = 5.0
_RETRY_SHARE = 0.1  # of TIMEOUT_S: only early failures are retried
_VAIN_SHARE = 0.1  # of TIMEOUT_S: a failure after that long counts as a timeout
_AWAY_S = 2.0


class Bucket:
    """Objects under one URL: `s3://bucket/prefix` or `file:///directory`. No request is sent before first use."""

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.url = url.rstrip("/")
        self._clock = clock
        self._away_until_s = float("-inf")
        self._away_reason = ""
        self._errors = _obstore_errors()
        parts = urlsplit(url)
        self._directory = Path(unquote(parts.path)) if parts.scheme == "file" else None
        self._store = _connect(self.url)
        self._pool: ThreadPoolExecutor | None = None

    @property
    def pool(self) -> ThreadPoolExecutor:
        """Threads for concurrent requests."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(REQUESTS_MAX, thread_name_prefix="bucket")
        return self._pool

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    # -- writing ------------------------------------------------------------------------------------------------

    def put(self, key: str, data: Buffer) -> str:
        """Creates or replaces the object, durably; returns its entity tag without quotes."""
        with self._translated(key):
            response = self._store.put(key, bytes(data), use_multipart=False)
        self._settle(key)
        return _tag(response)

    def put_new(self, key: str, data: Buffer) -> bool:
        """Creates the object, durably; False if it exists already."""
        try:
            with self._translated(key):
                self._store.put(key, bytes(data), mode="create")
        except FileExistsError:
            return False
        self._settle(key)
        return True

    def put_parts(self, key: str, parts: Iterator[bytes]) -> str:
        """As `put`, in parts. All parts but the last have PART_BYTES."""
        with self._translated(key):
            response = self._store.put(
                key, parts, use_multipart=True, chunk_size=PART_BYTES, max_concurrency=_PARTS_AT_ONCE
            )
        self._settle(key)
        return _tag(response)

    def delete(self, key: str) -> None:
        """Not an error if there is no such object."""
        try:
            with self._translated(key):
                self._store.delete(key)
        except FileNotFoundError:
            pass

    def _settle(self, key: str) -> None:
        """Syncs an object in a plain directory. A store is trusted to sync before it acknowledges."""
        if self._directory is None:
            return
        files, path = LocalFiles(), self._directory / key
        file = files.open(path)
        file.sync()
        file.close()
        while path != self._directory:
            path = path.parent
            files.sync_directory(path)

    # -- reading ------------------------------------------------------------------------------------------------

    def get(self, key: str) -> bytes:
        """A small object."""
        with self._translated(key):
            return bytes(self._store.get(key).bytes())

    def read(self, key: str, offset: int, length: int) -> bytes:
        """The bytes at `offset`; fewer than `length` only at the end of the object."""
        if length <= 0:
            return b""
        try:
            with self._translated(key):
                return bytes(self._store.get_range(key, start=offset, length=length))
        except VolumeDown as error:
            if "range" in str(error).lower() and (self.size(key) or 0) <= offset:
                return b""  # shorter than expected: the caller reports the damage
            raise

    def size(self, key: str) -> int | None:
        """Size of the object; None if there is none."""
        try:
            with self._translated(key):
                return int(self._store.head(key)["size"])
        except FileNotFoundError:
            return None

    def sizes(self, prefix: str) -> dict[str, int]:
        """Sizes of all objects under the prefix, which ends with a slash."""
        with self._translated(prefix):
            return {each["path"]: int(each["size"]) for page in self._store.list(prefix) for each in page}

    # -- errors -------------------------------------------------------------------------------------------------

    @contextmanager
    def _translated(self, key: str) -> Iterator[None]:
        errors = self._errors
        begun_s = self._clock()
        if begun_s < self._away_until_s:
            raise VolumeDown(f"cannot use '{self.url}/{key}': {self._away_reason}")
        try:
            yield
        except FileNotFoundError:
            raise
        except errors.AlreadyExistsError as error:
            raise FileExistsError(key) from error
        except (errors.PermissionDeniedError, errors.UnauthenticatedError) as error:
            raise Denied(
                f"not permitted to use '{self.url}/{key}': {_reason(error)}; check AWS_ACCESS_KEY_ID, "
                "AWS_SECRET_ACCESS_KEY and their permissions"
            ) from error
        except (errors.BaseError, OSError, ValueError) as error:
            now_s = self._clock()
            if now_s - begun_s >= TIMEOUT_S * _VAIN_SHARE:
                self._away_until_s, self._away_reason = now_s + _AWAY_S, _reason(error)
            raise VolumeDown(f"cannot use '{self.url}/{key}': {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """The first line: a dump of the library's state follows."""
    return str(error).partition("\n")[0].strip()


def _tag(response: Any) -> str:
    return (response["e_tag"] or "").strip('"')


def _obstore_errors() -> Any:
    require("objects")
    import obstore.exceptions

    return obstore.exceptions


def _connect(url: str) -> Any:
    from obstore.store import LocalStore, S3Store

    parts = urlsplit(url)
    if parts.scheme == "file" and not parts.netloc and parts.path.startswith("/"):
        try:
            return LocalStore(unquote(parts.path), mkdir=True)
        except OSError as error:
            raise VolumeDown(f"cannot use '{url}': {_reason(error)}") from error
    if parts.scheme != "s3" or not parts.netloc:
        raise InvalidSetting(f"bad url {url!r} of a volume: s3://bucket/prefix or file:///directory")
    return S3Store.from_url(
        url,
        client_options={
            "timeout": timedelta(seconds=TIMEOUT_S),
            "connect_timeout": timedelta(seconds=min(TIMEOUT_S, _CONNECT_TIMEOUT_S)),
            "allow_http": os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true", "yes"),
        },
        retry_config={"max_retries": _RETRIES_MAX, "retry_timeout": timedelta(seconds=TIMEOUT_S * _RETRY_SHARE)},
    )
