"""Sections that no signal handler interrupts.

Python runs signal handlers in the main thread, between any two instructions. A handler that raises, as that of Ctrl-C
does, interrupts the thread anywhere, for example between counting an entry and handing it over to its group. In a
section, handlers are replaced by one that notes the signal. At its end they are restored and called for the signals
noted, so that the exception comes after the work.

Handlers that never raise may be marked (`raises_nothing`): they run at once, even in a section. Only the main thread
runs handlers: for other threads a section is a plain call.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` converts to enums and back, at ten times the cost
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])

_NUMBERS = tuple(sorted(map(int, signal.valid_signals())))
_MARK = "_raises_nothing"


class _Handlers:
    """The signal handlers of the process, which only its main thread may change."""

    def __init__(self) -> None:
        self.inside = False
        self._seen: list[Any] = []  # the handler of each signal when the last section began
        self._raising: list[tuple[int, Any]] = []  # those that must not run in a section
        self._replaced: dict[int, Any] = {}  # handlers replaced by `_note`
        self._noted: dict[int, FrameType | None] = {}  # signals received in the section, once each
        self._note = self._note_signal  # one object, compared by identity

    def run(self, function: Callable[[], T]) -> T:
        replaced = self._find_raising()
        try:
            self.inside = True
            for number, handler in replaced:
                self._replaced[number] = handler
                _signal.signal(number, self._note)
            return function()
        finally:
            self.inside = False  # from here on, `_note` calls the handler it replaced
            try:
                self._put_back()
            finally:
                self._deliver()

    def _find_raising(self) -> list[tuple[int, Any]]:
        """The signals whose handlers are written in Python and may raise."""
        seen = [*map(_signal.getsignal, _NUMBERS)]
        if seen != self._seen:
            found = dict(zip(_NUMBERS, seen, strict=True))
            for number, handler in found.items():
                if handler is self._note:  # an exception prevented its restoration
                    found[number] = self._replaced[number]
            self._raising = [
                (number, handler)
                for number, handler in found.items()
                if callable(handler) and not hasattr(handler, _MARK)
            ]
            self._seen = seen
        return self._raising

    def _note_signal(self, number: int, frame: FrameType | None) -> None:
        if self.inside:
            self._noted[number] = frame
        else:
            self._replaced[number](number, frame)

    def _put_back(self) -> None:
        for number, handler in self._replaced.items():
            if _signal.getsignal(number) is self._note:
                _signal.signal(number, handler)

    def _deliver(self) -> None:
        """Calls the handlers of all noted signals, whatever they raise."""
        if self._noted:
            number, frame = self._noted.popitem()
            try:
                self._replaced[number](number, frame)
            finally:
                self._deliver()

    def leave_in_child(self) -> None:
        """Ends the section in a process that another thread forked."""
        self.inside = False
        self._noted.clear()
        self._put_back()


_handlers = _Handlers()
os.register_at_fork(after_in_child=_handlers.leave_in_child)


def raises_nothing(handler: F) -> F:
    """Marks a signal handler that may run in a section; a method for all instances of its class."""
    setattr(getattr(handler, "__func__", handler), _MARK, True)
    return handler


def uninterrupted(function: Callable[[], T]) -> T:
    """Runs the function to its end, whatever signal arrives. Sections may be nested."""
    if _handlers.inside or threading.current_thread() is not threading.main_thread():
        return function()
    return _handlers.run(function)
