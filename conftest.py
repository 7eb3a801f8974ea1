"""What holds for all tests. Here and not in `tests`, where it would be taken for the modules of that name below."""

from __future__ import annotations

import os

# Imports and crawls of most tests are about something else; those of the index switch it on again.
os.environ["HOLDFAST_INDEX_AUTOMATIC"] = "false"
