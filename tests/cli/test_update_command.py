"""`holdfast update`: what is told, and that it is done (B8, B15)."""

from __future__ import annotations

import json
from random import Random

from program import Shell
from warcs import PAGES, write_warc

from holdfast.env import paths

LARGE = Random(1).randbytes(2048).hex().encode()  # more than a record keeps itself, even gzipped
LATER = (
    ("http://example.com/", "2022-01-02T03:04:05Z", b"<html>third</html>" + LARGE),
    ("http://example.com/about", "2022-06-01T00:00:00Z", b"<html>about</html>"),
    ("http://new.example/page", "2022-07-01T00:00:00Z", b"<html>new</html>" + LARGE),
)


def batched(shell: Shell, keep: str = "all") -> None:
    """The archive takes to the batch scheme, and three captures come in that wait."""
    shell.quick("volume", "add", "u0", "--role", "update")
    path = shell.directory / paths.SETTINGS
    text = path.read_text().replace("[store]\n", '[store]\nupdate = "batch"\n')
    path.write_text(f'{text}\n[records]\nkeep = "{keep}"\n')
    write_warc(shell.directory / "later.warc", LATER)
    shell.quick("import", (shell.directory / "later.warc").absolute(), "--batch", "later")


def test_an_update(filled: Shell) -> None:
    (facts,) = filled.quick("update", "status", "--json").objects
    assert (facts["scheme"], facts["active"], facts["classes"]["b"]) == ("incremental", None, len(PAGES))
    batched(filled)
    (facts,) = filled.quick("update", "status", "--json").objects
    assert (facts["scheme"], facts["active"]["generation"]) == ("batch", 1)
    assert facts["classes"] == {"a": 3, "b": 2, "c": 3}
    assert facts["waiting_blocks"] == 2, "a page that has not changed is no new content"
    lines = filled.quick("update", "status").lines
    assert lines[0] == "batch updates; all captures are kept"
    assert lines[-3:] == ["class A (old version)  3", "class B (unchanged)    2", "class C (new)          3"]
    lines = filled("update", "run").lines
    assert lines[0].startswith("moved 2 blocks (")
    assert lines[1:3] == ["switched to active state 2", "removed 0 superseded captures (0 contents)"]
    (facts,) = filled.quick("update", "status", "--json").objects
    assert facts["classes"] == {"a": 0, "b": 8, "c": 0}
    assert facts["waiting_blocks"] == 0


def test_only_the_latest(filled: Shell) -> None:
    batched(filled, keep="latest")
    assert filled.quick("update", "status").lines[0] == "batch updates; only the latest capture of a page is kept"
    assert filled.quick("update", "run", "--dry-run").lines == [
        "would remove 3 superseded captures (3 contents)"
    ]  # small ones, one in each record
    assert len(filled.quick("cdx", "*", "--output", "text").lines) == 8
    (facts,) = filled.quick("update", "run", "--wait", "0", "--json").objects
    assert (facts["captures"], facts["records"]) == (3, 6)
    assert facts["leases_ended"]
    assert facts["seconds"].keys() == {"transfer", "index", "switch", "remove", "compact"}
    assert len(filled.quick("cdx", "*", "--output", "text").lines) == 5
    (line,) = (filled.directory / "audit.log").read_text().splitlines()
    assert json.loads(line)["reason"] == "latest only: a later capture of the page is kept"
    assert filled.quick("update", "run").lines[-2:] == ["removed 0 superseded captures (0 contents)", "reclaimed 0 B"]


def test_an_update_that_was_interrupted_is_told(filled: Shell) -> None:
    batched(filled)
    plan = {"format": 1, "step": "transfer", "generation": 2, "time": "2026-11-17T06:00:00+00:00", "batches": {}}
    (filled.directory / paths.UPDATE).write_text(json.dumps(plan))
    told = "an update was interrupted at step 'transfer': 'holdfast update run' continues it"
    assert filled.quick("update", "status").lines[-1] == told
    assert filled.quick("update", "run").lines[0] == "continued an interrupted update"
    (filled.directory / paths.UPDATE).write_text("{")
    assert "delete it" in filled.quick("update", "status", code=5).errors
