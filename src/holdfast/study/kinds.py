"""All studies by name, and as JSON: so that a node of a cluster can ask others for their partial results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

from holdfast.errors import MalformedInput
from holdfast.study.change_study import ChangeStudy
from holdfast.study.composition_study import CompositionStudy
from holdfast.study.duplicate_study import DuplicateStudy
from holdfast.study.engine.run import Study
from holdfast.study.engine.scan import GroupBy
from holdfast.study.growth_study import GrowthStudy
from holdfast.study.media_study import MediaStudy
from holdfast.study.near_duplicate_study import NearDuplicateStudy
from holdfast.study.samples.draw import SampleStudy
from holdfast.study.topic_study import TopicStudy

KINDS: Mapping[str, type[Any]] = {
    "duplicates": DuplicateStudy,
    "near-duplicates": NearDuplicateStudy,
    "change": ChangeStudy,
    "composition": CompositionStudy,
    "media": MediaStudy,
    "topic": TopicStudy,
    "growth": GrowthStudy,
    "sample": SampleStudy,
}


def packed_study(study: Study) -> dict[str, Any]:
    """As JSON has it."""
    name = next(name for name, kind in KINDS.items() if isinstance(study, kind))
    about: Any = study
    return {"name": name, "options": asdict(about) if is_dataclass(study) else {}}


def unpacked_study(values: Mapping[str, Any]) -> Study:
    """Inverse of `packed_study`. Raises MalformedInput, and UsageError as the study does."""
    kind = KINDS.get(str(values["name"]))
    if kind is None:
        raise MalformedInput(f"unknown study {values['name']!r}: is the other node of a later release?")
    options: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in values["options"].items()
    }
    if "by" in options:
        options["by"] = GroupBy.parse(options["by"])
    study: Study = kind(**options)
    return study
