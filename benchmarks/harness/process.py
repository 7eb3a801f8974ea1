"""Work in a process of its own, so that no subject profits or suffers from the one before."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, TypeVar

T = TypeVar("T")
_STOP_TIMEOUT_S = 45.0
_TASK_TIMEOUT_S = 7_200.0


class Unavailable(Exception):
    """The subject cannot run here; the message is the reason that the report shows."""


class ChildFailed(Exception):
    """The child ended without a result; the message says why."""


def run_apart(function: Callable[..., T], *arguments: Any) -> T:
    """Calls the function in a fresh process and returns its result.

    Raises Unavailable as the function raised it, and ChildFailed for everything else that went wrong there. If this
    process is interrupted, the child is given time to stop its servers.
    """
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(sender, function, arguments))
    process.start()
    sender.close()
    try:
        kind, value = _receive(receiver)
    except BaseException:
        process.terminate()
        raise
    finally:
        process.join(_STOP_TIMEOUT_S)
        if process.is_alive():
            process.kill()
            process.join()
    if kind == "unavailable":
        raise Unavailable(value)
    if kind == "failed":
        raise ChildFailed(value)
    result: T = value
    return result


def _receive(receiver: Connection) -> tuple[str, Any]:
    if not receiver.poll(_TASK_TIMEOUT_S):
        raise ChildFailed(f"no result after {_TASK_TIMEOUT_S:,.0f} s")
    try:
        message: tuple[str, Any] = receiver.recv()
    except EOFError:
        raise ChildFailed("the process ended without a result") from None
    return message


def _child(sender: Connection, function: Callable[..., object], arguments: Sequence[Any]) -> None:
    """The child's edge: every outcome becomes one message."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that `finally` runs and servers stop
    try:
        sender.send(("result", function(*arguments)))
    except Unavailable as failure:
        sender.send(("unavailable", str(failure)))
    except KeyboardInterrupt:
        sys.exit(1)
    except Exception as failure:
        sender.send(("failed", f"{type(failure).__name__}: {failure}"))
