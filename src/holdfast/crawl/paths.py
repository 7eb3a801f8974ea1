"""Where everything of a crawl is.

<archive>/crawls/<name>/
  job.toml       what it was asked to do              (holdfast.crawl.job.file)
  frontier/      what it knows and what waits         (holdfast.crawl.frontier)
  log.jsonl      what it did                          (holdfast.crawl.log)
  status.json    how far it has come; written anew about every second
  credentials.txt  what is sent to one origin only; mode 600    (holdfast.crawl.job.credentials)
  cookies.txt    what servers asked it to send back; mode 600
  spool/         large responses on their way
  output.txt     what its process said, if a server started it    (holdfast.web.operations.crawls)
"""

from __future__ import annotations

CRAWLS = "crawls"
JOB = "job.toml"
FRONTIER = "frontier"
LOG = "log.jsonl"
STATUS = "status.json"
CREDENTIALS = "credentials.txt"
COOKIES = "cookies.txt"
SPOOL = "spool"
OUTPUT = "output.txt"
