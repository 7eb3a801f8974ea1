"""Connectors: the volumes of an instance in a file of their own, TOML or XML, followed as it changes (W9)."""

from __future__ import annotations

import logging
import os
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import wait_until

import holdfast
from holdfast import config
from holdfast.config import RemoteSettings, Settings, StoreSettings, VolumeSettings
from holdfast.config.connector import CONNECTOR_BYTES_MAX
from holdfast.config.connector_xml import read_instance
from holdfast.errors import Busy, Denied, FormatTooNew, HoldfastError, InvalidSetting, NotFound, UnknownName, UsageError
from holdfast.model import VolumeState

FIGURE_6 = """<?xml version='1.0' encoding='UTF-8'?> <instance name="myWebstore"
xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
xsi:noNamespaceSchemaLocation="webstore-config.xsd">
  <volume name="vol1" state="writable" tree-depth="1"
    host="ren.fc.ul.pt" port="9999"/>
  <volume name="vol2" state="read-only" tree-depth="2"
    host="stimpj.fc.ul.pt" port="10000"/>
</instance>
"""
TOML = """
format = 1
[store]
signature = "rabin64"
placement = "weighted"
replicas = 2
[remote]
secret_file = "secret"
tls_ca_file = "/etc/ca.pem"
request_timeout_s = 1
[[volume]]
name = "far"
address = "ren.fc.ul.pt:9999"
weight = 2
[[volume]]
name = "disk"
state = "read-only"
organization = "tree"
depth = 2
path = "volumes/disk"
[[volume]]
name = "bucket"
url = "s3://pages/v3"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "connector"


def xml_of(*attributes: str) -> bytes:
    return f"<instance>\n<volume {' '.join(attributes)}/></instance>".encode()


def replaced(path: Path, text: str) -> None:
    """As careful programs write files."""
    draft = path.with_name("draft")
    draft.write_text(text)
    draft.replace(path)


# -- reading TOML ------------------------------------------------------------------------------------------------------


def test_a_connector_says_all_that_a_client_without_an_archive_needs(file: Path, tmp_path: Path) -> None:
    file.write_text(TOML)
    settings = config.load_connector(file)
    assert (settings.store.signature, settings.store.placement, settings.store.replicas) == ("rabin64", "weighted", 2)
    assert settings.remote == RemoteSettings(str(tmp_path / "secret"), "/etc/ca.pem", request_timeout_s=1)
    assert settings.volume == (
        VolumeSettings("far", weight=2.0, address="ren.fc.ul.pt:9999"),
        VolumeSettings("disk", "tree", VolumeState.READ_ONLY, depth=2, path=str(tmp_path / "volumes/disk")),
        VolumeSettings("bucket", url="s3://pages/v3", path=str(tmp_path / "volumes/bucket")),
    )


def test_paths_count_from_the_connector_wherever_it_is_named_from(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(TOML)
    monkeypatch.chdir(tmp_path)
    assert config.load_connector("connector") == config.load_connector(file)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('[records]\nbatch = "x"', "unknown setting records; known are store, remote, volume"),
        ('connector = "more"', "unknown setting connector"),
        ('[remote]\nsecretfile = "x"', r"unknown setting remote\.secretfile; did you mean 'secret_file'\?"),
        ("[remote]\nrequest_timeout_s = 0", r"remote\.request_timeout_s must be at least 0\.01"),
        ('[remote]\nretry_s = "long"', r"remote\.retry_s must be of type float"),
        ('[remote]\ntls_ca_file = "ca"\ntls_cert_file = "c"', r"remote\.tls_key_file is missing"),
        ('[remote]\ntls_ca_file = "ca"\ntls_key_file = "c"', r"remote\.tls_cert_file is missing"),
        ('[remote]\ntls_cert_file = "c"\ntls_key_file = "c"', r"remote\.tls_ca_file is missing"),
        ('[[volume]]\nname = "v0"', "volume 'v0' has no place: give its address, url or path"),
        ('[[volume]]\nname = "v0"\nadress = "a:1"', r"volume\.adress; did you mean 'address'\?"),
        ('[[volume]]\nname = "v0"\naddress = "a"', "bad address 'a': write host:port"),
        ('[[volume]]\nname = "v0"\naddress = "a:0"', "a port is a number from 1 to 65535"),
        ('[[volume]]\nname = "v0"\naddress = "a:65536"', "a port is a number from 1 to 65535"),
        ('[[volume]]\nname = "v0"\naddress = "::1:80"', "IPv6 address in brackets"),
        ('[[volume]]\nname = "v0"\naddress = "[::g]:80"', "'::g' is neither a host name nor an IP address"),
        ('[[volume]]\nname = "v0"\naddress = "a b:80"', "'a b' is neither"),
        ('[[volume]]\nname = "v0"\naddress = ":80"', "'' is neither"),
        ('[[volume]]\nname = "v0"\naddress = "a:80"\npath = "x"', "volume 'v0' has an address and a path"),
        ('[[volume]]\nname = "v0"\naddress = "a:80"\nurl = "s3://b"', "volume 'v0' has an address and a url"),
        ('[[volume]]\nname = "v0"\nurl = "ftp://b"', "bad url 'ftp://b': write s3://bucket/prefix"),
        ('[[volume]]\nname = "a"\naddress = "a:1"\n[[volume]]\nname = "a"\naddress = "a:2"', "names volume 'a' twice"),
        (
            '[[volume]]\nname = "a"\naddress = "a:1"\n[[volume]]\nname = "b"\naddress = "a:1"',
            "volumes 'a' and 'b' have the same address",
        ),
        ("format = = 1", "cannot read the connector"),
    ],
)
def test_what_is_wrong_in_a_connector_is_said(file: Path, line: str, message: str) -> None:
    file.write_text(f"format = 1\n{line}")
    with pytest.raises(InvalidSetting, match=message) as caught:
        config.load_connector(file)
    assert f"'{file}'" in str(caught.value)


def test_files_that_are_no_connectors(file: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="the file is missing"):
        config.load_connector(file)
    with pytest.raises(InvalidSetting, match="Is a directory"):
        config.load_connector(tmp_path)
    file.write_text("format = 2")
    with pytest.raises(FormatTooNew):
        config.load_connector(file)
    file.write_bytes(b"#" * (CONNECTOR_BYTES_MAX + 1))
    with pytest.raises(InvalidSetting, match=f"more than {CONNECTOR_BYTES_MAX} bytes"):
        config.load_connector(file)
    if os.geteuid() != 0:
        file.chmod(0)
        with pytest.raises(Denied):
            config.load_connector(file)


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("ren.fc.ul.pt:9999", ("ren.fc.ul.pt", 9999)),
        ("127.0.0.1:1", ("127.0.0.1", 1)),
        ("[2001:db8::1]:65535", ("2001:db8::1", 65535)),
        ("volume_1.local.:80", ("volume_1.local.", 80)),
    ],
)
def test_addresses_are_taken_apart_and_put_together(address: str, parts: tuple[str, int]) -> None:
    assert config.split_address(address) == parts
    assert config.join_address(*parts) == address


@given(st.text(max_size=30))
def test_any_address_is_accepted_or_refused(text: str) -> None:
    try:
        host, port = config.split_address(text)
    except InvalidSetting:
        return
    assert config.split_address(config.join_address(host, port)) == (host, port)


# -- reading XML -------------------------------------------------------------------------------------------------------


def test_the_connector_of_the_paper_is_read(file: Path) -> None:
    file.write_text(FIGURE_6)
    assert config.load_connector(file).volume == (
        VolumeSettings("vol1", "tree", depth=1, address="ren.fc.ul.pt:9999"),
        VolumeSettings("vol2", "tree", VolumeState.READ_ONLY, depth=2, address="stimpj.fc.ul.pt:10000"),
    )


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_xml_in_other_encodings_is_read(file: Path, encoding: str) -> None:
    named = encoding.removesuffix("-sig")
    file.write_bytes(FIGURE_6.replace("UTF-8", named).encode(encoding))
    assert [volume.name for volume in config.load_connector(file).volume] == ["vol1", "vol2"]


@pytest.mark.parametrize("host", ["2001:db8::1", "[2001:db8::1]"])
def test_ipv6_hosts_of_xml_get_brackets(host: str) -> None:
    ((volume,), _) = read_instance(xml_of('name="v"', f'host="{host}"', 'port="9"'))
    assert volume == VolumeSettings("v", "tree", depth=3, address="[2001:db8::1]:9")


BOMB = b'<!DOCTYPE i [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><instance name="&b;"/>'


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (BOMB, r"line 1: a document type \(<!DOCTYPE>\) is not allowed in a connector"),
        (b'\n<!DOCTYPE instance SYSTEM "file:///etc/passwd"><instance/>', "line 2: a document type"),
        (BOMB.decode().encode("utf-16"), "line 1: a document type"),
        (b"<instance>&amp;&lt;</instance>", "line 1: text"),
        (b"<instance>\n&other;</instance>", "line 2: undefined entity"),
        (b"<instance>", "line 1: no element found"),
        (b"<instance>\n\n<volume</instance>", "line 3: not well-formed"),
        (b"<volume/>", r"line 1: element <volume> is not allowed here: expected <instance>"),
        (b"<instance>\n<disk/></instance>", r"line 2: element <disk> is not allowed here: expected <volume>"),
        (b"<instance>hello</instance>", "line 1: text 'hello' is not allowed here"),
        (b'<instance owner="me"/>', "line 1: unknown attribute 'owner'; known are name"),
        (xml_of('host="a"', 'port="1"'), "line 2: a volume has no name"),
        (xml_of('name="v"', 'port="1"'), "line 2: a volume has no host"),
        (xml_of('name="v"', 'host="a"'), "line 2: a volume has no port"),
        (xml_of('name="Vol 1"', 'host="a"', 'port="1"'), r"line 2: bad volume name 'Vol 1': use 1 to 16 of a-z"),
        (xml_of('name="v"', 'host="a"', 'port="70000"'), "line 2: port must be a number from 1 to 65535"),
        (xml_of('name="v"', 'host="a"', 'port="x"'), "port must be a number"),
        (xml_of('name="v"', 'host="a/b"', 'port="1"'), "line 2: bad address 'a/b:1'"),
        (xml_of('name="v"', 'host="a"', 'port="1"', 'state="full"'), "state must be one of writable, read-only"),
        (xml_of('name="v"', 'host="a"', 'port="1"', 'tree-depth="0"'), "tree-depth must be a number from 1 to 8"),
        (xml_of('name="v"', 'host="a"', 'port="1"', 'treedepth="1"'), "did you mean 'tree-depth'"),
        (b"<?xml version='1.0' encoding='klingon'?><instance/>", "line 1: unknown encoding"),
        (b"<a>" * 5000, "line 1: element <a>"),
    ],
)
def test_xml_that_is_wrong_or_hostile_is_refused(file: Path, data: bytes, message: str) -> None:
    file.write_bytes(data)
    with pytest.raises(InvalidSetting, match=message) as caught:
        config.load_connector(file)
    assert f"'{file}'" in str(caught.value)


def test_an_instance_of_xml_says_how_servers_are_reached_and_how_many_copies_there_are(file: Path) -> None:
    said = 'secret-file="secret" tls-ca-file="/etc/ca.pem" placement="weighted" replicas="2"'
    file.write_text(FIGURE_6.replace("<instance ", f"<instance {said} "))
    settings = config.load_connector(file)
    assert settings.remote == RemoteSettings(str(file.parent / "secret"), "/etc/ca.pem")
    assert settings.store == StoreSettings(placement="weighted", replicas=2)
    assert [volume.name for volume in settings.volume] == ["vol1", "vol2"]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ('secretfile="x"', "line 1: unknown attribute 'secretfile'; did you mean 'secret-file'"),
        ('replicas="0"', "line 1: replicas must be a number from 1 to 1024, found '0'"),
        ('tls-cert-file="x"', "remote.tls_key_file is missing"),
    ],
)
def test_an_instance_of_xml_that_is_wrong(file: Path, said: str, message: str) -> None:
    file.write_text(f"<instance {said}/>")
    with pytest.raises(InvalidSetting, match=message):
        config.load_connector(file)


def test_a_volume_named_twice_in_xml(file: Path) -> None:
    file.write_text(FIGURE_6.replace("vol2", "vol1"))
    with pytest.raises(InvalidSetting, match="names volume 'vol1' twice"):
        config.load_connector(file)


@given(st.binary(max_size=60) | st.text("<instance volume/>= \"'name&;!", max_size=60).map(str.encode))
def test_any_xml_is_accepted_or_refused(data: bytes) -> None:
    try:
        read_instance(b"<instance>" + data + b"</instance>")
    except InvalidSetting:
        return


# -- an archive and its connector --------------------------------------------------------------------------------------


def merged(path: Path) -> Settings:
    return config.merged(config.load(path), path)


def test_an_archive_has_the_volumes_of_its_connector_behind_its_own(file: Path, tmp_path: Path) -> None:
    file.write_text(FIGURE_6)
    path = tmp_path / "archive" / "holdfast.toml"
    path.parent.mkdir()
    path.write_text('format = 1\nconnector = "../connector"\n[[volume]]\nname = "v0"')
    settings = merged(path)
    assert [volume.name for volume in settings.volume] == ["v0", "vol1", "vol2"]
    assert settings.volume[0] == VolumeSettings("v0")


def test_what_an_archive_says_of_servers_wins_over_its_connector(file: Path, tmp_path: Path) -> None:
    file.write_text('format = 1\n[remote]\nsecret_file = "theirs"\nretry_s = 7\ntls_ca_file = "ca"')
    path = tmp_path / "archive" / "holdfast.toml"
    path.parent.mkdir()
    path.write_text('format = 1\nconnector = "../connector"\n[remote]\nsecret_file = "ours"\ndown_s = 3')
    expected = RemoteSettings(str(path.parent / "ours"), str(tmp_path / "ca"), retry_s=7, down_s=3)
    assert merged(path).remote == expected


def test_an_archive_stores_as_its_connector_says_unless_it_says_otherwise(file: Path, tmp_path: Path) -> None:
    """Or one of two clients of the same volumes would not know of replicas that the other makes."""
    file.write_text('format = 1\n[store]\nreplicas = 3\nplacement = "weighted"\ncodec = "zlib"')
    path = tmp_path / "archive" / "holdfast.toml"
    path.parent.mkdir()
    path.write_text('format = 1\nconnector = "../connector"\n[store]\nreplicas = 1\ntrain_after = 5')
    assert merged(path).store == StoreSettings(replicas=1, placement="weighted", codec="zlib", train_after=5)


def test_a_new_archive_has_the_replicas_of_its_connector(disks: Path, tmp_path: Path) -> None:
    disks.write_text(disks.read_text().replace("format = 1", "format = 1\n[store]\nreplicas = 2"))
    holdfast.init(tmp_path / "archive", holdfast.Plan(0, connector=str(disks)))
    with holdfast.open(tmp_path / "archive") as archive:
        assert len(archive.contents.holders(archive.contents.put(b"twice"))) == 2


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (
            'connector = "connector"\n[[volume]]\nname = "vol2"',
            "volume 'vol2' is named both in .*holdfast.toml' and in its connector",
        ),
        (
            'connector = "connector"\n[[volume]]\nname = "v0"\naddress = "ren.fc.ul.pt:9999"',
            "volumes 'v0' and 'vol1' have the same address",
        ),
        ("connector = 3", "connector must be a string"),
    ],
)
def test_an_archive_and_its_connector_must_agree(file: Path, tmp_path: Path, own: str, message: str) -> None:
    file.write_text(FIGURE_6)
    path = tmp_path / "holdfast.toml"
    path.write_text(f"format = 1\n{own}")
    with pytest.raises(InvalidSetting, match=message):
        merged(path)


def test_a_connector_for_another_signature_is_refused(file: Path, tmp_path: Path) -> None:
    file.write_text(TOML)
    path = tmp_path / "holdfast.toml"
    path.write_text('format = 1\nconnector = "connector"')
    with pytest.raises(InvalidSetting, match="is for signature 'rabin64', the archive has 'sha256'"):
        merged(path)


def test_settings_of_servers_are_written_and_read_back() -> None:
    settings = Settings(
        volume=(VolumeSettings("far", address="[::1]:9"), VolumeSettings("b", url="file:///b", path="p")),
        remote=RemoteSettings("secret", follow_s=0.5),
        connector="../connector.toml",
    )
    text = config.new_text(settings)
    assert config.parse(tomllib.loads(text), Path("x")) == settings
    text = config.with_state(text, "far", VolumeState.READ_ONLY)
    text = config.with_volume(text, VolumeSettings("near", address="near:9"))
    assert [volume.state for volume in config.parse(tomllib.loads(text), Path("x")).volume] == [
        *("read-only", "writable", "writable")
    ]
    with pytest.raises(UnknownName):
        config.with_state(text, "nobody", VolumeState.READ_ONLY)


# -- watching ----------------------------------------------------------------------------------------------------------


def test_a_change_of_the_connector_is_noticed_once(file: Path) -> None:
    file.write_text(FIGURE_6)
    watch = config.watch_connector(file)
    assert watch.poll() is None
    replaced(file, FIGURE_6.replace("read-only", "writable"))
    changed = watch.poll()
    assert changed is not None
    assert changed == watch.settings
    assert changed.volume[1].state is VolumeState.WRITABLE
    assert watch.poll() is None
    file.touch()
    assert watch.poll() is None  # written again, with nothing new in it


def test_a_change_within_one_tick_of_the_clock_is_noticed(file: Path) -> None:
    """The same inode, size and time: only the bytes tell."""
    file.write_text(FIGURE_6)
    watch = config.watch_connector(file)
    times = (file.stat().st_atime_ns, file.stat().st_mtime_ns)
    assert watch.poll() is None
    with file.open("r+") as opened:
        opened.write(FIGURE_6.replace("9999", "8888"))
    os.utime(file, ns=times)
    changed = watch.poll()
    assert changed is not None
    assert changed.volume[0].address == "ren.fc.ul.pt:8888"


def test_a_connector_that_went_wrong_leaves_the_old_one_in_force(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.write_text(FIGURE_6)
    watch = config.watch_connector(file)
    before = watch.settings
    with caplog.at_level(logging.WARNING, "holdfast.config"):
        replaced(file, "<instance>\n<oops")
        assert [watch.poll(), watch.poll(), watch.poll()] == [None, None, None]
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert "line 2" in caplog.text
        file.unlink()
        assert [watch.poll(), watch.poll()] == [None, None]
        assert len(caplog.records) == 2
    assert watch.settings == before
    replaced(file, FIGURE_6.replace("vol2", "vol3"))
    changed = watch.poll()
    assert changed is not None
    assert [volume.name for volume in changed.volume] == ["vol1", "vol3"]


def test_an_archive_that_names_another_connector_follows_that(file: Path, tmp_path: Path) -> None:
    file.write_text(FIGURE_6)
    (tmp_path / "other").write_text(FIGURE_6.replace("vol2", "vol3"))
    path = tmp_path / "holdfast.toml"
    path.write_text('format = 1\nconnector = "connector"')
    watch = config.watch_settings(path)
    replaced(path, 'format = 1\nconnector = "other"')
    changed = watch.poll()
    assert changed is not None
    assert changed.volume_settings("vol3") is not None
    replaced(tmp_path / "other", FIGURE_6.replace("vol2", "vol4"))
    changed = watch.poll()
    assert changed is not None
    assert changed.volume_settings("vol4") is not None


# -- using one ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def disks(tmp_path: Path) -> Path:
    """Three volumes in an archive that nobody opens any more, and a connector that lists two of them."""
    holdfast.init(tmp_path / "disks", holdfast.Plan(volumes=3))
    path = tmp_path / "connector.toml"
    path.write_text("format = 1\n" + listed("v0") + listed("v1"))
    return path


def listed(name: str, state: str = "writable") -> str:
    return f'[[volume]]\nname = "{name}"\nstate = "{state}"\npath = "disks/volumes/{name}"\n'


def test_contents_without_an_archive(disks: Path) -> None:
    with holdfast.connect(disks) as connection:
        keys = connection.contents.store_batch([b"%d" % number for number in range(20)])
        assert {stored.key.volume for stored in keys} == {"v0", "v1"}
        assert [report.settings.name for report in connection.volumes()] == ["v0", "v1"]
    with holdfast.connect(disks, read_only=True) as connection:
        assert connection.contents.get(keys[7].key) == b"7"
        with pytest.raises(Denied):
            connection.contents.put(b"x")
    assert sorted(path.name for path in disks.parent.iterdir()) == ["connector.toml", "disks"]  # nothing is left beside


def test_a_directory_has_one_writer(disks: Path) -> None:
    with holdfast.connect(disks), pytest.raises(Busy), holdfast.connect(disks):
        pass
    with holdfast.connect(disks) as connection:
        assert {report.activity.state for report in connection.volumes()} == {"storing"}
    with holdfast.connect(disks, read_only=True) as connection:
        assert {report.activity.state for report in connection.volumes()} == {"idling"}


def test_a_connection_follows_its_connector(disks: Path) -> None:
    with holdfast.connect(disks) as connection:
        first = connection.contents.put(b"first")
        replaced(disks, "format = 1\n" + listed("v0", "read-only") + listed("v1", "read-only") + listed("v2"))
        assert connection.refresh()
        assert {connection.contents.put(b"%d" % number).volume for number in range(8)} == {"v2"}
        assert connection.contents.get(first) == b"first"
        replaced(disks, "format = 1\n" + listed("v0") + listed("v1"))
        assert connection.refresh()
        assert {connection.contents.put(b"%d!" % number).volume for number in range(16)} == {"v0", "v1"}
        assert not connection.refresh()


def test_a_connection_follows_by_itself(disks: Path) -> None:
    disks.write_text(disks.read_text() + "[remote]\nfollow_s = 0.02\n")
    with holdfast.connect(disks) as connection:
        replaced(disks, disks.read_text() + listed("v2"))
        wait_until(lambda: connection.settings.volume_settings("v2") is not None, "the new volume")


def test_an_archive_follows_its_connector_and_sets_states_in_it(disks: Path, tmp_path: Path) -> None:
    holdfast.init(tmp_path / "archive", holdfast.Plan(volumes=0, connector="../connector.toml"))
    disks.write_text("# ours\n" + disks.read_text())
    with holdfast.open(tmp_path / "archive") as archive:
        archive.set_state("v0", VolumeState.READ_ONLY)
        assert {archive.contents.put(b"%d" % number).volume for number in range(8)} == {"v1"}
        archive.add_volume(VolumeSettings("own"))
        with pytest.raises(UsageError, match="exists already"):
            archive.add_volume(VolumeSettings("v1"))
    assert disks.read_text().startswith("# ours\n")
    assert config.load_connector(disks).volume[0].state is VolumeState.READ_ONLY
    with holdfast.open(tmp_path / "archive", read_only=True) as archive:
        assert [report.settings.name for report in archive.volumes()] == ["own", "v0", "v1"]
    report = holdfast.check(tmp_path / "archive")
    assert (report.clean, report.blocks) == (True, 8)


def test_the_state_of_a_volume_that_xml_lists_is_changed_there(tmp_path: Path) -> None:
    (tmp_path / "connector.xml").write_text(FIGURE_6)
    holdfast.init(tmp_path / "archive", holdfast.Plan(connector="../connector.xml"))
    with holdfast.open(tmp_path / "archive") as archive, pytest.raises(UsageError, match="which is XML"):
        archive.set_state("vol1", VolumeState.READ_ONLY)


def test_an_archive_is_not_made_with_a_connector_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="no connector"):
        holdfast.init(tmp_path / "archive", holdfast.Plan(connector="nowhere"))
    with pytest.raises(UsageError, match="1 to 1024"):
        holdfast.init(tmp_path / "archive", holdfast.Plan(volumes=0))
    assert not (tmp_path / "archive").exists()


def test_volumes_of_a_connector_are_kept_up_without_an_archive(disks: Path) -> None:
    with holdfast.connect(disks) as connection:
        keys = [each.key for each in connection.contents.store_batch([b"%d" % number for number in range(20)])]
        moved = connection.migrate("v0")
        assert moved.blocks == sum(key.volume == "v0" for key in keys)
        assert [each.state for each in config.load_connector(disks).volume] == ["read-only", "writable"]
        assert connection.compact("v0").files > 0
        connection.set_state("v0", VolumeState.WRITABLE)
        assert connection.settings.volume[0].state is VolumeState.WRITABLE
        with pytest.raises(UnknownName, match="unknown volume 'v9'"):
            connection.set_state("v9", VolumeState.WRITABLE)
        assert connection.contents.get_batch(keys) == [b"%d" % number for number in range(20)]
    with holdfast.connect(disks, read_only=True) as connection, pytest.raises(Denied):
        connection.set_state("v0", VolumeState.READ_ONLY)
