"""The text cascade: what is kept is what its command gives, and what is shown is what is kept."""

from __future__ import annotations

import re
import runpy
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from emsco.exceptions import MissingExtraError
from experiments import results, text
from experiments.text import beside, cheap, dear, draws, kept, messages, ours, prices, tables

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[1]
ROWS = results.load(draws.NAME)


@pytest.fixture(scope="module")
def task():
    """Make the first draw of the columns that are kept, without the messages."""
    found = kept.load()
    cut = len(found.log)
    table = pd.DataFrame(
        {"words": found.words, "characters": found.characters}, dtype=np.float64
    ).assign(embedding=found.scores[np.append(found.log, found.batch)].astype(np.float64))
    return draws.Task(table[:cut], table[cut:].reset_index(drop=True))


@pytest.fixture(scope="module")
def two_stages(task):
    return ours.search(task.log, prices.in_two_stages())


# Messages


def test_messages_that_differ_in_digits_alone_are_one():
    assert messages.letters("Call 0800-11 NOW!") == messages.letters(" call 0900 now")
    assert messages.letters("call now") != messages.letters("call later")


@pytest.mark.data
def test_no_message_is_on_both_sides_of_a_division():
    """Nor among those that the classifier of the transformer was fitted on."""
    texts, labels, n_given = messages.load()
    assert (n_given, len(texts), len(labels)) == (5574, 5087, 5087)
    assert len({messages.letters(text) for text in texts}) == len(texts)
    parts = [messages.head(len(texts)), *messages.divide(messages.others(len(texts)), 7)]
    assert [len(part) for part in parts] == [1000, 1587, 2500]
    assert len(np.unique(np.concatenate(parts))) == len(texts)


def test_draws_divide_otherwise():
    first, again, other = (messages.divide(np.arange(50), draw, 20).batch for draw in (0, 0, 1))
    assert first.tolist() == again.tolist() != other.tolist()


def test_cheap_columns_look_at_answers_in_the_log_alone():
    """So that nothing is known of the batch but its messages."""
    texts = np.array([f"{'win cash' if i % 2 else 'see you'} {'abcde'[i % 5]}" for i in range(60)])
    answers = np.arange(60) % 2
    division = messages.divide(np.arange(60), 0, 20)
    other = answers.copy()
    other[division.batch] = 1 - other[division.batch]
    once, again = (cheap.columns(texts, own, division) for own in (answers, other))
    pd.testing.assert_frame_equal(once.batch, again.batch)
    pd.testing.assert_frame_equal(once.log, again.log)
    assert ((once.batch["words"] > 0) == answers[division.batch]).all()


# The transformer


def test_kept_embeddings_give_the_kept_answers():
    found = kept.load()
    assert found.embeddings.shape == (kept.EMBEDDED, dear.SIZE)
    scores = dear.score(found.embeddings, found.weights)
    expected = found.scores[found.embedded]
    assert np.abs(scores - expected).max() < 0.02
    assert (dear.answers(scores) == dear.answers(expected)).all()
    assert 0 < dear.answers(expected).sum() < kept.EMBEDDED


def test_what_is_kept_is_small():
    files = list(results.FOLDER.glob("text*"))
    assert {file.name for file in files} == {"text.csv", "text.npz", "text_costs.toml"}
    assert sum(file.stat().st_size for file in files) < 400_000


def test_without_torch_the_transformer_says_what_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match="torch"):
        dear.load_transformer()


def test_a_part_that_is_not_there_is_refused():
    with pytest.raises(SystemExit, match="embed, prices, draws, table"):
        text.run(small=False, only=["embeddings"])


# Ours, and the scores that both get


def test_a_plan_counts_on_what_a_certificate_needs():
    """With half of the error allowed at 90%: 59 rows for 95% if none changes, 93 if one does."""
    rows = ours.calibration_rows(0.95, 0.9, 200)
    assert rows.tolist() == [59, 93, 124, 153, 181]


def test_the_chance_of_a_certificate_by_hand():
    """After a log of two rows, of which one changed: 1/2 for none of one, 7/10 for one of two."""
    chance = ours.certified_chance(np.array([1, 2]), 1, 1)
    assert chance == pytest.approx([1 / 2, 7 / 10])


def test_a_stricter_promise_is_planned_with_more_rows(two_stages):
    planned = [ours.plan(two_stages, target, 0.9, 2500).rows for target in draws.TARGETS]
    assert planned == sorted(set(planned))


def test_nothing_is_planned_for_a_batch_that_is_too_small(two_stages):
    """99% takes 299 rows, even if none of them changes."""
    assert ours.plan(two_stages, 0.99, 0.9, 200) is None
    outcome = ours.process(two_stages, pd.DataFrame(index=range(200)), 0.99, 0.9)
    assert outcome == ours.Outcome(0, 200, 0, 0, prices.in_two_stages().of(["embedding"]))


def test_without_a_certificate_the_dear_model_answers_everything(task, two_stages):
    """In a batch where the cheap sources say the opposite."""
    wrong = task.batch.assign(words=-task.batch["words"], characters=-task.batch["characters"])
    outcome = ours.process(two_stages, wrong, 0.95, 0.9)
    assert outcome.calibration > 0
    assert (outcome.calls, outcome.changed, outcome.unlike) == (len(wrong), 0, 0)


def test_bargain_gets_the_scores_of_the_cascade(task, two_stages):
    """The label and the confidence of the stage before the dear model, row by row."""
    model = beside.cheap_model(task.log, prices.in_two_stages())
    probabilities = model.predict_proba(task.batch)
    candidate = next(c for c in two_stages.front_ if c.evaluation.cost < two_stages.costs_.total)
    decisions = two_stages.cascade(candidate).decide(task.batch)
    early = decisions.exit_stage == 0
    assert early.mean() > 0.5
    assert (probabilities.argmax(axis=1)[early] == decisions.label[early]).all()
    assert (probabilities.max(axis=1)[early] == decisions.confidence[early]).all()


def test_calls_and_changes_are_those_of_a_threshold_on_the_scores(task, two_stages):
    """Counted by hand for every threshold of the front, one of which was certified."""
    costs = prices.in_two_stages()
    probabilities = beside.cheap_model(task.log, costs).predict_proba(task.batch)
    label, confidence = probabilities.argmax(axis=1), probabilities.max(axis=1)
    wrong = label != dear.Dear().predict(task.batch)
    outcome = ours.process(two_stages, task.batch, 0.95, 0.9)
    n = outcome.calibration
    counted = []
    for candidate in two_stages.front_:
        early = confidence >= candidate.threshold
        calls = n + int((~early[n:]).sum())
        paid = costs.of(["cheap"]) + costs.of(["embedding"]) * calls / len(early)
        found = calls, int((wrong & early)[n:].sum()), int((wrong & early).sum())
        counted.append(ours.Outcome(n, *found, pytest.approx(paid)))
    assert outcome in counted
    assert outcome.calls < 500


# Results


@pytest.mark.data
def test_the_first_draw_measured_again_has_the_figures_kept():
    """Ours, to 1e-6, with what the transformer said; BARGAIN needs an environment of its own."""
    texts, _, _ = messages.load()
    division = messages.divide(messages.others(len(texts)), 0)
    task = draws.make_task(texts, kept.load().scores, division)
    rows = list(draws.measure_task(task, 0, draws.TARGETS, draws.CONFIDENCES, with_bargain=False))
    assert len(rows) == 6
    found = kept.load()
    assert (found.log.tolist(), found.batch.tolist()) == tuple(map(list, division))
    for name in cheap.CLASSIFIERS:
        made = np.append(task.log[name], task.batch[name])
        assert np.allclose(made, getattr(found, name), atol=1e-5)
    assert results.differences(draws.NAME, rows, draws.KEYS) == []


def test_every_draw_is_kept_with_every_question():
    asked = set(product(range(draws.DRAWS), draws.TARGETS, draws.CONFIDENCES))
    assert [tuple(row[key] for key in draws.KEYS) for row in ROWS] == sorted(asked)


def row(target=0.9, **outcomes):
    """Make a row of one draw with batches of 100."""
    known = {"draw": 0, "target": target, "confidence": 0.9}
    for method, figures in outcomes.items():
        names = [f"{method}_{name}" for name in ours.Outcome._fields]
        known |= dict(zip(names, figures, strict=True))
    return known


def test_a_promise_is_kept_at_the_target_and_broken_below():
    """Of 100 rows, ten may differ."""
    rows = [row(same=(20, 30, 0, unlike, 1.0)) for unlike in (9, 10, 11)]
    assert tables.count_broken(rows, "same", 100) == 1


def test_a_promise_broken_too_often_is_an_error():
    good, bad = (row(same=(20, 30, 0, unlike, 1.0)) for unlike in (0, 50))
    tables.check([good] * 19 + [bad], 100)
    with pytest.raises(SystemExit, match="10 of 20"):
        tables.check([good] * 10 + [bad] * 10, 100)


def test_a_line_of_the_table_by_hand():
    """Of 100 rows, 80 and 60 are not asked for; 20 are calibrated on, of 80 others 8 may change."""
    rows = [row(same=(20, 20, 8, 11, 1.0)), row(same=(20, 40, 9, 10, 3.0))]
    line = tables.table(rows, 100).splitlines()[-1]
    assert line == (
        "| 0.9, 0.9 | emsco, two stages | 20 | 70.0 ± 10.0 | 87.5 | 0 | 2.00 | 1 of 2 "
        "| 50.0 (1.3 to 98.7) | 10 | 1 | 91.00 |"
    )


# The page of the gallery, which `make figures` compares


@pytest.fixture(scope="module")
def page():
    """Run the page."""
    import matplotlib as mpl

    mpl.use("Agg")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT / "examples")
        yield runpy.run_path("plot_text_cascade.py")
    mpl.pyplot.close("all")


def test_the_documentation_holds_the_results_kept(page):
    """Line by line, as the command prints them."""
    printed = [line.strip("| ").split(" | ") for line in tables.table(ROWS).splitlines()[2:]]
    assert len(printed) == len(page["shown"]) == 18
    for line, (_, own) in zip(printed, page["shown"].iterrows(), strict=True):
        error = own["standard error"]
        assert line[0] == f"{own['agreement']:g}, {own['confidence']:g}"
        assert line[1].removeprefix("emsco, ") == own["method"]
        assert line[2] == f"{own['calibration rows']:.0f}"
        assert line[3] == f"{own['calls avoided %']:.1f} ± {error:.1f}"
        assert line[4] == f"{own['of the rest %']:.1f}"
        assert line[5] == str(own["none avoided"])
        assert line[6] == f"{own['ms per message']:.2f}"
        assert line[7] == f"{own['promise broken']} of {draws.DRAWS}"
        assert line[10] == ("-" if own["method"] == "BARGAIN" else str(own["rest below"]))
        assert line[11] == f"{own['lowest of a batch %']:.2f}"


def averages(name):
    """Give a figure's means over draws, by target, confidence and method."""
    return {
        (*question, method): tables.column(asked, f"{method}_{name}").mean()
        for question, asked in tables.by_question(ROWS).items()
        for method in tables.METHODS
    }


def test_the_page_says_who_is_ahead_as_the_results_do():
    """Differences in calls avoided, with the same scores, in points and in standard errors."""
    found = {}
    for question, asked in tables.by_question(ROWS).items():
        lead = tables.column(asked, "bargain_calls") - tables.column(asked, "same_calls")
        lead *= 100 / messages.BATCH
        found[question] = lead.mean(), lead.mean() / tables.standard_error(lead)
    for confidence in draws.CONFIDENCES:
        assert found[0.95, confidence][1] > 3
        points, errors = found[0.98, confidence]
        assert -2.05 < points < -0.95
        assert errors > -2
        points, errors = found[0.99, confidence]
        assert -9.5 < points < -7.5
        assert errors < -3


def test_the_page_says_where_the_difference_comes_from_as_the_results_do():
    """Twice the calibration rows, fewer calls once certified, and milliseconds."""
    calibration, ms = averages("calibration"), averages("ms")
    for question, asked in tables.by_question(ROWS).items():
        ratio = calibration[*question, "same"] / calibration[*question, "bargain"]
        assert 1.5 < ratio < 2.1
        certified = [row for row in asked if row["same_calls"] < messages.BATCH]
        after = {
            method: np.mean([
                (row[f"{method}_calls"] - row[f"{method}_calibration"])
                / (messages.BATCH - row[f"{method}_calibration"])
                for row in certified
            ])
            for method in ("same", "bargain")
        }  # fmt: skip
        assert after["same"] < after["bargain"]
        if question[0] == 0.95:
            assert ms[*question, "cascade"] == min(ms[*question, own] for own in tables.METHODS)


def test_no_promise_is_broken_more_often_than_allowed():
    """By any method, at any target; the page says so of both."""
    for (_, confidence), asked in tables.by_question(ROWS).items():
        for method in tables.METHODS:
            assert tables.count_broken(asked, method) <= (1 - confidence) * draws.DRAWS
    assert "| 0 of 200 | 0.0 (0.0 to 1.8) | 1 |" in tables.table(ROWS)


def test_prices_are_as_the_page_says():
    costs = prices.in_three_stages()
    assert costs.of(["embedding"]) == pytest.approx(20, abs=2)
    assert costs.of(["words"]) == pytest.approx(0.5, abs=0.1)


@pytest.mark.data
def test_labels_are_met_as_the_page_says():
    """By the transformer, and by cheap classifiers on the same labelled messages."""
    texts, labels, _ = messages.load()
    own, others = messages.head(len(texts)), messages.others(len(texts))
    right = [(dear.answers(kept.load().scores[others]) == labels[others]).mean()]
    for classifier in cheap.CLASSIFIERS.values():
        fitted = clone(classifier).fit(texts[own], labels[own])
        right.append((fitted.predict(texts[others]) == labels[others]).mean())
    told = re.findall(r"\b9\d\.\d%", (ROOT / "examples/plot_text_cascade.py").read_text())
    assert [f"{share:.1%}" for share in right] == told
