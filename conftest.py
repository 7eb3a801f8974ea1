"""What holds for all tests. Here and not in `tests`, where it would be taken for the modules of that name below."""

from __future__ import annotations

import os
import signal

from hypothesis import settings

# Imports and crawls of most tests are about something else; those of the index switch it on again.
os.environ["HOLDFAST_INDEX_AUTOMATIC"] = "false"

# A shell that runs the suite in the background ignores Ctrl-C for it, as nohup ignores a hangup, and what ignores a
# signal hands that on to its children: the commands that tests signal would not notice.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# How long an example takes is not what is tested: on a busy machine it takes longer than Hypothesis allows by default.
settings.register_profile("holdfast", deadline=None)
settings.load_profile("holdfast")
