"""Labels and groups that are missing, mixed or unknown are named; none is counted in silence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import DataConversionWarning
from sklearn.model_selection import StratifiedGroupKFold

from emsco import CascadeClassifier, CascadeSearchCV, Decisions, StageDesign, evaluate
from emsco.certify import Targets, certify, certify_together
from emsco.datasets import make_costly_classification
from emsco.exceptions import (
    CertificateError,
    ClassesError,
    ColumnsError,
    LabelsWarning,
    ValuesError,
)
from emsco.report import report
from emsco.rows.ledger import forget_all

X, Y, COSTS = make_costly_classification(1500, 3, class_sep=2, random_state=0)
Y = np.where(Y == 1, "sick", "well")
FRESH, LABELS = X[700:].reset_index(drop=True), Y[700:]
X, Y = X[:700], Y[:700]
# Every fourth row has its label with a capital letter.
CAPITALS = np.where(np.arange(len(LABELS)) % 4 == 0, np.char.capitalize(LABELS), LABELS)
MISSING = [None, np.nan, pd.NA, pd.NaT]


@pytest.fixture(scope="module")
def search():
    return CascadeSearchCV(costs=COSTS, threshold=[0.8, 0.9], random_state=0).fit(X, Y)


@pytest.fixture(autouse=True)
def _forget():
    forget_all()


def with_one(values, value, row=3):
    changed = np.array(values, dtype=object)
    changed[row] = value
    return changed


USES = {
    "certify": lambda search, y: certify(search, FRESH, y, accuracy=0.8),
    "together": lambda search, y: certify_together(search, FRESH, y, [Targets(accuracy=0.8)]),
    "score_front": lambda search, y: search.score_front(FRESH, y),
    "summary": lambda search, y: search.summary(FRESH, y),
    "score": lambda search, y: search.score(FRESH, y),
    "report": lambda search, y: report(search, "/dev/null/never.html", FRESH, y),
    "evaluate": lambda search, y: evaluate(search.decide(FRESH), y),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
class TestEveryUseOfLabels:
    """Whatever takes labels reads them in the same way."""

    @pytest.mark.parametrize("missing", MISSING, ids=repr)
    def test_names_the_row_without_a_label(self, search, use, missing):
        with pytest.raises(ValuesError, match=r"Row 3 has no label") as caught:
            use(search, with_one(LABELS, missing))
        assert caught.value.row == 3

    def test_reads_lists_and_columns_alike(self, search, use):
        """A list of texts with NaN would be an array with the text 'nan'."""
        with pytest.raises(ValuesError, match="Row 3 has no label"):
            use(search, with_one(LABELS, np.nan).tolist())
        with pytest.raises(ValuesError, match="Row 3 has no label"):
            use(search, pl.Series(with_one(LABELS, None).tolist()))
        with pytest.raises(ValuesError, match="Row 3 has no label"):
            use(search, pd.Series(with_one(LABELS, None), dtype="category"))

    def test_names_labels_of_different_kinds(self, search, use):
        with pytest.raises(ValuesError, match=r"label 'well' and row 3 has 7; use either text or"):
            use(search, with_one(LABELS, 7))


def test_a_column_of_labels_is_taken_with_a_warning_and_checked(search):
    with pytest.warns(DataConversionWarning):
        assert certify(search, FRESH, LABELS[:, None], accuracy=0.8).certified
    with pytest.raises(ValuesError, match="Row 3 has no label"):
        search.score_front(FRESH, with_one(LABELS, None)[:, None])


def test_labels_are_needed(search):
    with pytest.raises(CertificateError, match="`y` is needed"):
        certify(search, FRESH, accuracy=0.8)


def test_mixed_labels_are_refused_where_they_are_fitted():
    with pytest.raises(ValuesError, match=r"row 3 has 7; use either text or numbers"):
        CascadeClassifier(costs=COSTS).fit(X, with_one(Y, 7))


@pytest.mark.parametrize("missing", MISSING, ids=repr)
def test_a_row_without_a_group_is_named(search, missing):
    groups = with_one(np.arange(len(LABELS)), missing)
    with pytest.raises(ValuesError, match="Row 3 has no group"):
        certify(search, FRESH, LABELS, accuracy=0.8, groups=groups)
    folds = StratifiedGroupKFold(3)
    with pytest.raises(ValuesError, match="Row 3 has no group"):
        CascadeSearchCV(costs=COSTS, cv=folds).fit(FRESH, LABELS, groups=groups)


def test_groups_that_are_all_missing_are_not_one_group(search):
    with pytest.raises(ValuesError, match="Row 0 has no group: it is NaN"):
        certify(search, FRESH, LABELS, accuracy=0.8, groups=np.full(len(LABELS), np.nan))


def test_groups_of_different_kinds_are_named(search):
    groups = with_one(np.arange(len(LABELS)), "ann")
    with pytest.raises(ValuesError, match="group 0 and row 3 has 'ann'; use either text or"):
        certify(search, FRESH, LABELS, accuracy=0.8, groups=groups)
    with pytest.raises(ValuesError, match=r"one entry for each of 800 rows; its shape is \(9,\)"):
        certify(search, FRESH, LABELS, accuracy=0.8, groups=np.arange(9))


def test_a_column_that_candidates_use_must_be_there(search):
    with pytest.raises(ColumnsError, match="X lacks the columns 's1', which candidates use"):
        certify(search, FRESH.drop(columns="s1"), LABELS, accuracy=0.8)
    with pytest.raises(ColumnsError, match="X lacks the columns 's1'"):
        certify(search.best_cascade_, FRESH.drop(columns="s1"), LABELS, accuracy=0.8)


def test_a_column_that_no_candidate_uses_may_be_missing():
    design = StageDesign([0, -1, 1], COSTS.names)
    cascade = CascadeClassifier(design=design, costs=COSTS, threshold=0.9).fit(X, Y)
    assert certify(cascade, FRESH.drop(columns="s1"), LABELS, accuracy=0.7).certified


def test_unknown_labels_are_refused_by_name(search):
    """'Sick' for 'sick' hid a part of the class: its share was certified on the others."""
    with pytest.raises(CertificateError, match=r"'Sick' \(\d+ rows\).*did you mean 'sick'\?") as no:
        certify(search, FRESH, CAPITALS, max_missed={"sick": 0.2})
    assert "allow={'unknown labels': 'why'}" in str(no.value)


def test_unknown_labels_that_are_allowed_count_as_errors_and_are_told(search):
    why = "a disease that was not known then."
    labels = LABELS.astype(object)
    labels[:8] = "zoster"
    cascade = search.best_cascade_
    allowed = certify(cascade, FRESH, labels, accuracy=0.7, allow={"unknown labels": why})
    assert (
        "8 calibration rows have labels that are no classes of the model, 'zoster'"
        in allowed.sentence
    )
    assert allowed.sentence.endswith("because: a disease that was not known then.")
    (candidate,) = allowed.candidates
    assert candidate.evaluation.class_rows["zoster"] == 8
    assert candidate.evaluation.class_right["zoster"] == 0
    forget_all()
    assert "zoster" not in certify(cascade, FRESH, LABELS, accuracy=0.7).sentence


def test_labels_that_are_all_unknown_cannot_be_allowed(search):
    with pytest.raises(ClassesError, match="none of the classes"):
        certify(search, FRESH, np.arange(800), accuracy=0.7, allow={"unknown labels": "why not"})


def test_fresh_figures_count_unknown_labels_as_classes_of_their_own(search):
    with pytest.warns(LabelsWarning, match=r"'Sick' \(\d+ rows\), 'Well'.*did you mean 'sick'"):
        scored = search.score_front(FRESH, CAPITALS)
    for one in scored:
        fresh = one.fresh
        assert fresh.rows == 800
        assert fresh.class_rows["Sick"] == (CAPITALS == "Sick").sum()
        assert fresh.class_right["Sick"] == 0
    with pytest.warns(LabelsWarning, match="'Sick'"):
        assert "Sick" in search.summary(FRESH, CAPITALS)


@pytest.mark.parametrize(("decided", "truth"), [("sick", "Sick"), ("sick", "sick "), ("1", "1 ")])
def test_labels_that_differ_only_in_how_they_are_spelled_are_warned_of(decided, truth):
    decisions = Decisions([decided] * 2, [True] * 2, [0] * 2, [0.9] * 2, [1.0] * 2)
    with pytest.warns(LabelsWarning, match=f"`y` holds {truth!r}, and decisions hold {decided!r}"):
        assert evaluate(decisions, [truth] * 2).right == 0


@pytest.mark.parametrize(("decided", "truth"), [(1, "1"), ("1", 1), (1.0, "1.0"), (True, "True")])
def test_text_is_no_truth_of_numbers(decided, truth):
    decisions = Decisions([decided] * 2, [True] * 2, [0] * 2, [0.9] * 2, [1.0] * 2)
    with pytest.raises(ClassesError, match=r"must hold labels of the type.*convert one of them"):
        evaluate(decisions, [truth] * 2)
    assert evaluate(decisions, [decided] * 2).accuracy == 1


def test_whole_numbers_and_truth_values_are_numbers():
    decisions = Decisions([1, 0], [True] * 2, [0] * 2, [0.9] * 2, [1.0] * 2)
    assert evaluate(decisions, [1.0, 0.0]).accuracy == 1
    assert evaluate(decisions, [True, False]).accuracy == 1


def test_a_class_that_is_never_decided_is_no_reason_to_warn(recwarn):
    decisions = Decisions(["sick"], [True], [0], [0.9], [1.0])
    assert evaluate(decisions, ["well"]).right == 0
    assert not recwarn.list
