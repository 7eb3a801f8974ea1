"""Child processes, and the frames they exchange with their parent."""

import io
import signal
import subprocess
import time
from socket import socketpair

import pytest

from holdfast.env.child_process import (
    Frames,
    frame_head,
    frames_from,
    packed_frame,
    read_frame,
    receive_pickled,
    send_pickled,
    start_child,
)


@pytest.mark.parametrize("body", [b"", b"a", b"x" * 70_000])
def test_frames_come_back_from_a_stream(body: bytes) -> None:
    stream = io.BytesIO(packed_frame(body) + frame_head(3) + b"end")
    assert [read_frame(stream), read_frame(stream)] == [body, b"end"]
    with pytest.raises(EOFError):
        read_frame(stream)


@pytest.mark.parametrize("cut", range(1, 13))
def test_a_frame_cut_short_is_the_end(cut: int) -> None:
    with pytest.raises(EOFError):
        read_frame(io.BytesIO(packed_frame(b"body")[: 12 - cut]))


@pytest.mark.parametrize("step", [1, 7, 8, 9, 1000])
def test_frames_come_back_whatever_the_pieces(step: int) -> None:
    bodies = [b"", b"one", b"2" * 300]
    data = b"".join(map(packed_frame, bodies))
    frames = Frames()
    assert [body for at in range(0, len(data), step) for body in frames.feed(data[at : at + step])] == bodies


def test_pickled_messages_pass_a_socket() -> None:
    ours, theirs = socketpair()
    with ours, theirs:
        send_pickled(ours, {"a": 1}, prefix=b"E")
        assert theirs.recv(1) == b"E"
        assert receive_pickled(theirs) == {"a": 1}
        ours.sendall(packed_frame(b"last")[:-1])
        ours.close()
        with pytest.raises(EOFError):
            receive_pickled(theirs)


def test_frames_end_with_the_socket() -> None:
    ours, theirs = socketpair()
    with theirs:
        with ours:
            ours.sendall(packed_frame(b"one") + packed_frame(b"two"))
        assert list(frames_from(theirs)) == [b"one", b"two"]


def test_a_child_runs_a_function_with_arguments_and_environment() -> None:
    child = start_child("test_child_process", "echo", ["a b", "c"], {"HOLDFAST_ECHO": "there"}, stdout=subprocess.PIPE)
    said, _ = child.communicate(timeout=30)
    assert (said, child.returncode) == (b"there a b c\n", 0)


def test_a_child_ignores_interrupts_while_its_interpreter_starts() -> None:
    """Ctrl-C reaches the whole process group, at any time."""
    for _ in range(3):
        child = start_child(
            *("test_child_process", "echo", [], {"HOLDFAST_ECHO": "there"}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        while child.poll() is None:
            child.send_signal(signal.SIGINT)
            time.sleep(0.005)
        said, errors = child.communicate(timeout=30)
        assert (said, errors, child.returncode) == (b"there\n", b"", 0)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def echo() -> None:
    import os
    import sys

    print(os.environ["HOLDFAST_ECHO"], *sys.argv[1:])
