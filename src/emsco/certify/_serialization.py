"""Parts of a certificate as plain values, and back; everything that is read is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, isfinite
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np

from emsco._utils.frozen_mapping import FrozenMapping
from emsco.certify._targets import COMMON, Shortfall, Targets
from emsco.core.design import StageDesign
from emsco.core.evaluation import Evaluation
from emsco.core.front import Candidate
from emsco.core.measures import certifiable
from emsco.exceptions import CertificateError

Kind = TypeVar("Kind")

_COUNTS = ("rows", "accepted", "right", "paid", "waited", "worst_latency")
_BY_CLASS = ("class_rows", "class_accepted", "class_right")
_BY_LABEL = ("given_labels", "label_accepted")


def expect_keys(data: Any, names: Sequence[str]) -> Mapping[str, Any]:
    """Return a mapping that must have these keys and no others."""
    fields = data if isinstance(data, Mapping) else {}
    if set(fields) != set(names):
        raise CertificateError(f"A certificate must have {sorted(names)}, got {data!r:.80}.")
    return fields


def number(value: Any, what: str, least: float = 0.0, most: float = inf) -> Any:
    """Return a finite number, which must be within bounds."""
    is_one = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    if not is_one or not isfinite(value) or not least <= value <= most:
        raise CertificateError(f"A certificate's {what} cannot be {value!r:.80}.")
    return value


def whole(value: Any, what: str, most: float = inf, *, least: int = 0) -> int:
    """Return a whole number; it must not be negative unless `least` allows it."""
    if not isinstance(value, Integral):
        raise CertificateError(f"A certificate's {what} cannot be {value!r:.80}.")
    return int(number(value, what, least, most))


def expect(value: Any, kind: type[Kind], what: str) -> Kind:
    """Return a value that must be of this type."""
    if not isinstance(value, kind):
        raise CertificateError(f"A certificate's {what} cannot be {value!r:.80}.")
    return value


def texts(values: Any, what: str) -> tuple[str, ...]:
    """Return a list of texts, as a tuple."""
    return tuple(expect(value, str, what) for value in expect(values, list, what))


def by_label(labels: Any, values: Any, what: str) -> FrozenMapping[Any, Any]:
    """Return numbers by label, from a list of labels and a list of numbers."""
    pairs = list(zip(expect(labels, list, what), expect(values, list, what), strict=False))
    found = {label: number(value, what) for label, value in pairs}
    if len(found) != len(labels) or len(found) != len(values):
        raise CertificateError(f"A certificate's {what} must have one number per label.")
    return FrozenMapping(found)


def evaluation_to(evaluation: Evaluation, prefix: str) -> dict[str, Any]:
    """Return the counts, each under its own name, so that many candidates make a table."""
    fields: dict[str, Any] = {name: getattr(evaluation, name) for name in _COUNTS}
    fields["labels"] = list(evaluation.class_rows)
    for name in _BY_CLASS:
        fields[name] = [getattr(evaluation, name)[label] for label in fields["labels"]]
    accepted = evaluation.label_accepted
    fields |= {"given_labels": list(accepted), "label_accepted": list(accepted.values())}
    return {f"{prefix}_{name}": value for name, value in fields.items()}


def evaluation_keys(prefix: str) -> list[str]:
    """List the keys of `evaluation_to`."""
    return [f"{prefix}_{name}" for name in (*_COUNTS, "labels", *_BY_CLASS, *_BY_LABEL)]


def evaluation_from(data: Mapping[str, Any], prefix: str) -> Evaluation:
    """Rebuild an evaluation from its counts."""
    labels = data[f"{prefix}_labels"]
    counts = {name: number(data[f"{prefix}_{name}"], name) for name in _COUNTS}
    for name in _BY_CLASS:
        counts[name] = by_label(labels, data[f"{prefix}_{name}"], name)
    assigned, accepted = (data[f"{prefix}_{name}"] for name in _BY_LABEL)
    counts["label_accepted"] = by_label(assigned, accepted, "rows accepted under a label")
    return Evaluation(**counts)


def candidate_to(candidate: Candidate) -> dict[str, Any]:
    """Return a candidate as plain values."""
    return {
        "assignment": candidate.design.assignment.tolist(),
        "threshold": candidate.threshold,
        **({"learner": candidate.learner} if candidate.learner else {}),
        **evaluation_to(candidate.evaluation, "selected"),
    }


def candidate_from(data: Mapping[str, Any], names: tuple[str, ...] | None) -> Candidate:
    """Rebuild a candidate; `names` are the names of the sources."""
    stages = expect(data["assignment"], list, "assignment")
    assignment = [whole(stage, "assignment", least=-1) for stage in stages]
    design = StageDesign(np.array(assignment, dtype=np.int64), names)
    learner = expect(data.get("learner", ""), str, "learner")
    return Candidate(design, data["threshold"], evaluation_from(data, "selected"), learner)


def targets_from(data: Any) -> Targets:
    """Rebuild targets."""
    own = data.keys() - set(COMMON) if isinstance(data, Mapping) else set()
    expect_keys(data, [*COMMON, *own & certifiable().keys()])
    if not isinstance(data["max_missed"], Mapping):
        raise CertificateError(
            f"`max_missed` must be a mapping by label, got {data['max_missed']!r:.80}."
        )
    for name, value in data.items():
        if name in COMMON and name != "max_missed" and value is not None:
            number(value, name)
    return Targets(**data)


def shortfall_from(data: Any) -> Shortfall:
    """Rebuild a shortfall."""
    expect_keys(data, Shortfall._fields)
    counts = {
        name: None if data[name] is None else whole(data[name], name)
        for name in ("events", "needed")
    }
    if (counts["events"] is None) != (counts["needed"] is None):
        raise CertificateError("A certificate has an incomplete shortfall.")
    return Shortfall(
        expect(data["what"], str, "shortfall"),
        whole(data["rows"], "rows"),
        **counts,
        bad=expect(data["bad"], str, "shortfall"),
    )
