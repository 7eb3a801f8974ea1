"""Which volume answers under which name.

A volume that a connector lists twice, at two addresses of one machine, would be counted twice: a replica would stand
beside its own block, and merging the two would remove the only one. So it has one name, the first that it was met
under; under the other one it counts as down.
"""

from __future__ import annotations

import threading

from holdfast.errors import VolumeDown


class Roster:
    """Of one instance. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._uids: dict[str, str] = {}  # by name

    def enter(self, name: str, uid: str) -> None:
        """The volume answers to the name. Raises VolumeDown if it answers to another one already."""
        with self._lock:
            for other, known in self._uids.items():
                if known == uid and other != name:
                    raise VolumeDown(
                        f"it is the same volume as {other!r}, uid {uid}; take one of them out of the connector"
                    )
            self._uids[name] = uid

    def leave(self, name: str) -> None:
        """Nobody answers to the name any more."""
        with self._lock:
            self._uids.pop(name, None)
