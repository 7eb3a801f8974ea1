"""Sections that no signal handler interrupts: the work is done, then the handler runs."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from types import FrameType
from typing import Any

import pytest

from holdfast.env.uninterruptible import raises_nothing, uninterrupted

RAISING = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGUSR1)
SEED = int(os.environ.get("HOLDFAST_SEED", "0")) or int.from_bytes(os.urandom(4), "big")


class Interrupted(BaseException):
    """What a handler raises, with the number of its signal."""


def interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted(number)


@contextmanager
def handled(handler: Any, *numbers: signal.Signals) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, each in before.items():
            signal.signal(number, each)


def raised(function: Callable[[], object]) -> set[int]:
    """The signals whose handlers have raised, one in the context of the other."""
    with pytest.raises(Interrupted) as caught:
        function()
    numbers = set()
    error: BaseException | None = caught.value
    while error is not None:
        numbers |= set(error.args)
        error = error.__context__
    return numbers


def test_an_interrupt_waits_for_the_end_of_the_work() -> None:
    done: list[int] = []

    def work() -> None:
        signal.raise_signal(signal.SIGINT)
        done.append(1)
        signal.raise_signal(signal.SIGINT)
        done.append(2)

    with handled(signal.default_int_handler, signal.SIGINT):
        with pytest.raises(KeyboardInterrupt):
            uninterrupted(work)
        assert done == [1, 2]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_all_that_came_are_delivered_though_each_raises() -> None:
    done: list[int] = []

    def work() -> None:
        for number in RAISING:
            signal.raise_signal(number)
        uninterrupted(lambda: signal.raise_signal(signal.SIGTERM))  # nested: still not delivered
        done.append(1)

    with handled(interrupt, *RAISING):
        assert raised(lambda: uninterrupted(work)) == set(RAISING)
        assert done == [1]
        assert all(signal.getsignal(number) is interrupt for number in RAISING)


def test_the_error_of_the_work_is_raised() -> None:
    def fail() -> None:
        raise ValueError("of the work")

    with handled(interrupt, signal.SIGALRM):
        with pytest.raises(ValueError, match="of the work"):
            uninterrupted(fail)
        assert signal.getsignal(signal.SIGALRM) is interrupt


def test_what_does_not_raise_runs_at_once() -> None:
    came: list[int] = []

    class Owner:
        @raises_nothing
        def press(self, number: int, frame: FrameType | None) -> None:
            came.append(number)

    def work() -> int:
        signal.raise_signal(signal.SIGINT)
        return len(came)

    with handled(Owner().press, signal.SIGINT):
        assert uninterrupted(work) == 1


def test_signals_that_are_ignored_or_kill_stay_as_they_are() -> None:
    with handled(signal.SIG_IGN, signal.SIGUSR1), handled(signal.SIG_DFL, signal.SIGUSR2):
        numbers = (signal.SIGUSR1, signal.SIGUSR2)
        found = uninterrupted(lambda: [signal.getsignal(number) for number in numbers])
    assert found == [signal.SIG_IGN, signal.SIG_DFL]


def test_a_handler_that_the_work_installs_stays() -> None:
    def work() -> None:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    with handled(interrupt, signal.SIGUSR1):
        uninterrupted(work)
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN


def test_other_threads_change_no_handlers() -> None:
    found: list[object] = []

    def work() -> None:
        found.append(uninterrupted(lambda: signal.getsignal(signal.SIGUSR1)))

    with handled(interrupt, signal.SIGUSR1):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert found == [interrupt]


def test_a_process_that_is_forked_meanwhile_is_not_in_the_section() -> None:
    status: list[int] = []

    def fork() -> None:
        child = os.fork()
        if not child:
            try:
                signal.raise_signal(signal.SIGUSR1)
            except Interrupted:
                os._exit(7)
            os._exit(1)
        status.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    def work() -> None:
        thread = threading.Thread(target=fork)
        thread.start()
        thread.join()

    with handled(interrupt, signal.SIGUSR1):
        uninterrupted(work)
    assert status == [7]


def test_signals_at_random_moments_never_cut_a_section_in_two() -> None:
    random, halves = Random(SEED), [0, 0]

    def work() -> None:
        halves[0] += 1
        for _ in range(random.randrange(300)):
            pass
        halves[1] += 1

    interrupts = 0
    timers = {
        signal.SIGALRM: signal.ITIMER_REAL,
        signal.SIGVTALRM: signal.ITIMER_VIRTUAL,
        signal.SIGPROF: signal.ITIMER_PROF,
    }
    with handled(interrupt, *timers):
        until_s = time.monotonic() + 120
        while interrupts < 500 and time.monotonic() < until_s:
            timer = random.choice(list(timers.values()))
            try:
                signal.setitimer(timer, random.uniform(1e-6, 2e-4))
                for _ in range(40):
                    uninterrupted(work)
                signal.setitimer(timer, 0)  # one at a time: after this, nothing comes
            except Interrupted:
                interrupts += 1
            assert halves[0] == halves[1], f"seed {SEED}"
    assert interrupts, f"seed {SEED}"
