"""What is fixed before the first answer: promises, terms and order."""

from __future__ import annotations

import numpy as np
import pytest

from emsco.batch import label_answers
from emsco.batch.ask import Wish, arrange, make_question
from emsco.batch.cheap_answers import read_answers
from emsco.batch.label_codes import LabelCodes
from emsco.batch.promises import NEVER
from emsco.exceptions import BatchError

N, M = 600, 300
RNG = np.random.default_rng(0)
CHEAP = RNG.choice(["no", "yes", "perhaps"], N, p=[0.7, 0.2, 0.1]).tolist()
TRUST = 1 - RNG.random(N) ** 2 / 3
LOG_CHEAP = RNG.choice(["no", "yes", "perhaps"], M, p=[0.7, 0.2, 0.1]).tolist()
LOG_TRUST = 1 - RNG.random(M) ** 2 / 3
WISH = Wish.of(0.9, 0.9, {"yes": 0.3}, {"perhaps": 0.6}, 1)


def question(log_answers, known=None):
    """Make a question with a log."""
    codes = LabelCodes()
    codes.read(CHEAP)
    known = np.full(N, NEVER, dtype=np.int32) if known is None else codes.read(known)
    log = read_answers(LOG_CHEAP, LOG_TRUST), log_answers
    return make_question(WISH, read_answers(CHEAP, TRUST), codes, known, b"secret", log=log)


def test_held_out_answers_plan_nothing():
    """Neither what is promised, nor the rate, nor what is tolerated, nor the order."""
    first, *others = [
        question(answers)
        for answers in (LOG_CHEAP, ["no"] * M, ["yes"] * M, [None] * M, ["new"] * M)
    ]
    for other in others:
        assert other.promises == first.promises
        assert other.terms == first.terms
        assert (other.order == first.order).all()
        assert other.digest != first.digest, "but they are part of the question"


def test_ties_between_the_log_and_the_batch_are_broken_by_chance():
    """All rows have one trust, so half of the batch stands above a held-out row, on average."""
    places, codes = [], LabelCodes()
    own, held = read_answers(["no"] * 200, [0.9] * 200), read_answers(["no"] * 100, [0.9] * 100)
    for seed in range(200):
        known = np.full(200, NEVER, dtype=np.int32)
        found = arrange(own, codes, known, seed.to_bytes(4, "big"), (held, ["no"] * 100))
        assert sorted(found.order) == [*range(200)]
        places.append(found.held.above.mean() / 200)
    # Means of 100 draws without replacement among 300 places: their standard deviation is known.
    assert abs(np.mean(places) - 0.5) < 4 * np.sqrt(1 / 12 / 100 / 200)
    assert np.std(places) == pytest.approx(np.sqrt(1 / 12 / 100), rel=0.5)


def test_known_rows_leave_the_walk_and_count_in_the_batch():
    known = dict.fromkeys(range(0, N, 3), "no")
    found = label_answers(CHEAP, TRUST, lambda rows: [CHEAP[i] for i in rows], agreement=0.9,
                          known=known)  # fmt: skip
    assert found.promises[0].most == 60, "of all rows"
    assert (found.origin[::3] == "known").all()
    assert not (np.delete(found.origin, np.s_[::3]) == "known").any()
    wrong = label_answers(CHEAP, TRUST, lambda rows: [CHEAP[i] for i in rows], agreement=0.9,
                          known=dict.fromkeys(known, "perhaps"))  # fmt: skip
    assert wrong.promises[0].disagreements == 0, "what is known is no check"


def test_a_promise_of_nothing_is_refused():
    with pytest.raises(BatchError, match="Nothing is promised"):
        Wish.of(None, 0.9, None, None, 1)
    with pytest.raises(BatchError, match="allows no wrong label"):
        label_answers(["no"] * 990 + ["yes"] * 10, [0.99] * 1000, list, agreement=None,
                      max_missed={"yes": 0.05})  # fmt: skip


@pytest.mark.parametrize("bad", [0, 1, -0.1, 1.5, "0.9", None, True, np.nan])
def test_shares_are_between_0_and_1(bad):
    for name in ("confidence", "max_missed"):
        wish = {"agreement": 0.9, "confidence": 0.9, "max_missed": {"yes": 0.2}}
        wish[name] = {"yes": bad} if name == "max_missed" else bad
        with pytest.raises(BatchError, match="must be a number between 0 and 1"):
            Wish.of(**wish, min_precision=None, questions=1)
