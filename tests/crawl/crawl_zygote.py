"""Starts crawls quickly: a process that has loaded the crawler, and forks for each line of its input.

    stdin   archive TAB job file TAB mark that its children are to bear
    stdout  number of the process

A test that kills a crawl a hundred times would else spend most of its time on loading modules. What the crawl itself
starts is started as always.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if __name__ != "__main__":
    from crawl_runs import LONG_S, MARK, environment


class Zygote:
    """The process, seen from the test."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def crawl(self, archive: Path, job_file: Path, mark: str) -> int:
        """Begins a crawl; the number of its process, which is not itself of the family of that mark."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{archive}\t{job_file}\t{MARK}={mark}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextmanager
def zygote() -> Iterator[Zygote]:
    with subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        try:
            yield Zygote(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(LONG_S)


def _main() -> None:
    import holdfast
    from holdfast.crawl.crawl import Crawl
    from holdfast.crawl.job.file import read_job

    for line in iter(sys.stdin.readline, ""):
        archive, job_file, mark = line.rstrip("\n").split("\t")
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if os.fork():
            continue
        code = 1
        try:
            os.environ.update([mark.split("=")])
            print(os.getpid(), flush=True)
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            os.dup2(2, 1)
            with holdfast.open(archive) as opened:
                Crawl(opened, read_job(Path(job_file))).run()
            code = 0
        finally:
            os._exit(code)


if __name__ == "__main__":
    _main()
