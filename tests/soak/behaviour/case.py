"""A case: parts with names, each told as text that is the same only where behaviour is."""

from __future__ import annotations

import hashlib
import json
import re
import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np

from emsco import Decisions, ParetoFront, ScoredFront
from emsco.exceptions import EmscoWarning

ERROR = "error: "
FIELDS = ("label", "accepted", "exit_stage", "confidence", "cost", "reason", "latency")
Part = tuple[str, Callable[[], object]]
Case = Callable[[int], Iterable[Part]]  # given the number of workers


def record(case: Case, n_jobs: int) -> dict[str, str]:
    """Tell every part of a case; one that fails is told by its error and stops no other."""
    told = {}
    try:
        for name, part in case(n_jobs):
            told[name] = _tell_part(part)
    except Exception as error:
        told["the case itself"] = _tell_error(error)
    return told


def _tell_part(part: Callable[[], object]) -> str:
    try:
        return tell(part())
    except Exception as error:
        return _tell_error(error)


def _tell_error(error: Exception) -> str:
    return f"{ERROR}{type(error).__name__}: {error}"


def digest(text: str) -> str:
    """Give what is compared of a text; an error is told as it is."""
    if text.startswith(ERROR):
        return text
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def tell(value: object) -> str:
    """Tell a value whole: floats to the last bit, arrays with their type.

    Examples
    --------
    >>> import numpy as np
    >>> from tests.soak.behaviour.case import tell
    >>> print(tell({"right": np.array([0.1, 0.30000000000000004]), "rows": 2}))
    right: <f8 (2,) [0.1, 0.30000000000000004]
    rows: 2
    """
    if isinstance(value, str):
        return value
    if isinstance(value, Decisions):
        return tell({name: getattr(value, name) for name in FIELDS})
    if isinstance(value, np.ndarray):
        return f"{value.dtype.str} {value.shape} {value.tolist()!r}"
    if isinstance(value, Mapping):
        return "\n".join(f"{name}: {tell(part)}" for name, part in value.items())
    if isinstance(value, list | ParetoFront | ScoredFront):
        return "\n".join(tell(part) for part in value)
    return repr(value)


def tell_warnings(action: Callable[[], object]) -> list[str]:
    """Do something, and list the warnings of emsco that it gave."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    of_emsco = [w for w in caught if issubclass(w.category, EmscoWarning)]
    return [f"{warning.category.__name__}: {warning.message}" for warning in of_emsco]


def tell_outcome(action: Callable[[], object]) -> str:
    """Tell what something gives, or the error by which it is refused."""
    try:
        return tell(action())
    except Exception as error:
        return f"refused: {type(error).__name__}: {error}"


def tell_file(path: Path) -> list[str]:
    """Tell what a file of emsco holds, but for the versions of the libraries that wrote it."""
    told = []
    with zipfile.ZipFile(path) as file:
        for name in file.namelist():
            content = file.read(name)
            if name == "manifest.json":
                manifest = json.loads(content)
                del manifest["versions"], manifest["fingerprint"]  # of what was drawn, too
                told.append(without_chance(json.dumps(manifest, indent=1)))
            else:
                told.append(f"{name} {hashlib.sha256(content).hexdigest()}")
    return told


def without_chance(text: str) -> str:
    """Leave out what may differ: numbers that a ledger draws, the clock, how many workers ran."""
    text = re.sub(r'("(?:number|withdraws)": ")[0-9a-f]{16}"', r'\1drawn"', text)
    text = re.sub(r"\d\d:\d\d UTC", "TIME UTC", text)
    return re.sub(r'("n_jobs": )\d+', r"\1any", text)
