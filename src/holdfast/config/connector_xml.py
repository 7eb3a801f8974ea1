"""Webstore's connector (Figure 6 of its paper): the volumes of an instance as XML.

    <?xml version='1.0' encoding='UTF-8'?>
    <instance name="myWebstore">
      <volume name="vol1" state="writable" tree-depth="1" host="ren.fc.ul.pt" port="9999"/>
    </instance>

The paper's servers are open; ours need a secret or a certificate, so `instance` may have attributes for `[remote]` and
`[store]`: `secret-file`, `replicas` and others.

The file may be untrusted: a document type, and with it every entity, is rejected before it is parsed, and so are
unknown elements and attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn
from xml.parsers import expat

from holdfast.arguments import nearest
from holdfast.config.address import PORT_MAX, join_address
from holdfast.config.settings import VolumeSettings
from holdfast.errors import InvalidSetting, UsageError
from holdfast.model import VolumeState, volume_name

_ATTRIBUTES = ("name", "state", "tree-depth", "host", "port")
_FILES = ("secret-file", "tls-ca-file", "tls-cert-file", "tls-key-file")
_INSTANCE_ATTRIBUTES = ("name", *_FILES, "placement", "replicas")
_REPLICAS_MAX = 1024
_NAMESPACES = ("xmlns", "xml:", "xsi:")  # prefixes of attributes to ignore
_DEPTH, _DEPTH_MAX = 3, 8  # of a tree: default and maximum
_SHOWN = 40  # characters of a quoted text


Sections = dict[str, dict[str, str | int]]


def read_instance(data: bytes) -> tuple[list[VolumeSettings], Sections]:
    """The volumes in order, and `store` and `remote` as in TOML. Raises InvalidSetting with the line number."""
    return _Reading().run(data)


class _Reading:
    """One document. The parser calls the methods `_on_...`."""

    def __init__(self) -> None:
        self._volumes: list[VolumeSettings] = []
        self._sections: Sections = {"store": {}, "remote": {}}
        self._depth = 0
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartDoctypeDeclHandler = self._refuse("a document type (<!DOCTYPE>)")
        self._parser.EntityDeclHandler = self._refuse("an entity (<!ENTITY>)")
        self._parser.StartElementHandler = self._on_start
        self._parser.EndElementHandler = self._on_end
        self._parser.CharacterDataHandler = self._on_text

    def run(self, data: bytes) -> tuple[list[VolumeSettings], Sections]:
        try:
            self._parser.Parse(data, True)
        except expat.ExpatError as error:
            raise InvalidSetting(f"line {error.lineno}: {expat.ErrorString(error.code)}") from None
        except (LookupError, ValueError) as error:  # unknown encoding
            raise InvalidSetting(f"line 1: {error}") from None
        return self._volumes, self._sections

    def _refuse(self, what: str) -> Callable[..., NoReturn]:
        def refuse(*_: Any) -> NoReturn:
            self._fail(f"{what} is not allowed in a connector")

        return refuse

    def _on_start(self, element: str, attributes: dict[str, str]) -> None:
        wanted = ("instance", "volume")[self._depth] if self._depth < 2 else ""
        if element != wanted:
            expected = f"expected <{wanted}>" if wanted else "a volume must be empty"
            self._fail(f"element <{element[:_SHOWN]}> is not allowed here: {expected}")
        self._depth += 1
        said = {name: value for name, value in attributes.items() if not name.startswith(_NAMESPACES)}
        self._reject_unknown(said, _ATTRIBUTES if element == "volume" else _INSTANCE_ATTRIBUTES)
        if element == "volume":
            self._volumes.append(self._volume(said))
        else:
            self._take_sections(said)

    def _on_end(self, element: str) -> None:
        self._depth -= 1

    def _on_text(self, text: str) -> None:
        if text.strip():
            self._fail(f"text {text.strip()[:_SHOWN]!r} is not allowed here")

    def _take_sections(self, said: dict[str, str]) -> None:
        store, remote = self._sections["store"], self._sections["remote"]
        for name in _FILES:
            if name in said:
                remote[name.replace("-", "_")] = said[name]
        if "placement" in said:
            store["placement"] = said["placement"]
        if "replicas" in said:
            store["replicas"] = self._number(said, "replicas", _REPLICAS_MAX)

    def _volume(self, said: dict[str, str]) -> VolumeSettings:
        for name in ("name", "host", "port"):
            if not said.get(name):
                self._fail(f"a volume has no {name}")
        state = said.get("state", VolumeState.WRITABLE.value)
        if state not in list(VolumeState):
            self._fail(f"state must be one of {', '.join(VolumeState)}, found {state[:_SHOWN]!r}")
        depth = self._number(said, "tree-depth", _DEPTH_MAX) if "tree-depth" in said else _DEPTH
        port = self._number(said, "port", PORT_MAX)
        try:
            address = join_address(said["host"], port)
            return VolumeSettings(volume_name(said["name"]), "tree", VolumeState(state), depth=depth, address=address)
        except UsageError as error:
            self._fail(str(error))

    def _number(self, said: dict[str, str], name: str, most: int) -> int:
        text = said[name].strip()
        if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= most):
            self._fail(f"{name} must be a number from 1 to {most}, found {text[:_SHOWN]!r}")
        return int(text)

    def _reject_unknown(self, said: dict[str, str], known: Sequence[str]) -> None:
        for name in said:
            if name not in known:
                self._fail(f"unknown attribute {name[:_SHOWN]!r}{nearest(name, known)}")

    def _fail(self, message: str) -> NoReturn:
        raise InvalidSetting(f"line {self._parser.CurrentLineNumber}: {message}")
