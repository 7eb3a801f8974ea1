"""wrk, the client: walks through a list of paths with some connections, as fast as it is answered or at a given rate.

wrk knows no rates. For one, many connections think before each request, for times that are exponentially distributed:
so requests come independently of each other, as those of many people do, and one that is answered late delays but few
of the others.

wrk takes redirects for successes. So a sample is looked at before the clock runs (`checking`), and the bytes of an
answer are reported.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.measure import SEED
from benchmarks.harness.process import ChildFailed, Unavailable
from benchmarks.replay.figure import Answered

CONNECTIONS = 16  # at top rate
THINKERS = 64  # connections when there is a rate
_AT_WORK = 3.0  # of them, about, are waiting for an answer and do not think
_GRACE_S = 60.0
_TIMEOUT_S = 10  # for one answer
_SCRIPT = """\
local requests, at = {}, 0

function init(arguments)
  local thinking_ms = tonumber(arguments[2])
  at = tonumber(arguments[3])
  math.randomseed(tonumber(arguments[4]))
  for path in io.lines(arguments[1]) do
    requests[#requests + 1] = wrk.format("GET", path)
  end
  if thinking_ms > 0 then
    function delay()
      return math.floor(-math.log(1 - math.random()) * thinking_ms + 0.5)
    end
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end

function done(summary, latency)
  local errors = summary.errors
  print(string.format(
    '{"requests": %d, "us": %d, "bytes": %d, "p50_us": %d, "p99_us": %d, "refused": %d, "broken": %d, "late": %d}',
    summary.requests, summary.duration, summary.bytes, latency:percentile(50), latency:percentile(99),
    errors.status, errors.connect + errors.read + errors.write, errors.timeout))
end
"""


@dataclass(frozen=True, slots=True)
class Load:
    """How a server is asked."""

    seconds: float
    per_s: float = 0.0  # 0: as fast as it answers
    first: int = 0  # the number of the path to begin with; after the last comes the first again

    @property
    def connections(self) -> int:
        return THINKERS if self.per_s else CONNECTIONS

    @property
    def thinking_ms(self) -> float:
        return (THINKERS - _AT_WORK) / self.per_s * 1e3 if self.per_s else 0.0


def find_wrk() -> str:
    """Where it is. Raises Unavailable."""
    found = shutil.which("wrk")
    if found is None:
        raise Unavailable("no program 'wrk': install the Debian package of that name")
    return found


def ask(origin: str, paths: Path, load: Load) -> Answered:
    """Asks for the paths, one on a line of the file. Raises ChildFailed if an answer was missing or no success."""
    script = paths.with_suffix(".lua")
    script.write_text(_SCRIPT, encoding="utf-8")
    seconds = max(1, round(load.seconds))  # wrk knows whole ones only
    # fmt: off
    command = [
        find_wrk(), "-t", "1", "-c", str(load.connections), "-d", f"{seconds}s", "--timeout", f"{_TIMEOUT_S}s",
        "-s", str(script), origin,
        "--", str(paths), f"{load.thinking_ms:.3f}", str(load.first), str(SEED),
    ]
    # fmt: on
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds + _GRACE_S)
    return _answered(done)


def _answered(done: subprocess.CompletedProcess[str]) -> Answered:
    line = next((line for line in reversed(done.stdout.splitlines()) if line.startswith("{")), None)
    if line is None:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise ChildFailed(f"wrk ended with {done.returncode} and said: {(said or ['nothing'])[-1]}")
    found = json.loads(line)
    faults = {name: found[name] for name in ("refused", "broken", "late") if found[name]}
    if faults or not found["requests"]:
        words = ", ".join(f"{count:,} {name}" for name, count in faults.items())
        raise ChildFailed(f"of {found['requests']:,} requests {words or 'none was answered'}")
    return Answered(
        requests=found["requests"],
        seconds=found["us"] / 1e6,
        content_bytes=found["bytes"],
        p50_ms=found["p50_us"] / 1e3,
        p99_ms=found["p99_us"] / 1e3,
    )
