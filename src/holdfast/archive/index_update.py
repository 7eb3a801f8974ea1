"""Automatic index updates after imports and uploads over HTTP. Crawls have an updater (`holdfast.index.updater`).

The index is derived, so a failed update is only a warning. For servers a process of low priority that only reads the
archive does it (`catch_up`). Killed at any moment, it leaves the state of its last commit, from which the next update
goes on.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from holdfast.config import INDEX_VARIABLE, IndexSettings
from holdfast.env.child_process import start_child
from holdfast.env.extras import is_installed, require
from holdfast.errors import Busy, HoldfastError, InvalidSetting
from holdfast.index.updater import bring_up

log = logging.getLogger("holdfast.index")

_NICENESS = 15
_BUSY_S, _BUSY_MAX_S = 1.0, 60.0  # until the index is looked at again that another process writes; doubled each time
_WORDS = {
    **dict.fromkeys(("1", "true", "t", "yes", "y", "on"), True),
    **dict.fromkeys(("0", "false", "f", "no", "n", "off"), False),
}


def is_automatic(settings: IndexSettings, chosen: bool | None = None) -> bool:
    """True if additions are indexed: as chosen, else as the environment says, else as the settings say.

    Settings do not count without the extra that it needs. Raises MissingExtra if it was chosen, and InvalidSetting if
    the environment says neither yes nor no.
    """
    if chosen is not None:
        if chosen:
            require("search")
        return chosen
    said = by_environment()
    return (settings.automatic if said is None else said) and is_installed("search")


def by_environment() -> bool | None:
    """What the environment says of `index.automatic`, if anything. Raises InvalidSetting."""
    said = os.environ.get(INDEX_VARIABLE, "").strip().lower()
    if said and said not in _WORDS:
        raise InvalidSetting(f"bad value {said!r} of {INDEX_VARIABLE}: give true or false")
    return _WORDS.get(said)


def bring_up_at(root: Path) -> None:
    """Brings up the index of an archive that this process may have open for writing. Errors are only logged."""
    from holdfast.archive.archive import Archive

    try:
        with Archive(root, read_only=True) as archive:
            bring_up(archive.index)
    except Busy:
        log.info("another process is bringing the index of '%s' up to date", root)
    except HoldfastError as error:
        log.warning("the index of '%s' was not brought up to date: %s", root, error)


def start_process(entry: str, root: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """`catch_up` of this module, in a child process, which ends when its standard input does."""
    return start_child(
        "holdfast.archive.index_update",
        entry,
        [str(root.absolute()), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )


def catch_up() -> None:
    """Updates once, as soon as no other process does, unless standard input ends before."""
    from holdfast.archive.archive import Archive

    os.nice(_NICENESS)
    root, pause_s = Path(sys.argv[1]), _BUSY_S
    threading.Thread(target=_end_with_starter, daemon=True).start()
    while True:
        try:
            with Archive(root, read_only=True) as archive:
                bring_up(archive.index)
            break
        except Busy:
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, _BUSY_MAX_S)
        except (HoldfastError, OSError) as error:  # an edge: the archive may be gone
            sys.exit(f"holdfast: the index was not brought up to date: {error}")


def _end_with_starter() -> None:
    while os.read(0, 4096):  # not through sys.stdin, whose lock would abort an interpreter that ends
        pass
    os._exit(0)  # the next update does the uncommitted work again
