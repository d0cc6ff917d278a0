"""The fingerprint of a fitted cascade: a digest of everything that its decisions depend on."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

import joblib
import numpy as np

from emsco.cascade.classifier import CascadeClassifier
from emsco.cascade.decider import Decider
from emsco.exceptions import CertificateError
from emsco.learners.final_model import LoggedAnswers, OnnxModel
from emsco.learners.logistic import LinearFit
from emsco.rows.guard import InputGuard

_FORMAT = "emsco cascade 2"  # changes if the digest of a cascade changes
_WIDEST = {"f": "<f8", "i": "<i8", "u": "<u8", "b": "|b1"}  # by kind of number


def fingerprint(cascade: CascadeClassifier | Decider) -> str:
    """Return the sha256 of everything that the decisions of a fitted cascade depend on.

    Design, prices, thresholds, labels, encodings, the weights of the default classifier, what an
    `InputGuard` has learned, and emsco's own final models enter as data, bit by bit. Any other
    stage, final model or guard enters by its pickled content, because there is no other way to
    identify it; another version of its library may give another digest.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from emsco import CascadeClassifier
    >>> from emsco.cascade.fingerprint import fingerprint
    >>> X, y = load_iris(return_X_y=True)
    >>> cascade = CascadeClassifier().fit(X, y)
    >>> fingerprint(cascade) == fingerprint(CascadeClassifier().fit(X, y))
    True
    >>> fingerprint(cascade) == fingerprint(CascadeClassifier().fit(X[1:], y[1:]))
    False
    """
    return fingerprints([cascade])[0]


def fingerprints(cascades: Iterable[CascadeClassifier | Decider]) -> list[str]:
    """Return the fingerprints of several cascades; a classifier that they share is pickled once."""
    seen: dict[int, Pickled] = {}
    deciders = [one if isinstance(one, Decider) else one.decider_ for one in cascades]
    return [digest_of(_parts(decider, seen)) for decider in deciders]


def _parts(decider: Decider, seen: dict[int, Pickled]) -> list[Any]:
    """List everything that decisions depend on; `seen` holds what was pickled before."""
    readers = decider.readers
    parts: list[Any] = [
        _FORMAT,
        decider.design.assignment,
        decider.costs,
        decider.thresholds,
        decider.classes,
        list(decider.layout.names),
        decider.layout.named,  # otherwise columns are read by position
        {name: reader.missing_seen for name, reader in readers.items()},
        {name: r.encoding for name, r in readers.items() if r.encoding is not None},
        decider.plan.default,
    ]
    if not decider.plan.rule.is_equal:
        parts.append(["label weights", list(decider.plan.rule.weights)])
    if decider.layout.labels:
        parts.append(list(decider.layout.labels))
    types = {name: reader.type for name, reader in readers.items() if reader.type is not None}
    if types:
        parts.append(types)
    for stage in decider.plan.stages:
        fitted = stage.judge.fitted
        if isinstance(fitted, LinearFit):
            parts.append((fitted.weights, fitted.intercepts))
        else:
            parts.append((decider.container, _foreign(fitted, seen)))
    if decider.cap is not None:
        parts.append(["cap", decider.cap.column, decider.cap.cap])
    if decider.guard is not None:
        guard = decider.guard
        parts.append(guard.to_data() if type(guard) is InputGuard else Pickled(guard))
    return parts


def _foreign(model: Any, seen: dict[int, Pickled]) -> Any:
    """Return what identifies a classifier of the user or a final model: data if it is emsco's."""
    if isinstance(model, LoggedAnswers):
        return model
    if isinstance(model, OnnxModel):
        return ("ONNX", model.content)
    return seen.setdefault(id(model), Pickled(model))


def digest_of(value: Any) -> str:
    """Return the sha256 of numbers, text, arrays, mappings, dataclasses and lists of these."""
    digest = sha256()
    for part in _spelled(value):
        digest.update(part)
        digest.update(b";")
    return digest.hexdigest()


class Pickled:
    """An object that is identified by its pickled content."""

    def __init__(self, value: Any) -> None:
        self.value = value

    @cached_property
    def digest(self) -> bytes:
        """The hash of the pickled content."""
        try:
            # A copy, because the hash of an original may depend on its layout in memory.
            return str(joblib.hash(copy.deepcopy(self.value), hash_name="sha1")).encode()
        except Exception as error:
            raise CertificateError(
                f"{type(self.value).__name__} cannot be pickled, so a cascade with it cannot be "
                f"told from another: {error}"
            ) from error


def _spelled(value: Any) -> Iterator[bytes]:
    """Yield a value as bytes, the same whether it came from a fit, a pickle or a file."""
    if isinstance(value, Pickled):
        yield value.digest
    elif isinstance(value, np.generic):
        yield from _spelled(value.item())
    elif isinstance(value, np.ndarray) and value.dtype.kind in _WIDEST:
        widest = value.astype(_WIDEST[value.dtype.kind])
        yield from _spelled([value.shape, value.dtype.kind, widest.tobytes()])
    elif isinstance(value, list | tuple | np.ndarray):
        yield f"[{len(value)}".encode()
        for item in value:
            yield from _spelled(item)
    elif isinstance(value, Mapping):
        yield from _spelled(sorted(value.items(), key=lambda item: str(item[0])))
    elif is_dataclass(value):
        yield type(value).__name__.encode()
        for each in fields(value):
            own = getattr(value, each.name)
            is_unset = each.metadata.get("later") and own == each.default
            if not is_unset and not each.metadata.get("words"):
                yield from _spelled(own)
    elif isinstance(value, float):
        yield value.hex().encode()
    elif isinstance(value, bytes):
        yield value
    else:
        yield repr(value).encode()
