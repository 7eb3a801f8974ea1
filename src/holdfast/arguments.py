"""Type checks for arguments of the public interface: a wrong type raises UsageError before anything is done.

    @checked
    def get(self, key: ContentKey | str) -> bytes: ...

    contents.get(b"v0:3f0a")    bad argument 'key' of Contents.get: b'v0:3f0a' is bytes, expected ContentKey or str

Annotations are read when a function is first called. A call costs about a microsecond more. The fields of values such
as `ContentKey` are checked too, because their constructors do not check. Elements of sequences are checked, those of
iterators are not. A list is accepted for a tuple, and a whole number for a fraction.
"""

from __future__ import annotations

import collections.abc
import enum
import os
import re
import reprlib
import sys
import types
from collections.abc import Callable, Collection, Iterable
from dataclasses import fields, is_dataclass
from functools import cache, wraps
from inspect import signature
from pathlib import PurePath
from typing import IO, Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from holdfast.errors import UsageError, of_the_system

P = ParamSpec("P")
R = TypeVar("R")
Fits = Callable[[Any], bool]

_TEXTS = (str, bytes, bytearray, memoryview)  # sequences, but of characters and bytes
_MODULES = re.compile(r"(?:\w+\.)+(?=\w)")
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with its arguments checked first.

    Every name in its annotations must be an attribute of its module, or one that the module's `__getattr__` loads.
    """
    expected: dict[str, tuple[Any, Fits]] = {}
    positional: list[tuple[str, Fits]] = []

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if not positional:
            names = list(signature(function).parameters)
            expected.update(_expected(function, names))
            positional.extend((name, expected[name][1] if name in expected else _anything) for name in names)
        for (name, fits), value in zip(positional, args, strict=False):
            if not fits(value):
                raise wrong(name, value)
        for name, value in kwargs.items():
            if name in expected and not expected[name][1](value):
                raise wrong(name, value)
        return function(*args, **kwargs)

    def wrong(name: str, value: object) -> UsageError:
        owner = function.__qualname__.removesuffix(".__init__")
        return _wrong(f"argument {name!r} of {owner}", value, expected[name][0])

    return call


def public(function: Callable[P, R]) -> Callable[P, R]:
    """As `checked`; and errors of the operating system become errors of the tree, but for a broken pipe."""
    inner = checked(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return inner(*args, **kwargs)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise of_the_system(error) from error
        except ValueError as error:
            if "null byte" in str(error):  # so the interpreter refuses such paths
                raise UsageError("bad path: it has a null byte") from error
            raise

    return call


def check_fields(instance: Any) -> None:
    """Raises UsageError if a field of a dataclass is not of its type. For `__post_init__`."""
    kind: Any = type(instance)
    for name, (annotation, fits) in _fields_of(kind).items():
        if not fits(value := getattr(instance, name)):
            raise _wrong(f"field {name!r} of {kind.__name__}", value, annotation)


def read_text_field(instance: Any, name: str, read: Callable[[str], Any]) -> None:
    """Replaces a field that was given as text by what `read` makes of it. For `__post_init__`, before the check."""
    if isinstance(value := getattr(instance, name), str):
        object.__setattr__(instance, name, read(value))


def nearest(name: str, known: Collection[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, or all of them."""
    import difflib  # only errors need it

    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(filter(None, known))}"


def _wrong(what: str, value: Any, annotation: Any) -> UsageError:
    hint = ""
    if isinstance(value, str):
        parsing = [each for each in (annotation, *get_args(annotation)) if hasattr(each, "parse")]
        hint = "".join(f"; {each.__name__}.parse reads it from text" for each in parsing)
    shown, kind = _SHORT.repr(value), type(value)
    if kind in (annotation, *get_args(annotation)):
        return UsageError(f"bad {what}: {shown} has values of wrong types")
    return UsageError(f"bad {what}: {shown} is {kind.__name__}, expected {_text(annotation)}{hint}")


def _text(annotation: Any) -> str:
    """A type as written in source code."""
    if annotation is type(None):
        return "None"
    if get_origin(annotation) in (Union, types.UnionType):
        return " or ".join(_text(each) for each in get_args(annotation))
    if get_origin(annotation) is None and isinstance(annotation, type):
        return annotation.__name__
    return _MODULES.sub("", str(annotation))


# -- what fits -----------------------------------------------------------------------------------------------------


def _expected(function: Callable[..., Any], names: Iterable[str]) -> dict[str, tuple[Any, Fits]]:
    # The result is not checked: its type is often imported for the type checker only.
    wanted = {name: each for name, each in function.__annotations__.items() if name != "return"}
    names_of_module = _ModuleNames(sys.modules[function.__module__])
    hints = get_type_hints(types.SimpleNamespace(__annotations__=wanted), function.__globals__, names_of_module)
    known = ((name, hints[name]) for name in names if name in hints)
    return {name: (hint, fits) for name, hint in known if (fits := _fits(hint)) is not None}


class _ModuleNames(dict[str, Any]):
    """The names of a module, including those that it loads when they are first used."""

    def __init__(self, module: types.ModuleType) -> None:
        super().__init__()
        self._module = module

    def __missing__(self, name: str) -> Any:
        try:
            return getattr(self._module, name)
        except AttributeError:
            raise KeyError(name) from None


@cache
def _fields_of(kind: Any) -> dict[str, tuple[Any, Fits]]:
    hints = get_type_hints(kind)
    names = [each.name for each in fields(kind)] if is_dataclass(kind) else list(getattr(kind, "_fields", ()))
    return {name: (hints[name], fits) for name in names if (fits := _fits(hints[name])) is not None}


def _fits(annotation: Any) -> Fits | None:
    """A predicate for values of a type; None if every value fits."""
    origin = get_origin(annotation)
    if annotation is Any or isinstance(annotation, TypeVar):
        return None
    if origin in (Union, types.UnionType):
        parts = [_fits(each) for each in get_args(annotation)]
        known = [each for each in parts if each is not None]
        if len(known) < len(parts):
            return None
        if len(known) == 2:
            first, second = known  # spelled out: a generator costs every `get` 2 µs
            return lambda value: first(value) or second(value)
        return lambda value: any(fits(value) for fits in known)
    if origin is Literal:
        return lambda value: value in get_args(annotation)
    if origin is not None and issubclass(origin, IO):
        return _is_stream
    if origin is not None:
        return _fits_generic(origin, get_args(annotation))
    return _fits_class(annotation)


def _fits_class(kind: type) -> Fits:
    if kind is float:
        return lambda value: isinstance(value, int | float)
    if issubclass(kind, PurePath):
        return lambda value: isinstance(value, os.PathLike)
    if issubclass(kind, IO):
        return _is_stream
    if getattr(kind, "_is_protocol", False):
        names = [name for name in vars(kind) if not name.startswith("_")]
        return lambda value: all(hasattr(value, name) for name in names)
    is_value = is_dataclass(kind) or hasattr(kind, "_fields")
    if is_value and not issubclass(kind, enum.Enum) and not hasattr(kind, "__post_init__"):
        return lambda value: isinstance(value, kind) and _holds(value, kind)
    return lambda value: isinstance(value, kind)


def _holds(value: Any, kind: type) -> bool:
    """True if the fields of a value have their types: its constructor did not check."""
    for name, (_, fits) in _fields_of(kind).items():  # noqa: SIM110  # a generator costs every `get` 2 µs
        if not fits(getattr(value, name)):
            return False
    return True


def _fits_generic(origin: Any, parts: tuple[Any, ...]) -> Fits:
    if origin is collections.abc.Callable:
        return callable
    if origin is tuple and parts[-1] is not Ellipsis:
        each = [_fits(part) or _anything for part in parts]
        return lambda value: (
            isinstance(value, tuple | list)
            and len(value) == len(each)
            and all(fits(part) for fits, part in zip(each, value, strict=True))
        )
    kinds = (tuple, list) if origin is tuple else origin
    fits = _fits(parts[0]) if parts else None
    if fits is None or not issubclass(origin, collections.abc.Sequence):
        return lambda value: isinstance(value, kinds) and not isinstance(value, _TEXTS)
    return lambda value: (
        isinstance(value, kinds) and not isinstance(value, _TEXTS) and all(fits(each) for each in value)
    )


def _anything(_value: Any) -> bool:
    return True


def _is_stream(value: Any) -> bool:
    return hasattr(value, "read") or hasattr(value, "write")
