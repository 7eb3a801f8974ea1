"""libnfs through ctypes: the few calls that store, fetch and delete a file over NFSv3, without a mount by the kernel.

A context is one connection and belongs to one thread. The interpreter is free for others during every call.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_char_p, c_int, c_uint64, c_void_p
from functools import cache
from typing import Any

from benchmarks.harness.process import Unavailable

_NAMES = ("libnfs.so.13", "libnfs.so.14", "libnfs.so.12", "libnfs.so")
_MODE = 0o644
_READ_BYTES = 1 << 20  # more than a server answers at once; the library splits what is larger
_CALLS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "nfs_init_context": (c_void_p, ()),
    "nfs_destroy_context": (None, (c_void_p,)),
    "nfs_get_error": (c_char_p, (c_void_p,)),
    "nfs_parse_url_dir": (c_void_p, (c_void_p, c_char_p)),
    "nfs_destroy_url": (None, (c_void_p,)),
    "nfs_mount": (c_int, (c_void_p, c_char_p, c_char_p)),
    "nfs_creat": (c_int, (c_void_p, c_char_p, c_int, POINTER(c_void_p))),
    "nfs_open": (c_int, (c_void_p, c_char_p, c_int, POINTER(c_void_p))),
    "nfs_write": (c_int, (c_void_p, c_void_p, c_uint64, c_char_p)),
    "nfs_read": (c_int, (c_void_p, c_void_p, c_uint64, c_void_p)),
    "nfs_close": (c_int, (c_void_p, c_void_p)),
    "nfs_unlink": (c_int, (c_void_p, c_char_p)),
}


@cache
def library() -> Any:
    """The shared library. Raises Unavailable."""
    for name in _NAMES:
        try:
            found = ctypes.CDLL(name)
        except OSError:
            continue
        for call, (result, arguments) in _CALLS.items():
            function = getattr(found, call)
            function.restype, function.argtypes = result, list(arguments)
        return found
    raise Unavailable("no library 'libnfs.so': install the Debian package 'libnfs13'")


class NfsContext:
    """A mounted export. Raises OSError with the library's words."""

    def __init__(self, host: str, export: str, nfs_port: int, mount_port: int) -> None:
        self._library = library()
        self._context = self._library.nfs_init_context()
        options = f"version=3&nfsport={nfs_port}&mountport={mount_port}"
        url = self._library.nfs_parse_url_dir(self._context, f"nfs://{host}{export}?{options}".encode())
        self._library.nfs_destroy_url(url)
        self._buffer = ctypes.create_string_buffer(_READ_BYTES)
        try:
            self._check(self._library.nfs_mount(self._context, host.encode(), export.encode()))
        except OSError:
            self.close()
            raise

    def store(self, path: bytes, data: bytes) -> None:
        """CREATE, WRITE, and the COMMIT with which the library closes a file that was written to."""
        file = c_void_p()
        self._check(self._library.nfs_creat(self._context, path, _MODE, ctypes.byref(file)))
        written = self._check(self._library.nfs_write(self._context, file, len(data), data))
        self._check(self._library.nfs_close(self._context, file))
        if written != len(data):
            raise OSError(f"NFS wrote {written} bytes of {len(data)}")

    def fetch(self, path: bytes) -> bytes:
        """LOOKUP, and READ until a short answer."""
        file = c_void_p()
        self._check(self._library.nfs_open(self._context, path, os.O_RDONLY, ctypes.byref(file)))
        parts = []
        while True:
            size = self._check(self._library.nfs_read(self._context, file, _READ_BYTES, self._buffer))
            parts.append(ctypes.string_at(self._buffer, size))
            if size < _READ_BYTES:
                break
        self._check(self._library.nfs_close(self._context, file))
        return b"".join(parts)

    def delete(self, path: bytes) -> None:
        self._check(self._library.nfs_unlink(self._context, path))

    def close(self) -> None:
        self._library.nfs_destroy_context(self._context)

    def _check(self, result: int) -> int:
        if result < 0:
            words = self._library.nfs_get_error(self._context) or b""
            raise OSError(-result, words.decode(errors="replace"))
        return result
