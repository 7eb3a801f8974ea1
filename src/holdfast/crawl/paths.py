"""The files of a crawl.

<archive>/crawls/<name>/
  job.toml       what it is to do                     (holdfast.crawl.job.file)
  frontier/      what it knows and what waits         (holdfast.crawl.frontier)
  log.jsonl      what it did                          (holdfast.crawl.report.log)
  status.json    progress; rewritten about every second
  progress.jsonl progress over time                   (holdfast.crawl.report.progress)
  credentials.txt  what is sent to one origin only; mode 600    (holdfast.crawl.job.credentials)
  cookies.txt    cookies of servers; mode 600
  spool/         large responses on their way
  stop           in a cluster: somebody of this machine asks it to stop
  shared.json    in a cluster: the job of all nodes, as it was seen last     (holdfast.cluster.links.job)
  output.txt     output of its process, if a server started it    (holdfast.web.api.crawls)
"""

from __future__ import annotations

from holdfast.env import paths

CRAWLS = paths.CRAWLS
JOB = "job.toml"
FRONTIER = "frontier"
LOG = "log.jsonl"
STATUS = "status.json"
PROGRESS = "progress.jsonl"
CREDENTIALS = "credentials.txt"
COOKIES = "cookies.txt"
SPOOL = "spool"
OUTPUT = "output.txt"
STOP = "stop"
SHARED = "shared.json"
