"""The volumes as a server shows them: the page, the API and the metrics (B5)."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from serving import Served, ask, serving

import holdfast
from holdfast.config import ServeSettings
from holdfast.storage.volume import Activity, ReadableVolume, VolumeStat
from holdfast.web.auth.tokens import Tokens
from holdfast.web.context import Volumes

READ = "r" * 32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three volumes: one that holds something, an empty one, and one that is down."""
    path = tmp_path / "archive"
    holdfast.init(path, holdfast.Plan(volumes=3))
    with holdfast.open(path) as archive:
        archive.contents.store_batch([b"one", b"two"], holdfast.StoreOptions(volume="v0"))
        archive.set_state("v1", holdfast.VolumeState.READ_ONLY)
    (path / "volumes" / "v2" / "VOLUME").unlink()
    return path


@pytest.fixture
def served(path: Path) -> Iterator[Served]:
    with serving(path) as found:
        yield found


def listed(served: Served) -> list[dict[str, Any]]:
    answer = ask(f"{served.controls}/api/volumes")
    assert answer.status == 200
    found: list[dict[str, Any]] = json.loads(answer.body)["volumes"]
    return found


def test_the_api_lists_the_volumes(served: Served) -> None:
    first, second, third = listed(served)
    assert (first["name"], first["activity"], first["blocks"], first["up"]) == ("v0", "idling", 2, True)
    assert first["capacity_bytes"] == first["disk_bytes"] + first["free_bytes"]
    assert (second["state"], second["blocks"], second["outstanding"]) == ("read-only", 0, 0)
    assert (third["activity"], third["up"], third["blocks"], third["free_bytes"]) == ("down", False, None, None)
    assert "is not there" in third["reason"]


def test_the_page_shows_every_volume_and_why_one_is_down(served: Served) -> None:
    answer = ask(f"{served.controls}/volumes", Accept="text/html")
    assert answer.status == 200
    rows = re.findall(r'<th scope="row">(v\d)', answer.text)
    assert rows == ["v0", "v1", "v2"]
    assert re.findall(r'<span class="tag[^"]*">(\w+)</span>', answer.text) == ["idling", "idling", "down"]
    assert "<strong>v2</strong> is down: volume &#39;v2&#39; is not there" in answer.text
    assert 'href="/volumes" aria-current="page"' in answer.text


def test_the_metrics_have_a_row_for_each_volume(served: Served) -> None:
    text = ask(f"{served.controls}/metrics").text
    assert re.findall(r'^holdfast_volume_up\{volume="(v\d)"\} ([01])$', text, re.MULTILINE) == [
        *(("v0", "1"), ("v1", "1"), ("v2", "0"))
    ]
    for name in ("blocks", "content_bytes", "disk_bytes", "dead_bytes", "free_bytes", "outstanding"):
        assert re.findall(rf'^holdfast_volume_{name}\{{volume="(v\d)"\}} \d+$', text, re.MULTILINE) == ["v0", "v1"]
    assert 'holdfast_volume_blocks{volume="v0"} 2' in text


def test_volumes_are_shown_to_those_who_may_read(path: Path) -> None:
    with serving(path, ServeSettings(), Tokens([READ], [])) as served:
        for target in ("/volumes", "/api/volumes", "/metrics"):
            assert ask(f"{served.controls}{target}").status == 401, target
            assert ask(f"{served.controls}{target}", Authorization=f"Bearer {READ}").status == 200, target


def test_an_archive_without_volumes_says_so(tmp_path: Path) -> None:
    (tmp_path / "connector").write_text("<instance/>")
    holdfast.init(tmp_path / "archive", holdfast.Plan(volumes=0, connector="../connector"))
    with serving(tmp_path / "archive") as served:
        assert "This archive has no volumes" in ask(f"{served.controls}/volumes").text
        assert listed(served) == []


class Hanging:
    """A volume on a machine that does not answer."""

    def __init__(self, volume: ReadableVolume) -> None:
        self._volume = volume
        self.ended = threading.Event()

    def stat(self) -> VolumeStat:
        self.ended.wait()
        return self._volume.stat()

    def status(self) -> tuple[VolumeStat, Activity]:
        return self.stat(), Activity("idling")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._volume, name)


def test_a_volume_that_hangs_holds_no_page_up(served: Served) -> None:
    instance = served.site.archive.instance
    hanging = Hanging(instance.volumes["v0"])
    instance.volumes["v0"] = hanging  # type: ignore[assignment]
    first, *others = instance.settings.volume
    instance.settings = replace(instance.settings, volume=(replace(first, address="far.example:9999"), *others))
    try:
        for target in ("/volumes", "/metrics", "/status", "/api/volumes"):
            assert ask(f"{served.controls}{target}").status == 200
        assert ask(f"{served.controls}/volumes").text.count("no answer within") == 1
        assert "far.example:9999" in ask(f"{served.controls}/volumes").text
    finally:
        hanging.ended.set()


def test_volumes_are_asked_once_a_second_however_many_look(path: Path) -> None:
    now = 0.0
    with holdfast.open(path, read_only=True) as archive:
        volumes = Volumes(archive, lambda: now)
        first = volumes.reports()
        now = 0.9
        assert volumes.reports() is first
        now = 1.1
        assert volumes.reports() is not first


def test_an_archive_that_is_not_a_node_says_so(served: Served) -> None:
    assert json.loads(ask(f"{served.controls}/api/nodes").body) == {"nodes": [], "current": False}
    assert "not a node of a cluster" in ask(f"{served.controls}/nodes", Accept="text/html").text
    assert "holdfast_node_up" not in ask(f"{served.controls}/metrics").text
