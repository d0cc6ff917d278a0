"""Named errors, one sentence each, and the one way to import something optional."""

from __future__ import annotations

import difflib
import importlib
import sys
import warnings
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any


class EmscoError(Exception):
    """The root of every error raised on purpose.

    Examples
    --------
    >>> from emsco import Costs, exceptions
    >>> try:
    ...     Costs.per_feature({"age": -1})
    ... except exceptions.EmscoError as error:
    ...     print(error)
    The cost of source 'age' must be a number >= 0, got -1.
    """


class CostsError(EmscoError, ValueError):
    """A price, a source, a setup or a requirement that cannot be."""


class DesignError(EmscoError, ValueError):
    """A design that cannot be, or that the costs contradict."""


class ThresholdError(EmscoError, ValueError):
    """A threshold that no class can fail to meet, or that none can reach."""


class ColumnsError(EmscoError, ValueError):
    """Columns of X that are not the ones the costs or the fit named."""


class ClassesError(EmscoError, ValueError):
    """Labels from which no classifier can be learned."""


class DecisionsError(EmscoError, ValueError):
    """Decisions, counts or answers of a driver that contradict one another."""


class ValuesError(EmscoError, ValueError):
    """A value that cannot be judged; `row` and `column` say where, when it has one place."""

    def __init__(self, message: str, *, row: int | None = None, column: str | None = None) -> None:
        super().__init__(message)
        self.row = row
        self.column = column


class SearchError(EmscoError, ValueError):
    """A search that cannot be run as asked."""


class SelectionError(EmscoError, ValueError):
    """Bounds that no candidate of a front meets; `closest` is the one that misses them least."""

    def __init__(self, message: str, *, closest: Any = None) -> None:
        super().__init__(message)
        self.closest = closest


class MonitorError(EmscoError, ValueError):
    """Promises that cannot be watched, or what a monitor cannot take in."""


class CertificateError(EmscoError, ValueError):
    """A certificate that cannot be given, or that does not hold for what is shown to it."""


class DatasetError(EmscoError, FileNotFoundError):
    """A data set that is not there, that is not the known one, or that has no such part."""


class ArtifactError(EmscoError, ValueError):
    """A file that cannot be written, cannot be trusted, or does not hold what is asked of it."""


class ModelError(EmscoError, ValueError):
    """A final model that cannot be read, or that gives no answer."""


class CheckpointError(EmscoError, ValueError):
    """A checkpoint that is damaged, is of another run, or cannot be written."""


class SourcesError(EmscoError, ValueError):
    """Live sources that cannot be fetched as they are described."""


class ContractError(EmscoError, AssertionError):
    """An engine or a search that breaks a promise, found by the suites of `emsco.testing`."""


class EmscoWarning(UserWarning):
    """The root of every warning."""


class SelectionWarning(EmscoWarning):
    """A choice that is likely to look better than it is, or that fell back on all sources."""


class SearchWarning(EmscoWarning):
    """A search that may take long."""


class CalibrationWarning(EmscoWarning):
    """Confidences that promise more than they keep."""


class GuardWarning(EmscoWarning):
    """A guard that will reject many rows without a fault."""


class MonitorWarning(EmscoWarning):
    """A monitor that does not watch all that was promised."""


class CertificateWarning(EmscoWarning):
    """A certificate out of a file that is not about the cascade beside it, or cannot be checked."""


class CheckpointWarning(EmscoWarning):
    """A checkpoint that is damaged, so that an earlier one is taken."""


class MissingExtraError(EmscoError, ImportError):
    """An optional dependency that is not installed."""


def require(module: str, extra: str | None = None) -> ModuleType:
    """Import an optional module, or say how to install it.

    Parameters
    ----------
    module : str
        The module to import.
    extra : str or None
        The extra of emsco that brings it; None where the user brings it himself.

    Examples
    --------
    >>> from emsco.exceptions import require
    >>> require("json").__name__
    'json'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = f"emsco[{extra}]" if extra else module.partition(".")[0]
        raise MissingExtraError(
            f"This needs {module!r}, which cannot be imported ({error}); pip install '{package}'."
        ) from error


def quoted(names: Iterable[object], *, most: int = 8) -> str:
    """List names for a message, cut where a person would stop reading."""
    names = list(names)
    listed = ", ".join(repr(name) for name in names[:most])
    return listed if len(names) <= most else f"{listed} and {len(names) - most} more"


def nearest(name: object, known: Iterable[str]) -> str:
    """Answer an unknown name with the known one it resembles, as the end of a message.

    Examples
    --------
    >>> from emsco.exceptions import nearest
    >>> nearest("tsh", ["TSH", "T3"]), nearest("agee", ["age"]), nearest("x", ["age"])
    ("; did you mean 'TSH'?", "; did you mean 'age'?", '.')
    """
    listed = list(known)
    match = [other for other in listed if other.casefold() == str(name).casefold()]
    match += difflib.get_close_matches(str(name), listed, n=1)
    return f"; did you mean {match[0]!r}?" if match else "."


def refuse_unknown_keys(
    given: Iterable[str], known: Sequence[str], what: str, error: type[EmscoError]
) -> None:
    """Refuse the first key that nothing is known by."""
    for key in given:
        if key not in known:
            raise error(f"{what} may hold {quoted(known)}, but not {key!r}{nearest(key, known)}")


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line that called in: the first that is neither emsco's nor scikit-learn's."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals["__name__"].startswith(("emsco.", "sklearn.")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
