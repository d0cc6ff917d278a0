"""A strategy, a learner, a measure, a driver and a kind of source of one's own: one file each."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from toy_driver import from_functions
from toy_learner import NearestMean, NearestMeanFits
from toy_measure import FALSE_ALARMS
from toy_search import RandomDesigns
from toy_source import LOGGER, SERVERS, ToySource

import emsco
from emsco import CascadeSearchCV, Decisions, MaskedClassifier, dump, load
from emsco.cascade.decision_loop import decide_rows, drive_async
from emsco.certify import Certificate, Targets, certify, certify_together
from emsco.core.measure import DRAWN_LABELS, Measure
from emsco.core.measures import MEASURES, register
from emsco.datasets import make_costly_classification
from emsco.exceptions import ContractError, SelectionError, SourcesError, ValuesError
from emsco.learners.estimator_learner import EstimatorLearner
from emsco.live import LiveCascade, Sources
from emsco.live.sources import KINDS as SOURCE_KINDS
from emsco.monitor import CertificateMonitor
from emsco.report import report
from emsco.testing import check_driver, check_learner, check_search, check_source

FEW = MaskedClassifier(
    RandomForestClassifier(20, max_depth=4, random_state=0), repeats=2, random_state=0
)


@pytest.fixture(scope="module")
def data():
    return make_costly_classification(1900, 3, class_sep=3, random_state=0)


@pytest.mark.parametrize(
    "estimator",
    [
        None,
        LogisticRegression(),
        DecisionTreeClassifier(max_depth=3, random_state=0),
        NearestMean(),
    ],
    ids=repr,
)
def test_learners_keep_their_promises(estimator):
    check_learner(estimator)


@pytest.mark.filterwarnings("ignore")
def test_one_model_for_all_sets_keeps_its_promises():
    check_learner(FEW)


def test_a_learner_of_ones_own_plugs_in_with_fits_in_batches(data, tmp_path):
    """It is asked for sets in batches, and its cascade leaves through a file."""
    X, y, costs = data
    search = CascadeSearchCV(NearestMean(), costs=costs, random_state=0).fit(X[:600], y[:600])
    assert search.score(X[600:], y[600:]) > 0.85
    plain = CascadeSearchCV(ByOne(), costs=costs, random_state=0).fit(X[:600], y[:600])
    assert [c.evaluation for c in plain.front_] == [c.evaluation for c in search.front_]
    trusted = ["toy_learner.NearestMean"]
    dump(search.best_cascade_, tmp_path / "toy.emsco")
    loaded = load(tmp_path / "toy.emsco", trusted=trusted)
    assert np.array_equal(loaded.predict(X), search.predict(X))


class ByOne(NearestMean):
    """The same classifier, fitted set by set."""

    def emsco_learner(self):
        return ByOneLearner(self)


class ByOneLearner(EstimatorLearner):
    """As any estimator's, and trusted."""

    is_calibrated = True


class Mixed(NearestMean):
    """A learner whose batches depend on what is asked for together."""

    def emsco_learner(self):
        return MixedLearner(self)


class MixedLearner(EstimatorLearner):
    """Its fits are of sets together."""

    is_calibrated = True

    def fits(self, training, folds):
        fits = NearestMean().emsco_learner().fits(training, folds)
        return MixedFits(fits.distances, fits.n_rows)


class MixedFits(NearestMeanFits):
    """Each set is blurred by the others."""

    def outcomes(self, sets):
        confidence, label = super().outcomes(sets)
        return confidence * 0.999 + 0.001 * confidence.mean(axis=0), label


class Unsure(NearestMean):
    """Probabilities that sum to less than 1."""

    def predict_proba(self, X):
        return super().predict_proba(X) * 0.9


class Batchwise(NearestMean):
    """A row is judged by the rows that it comes with."""

    def predict_proba(self, X):
        probability = super().predict_proba(X)
        shifted = probability + 1e-3 * probability.mean(axis=0)
        return shifted / shifted.sum(axis=1, keepdims=True)

    def emsco_learner(self):
        return EstimatorLearner(self)


@pytest.mark.parametrize(
    ("estimator", "said"),
    [
        (Mixed(), "fitted among others"),
        (Unsure(), "must sum to 1|fitted among others"),
        (Batchwise(), "alone is judged otherwise|fitted among others"),
    ],
)
def test_a_broken_learner_is_caught(estimator, said):
    with pytest.raises(ContractError, match=said):
        check_learner(estimator)


def test_a_driver_of_ones_own_keeps_its_promises():
    check_driver(from_functions)


async def waits(decider, functions, keys):
    """Answer as a store does that has to be waited for."""

    async def answer(ask):
        await asyncio.sleep(0)
        values = {f: np.array([functions[f](keys[row]) for row in ask.rows]) for f in ask.features}
        return decider.answer(values, ask.rows)

    return await drive_async(decide_rows(decider.plan, len(keys)), answer)


def examines(decider, functions, keys):
    """Reject what cannot be judged, with and without a guard; tell what was really spent."""

    def answer(ask):
        values = {f: listed(functions[f](keys[row]) for row in ask.rows) for f in ask.features}
        none = np.zeros(len(ask.rows))
        return decider.examine(values)._replace(cost=none, latency=none + 3)

    return decider.drive(len(keys), answer)


def listed(values):
    values = list(values)
    column = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        column[place] = value
    return column


def test_a_driver_may_be_waited_for():
    check_driver(waits)


def test_a_live_driver_tells_what_it_spent_and_rejects_what_it_cannot_judge():
    check_driver(examines, live=True)
    with pytest.raises(ContractError, match="`cost` is not the cascade's own"):
        check_driver(examines)


async def gives_up(decider, functions, keys):
    """Reject all rows of a block where one has a faulty value."""
    try:
        return await waits(decider, functions, keys)
    except ValuesError:
        return examines(decider, functions, keys).rejected("invalid value: x0")


def fills_in(decider, functions, keys):
    """Guess a value where none can be read."""

    def value(function, key):
        found = function(key)
        return found if isinstance(found, float) and np.isfinite(found) else 0.0

    def guessed(function):
        return lambda key: value(function, key)

    guesses = {name: guessed(function) for name, function in functions.items()}
    return examines(decider, guesses, keys)


def late_faults_raise(decider, functions, keys):
    """Look at values of the first stage only."""

    def answer(ask):
        values = {f: listed(functions[f](keys[row]) for row in ask.rows) for f in ask.features}
        return decider.answer(values) if ask.stage else decider.examine(values)

    return decider.drive(len(keys), answer)


@pytest.mark.parametrize(
    ("driver", "said"),
    [
        (from_functions, "raises ValuesError for nan; live, it must reject"),
        (late_faults_raise, "raises ValuesError for nan; live, it must reject"),
        (gives_up, "for rows beside one with nan"),
        (fills_in, "accepts a row with nan|gives no reason for a row with nan"),
        (lambda *_: None, "gives no Decisions"),
    ],
    ids=["raises", "raises late", "gives up", "guesses", "nothing"],
)
def test_a_broken_live_driver_is_caught(driver, said):
    with pytest.raises(ContractError, match=said):
        check_driver(driver, live=True)


def fetches_all(decider, functions, keys):
    """Fetch everything beforehand."""
    known = {name: np.array([functions[name](key) for key in keys]) for name in decider.readers}
    return decider.drive(
        len(keys), lambda ask: decider.answer({f: known[f][ask.rows] for f in ask.features})
    )


def checks_nothing(decider, functions, keys):
    """Hand values over as they come."""
    from emsco.cascade.decision_loop import Answer

    return decider.drive(
        len(keys),
        lambda ask: Answer(
            [np.array([functions[f](keys[r]) for r in ask.rows]) for f in ask.features]
        ),
    )


def loses_rows(decider, functions, keys):
    """Leave the last row out."""
    found = from_functions(decider, functions, keys[:-1])
    return found if not len(keys) else Decisions.concatenate([found, found[:1]])


@pytest.mark.parametrize(
    ("driver", "said"),
    [
        (fetches_all, "no stage needed"),
        (checks_nothing, "judges a row whose value is nan"),
        (loses_rows, "is not the cascade's own"),
    ],
)
def test_a_broken_driver_is_caught(driver, said):
    with pytest.raises(ContractError, match=said):
        check_driver(driver)


def test_a_strategy_of_ones_own_plugs_in_and_is_kept_by_files(data, tmp_path, monkeypatch):
    """By one line of the table of public names."""
    check_search(RandomDesigns(designs=20))
    X, y, costs = data
    monkeypatch.setitem(emsco.PUBLIC, "RandomDesigns", "search.strategies.toy_search")
    import toy_search

    monkeypatch.setitem(sys.modules, "emsco.search.strategies.toy_search", toy_search)
    search = CascadeSearchCV(
        costs=costs, search=RandomDesigns(designs=15), select={"by": "accuracy"}, random_state=0
    ).fit(X, y)
    dump(search, tmp_path / "toy.emsco")
    assert load(tmp_path / "toy.emsco").search_ == RandomDesigns(designs=15)


@pytest.fixture
def false_alarms():
    register(FALSE_ALARMS)
    yield FALSE_ALARMS
    del MEASURES[FALSE_ALARMS.name]


@pytest.fixture(scope="module")
def searched(data):
    X, y, costs = data
    return CascadeSearchCV(costs=costs, threshold=0.95, random_state=0).fit(X[:500], y[:500])


def test_a_measure_of_ones_own_bounds_choices(searched, false_alarms):
    """It bounds choices with Wilson's margin, and is a column of tables and part of the summary."""
    front = searched.front_
    chosen = searched.choose(max_false_alarms={0: 0.05}, by="coverage")
    evaluation = chosen.best_candidate_.evaluation
    assert false_alarms.of(evaluation)[0] == pytest.approx(1 - evaluation.precision[0])
    assert false_alarms.of(evaluation)[0] < 0.05
    assert "false_alarms 0 <= 0.05; shares of rows must" in chosen.choice_.rule
    assert f"false alarms {1 - evaluation.precision[0]:6.1%}" in chosen.summary()
    shares = front.to_frame()["false_alarms 0"].to_numpy()
    assert shares == pytest.approx([1 - c.evaluation.precision[0] for c in front])
    with pytest.raises(SelectionError, match=r"fails false_alarms 0\. At best: false_alarms 0 0\."):
        front.select(max_false_alarms={0: shares.min() / 2 + 1e-9})
    with pytest.raises(SelectionError, match="did you mean 'max_false_alarms'"):
        front.select(max_false_alarm={0: 0.1})
    with pytest.raises(SelectionError, match="`max_false_alarms` names 'no', which is not a class"):
        front.select(max_false_alarms={"no": 0.1})


def test_a_measure_of_all_rows_is_certified_and_kept_by_files(data, searched, tmp_path):
    """Its certificate has one bound, which no class has, and comes back from a file."""
    X, y, _ = data
    measure = Measure(
        name="errors",
        part=("accepted", "right"),
        whole=("rows",),
        target="max_errors",
        rows="rows",
        promise="{limit} of all rows are accepted under a wrong label",
        does="accepts {limit} of all rows under a wrong label",
        watched_by=DRAWN_LABELS,
        observed="drawn rows were accepted under a wrong label",
    )
    register(measure)
    try:
        certificate = certify(searched, X[500:], y[500:], max_errors=0.1)
        assert "at most 10% of all rows are accepted under a wrong label" in certificate.sentence
        best = certificate.select()
        assert measure.of(best.evaluation) < best.bounds.errors[None] <= 0.2
        assert [bound.head for bound in certificate.bounds_asked(best)] == ["errors <="]
        cascade = searched.cascade(best.candidate)
        cascade.certificate_ = certificate
        dump(cascade, tmp_path / "model.emsco")
        loaded = load(tmp_path / "model.emsco")
        assert loaded.certificate_ == certificate
        assert loaded.certificate_.select().bounds.errors == best.bounds.errors
        CertificateMonitor.of(loaded.certificate_, loaded, share=0.5)
    finally:
        del MEASURES["errors"]


@pytest.mark.usefixtures("false_alarms")
def test_a_measure_of_ones_own_is_certified_and_watched(data, searched, tmp_path):
    """It is tested, said in the sentence, kept by files, and an alarm tells when it is broken."""
    X, y, _ = data
    rows, fresh = slice(500, 1200), slice(1200, None)  # of one problem
    certificate = certify(searched, X[rows], y[rows], max_false_alarms={0: 0.1}, min_coverage=0.2)
    assert "at most 10% of the rows accepted as 0 are wrong" in certificate.sentence
    assert "is wrong on more than 10% of the rows it accepts as 0" in certificate.sentence
    best = certificate.select()
    counted = best.evaluation
    wrong = counted.label_accepted[0] - counted.class_right[0]
    assert wrong / counted.label_accepted[0] < best.bounds.false_alarms[0] <= 0.2
    assert "is wrong on at most" in certificate.bounds_asked(best)[0].phrase
    assert Certificate.from_data(certificate.to_data()) == certificate
    cascade = searched.cascade(best.candidate)
    cascade.certificate_ = certificate
    dump(cascade, tmp_path / "model.emsco")
    assert load(tmp_path / "model.emsco").certificate_ == certificate
    hard = [Targets(max_false_alarms={0: 0.0001})]
    (refused,) = certify_together(searched, X[fresh], y[fresh], hard)
    assert not refused.certified
    assert "rows accepted as 0" in str(refused.shortfalls[0])
    monitor = CertificateMonitor.of(certificate, cascade, share=1.0, random_state=0)
    decisions = cascade.decide(X[fresh])
    assert monitor.decided(decisions) == ()
    assert monitor.labelled(range(700), y[fresh]) == ()
    again = CertificateMonitor.from_state(json.loads(json.dumps(monitor.state())))
    again.decided(decisions)
    (alarm,) = again.labelled(range(700, 1400), np.ones(700, dtype=int))
    assert alarm.what == "false_alarms 0"
    assert "drawn rows accepted as 0 were wrong; at most 10.0% are promised" in alarm.message


@pytest.mark.usefixtures("false_alarms")
def test_a_measure_of_ones_own_is_a_slider_of_the_report(searched, tmp_path):
    """Its counts, sign and margin are all that the page needs."""
    searched.choose(max_false_alarms={0: 0.05})
    page = report(searched, tmp_path / "report.html").read_text()
    data = json.loads(re.search(r'id="data"[^>]*>(.*?)</script>', page, re.DOTALL)[1])
    assert data["asked"] == {"caution": "auto", "max_false_alarms": [0.05, None]}
    (slider,) = [one for one in data["sliders"] if one["name"] == "false_alarms"]
    assert (slider["part"], slider["sign"]) == (["label_accepted", "class_right"], 1)
    assert "false_alarms" in [one["name"] for one in data["figures"]]


def test_a_measure_of_ones_own_has_options_on_the_command_line(data, tmp_path):
    """A process that registers it chooses by it, and certifies it."""
    X, y, costs = data
    X[500:].assign(y=y[500:]).to_csv(tmp_path / "fresh.csv", index=False)
    search = CascadeSearchCV(costs=costs, threshold=0.95, random_state=0).fit(X[:500], y[:500])
    for candidate in search.front_:  # as `emsco search` does: a file of a search holds no rows
        search.cascade(candidate)
    dump(search, tmp_path / "search.emsco")

    def run(*command):
        program = [sys.executable, Path(__file__).parent / "toy_measure.py", *command, "--json"]
        answer = subprocess.run(program, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout)

    chosen = run(
        "select",
        tmp_path / "search.emsco",
        "--max-false-alarms",
        "0=0.08",
        "--out",
        tmp_path / "model.emsco",
    )
    assert "false_alarms 0 <= 0.08" in chosen["rule"]
    assert chosen["false_alarms"]["0"] < 0.08
    files = (tmp_path / "model.emsco", tmp_path / "fresh.csv")
    given = ("--label", "y", "--max-false-alarms", "0=0.1", "--min-coverage", "0")
    assert run("certify", *files, *given)["bounds"]["false_alarms"]["0"] < 0.2


def test_a_target_that_nobody_knows_is_refused_by_name():
    with pytest.raises(TypeError, match="Unknown target 'max_false_alarms'"):
        Targets(max_false_alarms={0: 0.9})
    with pytest.raises(TypeError, match="did you mean 'max_missed'"):
        Targets(max_mised={0: 0.1})
    with pytest.raises(TypeError, match="no parameter 'acuracy'; did you mean 'accuracy'"):
        CertificateMonitor(acuracy=0.9)


URL = "toy://reader:hunter2@stores/1"
FILE = """\
[page]
kind = "toy"
url_env = "TOY_URL"
collection = "pages"
fields = { length = "len" }
most = 2
timeout = "2s"
"""
RENAMED = FILE.replace('length = "len"', 'x0 = "len", x1 = "links"')
PAGES = {f"p{i}": {"length": float(i), "links": float(i % 3)} for i in range(6)}


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """Register the kind, fill its store, and read a file of sources that names it."""
    monkeypatch.setitem(SOURCE_KINDS, "toy", ToySource)
    pages = [{"_id": k, "len": v["length"], "links": v["links"]} for k, v in PAGES.items()]
    monkeypatch.setitem(SERVERS, URL, {"pages": pages})
    monkeypatch.setenv("TOY_URL", URL)

    def read(text=FILE):
        (tmp_path / "sources.toml").write_text(text)
        return Sources.from_toml(tmp_path / "sources.toml")

    return read


def of_pages():
    """Fit a cascade that buys pages."""
    X = np.array([[*page.values()] for page in PAGES.values()] * 20)
    page = emsco.Source("page", cost=1, features=["x0", "x1"])
    cascade = emsco.CascadeClassifier(design=emsco.StageDesign([0]), costs=emsco.Costs([page]))
    return X, cascade.fit(X, X[:, 0] > 2)


def test_a_kind_of_source_of_ones_own_plugs_in(toy):
    """By one line of the table of kinds: a file names it, a cascade is decided with it."""
    sources = toy()
    assert sources["page"] == ToySource(
        collection="pages", url_env="TOY_URL", fields={"length": "len"}, most=2, timeout=2.0
    )
    assert toy(sources.to_toml()) == sources
    check_source(sources["page"], PAGES)
    X, cascade = of_pages()
    live = LiveCascade(cascade, toy(RENAMED))
    decisions = live.decide_now([*PAGES, "p9"])
    live.close_now()
    assert np.array_equal(decisions.label[:6], cascade.predict(X[:6]))
    assert decisions.reason[6] == "missing: page"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('url_env = "TOY_URL"', f'url = "{URL}"', "must not contain `url`: .* in `url_env`"),
        ('"pages"', "3", "`collection` must be a string, got 3"),
        ("most = 2", "most = 0", "`most` must be at least 1, got 0"),
        ("most = 2", "most = 1.5", "`most` must be a whole number"),
        ("most = 2", 'strict = "yes"', "`strict` must be true or false"),
        ('{ length = "len" }', '"len"', "`fields` must be a table of strings"),
        ('"2s"', '"2 weeks"', "`timeout` must be a number of seconds"),
        ('collection = "pages"\n', "", "must have `collection`"),
        ("most", "moist", "'moist'; did you mean 'most'"),
    ],
)
def test_its_fields_are_checked_as_they_say(toy, old, new, said):
    with pytest.raises(SourcesError, match=said) as refused:
        toy(FILE.replace(old, new))
    assert "hunter2" not in str(refused.value)


def test_its_secret_is_never_shown(toy, monkeypatch, caplog):
    """Neither by itself, nor in a file, nor in errors, nor by what its driver logs."""
    fields = {"x0": "len", "x1": "links"}
    direct = Sources({"page": ToySource(collection="pages", url=URL, fields=fields)})
    _, cascade = of_pages()
    assert "hunter2" not in repr(direct)
    with pytest.raises(SourcesError, match="use `url_env`") as refused:
        direct.to_toml()
    assert "hunter2" not in str(refused.value)
    with caplog.at_level(logging.DEBUG):
        for sources in (direct, toy(RENAMED)):
            live = LiveCascade(cascade, sources)
            assert live.decide_now([*PAGES]).receipts[0].paid == 1
            live.close_now()
        monkeypatch.setenv("TOY_URL", URL + "0")
        live = LiveCascade(cascade, toy(RENAMED))
        with pytest.raises(
            SourcesError, match=r"Source 'page': nobody answers at \*\*\*"
        ) as refused:
            live.decide_now([*PAGES])
        live.close_now()
        logging.getLogger(LOGGER).warning("of somebody else")
    assert "hunter2" not in str(refused.value)
    assert [one.getMessage() for one in caplog.records if one.name == LOGGER] == [
        "of somebody else"
    ]
