"""Checks of what a certificate is asked for: the questions, the model and the labels."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

from numpy.typing import ArrayLike, NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from emsco.cascade import CascadeClassifier
from emsco.certify._fresh_rows import UNKNOWN_LABELS, sentence, way_out
from emsco.certify._hypothesis_family import Family
from emsco.certify._targets import AGREEMENT_ALONE, Targets
from emsco.core.validation import describe_unknown, read_given_labels, unknown_labels
from emsco.exceptions import (
    CertificateError,
    ClassesError,
    ColumnsError,
    Keyword,
    Parameter,
    nearest_class,
    quoted,
)
from emsco.learners.final_model import predict_labels
from emsco.rows.rows import Rows
from emsco.search import CascadeSearchCV


def check_shares(questions: Sequence[Targets], shares: Sequence[float] | None) -> list[float]:
    """Check questions that are asked together, and return the share of the error of each."""
    if not questions or not all(isinstance(question, Targets) for question in questions):
        raise CertificateError(f"`questions` must hold at least one Targets, got {questions!r}.")
    if len({question.agreement is None for question in questions}) > 1:
        raise CertificateError(AGREEMENT_ALONE)
    parts = [1 / len(questions)] * len(questions) if shares is None else list(shares)
    for part in parts:
        if not isinstance(part, Real) or not 0 < part <= 1:
            raise CertificateError(f"`share` must be above 0 and at most 1, got {part!r}.")
    if len(parts) != len(questions) or sum(parts) > 1 + 1e-9:
        raise CertificateError(
            f"`shares` must have one share for each of {len(questions)} questions, with a sum of "
            f"at most 1; got {parts}."
        )
    return [float(part) for part in parts]


def truth_of(
    model: CascadeSearchCV | CascadeClassifier, targets: Targets, X: Any, y: ArrayLike | None
) -> Any:
    """Return the truth: the final model's answers if agreement is asked for, else `y`."""
    if targets.agreement is None:
        if not getattr(model, "needs_labels", True):
            raise CertificateError(
                "A search with target='agreement' has no labels: certify "
                + Parameter("agreement")
                + ", or certify one of its cascades with labels."
            )
        return y
    final = _final_of(model)
    if final is None:
        raise CertificateError(
            Parameter("agreement") + " needs a final model, and this model has none."
        )
    if y is not None:
        raise CertificateError(
            "With "
            + Parameter("agreement")
            + " the final model's answers are the truth; do not pass `y`."
        )
    return predict_labels(final, X, len(X))


def check_final(
    model: CascadeSearchCV | CascadeClassifier, targets: Targets, *, fitted_elsewhere: bool
) -> tuple[str, ...]:
    """Refuse a final model that may know these rows, or return what the user has said about it.

    With labels its own errors count, and on the rows it was fitted on there are fewer of them.
    emsco did not fit it, so it cannot see which rows those were.
    """
    if targets.agreement is not None or _final_of(model) is None:
        return ()
    if not fitted_elsewhere:
        raise CertificateError(
            "The final model must not have seen these rows, which cannot be checked: on rows that "
            "it was fitted on, it is right more often than on new ones. If it was fitted on other "
            "rows, and they were not used to choose it, pass "
            + Keyword("final_fitted_elsewhere", True)
            + "; otherwise use fresh rows, or certify "
            + Parameter("agreement")
            + ", which does not depend on it."
        )
    return (
        "This holds only if the final model has not seen these rows: that it was fitted and chosen "
        "on other rows was said, and cannot be checked.",
    )


def check_stake(
    model: CascadeSearchCV | CascadeClassifier, questions: Sequence[Targets], stake: Any
) -> None:
    """Refuse stakes where a final model answers every row, so that none can go to review."""
    if stake is None or (questions[0].agreement is None and _final_of(model) is None):
        return
    what = "a cascade with a final model" if questions[0].agreement is None else "`agreement`"
    raise CertificateError(
        Parameter("stake")
        + f" cannot be certified of {what}: rows above the cap go to review, and a final model "
        "answers every row; leave out " + Parameter("stake") + "."
    )


def _final_of(model: CascadeSearchCV | CascadeClassifier) -> Any:
    """Return the final model that decides, even if the parameter was set to another one since."""
    return model.found_.final if isinstance(model, CascadeSearchCV) else model.decider_.final


def check_model(model: CascadeSearchCV | CascadeClassifier, questions: Sequence[Targets]) -> None:
    """Refuse a model that cannot be certified, and labels that are not its classes."""
    if not isinstance(model, CascadeSearchCV | CascadeClassifier):
        raise CertificateError(
            f"Only a CascadeSearchCV or a CascadeClassifier can be certified, got {model!r}."
        )
    check_is_fitted(model)
    classes = model.classes_.tolist()
    for name, label in (named for question in questions for named in question.labels()):
        if label not in classes:
            known = nearest_class(label, classes)
            raise CertificateError(
                Parameter(name) + f" names {label!r}, which is not a class{known}", value=label
            )


def labels_of(
    model: CascadeSearchCV | CascadeClassifier, X: Any, y: ArrayLike | None
) -> NDArray[Any]:
    """Check the labels: one for each row."""
    if y is None:
        raise CertificateError("`y` is needed: give the labels of X.")
    truth: NDArray[Any] = column_or_1d(read_given_labels(y), warn=True)
    n_rows = len(X)
    if len(truth) != n_rows or not n_rows:
        raise CertificateError(
            f"X and `y` must have the same number of rows, at least one; got {n_rows} and "
            f"{len(truth)}."
        )
    if not set(truth.tolist()) & set(model.classes_.tolist()):
        raise ClassesError(
            f"`y` has none of the classes seen in `fit`; its first label is {truth[0]!r}."
        )
    return truth


def check_known(truth: NDArray[Any], classes: NDArray[Any], why: str | None) -> tuple[str, ...]:
    """Refuse labels that are no classes, or return the doubt about them if `why` allows them.

    A share of a class's rows leaves them out, so a class that is spelled in two ways would be
    certified on a part of its rows.
    """
    unknown = unknown_labels(truth, classes)
    if not unknown:
        return ()
    named = describe_unknown(unknown, classes.tolist())
    if why is None:
        raise CertificateError(
            f"`y` holds labels that are no classes of the model: {named}" + way_out(UNKNOWN_LABELS)
        )
    found = (
        f"{sum(unknown.values()):,} calibration rows have labels that are no classes of the model, "
        f"{quoted(unknown)}: if accepted, they count as wrong, and they belong to no class that is "
        "named here."
    )
    return (sentence(found, why),)


def check_columns(
    rows: Rows, model: CascadeSearchCV | CascadeClassifier, families: Sequence[Family]
) -> None:
    """Refuse rows that lack a column of a candidate to test."""
    sources = {
        source
        for family in families
        for candidate in family.candidates
        for stage in candidate.design.align(model.costs_).stages
        for source in stage
    }
    used = (name for source in sources for name in model.costs_.columns(source))
    lacking = sorted(set(used) - set(rows.columns))
    if lacking:
        raise ColumnsError(f"X lacks the columns {quoted(lacking)}, which candidates use.")
