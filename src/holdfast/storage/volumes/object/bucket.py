"""The door to an object store: one URL, few verbs, and no errors but Holdfast's.

A missing object is FileNotFoundError; a store that cannot be reached, or answers nonsense, is VolumeDown; one that
refuses us is Denied. A store that kept us waiting in vain is left alone for a moment: whoever asks meanwhile is told at
once, so that an operation of several requests does not wait for each of them. Any thread may call any method.

Credentials and endpoint come from the environment, under the names that the tools of AWS use.
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

from holdfast.env.files import Buffer, LocalFiles
from holdfast.errors import Denied, InvalidSetting, UsageError, VolumeDown

PART_BYTES = 8 << 20  # larger objects travel in parts of this size
_PARTS_AT_ONCE = 4  # so that an upload takes at most this many parts of memory
_RETRIES_MAX = 3
_CONNECT_TIMEOUT_S = 5.0
_RETRY_SHARE = 0.1  # of the time-out: only what fails soon is tried again, so that both together keep to it
_VAIN_SHARE = 0.1  # of the time-out: who waited for so long, and in vain, was held up
_AWAY_S = 2.0


class Bucket:
    """Objects under one URL: `s3://bucket/prefix` or `file:///directory`. Nothing is asked of the store until used."""

    def __init__(
        self, url: str, *, timeout_s: float, requests_max: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.url = url.rstrip("/")
        self._clock = clock
        self._vain_s = timeout_s * _VAIN_SHARE
        self._away_until_s = float("-inf")
        self._away_reason = ""
        self.requests_max = requests_max
        self._errors = _obstore_errors()
        parts = urlsplit(url)
        self._directory = Path(unquote(parts.path)) if parts.scheme == "file" else None
        self._store = _connect(self.url, timeout_s)
        self._pool: ThreadPoolExecutor | None = None

    @property
    def pool(self) -> ThreadPoolExecutor:
        """Threads for requests at once; as many as are allowed."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.requests_max, thread_name_prefix="bucket")
        return self._pool

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    # -- writing ------------------------------------------------------------------------------------------------

    def put(self, key: str, data: Buffer) -> str:
        """Keeps the object durably, in the place of an older one; returns the store's entity tag without quotes."""
        with self._translated(key):
            told = self._store.put(key, bytes(data), use_multipart=False)
        self._settle(key)
        return _tag(told)

    def put_new(self, key: str, data: Buffer) -> bool:
        """Keeps the object durably unless there is one already: then False, and nothing has changed."""
        try:
            with self._translated(key):
                self._store.put(key, bytes(data), mode="create")
        except FileExistsError:
            return False
        self._settle(key)
        return True

    def put_parts(self, key: str, parts: Iterator[bytes]) -> str:
        """As `put`, for an object that is read while it is sent. All parts but the last have PART_BYTES."""
        with self._translated(key):
            told = self._store.put(
                key, parts, use_multipart=True, chunk_size=PART_BYTES, max_concurrency=_PARTS_AT_ONCE
            )
        self._settle(key)
        return _tag(told)

    def delete(self, key: str) -> None:
        """It is not an error if it is gone already."""
        try:
            with self._translated(key):
                self._store.delete(key)
        except FileNotFoundError:
            pass

    def _settle(self, key: str) -> None:
        """A store is trusted to have synced what it acknowledged; in a plain directory that is left to us."""
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
        """The whole of a small object."""
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
                return b""  # shorter than it should be: damage, which those who read can name
            raise

    def size(self, key: str) -> int | None:
        """Of the object; None if there is none."""
        try:
            with self._translated(key):
                return int(self._store.head(key)["size"])
        except FileNotFoundError:
            return None

    def sizes(self, prefix: str) -> dict[str, int]:
        """All objects below the prefix, which ends with a slash."""
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
                "AWS_SECRET_ACCESS_KEY and what they may do"
            ) from error
        except (errors.BaseError, OSError, ValueError) as error:
            now_s = self._clock()
            if now_s - begun_s >= self._vain_s:
                self._away_until_s, self._away_reason = now_s + _AWAY_S, _reason(error)
            raise VolumeDown(f"cannot use '{self.url}/{key}': {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """What happened, without the dump of the library's inner state that follows it."""
    return str(error).partition("\n")[0].strip()


def _tag(told: Any) -> str:
    return (told["e_tag"] or "").strip('"')


def _obstore_errors() -> Any:
    try:
        import obstore.exceptions
    except ImportError as error:
        raise UsageError("volumes in object stores need obstore; run: pip install 'holdfast[objects]'") from error
    return obstore.exceptions


def _connect(url: str, timeout_s: float) -> Any:
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
            "timeout": timedelta(seconds=timeout_s),
            "connect_timeout": timedelta(seconds=min(timeout_s, _CONNECT_TIMEOUT_S)),
            "allow_http": os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true", "yes"),
        },
        retry_config={"max_retries": _RETRIES_MAX, "retry_timeout": timedelta(seconds=timeout_s * _RETRY_SHARE)},
    )
