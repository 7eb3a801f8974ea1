"""WsgiDAV as a program: `python -m benchmarks.webstore.subjects.webdav_server DIRECTORY PORT`.

It is WsgiDAV as it comes, with one difference: a file is synced before the answer to its PUT. Without that, it would
promise less than everything that it is compared with.
"""

from __future__ import annotations

import os
import sys
from typing import Any

THREADS = 40  # more than there are clients
CONNECTIONS = 256  # that are kept open; of its own accord it keeps ten, and resets the others


def main() -> None:
    from cheroot.wsgi import Server
    from wsgidav.fs_dav_provider import FileResource, FilesystemProvider
    from wsgidav.wsgidav_app import WsgiDAVApp

    class SyncedFile(FileResource):  # type: ignore[misc]
        def begin_write(self, *, content_type: str | None = None) -> Any:
            return _Synced(super().begin_write(content_type=content_type))

    class Provider(FilesystemProvider):  # type: ignore[misc]
        def get_resource_inst(self, path: str, environ: dict[str, Any]) -> Any:
            found = super().get_resource_inst(path, environ)
            if isinstance(found, FileResource):
                found.__class__ = SyncedFile
            return found

    directory, port = sys.argv[1:]
    configuration = {
        "provider_mapping": {"/": Provider(directory)},
        "simple_dc": {"user_mapping": {"*": True}},
        "verbose": 1,
        "lock_storage": False,
        "dir_browser": {"enable": False},
    }
    server = Server(
        ("127.0.0.1", int(port)), WsgiDAVApp(configuration), numthreads=THREADS, request_queue_size=128, timeout=60
    )
    server.keep_alive_conn_limit = CONNECTIONS
    try:
        server.start()
    except KeyboardInterrupt:
        server.stop()


class _Synced:
    """A file that is durable once it is closed."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        written: int = self._file.write(data)
        return written

    def close(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()


if __name__ == "__main__":
    main()
