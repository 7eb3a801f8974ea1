"""A server from beginning to end, for whoever started it: ports, counters, tokens, workers."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from holdfast.config import ServeSettings
from holdfast.web.context import Origins
from holdfast.web.server.channel import WorkerStart
from holdfast.web.server.counters import Counters
from holdfast.web.server.listen import Listening, listen, shown_host
from holdfast.web.server.supervisor import Supervisor
from holdfast.web.server.token_attempts import TokenAttempts

_TOKEN_BYTES = 24


@dataclass(frozen=True, slots=True)
class Serving:
    """What others need to know of a server that is ready."""

    origins: Origins
    workers: int
    token: str  # for writing, made for this run; empty: none was
    is_exposed: bool  # others than this machine can connect, and need no token to read


def run_server(
    root: Path, settings: ServeSettings, announce: Callable[[Serving], None], *, write: bool = False
) -> None:
    """Serves the archive in `root` until a signal says stop; `announce` is called when it is ready.

    `write` permits writing: with the tokens of the settings, or if there are none with one made for this run. For the
    main thread. Raises Busy if a port is taken, and what opening an archive may raise.
    """
    workers = settings.workers or os.cpu_count() or 1
    token = secrets.token_urlsafe(_TOKEN_BYTES) if write and not settings.write_token_file else ""
    with (
        closing(listen(settings, workers)) as listening,
        closing(Counters.make(workers)) as counters,
        closing(TokenAttempts.make()) as attempts,
    ):
        origins = _origins(settings, listening)
        # For all workers; each gets its row and its sockets later.
        start = WorkerStart(
            root=root.resolve(),
            settings=settings,
            origins=origins,
            write_tokens=(token,) if token else (),
            row=0,
            counters=counters.descriptor,
            attempts=attempts.descriptor,
            controls=(),
            replay=(),
            log_level=logging.getLogger("holdfast").getEffectiveLevel(),
        )
        is_exposed = not settings.read_token_file and not listening.is_local
        serving = Serving(origins, workers, token, is_exposed)
        Supervisor(start, listening, counters).run(lambda: announce(serving))


def _origins(settings: ServeSettings, listening: Listening) -> Origins:
    host = shown_host(settings.host)
    return Origins(
        settings.controls_url.rstrip("/") or f"http://{host}:{listening.controls.number}",
        settings.replay_url.rstrip("/") or f"http://{host}:{listening.replay.number}",
    )
