"""A search with several estimators: one front, each candidate with its own; and the yardstick."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from searches import HALVES, N, X, Y, counted, search_for
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from emsco import CascadeSearchCV, dump, evaluate, load
from emsco.certify import Certificate, certify
from emsco.datasets import make_costly_classification
from emsco.exceptions import ArtifactError, CertificateError, SearchError
from emsco.learners.boosted_trees import boosted_trees, is_boosted
from emsco.search import YARDSTICK, yardstick_of

pytestmark = [
    pytest.mark.filterwarnings("ignore::emsco.exceptions.SelectionWarning"),
    pytest.mark.filterwarnings("ignore::emsco.exceptions.CalibrationWarning"),
    pytest.mark.filterwarnings("ignore::emsco.exceptions.CertificateWarning"),
]

TREE = DecisionTreeClassifier(max_depth=3, min_samples_leaf=10, random_state=0)
BOTH = {"linear": None, "tree": TREE}
FEW = {"threshold": [0.6, 0.75, 0.9]}
TREES = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"


@pytest.fixture(scope="module")
def both():
    return search_for(BOTH, luck=True).fit(X, Y)


@pytest.fixture(scope="module")
def evaluated():
    """Give a search whose cascades are those that were evaluated, on one split."""
    return search_for(BOTH, cv=HALVES, refit=False, **FEW).fit(X, Y)


def _without_names(front):
    return {(replace(c, learner="").design, c.threshold, counted(c.evaluation)) for c in front}


def test_the_front_is_what_neither_learner_beats():
    both, linear, tree = (search_for(e, **FEW).fit(X, Y) for e in (BOTH, None, TREE))
    merged = linear.front_.merge(tree.front_)
    assert {c.learner for c in both.front_} == {"linear", "tree"}
    assert [c.objectives for c in both.front_] == [c.objectives for c in merged]
    alone = {"linear": linear, "tree": tree}
    for candidate in both.front_:
        twins = [
            c
            for c in alone[candidate.learner].front_
            if (c.design, c.threshold) == (candidate.design, candidate.threshold)
        ]
        assert [c.objectives for c in twins] == [candidate.objectives]


def test_each_cascade_decides_as_its_candidate_was_counted(evaluated):
    ((_, test),) = HALVES.split(X)
    for candidate in evaluated.front_:
        cascade = evaluated.cascade(candidate)
        assert (cascade.estimator is None) == (candidate.learner == "linear")
        seen = evaluate(cascade.decide(X.iloc[test]), Y[test])
        assert counted(seen) == counted(candidate.evaluation)


def test_fresh_rows_are_judged_by_the_learner_of_each_candidate(both):
    fresh_X, codes, _ = make_costly_classification(200, 3, class_sep=1.5, random_state=9)
    fresh_y = np.where(codes == 1, "sick", "well")
    scored = both.score_front(fresh_X, fresh_y)
    places = {c.learner: place for place, c in enumerate(both.front_)}
    assert len(places) == 2
    for place in places.values():
        by_hand = evaluate(both.cascade(both.front_[place]).decide(fresh_X), fresh_y)
        assert counted(scored[place].fresh) == counted(by_hand)
    assert list(scored.to_frame()["estimator"]) == [c.learner for c in both.front_]


def test_all_sources_are_those_of_the_better_learner(both):
    alone = {n: search_for(e).fit(X, Y).all_sources_ for n, e in BOTH.items()}
    better = max(alone, key=lambda name: alone[name].evaluation.accuracy)
    assert alone["linear"].evaluation.accuracy != alone["tree"].evaluation.accuracy
    assert both.all_sources_ == replace(alone[better], learner=better)
    whole = replace(both.all_sources_, evaluation=both.front_[0].evaluation)
    decided = both.cascade(whole).decide(X)
    assert (decided.exit_stage == 0).all()
    for candidate in both.front_:  # every candidate is compared with this one
        reference = candidate.evaluation.class_reference
        for label, accepted in candidate.evaluation.class_accepted.items():
            assert reference[label] <= accepted
        if candidate.evaluation.coverage == 1:
            assert reference == both.all_sources_.evaluation.class_right


def test_luck_is_that_of_the_luckier_learner(both):
    lucks = [search_for(e, luck=True).fit(X, Y).front_.luck for e in BOTH.values()]
    assert both.front_.luck == max(lucks)


def test_what_is_printed_says_which_estimator(both):
    assert "estimator" in repr(both.front_).splitlines()[0]
    chosen = [c for c in both.front_ if c.learner == "tree"][-1]
    assert f"{chosen.design} by tree at threshold" in str(chosen)
    again = both.choose(chosen)
    assert "with stages by tree:" in again.summary().splitlines()[0]
    both.choose()


def test_files_hold_every_learner(both, tmp_path):
    both.found_.fit_stages(refit=True)
    dump(both, tmp_path / "search.emsco")
    loaded = load(tmp_path / "search.emsco", trusted=["sklearn.tree._tree.Tree"])
    assert loaded.front_ == both.front_
    assert loaded.all_sources_ == both.all_sources_
    assert loaded.estimator.keys() == BOTH.keys()
    assert loaded.summary() == both.summary()
    for candidate in {c.learner: c for c in both.front_}.values():
        decided = both.cascade(candidate).decide(X)
        again = loaded.cascade(candidate).decide(X)
        assert (decided.confidence == again.confidence).all()


def test_a_file_whose_candidates_name_another_learner_is_refused(both, tmp_path):
    dump(both, tmp_path / "search.emsco")
    with zipfile.ZipFile(tmp_path / "search.emsco") as file:
        members = {name: file.read(name) for name in file.namelist()}
    manifest = json.loads(members["manifest.json"])
    named = manifest["model"]["candidates"]["learner"]
    named[named.index("tree")] = "forest"
    members["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(tmp_path / "forged.emsco", "w", zipfile.ZIP_STORED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    with pytest.raises(ArtifactError):
        load(tmp_path / "forged.emsco")


def test_an_interrupted_search_goes_on_with_the_learner_it_had_come_to(tmp_path):
    class StopError(Exception):
        pass

    phases = []

    def stop(state):
        phases.append(state["phase"])
        changes = [pair for pair in pairwise(phases) if pair[1] == "fit" != pair[0]]
        if len(changes) == 2 and state["source_sets"] >= 2:  # of the second learner
            raise StopError

    path = tmp_path / "checkpoint"
    with pytest.raises(StopError):
        search_for(BOTH, checkpoint=path, callback=stop).fit(X, Y)
    assert {file.name for file in tmp_path.iterdir()} >= {"checkpoint", "checkpoint.tree"}
    fits = []
    resumed = search_for(
        BOTH, checkpoint=path, callback=lambda state: fits.append(state["source_sets"])
    )
    assert resumed.fit(X, Y).front_ == search_for(BOTH).fit(X, Y).front_


def test_certificates_name_the_learner_and_hold_for_it_alone():
    rows, codes, _ = make_costly_classification(2000, 3, class_sep=1.5, random_state=1)
    labels = np.where(codes == 1, "sick", "well")
    first, rest = slice(N), slice(N, None)
    both = search_for(BOTH, **FEW).fit(rows[first], labels[first]).choose(min_accuracy=0.8)
    certificate = certify(both, rows[rest], labels[rest], accuracy=0.7)
    assert certificate.candidates
    again = Certificate.from_data(certificate.to_data())
    named = [one.candidate.learner for one in certificate.candidates]
    assert {*named} <= BOTH.keys()
    assert [one.candidate.learner for one in again.candidates] == named
    again.check(both)
    others = {"linear": GaussianNB(), "tree": GaussianNB(var_smoothing=0.1)}  # the same names
    with pytest.raises(CertificateError):
        again.check(search_for(others, **FEW).fit(rows[first], labels[first]))


def test_later_learners_fit_few_sets_from_designs_of_the_first():
    frame, labels, costs = make_costly_classification(300, 9, random_state=0)
    seen = {}
    names = iter(("logistic", "bayes"))

    def note(state):
        if state["phase"] == "fit" and not state["source_sets"]:
            seen[next(names)] = 0
        elif seen:
            seen[[*seen][-1]] = max(seen[[*seen][-1]], state["source_sets"])

    both = {"logistic": None, "bayes": GaussianNB()}
    search = CascadeSearchCV(
        both, costs=costs, threshold=0.8, cv=2, luck=False, callback=note, random_state=0
    )
    search.fit(frame, labels)
    assert seen["logistic"] == 2**9 - 1
    assert 64 < seen["bayes"] <= 128
    assert {c.learner for c in search.front_} == both.keys()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_auto_takes_tables_with_text(library, tmp_path):
    rng = np.random.default_rng(0)
    job = np.array(["baker", "clerk", "smith"])[rng.integers(3, size=300)]
    age = rng.normal(size=300)
    frame = pytest.importorskip(library).DataFrame({"age": age, "job": job})
    labels = ((job == "baker") ^ (age > 0)).astype(int)  # no sum of the two tells it
    search = CascadeSearchCV("auto", threshold=0.8, random_state=0).fit(frame, labels)
    assert search.all_sources_.learner == "boosted"
    assert search.all_sources_.evaluation.accuracy > 0.95
    assert search.best_candidate_.learner == "boosted"
    assert search.score(frame, labels) > 0.95
    dump(search.best_cascade_, tmp_path / "model.emsco")
    model = load(tmp_path / "model.emsco", trusted=[TREES])
    assert (model.predict(frame) == search.predict(frame)).all()


@pytest.mark.parametrize(
    ("estimator", "why"),
    [
        ({"a/b": None, "c": TREE}, "names of several estimators"),
        ({"a": None, "b": object()}, "must have `fit`"),
        ({}, "names no estimator"),
    ],
)
def test_several_estimators_need_names_and_classifiers(estimator, why):
    with pytest.raises(SearchError, match=why):
        search_for(estimator).fit(X, Y)
    with pytest.raises(SearchError, match="MaskedClassifier"):
        search_for("auto", refit="stages").fit(X, Y)


def test_a_mapping_of_one_is_that_estimator():
    one = search_for({"tree": TREE}, **FEW).fit(X, Y)
    assert one.front_ == search_for(TREE, **FEW).fit(X, Y).front_


def test_the_yardstick_is_boosted_trees_on_the_same_folds(both):
    trees = HistGradientBoostingClassifier(max_iter=50, max_leaf_nodes=15, random_state=0)
    by_hand = cross_val_predict(trees, X, Y, cv=StratifiedKFold(3))
    yardstick = yardstick_of(both.found_)
    assert yardstick.at(1.0).accuracy == np.mean(by_hand == Y)
    assert f"With {YARDSTICK}, all sources at once are right on" in both.summary()
    assert yardstick_of(both.found_) is yardstick, "it is fitted once"


def test_no_yardstick_where_it_is_in_use_or_the_truth_is_another():
    auto = search_for("auto", **FEW).fit(X, Y)
    assert yardstick_of(auto.found_) is None
    assert YARDSTICK not in auto.summary()
    assert is_boosted(boosted_trees([]))
    final = TREE.fit(X, Y)
    agreeing = search_for(final=final, target="agreement", **FEW).fit(X)
    assert yardstick_of(agreeing.found_) is None


def test_a_search_that_would_gain_says_how(tmp_path):
    rng = np.random.default_rng(0)
    table = rng.normal(size=(400, 2))
    labels = (table[:, 0] * table[:, 1] > 0).astype(int)  # a straight line knows nothing
    search = CascadeSearchCV(costs=[1, 2], threshold=[0.6, 0.8], random_state=0).fit(table, labels)
    assert "estimator='auto' searches with them, too" in search.summary()
    search.found_.fit_stages(refit=True)
    dump(search, tmp_path / "search.emsco")
    assert load(tmp_path / "search.emsco").summary() == search.summary()


@pytest.mark.parametrize("value", [np.nan, None])
def test_boosted_trees_take_a_column_without_any_value(value, tmp_path):
    table = X.assign(empty=np.full(N, value), job=np.where(np.arange(N) % 3, "baker", "clerk"))
    table.loc[table.index[:5], "job"] = None
    search = search_for(boosted_trees([table[name] for name in table.columns]), **FEW)
    search.set_params(costs=None, max_stages=1).fit(table, Y)
    whole = search.cascade(search.all_sources_)
    decided = whole.decide(table[:20].assign(empty=1.0))
    assert decided.accepted.all()
    dump(whole, tmp_path / "model.emsco")
    again = load(tmp_path / "model.emsco", trusted=[TREES])
    assert (again.decide(table[:20].assign(empty=1.0)).confidence == decided.confidence).all()
