"""Sections that Ctrl-C cannot interrupt.

Python raises KeyboardInterrupt in the main thread between any two instructions, also while an entry has been accounted
for but not yet handed to its group. What must not be cut in two therefore never runs on the main thread: a thread of
the volume's own does it, and the main thread waits. An interrupt then ends the waiting, not the work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class _Call:
    """A call on its way to the thread, and its result on the way back."""

    __slots__ = ("done", "error", "function", "result")

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = threading.Lock()
        self.done.acquire()

    def make(self) -> None:
        try:
            self.result = self.function()
        except BaseException as error:
            self.error = error
        self.done.release()


class Uninterruptible:
    """Any thread may call `run`; only the main thread's calls change threads."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(self, function: Callable[[], T]) -> T:
        """The result of the function, which runs to its end whatever signal arrives."""
        if threading.current_thread() is not threading.main_thread():
            return function()
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            self._thread.start()
        call = _Call(function)
        self._calls.put(call)
        call.done.acquire()
        if call.error is not None:
            raise call.error
        result: T = call.result
        return result

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            call.make()

    def close(self) -> None:
        """Waits for calls that an interrupt left behind."""
        if self._thread is not None:
            self._calls.put(None)
            self._thread.join()
            self._thread = None
