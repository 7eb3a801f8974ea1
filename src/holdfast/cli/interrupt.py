"""Ctrl-C in commands that write.

The library is safe from KeyboardInterrupt, but a command that is cut short between storing and printing would not say
what it has done. So Ctrl-C is held back until the command has nothing half done; then it ends in order, the archive
closed. Who cannot wait presses Ctrl-C once more: that ends the process at once, which costs nothing that was
acknowledged.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Self

from holdfast.cli.output import Advance, progress_bar

if TYPE_CHECKING:
    from holdfast.archive import Archive, Connection

_NOTICE = b"holdfast: finishing what has begun; Ctrl-C again ends at once\n"
_SHOW_CURSOR = b"\x1b[?25h\n"


class Interruption:
    """Inside the `with`, Ctrl-C takes effect at checkpoints, where it is allowed, and at the end. Main thread only."""

    def __init__(self) -> None:
        self._pressed = False
        self._is_displayed = False
        self._usual = signal.getsignal(signal.SIGINT)

    def checkpoint(self) -> None:
        """Raises KeyboardInterrupt if Ctrl-C was pressed."""
        if self._pressed:
            raise KeyboardInterrupt

    @property
    def pressed(self) -> bool:
        """Whether Ctrl-C was pressed; for threads that wait on something."""
        return self._pressed

    @contextmanager
    def progress_bar(self, title: str, total: int | None = None, *, counts: bool = False) -> Iterator[Advance]:
        """A progress bar whose every step is a checkpoint."""
        with progress_bar(title, total, counts=counts) as advance:

            def step(count: int) -> None:
                advance(count)
                self.checkpoint()

            yield step

    @contextmanager
    def displayed(self) -> Iterator[None]:
        """A display looks at `pressed` and tells of it: a line from elsewhere would spoil what it draws in place."""
        self._is_displayed = True
        try:
            yield
        finally:
            self._is_displayed = False

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Ctrl-C works as usual here: for waiting on something outside the archive."""
        self.checkpoint()
        self._install(self._usual)
        try:
            self.checkpoint()  # it may have come between the two
            yield
        finally:
            self._install(self._press)

    def _press(self, number: int, frame: FrameType | None) -> None:
        if self._pressed:
            if self._is_displayed:
                os.write(2, _SHOW_CURSOR)  # which displays hide
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        self._pressed = True
        if not self._is_displayed:
            os.write(2, _NOTICE)

    def _install(self, handler: signal._HANDLER) -> None:
        if self._usual is not signal.SIG_IGN:  # as in the background of a shell: nothing to hold back
            signal.signal(signal.SIGINT, handler)

    def __enter__(self) -> Self:
        self._install(self._press)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._install(self._usual)
        if error is None:
            self.checkpoint()


@contextmanager
def writing(path: Path) -> Iterator[tuple[Archive, Interruption]]:
    """The archive, open for writing, and Ctrl-C held back meanwhile."""
    import holdfast

    with Interruption() as interruption, holdfast.open(path) as archive:
        yield archive, interruption


@contextmanager
def writing_contents(path: Path, connector: Path | None) -> Iterator[tuple[Archive | Connection, Interruption]]:
    """What has contents, the archive or the volumes of a connector, open for writing; Ctrl-C held back meanwhile."""
    import holdfast

    with Interruption() as interruption, holdfast.connect(connector) if connector else holdfast.open(path) as opened:
        yield opened, interruption
