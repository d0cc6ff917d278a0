"""The errors and warnings of emsco, the messages they carry, and `require` for imports."""

from __future__ import annotations

import difflib
import importlib
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from numbers import Number
from typing import Any, Self


class Message(str):
    """A text whose parts are kept, so that the command line can spell parameters as options.

    As a string it is spelled in Python. Adding a string gives a message again.

    Examples
    --------
    >>> from emsco.exceptions import Message, Parameter
    >>> message = Parameter("max_rows") + " must be positive."
    >>> print(message)
    `max_rows` must be positive.
    >>> "".join("--max-rows" if isinstance(p, Parameter) else p for p in message.parts)
    '--max-rows must be positive.'
    """

    parts: tuple[str, ...]

    def __new__(cls, *texts: str) -> Self:
        """Join texts and messages."""
        self = super().__new__(cls, "".join(texts))
        self.parts = tuple(part for text in texts for part in getattr(text, "parts", (text,)))
        return self

    def __add__(self, other: str, /) -> Message:
        return Message(self, other)

    def __radd__(self, other: str, /) -> Message:
        return Message(other, self)

    def join(self, texts: Iterable[str], /) -> Message:
        """Join texts, some of which may be messages."""
        return Message(*[part for text in texts for part in (self, text)][1:])


class Code(Message):
    """Python code in a message, such as `choose(caution=0)`."""

    def __new__(cls, code: str) -> Self:
        """Write it as in Python."""
        self = super().__new__(cls, code)
        self.parts = (self,)
        return self

    def __reduce__(self) -> Any:
        return type(self), (str(self),)


class Parameter(Code):
    """A parameter in a message, such as `max_rows`."""

    name: str

    def __new__(cls, name: str) -> Self:
        """Name it in backticks."""
        self = super().__new__(cls, f"`{name}`")
        self.name = name
        return self

    def __reduce__(self) -> Any:
        return type(self), (self.name,)


class Keyword(Parameter):
    """A parameter with a value in a message, such as `caution=0`; without one, such as `groups=`.

    Examples
    --------
    >>> from emsco.exceptions import Keyword
    >>> print(Keyword("caution", 0), Keyword("max_missed", {"sick": 0.1}), Keyword("groups"))
    caution=0 max_missed={'sick': 0.1} groups=
    """

    value: Any

    def __new__(cls, name: str, value: Any = None) -> Self:
        """Write it as it is passed."""
        text = f"{value:.10g}" if isinstance(value, float) else repr(value)
        self = Code.__new__(cls, f"{name}={'' if value is None else text}")
        self.name, self.value = name, value
        return self

    def __reduce__(self) -> Any:
        return type(self), (self.name, self.value)


class Placeholder(Keyword):
    """A parameter with a word for each part of its value, which is up to the reader.

    Examples
    --------
    >>> from emsco.exceptions import Placeholder
    >>> print(Placeholder("max_rejected", {"label": "share"}))
    max_rejected={label: share}
    """

    def __new__(cls, name: str, value: Mapping[str, str]) -> Self:
        """Write it as it is passed."""
        words = ", ".join(f"{key}: {one}" for key, one in value.items())
        self = Code.__new__(cls, f"{name}={{{words}}}")
        self.name, self.value = name, value
        return self


class _Reported:
    """What errors and warnings have: a message, and the parameter and the value it is about."""

    def __init__(self, message: str = "", *, parameter: str | None = None, value: Any = None):
        super().__init__(message)  # type: ignore[call-arg]  # of the exception beside it
        named = [part.name for part in getattr(message, "parts", ()) if isinstance(part, Parameter)]
        self.message = message
        self.parameter = named[0] if named and parameter is None else parameter
        self.value = value


class EmscoError(_Reported, Exception):
    """The base class of every error that emsco raises on purpose.

    Parameters
    ----------
    message : str
        What must hold, what was received, and what to do.
    parameter : str, default=None
        The parameter that it is about; None: the first that the message names, if any.
    value : object, default=None
        The value that was received for it.

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
    """An invalid price, source, setup or requirement."""


class DesignError(EmscoError, ValueError):
    """A design that is invalid or contradicts the costs."""


class ThresholdError(EmscoError, ValueError):
    """An invalid threshold, such as one that is always met or that can never be reached."""


class ColumnsError(EmscoError, ValueError):
    """Columns of X that differ from those named by the costs or seen in `fit`."""


class ClassesError(EmscoError, ValueError):
    """Labels from which no classifier can be learned."""


class DecisionsError(EmscoError, ValueError):
    """Inconsistent decisions, counts or answers of a driver."""


class ValuesError(EmscoError, ValueError):
    """A value that cannot be judged; `row` and `column` locate it, if it is a single cell."""

    def __init__(
        self, message: str = "", *, row: int | None = None, column: str | None = None, **about: Any
    ) -> None:
        super().__init__(message, **about)
        self.row = row
        self.column = column


class SearchError(EmscoError, ValueError):
    """A search that cannot be run as asked."""


class EngineError(EmscoError, RuntimeError):
    """An engine that cannot be started, or whose workers cannot do their work."""


class SelectionError(EmscoError, ValueError):
    """Bounds that no candidate of a front meets; `closest` is the candidate closest to them."""

    def __init__(self, message: str = "", *, closest: Any = None, **about: Any) -> None:
        super().__init__(message, **about)
        self.closest = closest


class MonitorError(EmscoError, ValueError):
    """Promises that cannot be monitored, or input that a monitor cannot use."""


class CertificateError(EmscoError, ValueError):
    """A certificate that cannot be issued, or that does not hold for the given model."""


class BatchError(EmscoError, ValueError):
    """A batch that cannot be labelled as asked, or an answer that cannot be used.

    Examples
    --------
    >>> import emsco.batch
    >>> emsco.batch.label_answers(["ham"], [0.9], final=print, agreement=1)
    Traceback (most recent call last):
    emsco.exceptions.BatchError: `agreement` must be a number between 0 and 1, got 1.
    """


class DatasetError(EmscoError, FileNotFoundError):
    """A data set that is missing, differs from the known one, or has no such part."""


class ArtifactError(EmscoError, ValueError):
    """A file that cannot be written, cannot be trusted, or does not hold what is requested."""


class ModelError(EmscoError, ValueError):
    """A model that decides nothing yet, or a final model that cannot be read or gives no answer."""


class EndpointError(EmscoError, RuntimeError):
    """A model behind an endpoint that cannot be asked: no key, no money left, or out of reach."""


class CheckpointError(EmscoError, ValueError):
    """A checkpoint that is damaged, belongs to another run, or cannot be written."""


class SourcesError(EmscoError, ValueError):
    """Live sources that cannot be fetched as they are described."""


class InvalidKeyError(SourcesError):
    """Keys, or values beside them, that a source cannot be asked with; it is well itself.

    A client or function raises it; of several keys, those it is about are found and rejected.

    Examples
    --------
    >>> import asyncio
    >>> from emsco.live import CallableSource
    >>> from emsco.live.coalescing import CoalescingGate
    >>> def ages(keys, values):
    ...     if "?" in keys:
    ...         raise InvalidKeyError("A key must be a number.")
    ...     return {key: {"age": 41.0} for key in keys}
    >>> gate = CoalescingGate(CallableSource(function=ages), ["age"], price=1.0)
    >>> asyncio.run(gate.fetch(["1", "?"], {})).reasons
    ['', 'invalid key']
    """


class ServiceError(EmscoError, ValueError):
    """A service that cannot be started as asked."""


class StateError(EmscoError, RuntimeError):
    """A state of a service that cannot be reached, or that cannot be used."""


class LateStateError(StateError):
    """A state of a service that does not answer before the deadline of a decision."""


class ContractError(EmscoError, AssertionError):
    """A broken promise of an engine, search or other part, found by `emsco.testing`."""


class EmscoWarning(_Reported, UserWarning):
    """The base class of every warning of emsco."""


class SelectionWarning(EmscoWarning):
    """A choice that is likely to look better than it is, or that fell back to all sources."""


class SearchWarning(EmscoWarning):
    """A search that may take a long time."""


class CalibrationWarning(EmscoWarning):
    """Confidences that are too high."""


class LabelsWarning(EmscoWarning):
    """Labels of rows that are no classes of the model."""


class GuardWarning(EmscoWarning):
    """A guard that will reject many valid rows."""


class MonitorWarning(EmscoWarning):
    """A monitor that does not watch everything that was promised."""


class CertificateWarning(EmscoWarning):
    """A certificate in a file that is not about the cascade in it, or cannot be checked."""


class CheckpointWarning(EmscoWarning):
    """A damaged checkpoint, so that an earlier one is used."""


class MissingExtraError(EmscoError, ImportError):
    """An optional dependency that is not installed."""


def require(module: str, extra: str | None = None) -> Any:
    """Import an optional module, or say how to install it.

    Parameters
    ----------
    module : str
        The module to import.
    extra : str or None
        The extra of emsco that installs it. None: the user installs the module directly.

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
    """List names for a message, shortened to the first `most`."""
    names = list(names)
    listed = ", ".join(repr(name) for name in names[:most])
    return listed if len(names) <= most else f"{listed} and {len(names) - most} more"


def nearest(name: object, known: Iterable[str]) -> str:
    """Suggest the known name that an unknown name resembles, as the end of a message.

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


def nearest_class(label: object, classes: Iterable[object]) -> str:
    """Suggest the class that a label resembles, as the end of a message."""
    known = list(classes)
    for own in known:
        if isinstance(own, str) != isinstance(label, str) and str(own) == str(label).strip():
            kinds = [f"{one!r} is {kind_of_label(one)}" for one in (label, own)]
            return f"; {kinds[0]}, and the class {kinds[1]}."
    return nearest(label, map(str, known))


def kind_of_label(label: object) -> str:
    """Describe what kind of label this is."""
    if isinstance(label, str):
        return "text"
    return "a number" if isinstance(label, Number) else f"of type {type(label).__name__}"


def refuse_unknown_keys(
    keys: Iterable[str], known: Sequence[str], what: str, error: type[EmscoError]
) -> None:
    """Raise an error for the first unknown key."""
    for key in keys:
        if key not in known:
            raise error(f"{what} may hold {quoted(known)}, but not {key!r}{nearest(key, known)}")


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line of the caller: the first outside emsco and scikit-learn."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals["__name__"].startswith(("emsco.", "sklearn.")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
