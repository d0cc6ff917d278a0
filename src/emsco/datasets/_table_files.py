"""Files of public tables: where they come from, and how they are verified."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco.core.costs import Costs
from emsco.exceptions import DatasetError, require

Folder = str | os.PathLike[str] | None


class CostlyData(NamedTuple):
    """A table with its labels and prices, as in `X, y, costs = load_cleveland()`.

    Attributes
    ----------
    X : pandas DataFrame of shape (n_rows, n_features)
        The features; each belongs to exactly one source of `costs`.
    y : numpy array of shape (n_rows,)
        The label of each row.
    costs : Costs
        The price of each source.
    """

    X: Any  # a pandas DataFrame; pandas is optional and ships no types
    y: NDArray[Any]
    costs: Costs


def registry() -> dict[str, tuple[str, str]]:
    """Read the sha256 of each file, and where it is publicly available."""
    lines = (files("emsco.datasets") / "registry.txt").read_text(encoding="utf-8").splitlines()
    return {name: (sha256, source) for name, sha256, source in (one.split(" ", 2) for one in lines)}


def read(name: str, folder: Folder) -> bytes:
    """Read a whole file, and refuse it unless it is the known one.

    Without a folder, the file in the package is read. The large tables are not part of the package;
    they are read from the folder given by EMSCO_DATA.
    """
    sha256, source = registry()[name]
    get = f"get it from {source}, in the format that emsco.datasets describes (sha256 {sha256})"
    packed = files("emsco.datasets") / "tables" / f"{name.removesuffix('.gz')}.gz"
    if not folder and packed.is_file():
        path, content = str(packed), packed.read_bytes()
        content = content if name.endswith(".gz") else gzip.decompress(content)
    else:
        folder = folder or os.environ.get("EMSCO_DATA")
        if not folder or not (file := Path(folder) / name).is_file():
            where = f"in {os.fspath(folder)}" if folder else "part of the package"
            raise DatasetError(f"{name} is not {where}; {get} and set EMSCO_DATA to its folder.")
        path, content = str(file), file.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise DatasetError(f"{path} is not the expected table (its sha256 is {found}); {get}.")
    return content


def frame(name: str, folder: Folder, **options: Any) -> Any:
    """Read a file as a pandas DataFrame."""
    pandas = require("pandas")
    if tuple(map(int, pandas.__version__.split(".")[:2])) < (3, 1):
        options["float_precision"] = "round_trip"  # earlier versions may get the last bit wrong
    return pandas.read_csv(
        io.BytesIO(read(name, folder)),
        compression="gzip" if name.endswith(".gz") else None,
        **options,
    )


def rows(name: str, folder: Folder) -> tuple[Any, NDArray[np.int64]]:
    """Read a file as features and labels."""
    table = frame(name, folder)
    labels: NDArray[np.int64] = table.pop("label").to_numpy()
    return table, labels
