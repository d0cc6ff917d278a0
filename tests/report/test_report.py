"""A report holds what the search found, in one file, whatever names it is made of."""

from __future__ import annotations

import copy
import re
import sys
import warnings
from dataclasses import replace
from datetime import UTC, datetime
from html import escape, unescape
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ShuffleSplit

from emsco import (
    Candidate,
    CascadeSearchCV,
    Costs,
    Evaluation,
    InputGuard,
    LocalSearch,
    ParetoFront,
    StageDesign,
    evaluate,
)
from emsco._utils.text_table import cell
from emsco.certify import certify
from emsco.exceptions import MissingExtraError, SelectionError, SelectionWarning
from emsco.io import dump, load
from emsco.report import _data, _lines, _report, _words, report
from tests.report.conftest import COSTS


def assert_holds(columns, evaluations, labels):
    """Check that columns of counts are those of evaluations."""
    for i, e in enumerate(evaluations):
        assert (columns["accepted"][i], columns["right"][i]) == (e.accepted, e.right)
        assert columns["paid"][i] == e.paid
        assert columns["rows"] == e.rows
        for k, label in enumerate(labels):
            assert columns["class_rows"][k] == e.class_rows[label]
            assert columns["class_accepted"][k][i] == e.class_accepted[label]
            assert columns["class_right"][k][i] == e.class_right[label]
    assert len(columns["accepted"]) == len(evaluations)


def test_the_page_holds_every_candidate_as_counts(page, search, data_of):
    data = data_of(page)
    labels = search.classes_.tolist()
    assert data["labels"] == labels
    assert_holds(data["selected"], [c.evaluation for c in search.front_], labels)
    for i, candidate in enumerate(search.front_):
        assert data["designs"][data["design_of"][i]] == candidate.design.assignment.tolist()
        given = candidate.threshold
        stages = given if isinstance(given, tuple) else (given,) * candidate.design.n_stages
        told = [data["thresholds"][k] for k in data["thresholds_of"][i]]
        assert told == [[threshold] for threshold in stages]
    assert search.front_[data["chosen"]] == search.best_candidate_
    assert data["n_on_front"] == len(search.front_)


def test_fresh_figures_are_those_of_the_cascades(page, search, rows, data_of):
    data = data_of(page)
    labels = search.classes_.tolist()
    assert_holds(data["fresh"], [s.fresh for s in search.score_front(*rows[1])], labels)
    i = data["chosen"]
    by_hand = evaluate(search.decide(rows[1][0]), rows[1][1])
    assert (data["fresh"]["accepted"][i], data["fresh"]["right"][i]) == (
        by_hand.accepted,
        by_hand.right,
    )


def test_with_fresh_rows_nobody_is_sent_to_measure_them(page, rows):
    """The sentence about fresh figures takes the place of the advice to compute them."""
    told = unescape(page.read_text())
    assert f" Fresh: {len(rows[1][1]):,} other rows." in told


def test_all_sources_stand_beside_it(page, search, rows, data_of):
    whole, labels = data_of(page)["all_sources"], search.classes_.tolist()
    assert_holds(whole["selected"], [search.all_sources_.evaluation], labels)
    fresh = evaluate(search.cascade(search.all_sources_).decide(rows[1][0]), rows[1][1])
    assert_holds(whole["fresh"], [fresh], labels)
    assert fresh.coverage == 1
    coverages = [accepted / whole["as_many"]["rows"] for accepted in whole["as_many"]["of"]]
    assert_holds(whole["as_many"], [search.all_sources_at(c) for c in coverages], labels)
    assert set(whole["as_many"]["of"]) == {c.evaluation.accepted for c in search.front_}


def test_prices_are_those_of_the_costs(page, search, data_of):
    costs = data_of(page)["costs"]
    assert costs["total"] == search.costs_.total
    assert costs["review"] == 25
    assert {s["name"]: (s["cost"], s["setup"]) for s in costs["sources"]} == {
        source.name: (source.cost, source.setup) for source in search.costs_.sources
    }
    assert costs["setups"] == {"draw <hr>": 3}
    assert costs["descriptions"] == search.costs_.descriptions
    told = [source["description"] for source in costs["sources"]]
    assert told == [source.description for source in search.costs_.sources]


def test_text_is_escaped_and_data_cannot_leave_its_script(page):
    text = page.read_text(encoding="utf-8")
    assert "<img" not in text
    assert "<i>" not in text
    assert "<b>" not in text
    assert "\u2028" not in text
    assert escape("At most 7 % of <accepted> rows are wrong & that holds") in text
    # The data and the script of the page.
    assert text.count("<script") == text.count("</script>") == 2


def test_a_name_that_looks_like_a_place_of_the_template_stays_a_name(page, data_of):
    assert any("{{ data }}" in source["name"] for source in data_of(page)["costs"]["sources"])


def test_nothing_outside_is_named(page):
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"""(?:src|href|action|srcset|poster)\s*=\s*["']?([^"'\s>]+)""", text)
    outside = {link for link in links if not link.startswith("#")}  # letters of the flow are inside
    assert outside == {"data:,", "x"}  # the icon that is none, and a hostile name's, escaped
    assert not re.findall(r"https?:|url\((?!#)|@import|fetch\(|XMLHttp|WebSocket", text)
    assert "default-src 'none'" in text


def test_the_flow_of_rows_is_part_of_the_page(page):
    text = page.read_text(encoding="utf-8")
    flow = text[text.index('id="flow"') :].partition("</section>")[0]
    assert flow.count("<svg ") == flow.count("</svg>") == 1
    assert text.count("<!DOCTYPE") == text.count("<style") == 1, "those of the page alone"
    assert not re.findall(r"<\?xml|<metadata|<!--|xmlns", flow)
    links = re.findall(r'(?:href="|url\()#([^")]+)', flow)
    assert links
    assert set(links) <= set(re.findall(r'id="([^"]+)"', flow)), "what it refers to is in it"
    identities = re.findall(r'\bid="([^"]+)"', text)
    assert len(identities) == len(set(identities))


def test_without_fresh_rows_and_certificate_neither_is_claimed(search, tmp_path, data_of):
    page = report(search, tmp_path / "plain.html")
    data = data_of(page)
    assert data["fresh"] is None
    assert data["all_sources"]["fresh"] is None
    text = page.read_text(encoding="utf-8")
    assert "Certificate</h2>" not in text
    e, total = search.best_candidate_.evaluation, search.costs_.total
    title = (
        f"{' or '.join(search.classes_)}, {e.rows} rows: {e.cost / total:.1%} of the price, "
        f"{e.accuracy:.1%} right on the {e.coverage:.1%} accepted"
    )
    assert f"<title>{escape(title)}</title>" in text
    assert f"{datetime.now(UTC):%B %Y}" in text
    assert "Selected on 200 held-out rows" in text
    assert "these figures look better than those of fresh rows will be" in text


def test_the_lead_tells_people_who_do_not_program(search, rows, tmp_path):
    """What is saved, how right it is beside all sources, also on fresh rows; no word of code."""
    text = report(search, tmp_path / "page.html", *rows[1]).read_text(encoding="utf-8")
    header = unescape(text[text.index("<header>") : text.index("</header>")])
    e, costs = search.best_candidate_.evaluation, search.costs_
    as_many = search.all_sources_at(e.coverage).accuracy
    assert f"saves {cell(costs.total - e.cost)} {costs.unit}." in header
    assert f"right on {e.accuracy:.1%} of the rows that it accepts" in header
    assert f"all sources at once, accepting as many rows, are right on {as_many:.1%}." in header
    fresh = evaluate(search.decide(rows[1][0]), rows[1][1])
    assert f"On 400 fresh rows, it costs {fresh.cost / costs.total:.1%} of the price" in header
    assert f"accepts {fresh.coverage:.1%} and is right on {fresh.accuracy:.1%}" in header
    whole = evaluate(search.cascade(search.all_sources_).decide(rows[1][0]), rows[1][1])
    assert f"all sources at once are right on {whole.accuracy:.1%} of all." in header
    for code in ("score_front", "(X", "Exhaustive", "LocalSearch", "CascadeSearchCV"):
        assert code not in header


@pytest.mark.parametrize(
    ("classes", "told"),
    [
        (["healthy", "sick"], "healthy or sick"),
        ([1, 2, 3], "class 1, 2 or 3"),
        ([False, True], "class False or True"),
        (list("abcde"), "5 classes"),
    ],
    ids=str,
)
def test_classes_are_named_in_titles(classes, told):
    assert _words._decided(classes) == told


def test_a_choice_of_all_sources_is_told_without_a_saving(search, tmp_path):
    """It accepts every row, and has the full price."""
    chosen = search.best_candidate_
    try:
        search.choose(search.all_sources_, refit=False)
        text = report(search, tmp_path / "all.html").read_text(encoding="utf-8")
    finally:
        search.choose(chosen)
    right = search.all_sources_.evaluation.accuracy
    assert f": 100.0% of the price, {right:.1%} right, every row accepted</title>" in text
    assert "saves" not in text[text.index("<header>") : text.index("</header>")]


def test_the_python_lines_make_the_same_search(search, page, data_of, tmp_path, monkeypatch):
    lines = data_of(page)["python"]
    assert lines[2] == 'search = CascadeSearchCV(costs="costs.toml", max_stages=3, random_state=0)'
    text = page.read_text(encoding="utf-8")
    prices = text[text.index('<pre id="toml"') :].partition(">")[2].partition("</pre>")[0]
    (tmp_path / "costs.toml").write_text(unescape(prices), encoding="utf-8")
    told = {}
    monkeypatch.chdir(tmp_path)
    exec("\n".join(lines[:3]), told)  # ours
    assert Costs.from_toml(told["search"].costs) == search.costs_
    assert told["search"].random_state == search.random_state
    assert told["search"].max_stages == search.max_stages


@pytest.mark.filterwarnings("ignore::emsco.exceptions.SelectionWarning")
def test_the_python_lines_import_what_they_use(rows, data_of, tmp_path):
    """A strategy, a guard and a classifier of scikit-learn, as a reader would copy them."""
    (X, y), _ = rows
    search = CascadeSearchCV(
        estimator=LogisticRegression(C=0.5), search=LocalSearch(evaluations=50, fits=9),
        guard=InputGuard(), luck=False,
    ).fit(X, y)  # fmt: skip
    lines = data_of(report(search, tmp_path / "report.html"))["python"]
    told = {}
    exec("\n".join(lines[:-1]), told)  # ours
    assert isinstance(told["search"].search, LocalSearch)
    assert told["search"].estimator.C == 0.5


@pytest.mark.parametrize(
    ("parameters", "options", "left_out"),
    [
        (
            {"random_state": 7, "max_rows": 500, "cv": 3},
            "--no-guard --cv 3 --max-rows 500 --random-state 7",
            "",
        ),
        ({"threshold": [0.7, 0.9]}, "--no-guard --threshold 0.7 --threshold 0.9", ""),
        ({"threshold": {"a": 0.7, "b": 0.9}}, "--no-guard", "threshold"),
        ({"max_missed": {"it's": 0.1}}, """--no-guard '--max-missed=it'"'"'s=0.1'""", ""),
        (
            {"max_rejected": {"sick": 0.2}, "select": {"caution": 0.5}},
            "--no-guard --max-rejected=sick=0.2 --caution 0.5",
            "",
        ),
        ({"select": {"min_coverage": 0.9}}, "--no-guard", "select"),
        ({"guard": InputGuard(pool="auto"), "cv": ShuffleSplit(2)}, "--guard", "cv"),
        ({"guard": InputGuard()}, "", "guard"),
        (
            {"estimator": LogisticRegression(), "guard": InputGuard(margin=0)},
            "",
            "estimator, guard",
        ),
    ],
    ids=str,
)
def test_the_command_line_makes_the_same_search_or_says_what_it_cannot(
    parameters, options, left_out
):
    told = _report._parameters_to_dict(CascadeSearchCV(**parameters))
    command, unsaid = _lines.shell_line(told)
    begin = "emsco search data.csv --label y --costs costs.toml"
    assert " ".join(command.split()) == f"{begin} {options} --out run/".replace("  ", " ")
    assert ", ".join(sorted(unsaid)) == left_out
    assert all(name in _report._not_in_shell(unsaid) for name in unsaid)


def test_a_certificate_says_whether_it_is_about_the_choice(search, rows, tmp_path):
    X, y = rows[1]
    certificate = certify(search.best_cascade_, X, y, accuracy=0.6)
    other = replace(certificate, candidates=())
    text = report(search, tmp_path / "other.html", certificate=other).read_text("utf-8")
    assert "It is not about the cascade that the search chose" in text
    text = report(search, tmp_path / "one.html", certificate=certificate).read_text("utf-8")
    assert escape(certificate.sentence) in text
    assert "It is about the cascade" in text
    search.best_cascade_.certificate_ = certificate
    try:
        text = report(search, tmp_path / "two.html").read_text("utf-8")
    finally:
        del search.best_cascade_.certificate_
    assert escape(certificate.sentence) in text
    sentence = SimpleNamespace(sentence="Sound & safe.")
    text = report(search, tmp_path / "three.html", certificate=sentence).read_text("utf-8")
    assert "Sound &amp; safe." in text
    assert "It is about the cascade that was certified" in text


def test_fresh_figures_are_for_a_population_where_one_is_given(search, rows, tmp_path, data_of):
    search = copy.deepcopy(search)
    X, y = rows[1]
    label = search.classes_[0].item()
    path = report(search, tmp_path / "page.html", X, y, population={label: 0.02})
    fresh = data_of(path)["fresh"]
    expected = evaluate(search.cascade(search.front_[0]).decide(X), y, population={label: 0.02})
    assert fresh["accepted"][0] == pytest.approx(expected.accepted)
    assert fresh["right"][0] == pytest.approx(expected.right)
    told = f"counted as in a population with 2% labelled {label!r}"
    assert escape(told) in path.read_text("utf-8")
    with pytest.raises(SelectionError, match="give X and y"):
        report(search, tmp_path / "other.html", population={label: 0.02})


def test_notes_of_a_certificate_stand_below_its_sentence(search, rows, tmp_path):
    """What was chosen, who was left out, and what is not promised."""
    search = copy.deepcopy(search)  # to certify it is to fit its cascades
    certificate = certify(search, *rows[1], accuracy=0.6)
    text = report(search, tmp_path / "page.html", certificate=certificate).read_text("utf-8")
    assert certificate.notes
    assert all(f"<p>{escape(note)}</p>" in text for note in certificate.notes)


def test_the_file_is_small(page):
    assert page.stat().st_size < 400_000


@pytest.fixture
def fallen_back(rows):
    """Search where no candidate is shown to be as good as all sources."""
    (X, y), _ = rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelectionWarning)
        return CascadeSearchCV(
            costs=COSTS, max_stages=3, threshold=[0.95, 0.99], random_state=0
        ).fit(X, y)


def test_it_opens_with_all_sources_where_no_candidate_qualified(
    fallen_back, rows, tmp_path, data_of
):
    """The title, the lead, the figures and the drawn cascade are those of the choice itself."""
    search = fallen_back
    assert search.best_candidate_ == search.all_sources_
    page = report(search, tmp_path / "all.html", *rows[1])
    data, text = data_of(page), unescape(page.read_text(encoding="utf-8"))
    i, e = data["chosen"], search.all_sources_.evaluation
    assert i == data["n_on_front"] == len(search.front_), "behind the front, which it is not on"
    assert (data["selected"]["accepted"][i], data["selected"]["right"][i]) == (e.accepted, e.right)
    assert data["selected"]["paid"][i] == e.paid
    assert set(data["designs"][data["design_of"][i]]) == {0}
    fresh = evaluate(search.decide(rows[1][0]), rows[1][1])
    assert (data["fresh"]["accepted"][i], data["fresh"]["right"][i]) == (400, fresh.right)
    header = text[text.index("<header>") : text.index("</header>")]
    assert f": 100.0% of the price, {e.accuracy:.1%} right, every row accepted</h1>" in header
    assert "No candidate qualified, so the search chose all sources at once, for every" in header
    told = f"right on {e.accuracy:.1%} of the rows, and on {fresh.accuracy:.1%} of 400 fresh rows."
    assert told in header
    assert 'id="flow"' in text
    assert data["choice"] == {"python": "", "shell": ""}, "the default repeats it"


def test_it_opens_with_a_choice_that_is_not_on_the_front(search, tmp_path, data_of):
    other = Candidate(StageDesign([0] * 5, search.costs_.names), 0.501, search.all_sources_at(0.9))
    chosen = search.best_candidate_
    try:
        search.choose(other, refit=False)
        page = report(search, tmp_path / "other.html")
        search.choose(search.all_sources_, refit=False)
        everything = report(search, tmp_path / "all.html")
    finally:
        search.choose(chosen)
    data = data_of(page)
    assert data["chosen"] == data["n_on_front"] == len(search.front_)
    assert data["selected"]["accepted"][-1] == other.evaluation.accepted
    assert data["thresholds"][data["thresholds_of"][-1][0]] == [0.501]
    assert "What the search chose is not among them." in page.read_text(encoding="utf-8")
    assert data["choice"] == {"python": "candidate", "shell": None}, "nothing else repeats it"
    assert data_of(everything)["choice"]["python"] == "search.all_sources_"
    assert "qualified" not in everything.read_text(encoding="utf-8"), "it was given"


def test_large_fronts_are_thinned_evenly_and_keep_what_matters(monkeypatch, search):
    monkeypatch.setattr(_data, "MOST_CANDIDATES", 40)
    assert len(search.front_) > 80
    data = _data.page_data(search)
    assert len(data["design_of"]) <= 40
    kept = list(zip(data["selected"]["accepted"], data["selected"]["right"], strict=True))
    evaluations = [c.evaluation for c in search.front_]
    best = [
        search.best_candidate_.evaluation,
        max(evaluations, key=lambda e: e.accuracy),
        max(evaluations, key=lambda e: e.coverage),
        evaluations[0],
        evaluations[-1],
    ]
    for evaluation in best:
        assert (evaluation.accepted, evaluation.right) in kept
    assert kept[data["chosen"]] == (best[0].accepted, best[0].right)


def test_a_search_out_of_a_file_is_reported_with_what_it_can_still_tell(
    search, rows, tmp_path, data_of
):
    dump(search, tmp_path / "search.emsco")
    loaded = load(tmp_path / "search.emsco")
    assert loaded.costs_ == search.costs_, "in words, too"
    page = report(loaded, tmp_path / "loaded.html", *rows[1])
    data = data_of(page)
    i = data["chosen"]
    by_hand = evaluate(search.decide(rows[1][0]), rows[1][1])
    assert data["fresh"]["accepted"][i] == by_hand.accepted
    assert data["fresh"]["right"][i] == by_hand.right
    assert data["fresh"]["rows"] == 400
    kept = set(map(frozenset, loaded.found_.stages.fitted))  # here a source is its one feature
    for accepted, candidate in zip(data["fresh"]["accepted"], search.front_, strict=True):
        design = candidate.design
        needed = {frozenset(design.acquired(i)) for i in range(design.n_stages)}
        assert (accepted is not None) == (needed <= kept)
    assert "A dash: the file" in page.read_text(encoding="utf-8")


def test_a_class_that_fresh_rows_lack_is_told_as_unknown(search, rows):
    X, y = rows[1]
    only = y == "sick"
    data = _data.page_data(search, X[only], y[only])
    assert data["fresh"]["class_rows"] == [0, int(np.sum(only))]


def test_errors_are_named_and_leave_no_file(search, rows, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    with pytest.raises(NotFittedError):
        report(CascadeSearchCV(), path)
    with pytest.raises(SelectionError, match="both or neither"):
        report(search, path, rows[1][0])
    empty = copy.copy(search)
    empty.found_ = replace(search.found_, front=ParetoFront([], search.costs_))
    with pytest.raises(SelectionError, match="empty"):
        report(empty, path)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # draws the flow of fresh rows
    with pytest.raises(MissingExtraError, match=r"emsco\[report\]"):
        report(search, path, *rows[1])
    assert not path.exists()


def test_evaluations_without_classes_have_no_missed():
    columns = _data._counts([Evaluation(10, 8, 6, paid=50.0)], [])
    assert columns["class_rows"] == []
    assert columns["paid"] == [50]


def test_under_agreement_fresh_rows_need_no_labels(rows, data_of, tmp_path):
    """What is right on the page is what the final model answers."""
    (X, y), (fresh, _) = rows
    model = LogisticRegression().fit(X.to_numpy(), y)
    search = CascadeSearchCV(final=model, target="agreement", threshold=[0.7, 0.9], max_stages=2)
    search.fit(X.to_numpy())
    page = report(search, tmp_path / "report.html", fresh.to_numpy())
    data, answers = data_of(page), model.predict(fresh.to_numpy())
    expected = [scored.fresh for scored in search.score_front(fresh.to_numpy())]
    assert_holds(data["fresh"], expected, search.classes_.tolist())
    all_sources = evaluate(search.cascade(search.all_sources_).decide(fresh.to_numpy()), answers)
    assert_holds(data["all_sources"]["fresh"], [all_sources], search.classes_.tolist())
    assert data["fresh_rows"] == len(answers)
    told = "An answer is right if the final model gives the same one."
    assert told in unescape(page.read_text())
    assert "search.fit(X)" in data["python"]
    assert "score_front(X)" in search.front_.measured_on
