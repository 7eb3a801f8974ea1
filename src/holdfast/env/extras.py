"""Extras: optional dependencies, installed with `pip install 'holdfast[search]'`."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

from holdfast.errors import MissingExtra

# For each extra: the modules it installs, and its purpose.
EXTRAS = {
    "search": (("tantivy", "pyarrow", "duckdb"), "full-text search, SQL, studies, plans, Parquet and Arrow"),
    "browser": (("playwright",), "crawls with a browser"),
    "objects": (("obstore",), "volumes in an object store"),
    "cluster": (("nats", "cryptography"), "clusters"),
    "datasets": (("datasets",), "corpora for Hugging Face"),
    "torch": (("torch",), "corpora for PyTorch"),
    "ray": (("ray",), "corpora for Ray"),
    "spark": (("pyspark",), "corpora for Spark"),
}


@cache
def is_installed(extra: str) -> bool:
    """True if all modules of an extra can be imported. They are not imported."""
    return all(find_spec(module) is not None for module in EXTRAS[extra][0])


def require(extra: str) -> None:
    """Raises MissingExtra, with the command that installs it, unless the extra is there."""
    if not is_installed(extra):
        raise MissingExtra(f"{EXTRAS[extra][1]}: this part is not installed; run: pip install 'holdfast[{extra}]'")


def extra_of(module: str) -> str | None:
    """The extra that brings a module; None if none does."""
    name = module.partition(".")[0]
    return next((extra for extra, (modules, _) in EXTRAS.items() if name in modules), None)
