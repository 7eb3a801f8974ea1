"""The files of a crawl.

<archive>/crawls/<name>/
  job.toml       the job                              (holdfast.crawl.job.file)
  frontier/      known URLs and queues                (holdfast.crawl.frontier)
  log.jsonl      the log                              (holdfast.crawl.report.log)
  status.json    progress; rewritten about every second
  progress.jsonl progress over time                   (holdfast.crawl.report.progress)
  credentials.txt  secrets for single origins; mode 600         (holdfast.crawl.job.credentials)
  cookies.txt    cookies of servers; mode 600
  spool/         large responses in transit
  stop           in a cluster: a request from this machine to stop
  shared.json    in a cluster: the job of all nodes, as last seen            (holdfast.cluster.crawl.job)
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
