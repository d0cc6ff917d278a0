"""Whether spot checks keep their promise: coins drawn many times over fixed answers.

The coins are the product's own. Answers are wrong in twelve orders, of which some are the worst
there are; the same coins serve all of them. A promise is judged by what is stated in the end, also
after more rows were sent for it. It ends with an error if a promise is broken more often than
chance explains: the smallest exact p-value times the number of cases must be at least 0.01.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom  # type: ignore[import-untyped]  # scipy has no types
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from emsco.batch.ask import Wish, fixed_of, make_question
from emsco.batch.cheap_answers import CheapAnswers
from emsco.batch.label_codes import LabelCodes
from emsco.batch.promises import NEVER, Codes, Labelled
from emsco.batch.question import Question, no_answers
from experiments.results import Row, load, save
from experiments.tables import markdown

NAME, COMMAND = "spot_checks", "python -m experiments spot_checks"
NO, YES = 0, 1
LEAST = 0.01  # of the smallest p-value times the number of cases
Mask = NDArray[np.bool_]


class Sizes(NamedTuple):
    """How much is drawn."""

    draws: int
    rows: int
    log_rows: int  # of the batch, where some others are held out
    held: int


FULL, SMALL = Sizes(10_000, 600, 400, 150), Sizes(100, 400, 300, 100)

AGREEMENT: Mapping[str, Mapping[str, Any]] = {
    "agreement 0.9, confidence 0.9": {"agreement": 0.9, "confidence": 0.9},
    "agreement 0.95, confidence 0.9": {"agreement": 0.95, "confidence": 0.9},
    "agreement 0.98, confidence 0.9": {"agreement": 0.98, "confidence": 0.9},
    "agreement 0.98, confidence 0.99": {"agreement": 0.98, "confidence": 0.99},
}
CLASSES: Mapping[str, Mapping[str, Any]] = {
    "missed": {"agreement": None, "confidence": 0.9, "max_missed": {YES: 0.2}},
    "false": {"agreement": None, "confidence": 0.9, "min_precision": {YES: 0.9}},
    "missed and agreement": {"agreement": 0.95, "confidence": 0.9, "max_missed": {YES: 0.2}},
    "all three": {
        "agreement": 0.95,
        "confidence": 0.9,
        "max_missed": {YES: 0.3},
        "min_precision": {YES: 0.9},
    },
}
LOG: Mapping[str, Mapping[str, Any]] = {
    "agreement 0.95, confidence 0.9, log": {"agreement": 0.95, "confidence": 0.9},
    "agreement 0.98, confidence 0.99, log": {"agreement": 0.98, "confidence": 0.99},
}


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Draw coins in every case; `only` names settings. Small: fewer rows and draws, not kept."""
    sizes = SMALL if small else FULL
    rows: list[Row] = []
    for part, settings in {_coins: {**AGREEMENT, **CLASSES}, _divisions: LOG}.items():
        for setting, wished in settings.items():
            if only and setting not in only:
                continue
            for row in part(setting, _wish(wished), sizes):
                rows.append(row)
                print(json.dumps(row), flush=True)
    if not small and not only:
        save(NAME, COMMAND, rows, [*AGREEMENT, *CLASSES, *LOG])
    _check(rows)
    return _table(rows if small or only else load(NAME))


def _wish(wished: Mapping[str, Any]) -> Wish:
    bounds = wished.get("max_missed"), wished.get("min_precision")
    return Wish.of(wished["agreement"], wished["confidence"], *bounds, 1)


def orders_of_errors(n_rows: int, most: int, tolerated: int, is_yes: Mask) -> dict[str, Mask]:
    """Return which rows are wrong, down the order, in twelve ways."""
    rng = np.random.default_rng(12)
    rank, chance = np.arange(n_rows), rng.random(n_rows)
    share = rank / n_rows
    return {
        "all wrong": np.ones(n_rows, dtype=bool),
        "none": np.zeros(n_rows, dtype=bool),
        "all at the end": rank >= 0.85 * n_rows,
        "all at the start": rank < 0.15 * n_rows,
        "uniform": chance < 0.1,
        "rising": chance < 0.3 * share**2,
        "falling": chance < 0.3 * (1 - share) ** 2,
        "by class": is_yes & (chance < 0.7),
        "in clumps": rank % 100 < 20,
        "k + 1 at the start": rank < most + 1,
        "k + 1 + c at the start": rank < most + 1 + tolerated,
        "real": _real_errors(n_rows),
    }


@cache
def _real_errors(n_rows: int) -> Mask:
    """Return the errors of a small model on handwritten digits, down its own order."""
    X, y = load_digits(return_X_y=True)
    shares = cross_val_predict(
        LogisticRegression(max_iter=200), X[:, 16:32] / 16, y, method="predict_proba"
    )
    order = np.argsort(-shares.max(axis=1), kind="stable")
    wrong: Mask = shares.argmax(axis=1)[order] != y[order]
    return wrong[np.linspace(0, len(y) - 1, n_rows).astype(np.intp)]


def _coins(setting: str, wish: Wish, sizes: Sizes) -> Iterator[Row]:
    """Draw the coins of one question over and over."""
    cheap = _cheap(sizes.rows)
    codes = LabelCodes()
    codes.read([NO, YES])
    known = np.full(sizes.rows, NEVER, dtype=np.int32)
    question = make_question(wish, cheap, codes, known, b"fixed")
    most, tolerated = question.promises[0].most, question.terms.tolerated[0]
    is_yes = question.cheap[question.order] == YES
    truths = {}
    for name, wrong in orders_of_errors(sizes.rows, most, tolerated, is_yes).items():
        truths[name] = question.cheap.copy()
        truths[name][question.order[wrong]] = 1 - question.cheap[question.order[wrong]]
    broken, more, sent = (dict.fromkeys(truths, 0) for _ in range(3))
    for draw in range(sizes.draws):
        drawn = question.with_secret(draw.to_bytes(32, "big"))
        for name, truth in truths.items():
            final, rounds = walked(drawn, truth)
            broken[name] += is_broken(drawn, truth, final)
            more[name] += rounds > 2
            sent[name] += int((final != NEVER).sum())
    for name in truths:
        yield {
            "setting": setting, "errors": name, "draws": sizes.draws, "broken": broken[name],
            "allowed": wish.level, "more": more[name],
            "avoided": round(1 - sent[name] / sizes.draws / sizes.rows, 4),
        }  # fmt: skip


def _divisions(setting: str, wish: Wish, sizes: Sizes) -> Iterator[Row]:
    """Divide the same rows into a batch and held-out rows, over and over."""
    n_all = sizes.log_rows + sizes.held
    union = _cheap(n_all)
    labels, trust = np.array(union.labels), union.trust
    codes = LabelCodes()
    codes.read([NO, YES])
    known = np.full(sizes.log_rows, NEVER, dtype=np.int32)
    truths: dict[str, Codes] = {}
    fixed = None
    for draw in range(sizes.draws):
        rng = np.random.default_rng(draw)
        shuffled = rng.permutation(n_all)
        held, batch = shuffled[: sizes.held], shuffled[sizes.held :]
        own, beside = (CheapAnswers(labels[i].tolist(), trust[i]) for i in (batch, held))
        question = make_question(
            wish, own, codes, known, draw.to_bytes(32, "big"), log=(beside, labels[held]),
            fixed=fixed,
        )  # fmt: skip
        if not truths:
            fixed = fixed_of(question)  # what is planned depends on the rows of both together
            most, tolerated = question.promises[0].most, question.terms.tolerated[0]
            order = np.argsort(-trust, kind="stable")
            wrongs = orders_of_errors(n_all, most, tolerated, labels[order] == YES)
            for name, wrong in wrongs.items():
                truths[name] = labels.astype(np.int32)
                truths[name][order[wrong]] = 1 - labels[order[wrong]]
            broken, sent = (dict.fromkeys(truths, 0) for _ in range(2))
        assert question.held_out is not None
        rows = held[np.argsort(-trust[held], kind="stable")]  # no ties
        for name, truth in truths.items():
            other = replace(question, held_out=replace(question.held_out, final=truth[rows]))
            vars(other)["checked"] = question.checked  # the same coins for all orders of errors
            final, _ = walked(other, truth[batch])
            broken[name] += is_broken(other, truth[batch], final)
            sent[name] += int((final != NEVER).sum())
    for name in truths:
        yield {
            "setting": setting, "errors": name, "draws": sizes.draws, "broken": broken[name],
            "allowed": wish.level, "more": 0,
            "avoided": round(1 - sent[name] / sizes.draws / sizes.log_rows, 4),
        }  # fmt: skip


def _cheap(n_rows: int) -> CheapAnswers:
    """Return cheap answers of which about 15% are "yes", with trusts that all differ."""
    rng = np.random.default_rng(15)
    labels = (rng.random(n_rows) < 0.15).astype(int)
    return CheapAnswers(labels.tolist(), 1 - 0.2 * rng.permutation(n_rows) / n_rows)


def walked(question: Question, truth: Codes) -> tuple[Codes, int]:
    """Send all rows that are due; return the codes of final answers, and the number of rounds."""
    if [each.kind for each in question.promises] == ["agreement"]:  # quickly: it needs no more
        above = question.order[: question.stop(truth)]
        final = truth.copy()
        final[above[~question.checked[: len(above)]]] = NEVER
        return final, 2
    final, rounds = no_answers(question), 0
    while (due := question.due(final)) is not None:
        final[due.rows] = truth[due.rows]
        rounds += 1
    return final, rounds


def is_broken(question: Question, truth: Codes, final: Codes) -> bool:
    """Return whether one of the shares that are stated in the end is not true."""
    wrong = (final == NEVER) & (question.cheap != truth)
    if [each.kind for each in question.promises] == ["agreement"]:
        return int(wrong.sum()) > question.promises[0].most
    labels = Labelled(question.cheap, final).labels
    for standing in question.standings(final):
        promise = standing.promise
        if promise.kind == "agreement":
            share = wrong.mean()
        else:
            among = (truth if promise.kind == "missed" else labels) == promise.code
            share = wrong[among].mean() if among.any() else 0.0
        if share > float(standing.share) + 1e-12 or not standing.holds:
            return True
    return False


def summary(rows: list[Row]) -> str:
    """Give a line for each setting: of its orders of errors, the one that breaks it most often."""
    lines = []
    for setting in dict.fromkeys(row["setting"] for row in rows):
        some = [row for row in rows if row["setting"] == setting]
        worst = max(some, key=lambda row: row["broken"])
        (real,) = (row for row in some if row["errors"] == "real")
        lines.append([setting, f"{worst['broken']:,} of {worst['draws']:,} ({worst['errors']})",
                      f"{worst['allowed']:.0%}", f"{real['avoided']:.1%}"])  # fmt: skip
    header = ["setting", "broken most often", "allowed", "calls avoided, real errors"]
    smallest = min(_p_values(rows)) * len(rows)
    end = f"Smallest p-value times the number of cases, {len(rows)}: {smallest:.2g}."
    return f"{markdown(header, lines)}\n\n{end}"


def _p_values(rows: list[Row]) -> list[float]:
    return [binom.sf(row["broken"] - 1, row["draws"], row["allowed"]) for row in rows]


def _check(rows: list[Row]) -> None:
    """End with an error if a promise is broken more often than chance explains."""
    p_values = _p_values(rows)
    if min(p_values) * len(p_values) < LEAST:
        worst = rows[int(np.argmin(p_values))]
        raise SystemExit(f"A promise is broken too often: {worst}, p {min(p_values):.3g}.")


def _table(rows: list[Row]) -> str:
    lines = [
        [row["setting"], row["errors"], f"{row['draws']:,}", f"{row['broken'] / row['draws']:.2%}",
         f"{row['allowed']:.0%}", f"{row['more'] / row['draws']:.0%}", f"{row['avoided']:.1%}"]
        for row in rows
    ]  # fmt: skip
    header = ["setting", "errors", "draws", "broken", "allowed", "more rows sent", "avoided"]
    return markdown(header, lines)
