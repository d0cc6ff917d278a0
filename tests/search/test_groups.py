"""A choice within gaps between groups: counts by hand, bounds that bind, and rows not there."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit

from emsco import CascadeSearchCV, InputGuard, Review, dump, evaluate, load
from emsco.core.caution import standard_errors
from emsco.core.gap import most_difference
from emsco.datasets import make_costly_classification
from emsco.exceptions import (
    EmscoWarning,
    SearchError,
    SelectionError,
    SelectionWarning,
    ValuesError,
)
from emsco.search._groups import figures_by_group, groups_searched

N = 900
THRESHOLDS = [0.55, 0.7, 0.85]
pytestmark = pytest.mark.filterwarnings("ignore::emsco.exceptions.SelectionWarning")


def made(n_rows=2 * N):
    """Make rows of two groups; the values of the smaller one are noisier, which is a known gap."""
    X, y, costs = make_costly_classification(n_rows, n_sources=3, class_sep=2, random_state=0)
    rng = np.random.default_rng(0)
    groups = np.where(rng.random(n_rows) < 0.35, "few", "many")
    noise = 0.8 * X.to_numpy().std(axis=0) * rng.standard_normal(X.shape)
    return X + noise * (groups == "few")[:, None], np.array(["no", "yes"])[y], groups, costs


X, Y, GROUPS, COSTS = made()


def searched(**options):
    cv = StratifiedShuffleSplit(1, test_size=0.5, random_state=0)
    options = {"costs": COSTS, "cv": cv, "threshold": THRESHOLDS, "refit": False, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmscoWarning)
        return CascadeSearchCV(random_state=0, **options).fit(X[:N], Y[:N])


@pytest.fixture(scope="module")
def found():
    return searched()


def rows_of(search):
    """Return the evaluation rows."""
    return np.concatenate([fold.test for fold in search.found_.spec.folds])


def by_hand(search, candidate, known={}):  # noqa: B006  # of one search: counting takes a while
    """Count by group and class what the evaluated cascade decides, row by row."""
    if (id(search), candidate) in known:
        return known[id(search), candidate]
    rows = rows_of(search)
    decisions = search.cascade(candidate).decide(X.iloc[rows])
    counts = {}
    for one, truth, group in zip(decisions, Y[rows], GROUPS[rows], strict=True):
        own = counts.setdefault((group, truth), [0, 0, 0])
        own[0] += 1
        own[1] += not one.accepted
        own[2] += one.accepted and one.label != truth
    known[id(search), candidate] = counts
    return counts


def gaps_by_hand(search, candidate, z):
    """Return the bounds of the largest gaps of rejected and of missed shares."""
    counts = by_hand(search, candidate)
    largest = []
    for place in (1, 2):
        pairs = [
            most_difference(one[place], one[0], other[place], other[0], z)
            for (group, truth), one in counts.items()
            for (another, same), other in counts.items()
            if truth == same and group != another
        ]
        largest.append(max(pairs))
    return largest


def test_bits_and_decisions_give_the_same_counts(found):
    """Of each group, for candidates along the front, also as the cascades that were evaluated."""
    own = found.found_
    groups = groups_searched(GROUPS[:N], own.spec, own.stages)
    figures = figures_by_group(found.front_, own.spec, own.by_learner(), groups, {})
    for place in range(0, len(found.front_), max(1, len(found.front_) // 7)):
        candidate = found.front_[place]
        parts = own.breakdown(candidate, GROUPS[:N])
        assert parts.overall == candidate.evaluation
        counts = by_hand(found, candidate)
        for group, part in parts.items():
            assert figures[group].paid[place] == pytest.approx(part.paid)
            for label in ("no", "yes"):
                rows, rejected, missed = counts[group, label]
                assert figures[group].class_rows[label][place] == part.class_rows[label] == rows
                assert part.rejected[label] == rejected / rows
                assert part.missed[label] == missed / rows
                assert figures[group].class_accepted[label][place] == rows - rejected
                assert figures[group].class_right[label][place] == rows - rejected - missed


@pytest.mark.parametrize("caution", [0, 1, "auto"])
@pytest.mark.parametrize("limits", [{"rejected": 0.12, "missed": 0.1}, {"missed": {"yes": 0.03}}])
def test_the_cheapest_candidate_within_the_gaps_is_chosen(found, caution, limits):
    """As trying every candidate of the front finds it."""
    z = standard_errors(caution, found.front_.luck)

    def keeps(candidate):
        rejected, missed = gaps_by_hand(found, candidate, z)
        if "rejected" not in limits:
            counts = by_hand(found, candidate)
            few, many = counts["few", "yes"], counts["many", "yes"]
            pair = (few[2], few[0]), (many[2], many[0])
            missed = max(most_difference(*a, *b, z) for a, b in (pair, pair[::-1]))
            return missed <= 0.03
        return rejected <= 0.12 and missed <= 0.1

    able = [c for c in found.front_ if c.evaluation.coverage >= 0.5]
    kept = [c for c in able if keeps(c)]
    ask = {"max_gap": limits, "by": GROUPS[:N], "min_coverage": 0.5, "caution": caution}
    if not kept:
        with pytest.raises(SelectionError):
            found.choose(**ask)
        return
    assert len(kept) < len(able)  # the bound says something
    found.choose(**ask)
    cheapest = min(candidate.evaluation.cost for candidate in kept)
    assert found.best_candidate_ in kept
    assert found.best_candidate_.evaluation.cost == cheapest


def test_without_other_bounds_the_default_rule_chooses_within_the_gaps(found):
    """A bound on gaps alone is no licence to reject nearly everybody, and is told in the rule."""
    found.choose(max_gap={"rejected": 0.2, "missed": 0.2}, by=GROUPS[:N].tolist())
    assert found.choice_.is_default
    assert found.best_candidate_.evaluation.coverage >= 0.8
    assert "keep gap of rejected no <= 0.2" in found.choice_.rule
    assert found.choice_.bounds == {"max_gap": {"rejected": 0.2, "missed": 0.2}}


def test_error_cost_with_gaps_chooses_the_lowest_loss():
    """`by` then holds the groups, so it cannot say "loss"."""
    search = searched(costs=replace(COSTS, review=Review(5)))
    gaps = {"max_gap": {"missed": 0.2}, "by": GROUPS[:N]}
    search.choose(**gaps, error_cost=50.0)
    within = [search.front_[place] for place in search.choice_.within]

    def loss(candidate):
        return candidate.evaluation.loss(review=Review(5), error_cost=50.0)

    assert loss(search.best_candidate_) == min(map(loss, within))
    assert len(within) < len(search.front_)


def test_more_caution_leaves_fewer_candidates(found):
    left = []
    for caution in (0, 0.5, 1.0, 1.5):
        try:
            found.choose(max_gap={"missed": 0.12}, by=GROUPS[:N], min_coverage=0.3, caution=caution)
        except SelectionError:
            left.append(set())
            continue
        left.append(set(found.choice_.within))
    assert left[0] > left[1] >= left[2] >= left[3]


def test_folds_and_row_order_change_nothing_of_the_whole():
    """With five folds, groups sum to the evaluation of the candidate."""
    search = searched(cv=StratifiedKFold(3), refit=True)
    parts = search.found_.breakdown(
        search.best_candidate_, pd.Series(GROUPS[:N], index=range(N, 0, -1))
    )
    assert parts.overall == search.best_candidate_.evaluation
    assert {name: own.rows for name, own in parts.items()} == {
        name: int((GROUPS[:N] == name).sum()) for name in ("few", "many")
    }


@pytest.mark.parametrize("guard", [None, InputGuard()])
def test_score_front_by_group_equals_deciding(guard):
    """Counted by bits, or decided one by one where a guard needs the rows."""
    search = searched(guard=guard)
    fresh, truth, groups = X[N : N + 300], Y[N : N + 300], GROUPS[N : N + 300]
    scored = search.score_front(fresh, truth, by=groups)
    for one in (scored[0], scored[len(scored) // 2], scored[-1]):
        direct = evaluate(search.cascade(one.candidate).decide(fresh), truth, by=groups)
        assert dict(one.groups) == dict(direct)
        assert one.fresh == direct.overall
    frame = scored.to_frame()
    gap = next(g for g in scored[0].groups.gaps if (g.measure, g.label) == ("missed", "yes"))
    assert frame["missed yes gap"][0] == gap.difference


def test_the_summary_has_each_group(found):
    fresh = (X[N:], Y[N:])
    found.choose(min_coverage=0.8, caution=0)
    text = found.summary(*fresh, by=GROUPS[N:])
    assert text.endswith(str(evaluate(found.decide(X[N:]), Y[N:], by=GROUPS[N:])))
    own = found.found_.breakdown(found.best_candidate_, GROUPS[:N])
    assert found.summary(by=GROUPS[:N]).endswith(str(own))


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        ({"max_gap": {"missed": 0.1}}, SelectionError, "`max_gap` needs `by` with the group"),
        ({"max_gap": {"missed": 0.1}, "by": "loss"}, SelectionError, "got 'loss'"),
        ({"by": GROUPS[:N]}, SelectionError, "needs `max_gap`"),
        ({"max_gap": {"missed": 0.1}, "by": GROUPS}, ValuesError, "each of the 900 rows given to"),
        ({"max_gap": {"mised": 0.1}, "by": GROUPS[:N]}, SelectionError, "did you mean 'missed'"),
        ({"max_gap": {"missed": 1e-6}, "by": GROUPS[:N]}, SelectionError, "No candidate keeps gap"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_by_name(found, ask, error, message):
    before = found.choice_
    with pytest.raises(error, match=message):
        found.choose(**ask)
    assert found.choice_ is before


def test_a_candidate_and_gaps_are_refused_together(found):
    with pytest.raises(SelectionError, match="either a candidate or bounds"):
        found.choose(found.front_[0], max_gap={"missed": 0.5}, by=GROUPS[:N])


def test_a_front_alone_cannot_be_asked_for_gaps(found):
    for ask in (found.front_.select, lambda **own: searched(select=own)):
        with pytest.raises(SelectionError, match="needs the rows of the search and their groups"):
            ask(max_gap={"missed": 0.1})


def test_groups_with_few_rows_are_named_in_a_warning(found):
    groups = GROUPS[:N].astype(object)
    groups[rows_of(found)[:6]] = "tiny"
    with pytest.warns(SelectionWarning, match="says nothing about groups with fewer than 30 rows"):
        found.choose(max_gap={"coverage": 0.3}, by=groups, min_coverage=0.5)


def test_a_file_keeps_the_choice_but_has_no_rows_to_compare(found, tmp_path):
    found.choose(max_gap={"rejected": 0.3, "missed": 0.3}, by=GROUPS[:N], min_coverage=0.5)
    dump(found, tmp_path / "search.emsco")
    loaded = load(tmp_path / "search.emsco")
    assert loaded.choice_.bounds == found.choice_.bounds
    assert loaded.choice_.within == found.choice_.within
    assert loaded.choice_.rule == found.choice_.rule
    for ask in (
        lambda: loaded.choose(max_gap={"missed": 0.3}, by=GROUPS[:N]),
        lambda: loaded.summary(by=GROUPS[:N]),
    ):
        with pytest.raises(SearchError, match="a file has no rows"):
            ask()
    assert "By group, on the fresh rows" in loaded.summary(X[N:], Y[N:], by=GROUPS[N:])


def test_a_certificate_keeps_the_gaps_of_the_choice():
    """What it may put in the place of the choice are only candidates that keep them, too."""
    from emsco.certify._hypothesis_family import kept_by

    search = searched()
    search.choose(max_gap={"missed": 0.12}, by=GROUPS[:N], min_coverage=0.3, caution=0)
    keeps = kept_by(search, search.best_candidate_)
    allowed = {place for place, candidate in enumerate(search.front_) if keeps(candidate)}
    assert allowed
    assert allowed <= set(search.choice_.within) < set(range(len(search.front_)))
