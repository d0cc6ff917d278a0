"""From prices to a run: `costs init`, `search`, `show`, `select`, `certify`, `report`."""

from __future__ import annotations

import io
import json
import shutil

import numpy as np
import pandas as pd
import pytest
from commands import call, patients, write_csv

from emsco import Costs, evaluate, load
from emsco.cli import _print


def test_prices_to_fill_in_are_valid_as_written(folder, tmp_path):
    """Every column but the label has its line, and a word on what it holds; the id is skipped."""
    out = tmp_path / "costs.toml"
    called = call("costs", "init", folder / "train.csv", "--label", "state", "--out", out)
    assert (called.code, called.out) == (0, "")
    assert "each with price 1" in called.err
    costs = Costs.from_toml(out)
    assert costs.skipped == ("id",)
    assert costs.names == ("age", "smoker", "town", "visits", "marker", "scan")
    assert {source.cost for source in costs.sources} == {1.0}
    text = out.read_text()
    assert "# ids such as '00000': a value a row" in text.splitlines()[16]
    assert "text, 3 values such as" in text
    assert "10% missing" in text or "9% missing" in text or "11% missing" in text


def test_prices_that_are_there_are_not_written_over(folder, tmp_path):
    """Prices are written by hand; only --force replaces them."""
    out = tmp_path / "costs.toml"
    out.write_text("[sources]\nage = 7\n")
    arguments = ("costs", "init", folder / "train.csv", "--label", "state", "--out", out)
    refused = call(*arguments)
    assert refused.code == 2
    assert "already exists" in refused.err
    assert out.read_text() == "[sources]\nage = 7\n"
    assert call(*arguments, "--force").code == 0
    assert "age = 7" not in out.read_text()


def test_a_search_writes_every_candidate_ready_to_choose(folder):
    """The run folder alone is enough: each candidate's cascade is in it, and the chosen one."""
    search = load(folder / "run/search.emsco")
    assert len(search.front_) > 5
    for candidate in [*search.front_, search.all_sources_]:
        assert search.cascade(candidate).stages_ == candidate.design.stages
    assert load(folder / "run/model.emsco").stages_ == search.best_cascade_.stages_
    assert "Chosen from" in (folder / "search.out").read_text()
    told = (folder / "search.err").read_text()
    assert "not used, because" in told
    assert "'id'" in told


def test_a_front_of_too_many_is_thinned_and_says_so(folder, tmp_path):
    """What is kept is all that can be chosen, and the choice is among it."""
    called = call(
        "search", folder / "train.csv", "--label", "state", "--costs", folder / "costs.toml",
        "--out", tmp_path, "--cv", 3, "--max-stages", 2, "--threshold", 0.8, "--threshold", 0.9,
        "--max-candidates", 4, "--quiet", "--json",
    )  # fmt: skip
    assert called.code == 0, called.err
    data = json.loads(called.out)
    search = load(tmp_path / "search.emsco")
    assert data["candidates_kept"] == len(search.front_) <= 5 < data["candidates"]
    kept = f"{len(search.front_)} of {data['candidates']} candidates were kept"
    assert kept in search.front_.measured_on
    assert {c.threshold for c in search.front_} <= {0.8, 0.9}
    assert search.front_.luck is not None, "it is kept"
    assert search.front_.luck == data["luck"]
    assert search.best_cascade_.guard_ is not None, "it is as by default"


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Make a folder with rows, fresh ones of which two are faulty, and prices for all but `id`."""
    path = tmp_path_factory.mktemp("few")
    write_csv(patients(300, 3), path / "rows.csv")
    fresh = patients(50, 7)
    fresh.loc[3, "age"], fresh.loc[5, "scan"] = np.nan, 1e9
    write_csv(fresh, path / "fresh.csv")
    (path / "costs.toml").write_text("[sources]\nboth = { cost = 3, features = ['age', 'scan'] }\n")
    return path


def searched(few, out, *more):
    called = call(
        "search", few / "rows.csv", "--label", "state", "--costs", few / "costs.toml",
        "--out", out, "--cv", 3, "--quiet", *more,
    )  # fmt: skip
    assert called.code == 0, called.err
    return called


def test_a_search_has_a_guard_unless_told(few, tmp_path):
    """A faulty row is rejected with its reason, and the rest decided; else it stops the file."""
    searched(few, tmp_path / "run")
    guard = load(tmp_path / "run/search.emsco").guard
    assert guard.get_params() == {"margin": 0.25, "pool": "auto"}
    model = load(tmp_path / "run/model.emsco")
    assert model.guard_.learned_.keys() == {"age", "scan"}
    called = call("decide", tmp_path / "run", few / "fresh.csv")
    assert called.code == 0, called.err
    decided = pd.read_csv(io.StringIO(called.out), keep_default_na=False)
    assert decided.reason[[3, 5]].tolist() == ["invalid value: age", "out of range: scan"]
    assert decided.accepted[[3, 5]].tolist() == [False, False]
    others = np.delete(np.arange(50), [3, 5])
    assert set(decided.reason[others]) <= {"", "low confidence"}
    clean = model.decide(patients(50, 7)[["age", "scan"]])
    assert decided.label[others].tolist() == clean.label[others].tolist()
    assert decided.accepted[others].tolist() == clean.accepted[others].tolist()

    searched(few, tmp_path / "bare", "--no-guard")
    assert load(tmp_path / "bare/search.emsco").guard is None
    assert not hasattr(load(tmp_path / "bare/model.emsco"), "guard_")
    stopped = call("decide", tmp_path / "bare", few / "fresh.csv")
    assert stopped.code == 2
    assert stopped.err.startswith("emsco: Row 3 of column 'age' is missing (NaN)")


def test_the_guard_of_a_search_pools_text_of_many_values_and_says_so(tmp_path):
    """An unseen town is judged, one of the few kinds is not."""
    frame = patients(300, 3)
    frame = frame.assign(place=[f"place {i}" for i in range(300)], town=frame.state.str[:1])
    write_csv(frame, tmp_path / "rows.csv")
    (tmp_path / "costs.toml").write_text(
        "[sources]\nall = { cost = 3, features = ['place', 'town', 'scan'], "
        "type = { place = 'text' } }\n"
    )
    called = searched(tmp_path, tmp_path / "run")
    assert called.err.count("a value of 'place' that was not seen in training: the co") == 1
    fresh = frame[:4].assign(place="elsewhere")
    fresh.loc[2, "town"] = "x"
    write_csv(fresh, tmp_path / "fresh.csv")
    called = call("decide", tmp_path / "run", tmp_path / "fresh.csv")
    decided = pd.read_csv(io.StringIO(called.out), keep_default_na=False)
    assert decided.reason[2] == "unseen category: town"
    assert set(decided.reason[[0, 1, 3]]) <= {"", "low confidence"}


def test_labels_that_are_whole_numbers_stay_so(tmp_path):
    """As text they would be other classes than those of whoever reads the decisions."""
    frame = patients(200, 3)
    write_csv(frame.assign(state=(frame.state == "sick") + 1), tmp_path / "rows.csv")
    (tmp_path / "costs.toml").write_text("[sources]\nscan = 3\nage = 1\n")
    called = call(
        "search", tmp_path / "rows.csv", "--label", "state", "--costs", tmp_path / "costs.toml",
        "--out", tmp_path / "run", "--cv", 3, "--quiet", "--max-missed", "2=0.5",
    )  # fmt: skip
    assert called.code == 0, called.err
    model = load(tmp_path / "run/model.emsco")
    assert model.classes_.tolist() == [1, 2]
    assert model.classes_.dtype.kind == "i"


def test_show_lists_the_front_and_marks_the_chosen(folder):
    """Figures are those of the search; fresh rows put theirs beside them."""
    search = load(folder / "run/search.emsco")
    called = call("show", folder / "run")
    assert called.code == 0
    starred = [line for line in called.out.splitlines() if line.lstrip().startswith("*")]
    assert len(starred) == 1
    assert f"{search.best_candidate_.evaluation.accuracy:.1%}" in starred[0]
    assert str(search.best_candidate_.design) in starred[0]
    assert "\x1b" not in called.out
    data = json.loads(
        call(
            "show", folder / "run", "--json", "--fresh", folder / "fresh.csv", "--label", "state"
        ).out
    )
    assert len(data["candidates"]) == len(search.front_)
    fresh = patients(2000, 1).replace({"town": {"": None}})
    expected = evaluate(search.cascade(search.front_[3]).decide(fresh), fresh.state.to_numpy())
    assert data["candidates"][3]["fresh"]["accuracy"] == expected.accuracy
    assert data["candidates"][3]["fresh"]["rows"] == 2000
    for word in ("rejected", "missed", "recall", "precision"):
        assert data["candidates"][3]["fresh"][word] == dict(getattr(expected, word))
    fresh_of_chosen = evaluate(search.decide(fresh), fresh.state.to_numpy())
    assert data["chosen"]["fresh"]["accuracy"] == fresh_of_chosen.accuracy
    assert isinstance(data["chosen"]["differs"], list)


def test_fresh_figures_stand_alone_and_are_said_in_words(folder):
    """All columns are of fresh rows but one, which says so; the sentences are the library's."""
    search = load(folder / "run/search.emsco")
    arguments = ("show", folder / "run", "--fresh", folder / "fresh.csv", "--label", "state")
    caption, groups, heads, *lines = call(*arguments).out.splitlines()
    assert 'only the accuracy under "selected"' in caption
    assert groups.split() == ["sick", "well", "selected"]
    shares = ["rejected", "missed", "recall", "precision"]
    assert heads.split() == ["cost", "coverage", "accuracy", *shares * 2, "accuracy", "design"]
    fresh = patients(2000, 1).replace({"town": {"": None}})
    (starred,) = (line for line in lines if line.lstrip().startswith("*"))
    e = evaluate(search.decide(fresh), fresh.state.to_numpy())
    told = [f"{e.cost:,.4g}", f"{e.coverage:.1%}", f"{e.accuracy:.1%}"]
    told += [f"{getattr(e, word)[label]:.1%}" for label in ("sick", "well") for word in shares]
    told.append(f"{search.best_candidate_.evaluation.accuracy:.1%}")
    assert starred.split()[1 : len(told) + 1] == told
    library = search.summary(fresh, fresh.state.to_numpy()).splitlines()
    place = next(i for i, line in enumerate(library) if line.startswith("On 2,000 fresh rows it"))
    assert library[place:] == lines[-len(library[place:]) :]


def test_fresh_figures_are_for_a_population_where_one_is_given(folder):
    search = load(folder / "run/search.emsco")
    arguments = ("show", folder / "run", "--fresh", folder / "fresh.csv", "--label", "state")
    called = call(*arguments, "--population", "sick=0.02")
    assert "counted as in a population with 2% labelled 'sick'" in called.out
    data = json.loads(call(*arguments, "--population", "sick=0.02", "--json").out)
    fresh = patients(2000, 1).replace({"town": {"": None}})
    truth = fresh.state.to_numpy()
    for i in (0, len(search.front_) - 1):
        decisions = search.cascade(search.front_[i]).decide(fresh)
        expected = evaluate(decisions, truth, population={"sick": 0.02})
        assert data["candidates"][i]["fresh"]["accuracy"] == expected.accuracy
        assert data["candidates"][i]["fresh"]["precision"] == dict(expected.precision)
    assert {one["figure"] for one in data["chosen"]["differs"]} <= {"rejected", "missed", "recall"}


@pytest.mark.parametrize(
    ("width", "heads"),
    [
        (250, ["sick", "well"]),
        (110, ["worst class", "precision"]),
        (80, ["worst class", "missed  design"]),
    ],
)
def test_a_table_has_as_many_columns_as_the_terminal_has_room_for(
    folder, monkeypatch, capsys, width, heads
):
    monkeypatch.setattr(_print, "_width", lambda: width)
    front = load(folder / "run/search.emsco").front_
    _print.print_candidates(front, range(len(front)), front[0])
    out = capsys.readouterr().out
    assert all(head in "".join(out.splitlines(keepends=True)[:2]) for head in heads)
    assert max(map(len, out.splitlines())) <= width
    worst = max(front[-1].evaluation.rejected.values())
    assert f"{worst:.1%}" in out.splitlines()[-1]


def test_show_tells_a_model_by_its_stages(folder):
    """A model has no front; its stages, prices and thresholds are told."""
    model = load(folder / "run/model.emsco")
    out = call("show", folder / "run/model.emsco").out
    assert all(f"stage {i}: buy {', '.join(s)}" in out for i, s in enumerate(model.stages_))
    data = json.loads(call("show", folder / "run/model.emsco", "--json").out)
    assert [tuple(stage["sources"]) for stage in data["stages"]] == list(model.stages_)
    assert data["labels"] == ["sick", "well"]


def test_select_writes_what_the_library_selects(folder, tmp_path):
    """Bounds mean what they mean in Python."""
    search = load(folder / "run/search.emsco")
    bounds = {"max_cost": 60, "min_coverage": 0.5}
    expected = search.front_.select(**bounds, max_missed={"sick": 0.2}, by="accuracy")
    called = call(
        "select", folder / "run", "--max-cost", 60, "--min-coverage", 0.5, "--max-missed",
        "sick=0.2", "--by", "accuracy", "--out", tmp_path / "model.emsco", "--json",
    )  # fmt: skip
    assert called.code == 0, called.err
    data = json.loads(called.out)
    assert data["accuracy"] == expected.evaluation.accuracy
    assert data["stages"] == [list(stage) for stage in expected.design.stages]
    assert load(tmp_path / "model.emsco").stages_ == expected.design.stages


def test_bounds_by_class_and_caution_mean_what_they_mean_in_python(folder):
    search = load(folder / "run/search.emsco")
    for caution in (0, 1.5, "auto"):
        expected = search.front_.select(
            min_accuracy=0.9, max_rejected={"sick": 0.4}, min_precision={"well": 0.85},
            caution=caution,
        )  # fmt: skip
        called = call(
            "select", folder / "run", "--min-accuracy", 0.9, "--max-rejected", "sick=0.4",
            "--min-precision", "well=0.85", "--caution", caution, "--json",
        )  # fmt: skip
        assert called.code == 0, called.err
        data = json.loads(called.out)
        assert data["stages"] == [list(stage) for stage in expected.design.stages]
        e = expected.evaluation
        for word in ("rejected", "missed", "recall", "precision"):
            assert data[word] == dict(getattr(e, word))
        assert data["rule"].startswith("Rule: the cheapest of")
        assert "rejected sick <= 0.4 and precision well >= 0.85" in data["rule"]


def test_without_a_bound_the_search_chooses_as_by_default(folder):
    """With another caution too, as its warnings say."""
    search = load(folder / "run/search.emsco")
    for arguments, bounds in (((), {}), (("--caution", 0), {"caution": 0})):
        expected = search.choose(**bounds).best_candidate_
        data = json.loads(call("select", folder / "run", *arguments, "--json").out)
        assert data["cost"] == expected.evaluation.cost
        assert "not worse than all sources at once" in data["rule"]
    cheapest = json.loads(call("select", folder / "run", "--by", "cost", "--json").out)
    assert cheapest["cost"] == min(c.evaluation.cost for c in search.front_)


@pytest.fixture(scope="module")
def reviewed(folder, tmp_path_factory):
    """Give a run whose rejected rows are reviewed for a price, chosen as counted."""
    path = tmp_path_factory.mktemp("reviewed")
    (path / "costs.toml").write_text((folder / "costs.toml").read_text() + "[review]\ncost = 30\n")
    called = call(
        "search", folder / "train.csv", "--label", "state", "--costs", path / "costs.toml",
        "--out", path / "run", "--cv", 3, "--max-stages", 2, "--threshold", 0.8, "--quiet",
        "--max-rejected", "sick=0.9", "--caution", 0, "--json",
    )  # fmt: skip
    assert called.code == 0, called.err
    (path / "search.json").write_text(called.out)
    return path


def test_a_search_takes_caution_and_the_largest_share_rejected(reviewed):
    search = load(reviewed / "run/search.emsco")
    assert all(c.evaluation.rejected["sick"] <= 0.9 for c in search.front_)
    assert search.max_rejected == {"sick": 0.9}
    data = json.loads((reviewed / "search.json").read_text())
    assert "as counted" in data["chosen"]["rule"]
    assert data["luck"] == search.front_.luck
    chosen = search.best_candidate_.evaluation
    assert data["chosen"]["review"] == 30 * (1 - chosen.coverage)


@pytest.mark.parametrize(
    ("given", "error_cost"),
    [(("20",), 20.0), (("sick=500", "well=20"), {"sick": 500.0, "well": 20.0})],
)
def test_errors_have_one_price_or_one_by_class(reviewed, given, error_cost):
    search = load(reviewed / "run/search.emsco")
    expected = search.choose(by="loss", error_cost=error_cost)
    flags = [part for price in given for part in ("--error-cost", price)]
    called = call("select", reviewed / "run", "--by", "loss", *flags)
    assert called.code == 0, called.err
    review = expected.costs_.review
    loss = expected.best_candidate_.evaluation.loss(review=review, error_cost=error_cost)
    assert f" = loss {loss:.4g} EUR." in called.out
    assert "best candidate of a front that was searched without prices of errors" in called.out
    assert "; per row: cost " in called.out


def test_review_has_a_column_of_its_own(reviewed):
    search = load(reviewed / "run/search.emsco")
    groups, heads, *lines = call("show", reviewed / "run").out.splitlines()
    first = search.front_[0].evaluation
    assert heads.split()[:3] == ["cost", "+", "review"]
    assert lines[0].split()[2] == f"{30 * (1 - first.coverage):.3g}"
    assert groups.split() == ["sick", "well"]


def test_select_without_out_writes_nothing_and_names_the_closest(folder, tmp_path, monkeypatch):
    """Looking is free; what no candidate meets is told with the one that comes closest."""
    monkeypatch.chdir(tmp_path)
    called = call("select", folder / "run", "--min-coverage", 0.9)
    assert called.code == 0
    assert "Nothing was written" in called.err
    assert list(tmp_path.iterdir()) == []
    refused = call("select", folder / "run", "--max-cost", 0.5, "--min-accuracy", 0.99)
    assert refused.code == 2
    assert refused.err.startswith("emsco: No candidate meets")
    assert "the closest" in refused.err
    assert "At best, with the other bounds as given: cost " in refused.err
    assert "--caution 0" in refused.err


def test_certify_ends_with_0_and_a_certified_model_or_with_1(folder, tmp_path):
    """A program learns from the exit code whether there is a certificate."""
    run = shutil.copytree(folder / "run", tmp_path / "run")
    other = write_csv(patients(2000, 9), tmp_path / "other.csv")
    arguments = ("certify", run, folder / "fresh.csv", "--label", "state")
    out = tmp_path / "certified.emsco"
    called = call(*arguments, "--accuracy", 0.9, "--take", "coverage", "--out", out, "--json")
    assert called.code == 0, called.err
    data = json.loads(called.out)
    assert data["certified"]
    assert data["bounds"]["accuracy"] > 0.85
    assert load(out).certificate_.sentence == data["sentence"]
    assert data["sentence"] in call("show", out).out
    failed = call("certify", run, other, "--label", "state", "--accuracy", 0.9999)
    assert failed.code == 1
    assert failed.out.startswith("Not certified: ")
    third = write_csv(patients(2000, 10), tmp_path / "third.csv")
    single = call("certify", out, third, "--label", "state", "--accuracy", 0.8)
    assert single.code == 0, single.err
    assert "Certified: 1 of 1 candidates" in single.out


def test_one_row_of_each_group_is_used(folder, tmp_path):
    run = shutil.copytree(folder / "run", tmp_path / "run")
    rows = patients(1000, 9).assign(clinic=np.arange(1000) // 10)
    path = write_csv(rows, tmp_path / "grouped.csv")
    arguments = ("certify", run, path, "--label", "state", "--accuracy", 0.8, "--json", "--groups")
    assert json.loads(call(*arguments, "clinic").out)["rows"] == 100
    wrong = call(*arguments, "clinics")
    assert wrong.code == 2
    assert "did you mean 'clinic'" in wrong.err


def test_rows_serve_for_one_certificate_of_a_run_only(folder, tmp_path):
    """Asked again until the answer pleases, a certificate would promise nothing."""
    run = shutil.copytree(folder / "run", tmp_path / "run")
    arguments = ("certify", run, folder / "fresh.csv", "--label", "state", "--accuracy")
    assert call(*arguments, 0.99999).code == 1
    refused = call(*arguments, 0.9)
    assert refused.code == 2
    assert "These rows were already used for a certificate" in refused.err
    assert "`emsco certify` with several --accuracy or --agreement" in refused.err
    searched_on = call("certify", run, folder / "train.csv", *arguments[3:], 0.9)
    assert searched_on.code == 2
    assert "equal a row that the model was fitted on" in searched_on.err


def test_a_report_holds_fresh_figures_and_the_certificate(folder, tmp_path):
    """The page is written from the run folder alone."""
    run = shutil.copytree(folder / "run", tmp_path / "run")
    call(
        "certify", run, folder / "fresh.csv", "--label", "state", "--accuracy", 0.9,
        "--out", run / "model.emsco", "--force",
    )  # fmt: skip
    out = tmp_path / "report.html"
    called = call(
        "report", run, "--out", out, "--fresh", folder / "fresh.parquet", "--label", "state",
        "--title", "Patients",
    )  # fmt: skip
    assert (called.code, called.out) == (0, "")
    page = out.read_text()
    assert "<title>Patients</title>" in page
    assert "over the random draw of the 2,000 calibration rows" in page
    assert '"fresh_rows":2000' in page


def test_where_the_usual_choice_cannot_be_had_the_run_is_kept(tmp_path):
    """A search may take hours: its front is written, with what accepts most rows chosen."""
    rng = np.random.default_rng(0)
    frame = patients(300, 4).assign(scan=rng.normal(size=300), age=rng.normal(size=300))
    write_csv(frame, tmp_path / "rows.csv")
    (tmp_path / "costs.toml").write_text("[sources]\nscan = 3\nage = 1\n")
    called = call(
        "search", tmp_path / "rows.csv", "--label", "state", "--costs", tmp_path / "costs.toml",
        "--out", tmp_path / "run", "--cv", 3, "--quiet", "--max-missed", "sick=0.05",
    )  # fmt: skip
    assert called.code == 0, called.err
    assert "the candidate that accepts most rows was chosen" in called.err
    search = load(tmp_path / "run/search.emsco")
    most = max(candidate.evaluation.coverage for candidate in search.front_)
    assert search.best_candidate_.evaluation.coverage == most


# Declared types, and price lists -----------------------------------------------------------------


def test_a_search_of_loans_reads_declared_types_and_decides_later_rows_alike(tmp_path):
    assert call("example", "loans", "--out", tmp_path).code == 0
    called = call(
        "search", tmp_path / "loans.csv", "--label", "defaulted", "--quiet", "--cv", 2,
        "--costs", tmp_path / "loans-costs.toml", "--out", tmp_path / "run", "--max-rows", 6000,
    )  # fmt: skip
    assert called.code == 0, called.err
    assert "not used" not in called.err
    cascade = load(tmp_path / "run" / "model.emsco")
    fresh = pd.read_csv(tmp_path / "loans-fresh.csv", dtype={"postcode": str})[:500]
    fresh.to_csv(tmp_path / "some.csv", index=False)
    decided = call("decide", tmp_path / "run", tmp_path / "some.csv")
    assert decided.code == 0, decided.err
    expected = cascade.decide(fresh)
    # Older versions of pandas misread the last digit of a number.
    found = pd.read_csv(io.StringIO(decided.out), keep_default_na=False, dtype={"confidence": str})
    assert found.confidence.map(float).tolist() == expected.confidence.tolist()
    assert found.reason.tolist() == expected.reason.tolist()
    assert not found.reason.str.contains("employed_since|applied_on|invalid").any()


def test_a_price_list_in_csv_is_taken(folder, tmp_path):
    prices = tmp_path / "prices.csv"
    prices.write_text("column,price\nage,1\nvisits,2\nmarker,12\n")
    called = call(
        "search", folder / "train.csv", "--label", "state", "--costs", prices,
        "--out", tmp_path / "run", "--cv", 2, "--quiet",
    )  # fmt: skip
    assert called.code == 0, called.err
    assert load(tmp_path / "run" / "search.emsco").costs_.total == 15
