"""Settings: what is wrong in `holdfast.toml` is said plainly, and what people wrote into it stays."""

from __future__ import annotations

import tomllib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import config
from holdfast.config import IndexSettings, QuerySettings, RecordSettings, Settings, StoreSettings, VolumeSettings
from holdfast.errors import ArchiveNotFound, FormatTooNew, HoldfastError, InvalidSetting
from holdfast.model import VolumeState

PATH = Path("holdfast.toml")


def parsed(text: str) -> Settings:
    return config.parse(tomllib.loads(text), PATH)


# -- reading -----------------------------------------------------------------------------------------------------------


def test_an_empty_file_is_all_defaults() -> None:
    assert parsed("format = 1") == Settings()


def test_everything_that_can_be_said() -> None:
    text = """
    format = 1
    [store]
    signature = "rabin64"
    codec = "zlib"
    placement = "weighted"
    replicas = 2
    update = "batch"
    train_after = 0
    content_bytes_max = 1000
    segment_bytes_max = 4096
    stage_bytes_max = 5000
    keydir_cache_bytes = 1
    [[volume]]
    name = "v0"
    [[volume]]
    name = "old-disk_2"
    organization = "tree"
    state = "read-only"
    weight = 2
    depth = 5
    path = "/mnt/old"
    role = "read"
    [records]
    keep = "latest"
    """
    settings = parsed(text)
    assert settings.store == StoreSettings(
        *("rabin64", "zlib", "weighted", 2, "batch", 0),  # behaviour
        *(1000, 4096, 5000),  # limits
        1,  # performance
    )
    first, second = settings.volume
    assert first == VolumeSettings("v0")
    assert second == VolumeSettings("old-disk_2", "tree", VolumeState.READ_ONLY, 2.0, 5, "/mnt/old", role="read")
    assert settings.records.keep == "latest"
    assert isinstance(second.weight, float)
    assert settings.volume_settings("old-disk_2") is second
    assert settings.volume_settings("v9") is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[store]\nreplica = 2", r"unknown setting store\.replica; did you mean 'replicas'\?"),
        ("[store]\nxyz = 2", r"unknown setting store\.xyz; known are signature, codec"),
        ("[stor]", r"unknown setting stor; did you mean 'store'\?"),
        ('[[volume]]\nname = "v0"\norganisation = "log"', r"volume\.organisation; did you mean 'organization'\?"),
        ('[store]\nreplicas = "2"', r"store\.replicas must be of type int, found '2'"),
        ("[store]\nreplicas = true", r"store\.replicas must be of type int, found True"),
        ("[store]\nreplicas = 1.5", r"store\.replicas must be of type int, found 1\.5"),
        ("[store]\ncodec = 7", r"store\.codec must be of type str, found 7"),
        ("[store]\nreplicas = 0", r"store\.replicas must be at least 1, found 0"),
        ("[store]\nsegment_bytes_max = 4095", r"store\.segment_bytes_max must be at least 4096, found 4095"),
        ("[store]\ncontent_bytes_max = -1", r"store\.content_bytes_max must be at least 1"),
        ('[[volume]]\nname = "v0"\nweight = "big"', r"volume\.weight must be of type float, found 'big'"),
        ('[[volume]]\nname = "v0"\nweight = -1', r"volume\.weight must be at least 0, found -1"),
        ('[[volume]]\nname = "v0"\nstate = "full"', r"volume\.state must be one of writable, read-only, found 'full'"),
        ('[[volume]]\nname = "v0"\nrole = "both"', r"volume\.role must be one of update, read, found 'both'"),
        ('[store]\nupdate = "often"', r"store\.update must be one of incremental, batch, found 'often'"),
        ('[records]\nkeep = "some"', r"records\.keep must be one of all, latest, found 'some'"),
        ('[[volume]]\norganization = "log"', r"a \[\[volume\]\] has no name"),
        ('[[volume]]\nname = "v0"\n[[volume]]\nname = "v0"', r"names volume 'v0' twice"),
        ("store = 3", r"store must be a table"),
        ("volume = 3", r"volume must be"),
        ('[volume]\nname = "v0"', r"volume must be"),
        ("volume = [3]", r"volume must be"),
    ],
)
def test_what_is_wrong_is_said(line: str, message: str) -> None:
    with pytest.raises(InvalidSetting, match=message) as caught:
        parsed(f"format = 1\n{line}")
    assert "'holdfast.toml'" in str(caught.value)


@pytest.mark.parametrize("name", ["", "V0", "a b", "../x", "-a", "a" * 17, "é"])
def test_a_bad_volume_name(name: str) -> None:
    with pytest.raises(HoldfastError, match="bad volume name"):
        parsed(f'format = 1\n[[volume]]\nname = "{name}"')


@pytest.mark.parametrize("number", ["0", '"1"', "1.5", "[1]"])
def test_a_format_that_never_was(number: str) -> None:
    with pytest.raises(InvalidSetting, match="must say 'format = 1'"):
        parsed(f"format = {number}")


def test_no_format() -> None:
    with pytest.raises(InvalidSetting, match="must say 'format = 1', found None"):
        parsed("")


def test_a_later_format_is_told_from_a_wrong_one() -> None:
    with pytest.raises(FormatTooNew, match=r"'holdfast\.toml' has format 2; this release reads 1"):
        parsed("format = 2\n[something]\nnew = true")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.toml"
    with pytest.raises(ArchiveNotFound, match="create one with 'holdfast init'"):
        config.load(path)
    path.write_text("format = = 1")
    with pytest.raises(InvalidSetting, match=f"cannot read '{path}'.*line 1"):
        config.load(path)
    path.write_bytes(b"format = 1 # caf\xe9")
    with pytest.raises(InvalidSetting, match=f"cannot read '{path}'"):
        config.load(path)
    path.write_text("format = 1")
    assert config.load(path) == Settings()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["name", "state"]), inner),
        max_leaves=4,
    ),
    st.sampled_from(["store", "volume", "format", "store.replicas", "volume.name"]),
)
def test_any_value_anywhere_is_accepted_or_refused(value: object, where: str) -> None:
    table: dict[str, object] = {"format": 1}
    outer, _, inner = where.partition(".")
    nested = {inner: value}
    table[outer] = value if not inner else [nested] if outer == "volume" else nested
    with suppress(HoldfastError):
        config.parse(table, PATH)


# -- writing -----------------------------------------------------------------------------------------------------------

FULL = Settings(
    StoreSettings(signature="rabin64", codec="zlib", replicas=2, segment_bytes_max=4096),
    (VolumeSettings("v0"), VolumeSettings("v1", "tree", VolumeState.READ_ONLY, 0.5, 2, "elsewhere/v1")),
    RecordSettings(collection="news", pick="not-newer"),
    index=IndexSettings(automatic=False),
    query=QuerySettings(sql_threads=2),
)


@pytest.mark.parametrize("settings", [Settings(), FULL])
def test_what_is_written_is_read_back(settings: Settings) -> None:
    assert parsed(config.new_text(settings)) == settings


def test_defaults_are_left_out() -> None:
    assert "replicas" not in config.new_text(Settings())


def test_changes_keep_what_people_wrote() -> None:
    text = config.new_text(FULL).replace("[store]", "# my own words\n[store]")
    text = config.with_volume(text, VolumeSettings("v2", weight=3.0))
    text = config.with_state(text, "v0", VolumeState.READ_ONLY)
    assert "# my own words\n[store]" in text
    first, second = FULL.volume
    expected = (replace(first, state=VolumeState.READ_ONLY), second, VolumeSettings("v2", weight=3.0))
    assert parsed(text) == replace(FULL, volume=expected)


@pytest.mark.parametrize("before", ["", "volume = []\n", "volume = []\n[store]\n"])
def test_a_first_volume_can_be_added(before: str) -> None:
    text = config.with_volume(f"format = 1\n{before}", VolumeSettings("v0"))
    assert parsed(text).volume == (VolumeSettings("v0"),)
