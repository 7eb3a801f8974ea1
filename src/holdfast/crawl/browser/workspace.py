"""Where Chromium keeps its profile and its sockets: a directory that a killed browser does not leave for good.

It has the same name whenever the same crawl runs, so that the next run finds and empties it. It is not in the crawl's
directory, for Chromium puts a socket there, and does not start where the path of a socket is longer than 107 bytes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import gettempdir, mkdtemp

_PREFIX = "holdfast-browser-"
_VARIABLE = "TMPDIR"
_ROOT = "/tmp"
_ROOT_BYTES_MAX = 30  # leaves room for our name, Chromium's name, and its socket's


def open_workspace(crawl: Path) -> Path:
    """An empty directory for the browser of the crawl in that directory; ours alone."""
    root = gettempdir() if len(os.fsencode(gettempdir())) <= _ROOT_BYTES_MAX else _ROOT
    path = Path(root) / (_PREFIX + sha256(os.fsencode(crawl.resolve())).hexdigest()[:10])
    close_workspace(path)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:  # another's, or a browser that has not ended yet: it is theirs
        return Path(mkdtemp(prefix=_PREFIX, dir=root))
    return path


def close_workspace(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)  # what is a link is left alone


@contextmanager
def temporary_files_in(path: Path) -> Iterator[None]:
    """Programs that are started meanwhile put their temporary files there."""
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = str(path)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before
