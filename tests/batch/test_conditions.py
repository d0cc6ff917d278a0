"""Each condition of the promise: what breaks where it is dropped, and does not where it is kept."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from scipy.stats import binom

from emsco.batch.coins import draw
from emsco.batch.promises import NEVER, NO_LABEL, Labelled, Promise
from emsco.batch.question import Question
from emsco.batch.spot_checks import Terms, stop_rank
from emsco.certify.check_rate import HeldOut, chance, rate_for

LEAST = 1e-3  # a p-value below it says that a promise is broken; seeds are fixed


def is_kept(broken, draws, allowed):
    """Return whether a promise was broken as rarely as it says."""
    return binom.sf(broken - 1, draws, allowed) >= LEAST


def question_of(n_rows, wrong, most, tolerated, error):
    """Return a question about rows in their order, and the truth of them."""
    cheap = np.zeros(n_rows, dtype=np.int32)
    promise = Promise("agreement", NO_LABEL, Fraction(most, n_rows), most, error)
    terms = Terms(rate_for(most, tolerated, error), (tolerated,), 0.0, 0.0)
    question = Question(("a", "b"), cheap, np.arange(n_rows), np.zeros(n_rows, dtype=bool),
                        (promise,), terms, b"")  # fmt: skip
    return question, wrong.astype(np.int32)


def left(question, truth, stop=None):
    """Return how many wrong labels stay above the stop."""
    above = slice(0, question.stop(truth) if stop is None else stop)
    return int((truth[above] != 0)[~question.checked[above]].sum())


def test_copies_of_one_wrong_row_must_not_share_a_coin():
    most, draws = 29, 400
    rate = rate_for(most, 0, 0.1)
    rows, values = np.arange(30), np.zeros(30, dtype=np.intp)
    broken = {"by place": 0, "by value": 0}
    for seed in range(draws):
        secret = seed.to_bytes(8, "big")
        broken["by place"] += not draw(secret, b"q", rows, rate).any()
        broken["by value"] += not draw(secret, b"q", values, rate).any()
    assert is_kept(broken["by place"], draws, 0.1)
    assert broken["by value"] > 0.5 * draws


def test_whoever_keeps_the_best_of_ten_walks_breaks_the_promise():
    """So a job refuses a second question about the same rows."""
    question, truth = question_of(60, np.arange(60) < 13, 10, 2, 0.01)
    draws = [left(question.with_secret(seed.to_bytes(8, "big")), truth) for seed in range(4000)]
    broken = np.array(draws) > 10
    assert is_kept(int(broken.sum()), len(broken), 0.01)
    best = broken.reshape(-1, 10).any(axis=1)
    assert not is_kept(int(best.sum()), len(best), 0.01)


def test_failed_checks_must_count():
    """Here the final model fails on the very rows where the cheap one is wrong."""
    question, truth = question_of(200, np.arange(200) % 4 == 0, 10, 1, 0.1)
    truth[truth == 1] = NO_LABEL
    broken = {"counted": 0, "dropped": 0}
    for seed in range(300):
        drawn = question.with_secret(seed.to_bytes(8, "big"))
        broken["counted"] += left(drawn, truth) > 10
        broken["dropped"] += left(drawn, truth, stop=200) > 10  # no disagreement is ever seen
    assert is_kept(broken["counted"], 300, 0.1)
    assert broken["dropped"] == 300


def divided(wrong, held, n_held, most, tolerated, rng, again=False):
    """Walk over rows of which some are held out; return how many wrong ones are left, and seen.

    `again` are rows that are held out and in the batch as well.
    """
    of_batch = ~held + (again & held).astype(int)
    above = np.cumsum(of_batch)
    known = above[held & wrong] - 0.5
    own = np.repeat(wrong, of_batch)
    n_rows = len(own)
    rate = rate_for(most, tolerated, 0.1, HeldOut(n_held, n_held + n_rows))
    checked = rng.random(n_rows) < rate
    stop = stop_rank(np.append(known, np.flatnonzero(checked & own)), tolerated, n_rows)
    return int((own & ~checked)[:stop].sum()), stop * (1 - rate)


def test_the_number_tolerated_must_not_be_chosen_by_held_out_answers():
    rng = np.random.default_rng(0)
    wrong, broken = np.arange(400) % 10 == 0, {"before": 0, "after": 0}
    for _ in range(600):
        held = np.isin(np.arange(400), rng.choice(400, 100, replace=False))
        each = [divided(wrong, held, 100, 15, c, rng) for c in range(6)]
        broken["before"] += each[2][0] > 15
        broken["after"] += max(each, key=lambda one: one[1])[0] > 15
    assert is_kept(broken["before"], 600, 0.1)
    assert not is_kept(broken["after"], 600, 0.1)


def test_held_out_rows_must_not_have_been_fitted():
    """The cheap model is right on rows that it was fitted to."""
    rng = np.random.default_rng(1)
    broken = 0
    for _ in range(200):
        held = np.isin(np.arange(400), rng.choice(400, 200, replace=False))
        wrong = (np.arange(400) % 8 == 0) & ~held
        broken += divided(wrong, held, 200, 15, 1, rng)[0] > 15
    assert chance(15, 1, 0.0, HeldOut(200, 400)) < 0.1  # as if no check were needed
    assert broken == 200


def test_rows_that_reached_the_final_model_through_a_cascade_are_no_log():
    """They are the least trusted ones, which stand where nothing is seen in time."""
    rng, broken = np.random.default_rng(2), {"drawn": 0, "hard": 0}
    wrong = np.arange(400) % 8 == 0
    for _ in range(300):
        drawn = np.isin(np.arange(400), rng.choice(400, 200, replace=False))
        broken["drawn"] += divided(wrong, drawn, 200, 15, 1, rng)[0] > 15
        broken["hard"] += divided(wrong, np.arange(400) >= 200, 200, 15, 1, rng)[0] > 15
    assert is_kept(broken["drawn"], 300, 0.1)
    assert broken["hard"] == 300


def test_rows_of_the_log_that_are_in_the_batch_as_well_must_leave_it():
    """Here they come again because their cheap label was wrong, as complaints do.

    Rows that come again by chance would do no harm: those that leave are known, and the others are
    as like the log as before. Nobody can tell the two cases apart, so all of them leave.
    """
    rng, wrong = np.random.default_rng(5), np.arange(400) % 7 == 0
    broken = {"left": 0, "stayed": 0, "by chance": 0}
    for _ in range(600):
        held = np.isin(np.arange(400), rng.choice(400, 200, replace=False))
        cases = {"left": False, "stayed": wrong, "by chance": rng.random(400) < 0.5}
        for name, again in cases.items():
            broken[name] += divided(wrong, held, 200, 15, 8, rng, again)[0] > 15
    assert is_kept(broken["left"], 600, 0.1)
    assert is_kept(broken["by chance"], 600, 0.1)
    assert broken["stayed"] > 300


def test_held_out_rows_must_be_drawn_row_by_row_and_not_in_groups():
    """Twenty groups of twenty rows; in three of them the cheap model is wrong throughout."""
    rng, broken = np.random.default_rng(6), {"by row": 0, "by group": 0}
    for _ in range(600):
        group = rng.permutation(np.repeat(np.arange(20), 20))
        wrong = group < 3
        by_row = np.isin(np.arange(400), rng.choice(400, 200, replace=False))
        by_group = np.isin(group, rng.choice(20, 10, replace=False))
        broken["by row"] += divided(wrong, by_row, 200, 15, 5, rng)[0] > 15
        broken["by group"] += divided(wrong, by_group, 200, 15, 5, rng)[0] > 15
    assert is_kept(broken["by row"], 600, 0.1)
    assert not is_kept(broken["by group"], 600, 0.1)


def test_held_out_rows_must_not_belong_to_rows_that_were_fitted():
    """Half of the log's rows are of groups that the cheap model knows, and is right on."""
    rng, broken = np.random.default_rng(7), {"strange": 0, "known": 0}
    for _ in range(600):
        wrong = np.arange(400) % 7 == 0
        held = np.isin(np.arange(400), rng.choice(400, 200, replace=False))
        is_group_known = held & (rng.random(400) < 0.5)
        broken["strange"] += divided(wrong, held, 200, 15, 8, rng)[0] > 15
        broken["known"] += divided(wrong & ~is_group_known, held, 200, 15, 8, rng)[0] > 15
    assert is_kept(broken["strange"], 600, 0.1)
    assert not is_kept(broken["known"], 600, 0.1)


def test_ties_with_held_out_rows_must_be_broken_at_random():
    """Here all rows have one trust; those of the batch come first where answers are known."""
    rng, broken = np.random.default_rng(3), {"at random": 0, "batch first": 0}
    for _ in range(300):
        wrong = rng.permutation(np.arange(400) < 60)
        held = np.isin(np.arange(400), rng.choice(400, 200, replace=False))
        broken["at random"] += divided(wrong, held, 200, 15, 1, rng)[0] > 15
        first = np.argsort(held, kind="stable")
        broken["batch first"] += divided(wrong[first], held[first], 200, 15, 1, rng)[0] > 15
    assert is_kept(broken["at random"], 300, 0.1)
    assert broken["batch first"] > 290


def test_a_recall_must_not_take_all_labels_of_the_class_as_true():
    """Ten rows of the class are missed, thirty are labelled so falsely, ten rightly."""
    cheap = np.repeat([0, 1, 1, 0], [10, 30, 10, 150]).astype(np.int32)
    truth = np.repeat([1, 0, 1, 0], [10, 30, 10, 150]).astype(np.int32)
    own = (Promise("agreement", NO_LABEL, Fraction(1, 5), 40, 0.05),
           Promise("missed", 1, Fraction(1, 5), 10, 0.05))  # fmt: skip
    final = np.full(200, NEVER, dtype=np.int32)
    standing = Labelled(cheap, final).standings(own, [0, 0])[1]
    missed = Fraction(int((cheap != truth)[truth == 1].sum()), int((truth == 1).sum()))
    assert Fraction(10, 40 + 10) < missed <= standing.share
