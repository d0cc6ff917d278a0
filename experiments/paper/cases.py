"""The paper's five problems: their data, prices, thresholds and parameters, and its splits.

Hamilton and Fulp, "Budgeted Classification with Rejection: An Evolutionary Method with Multiple
Objectives" (CEC 2022), section V. The classes of Pima's and Heart's prices stand in a picture that
its text does not repeat; they are set as the docstrings say. Heart comes with `time` and without
it: the days of follow-up are not known when a patient comes. Synthetic15 is drawn by the paper's
recipe, and comes besides with the rows of the authors' public script, which have its features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_classification

from emsco import EMSCO, CascadeSearchCV, Costs
from emsco.datasets import CostlyData, load_credit, load_example, load_heart, load_pima
from emsco.search import Problem, SearchResult

if TYPE_CHECKING:  # an emsco of another time, held against this one, may have it elsewhere
    from emsco.core.threshold import StageThreshold

Rows = NDArray[np.intp]
PRICES15 = [6, 8, 4, 8, 8, 1, 9, 10, 6, 1, 9, 9, 4, 1, 7]  # of Synthetic15
EXAMPLE = "Synthetic15, public example"


class Split(NamedTuple):
    """Half of the rows to fit on, a quarter to select on, a quarter to judge on."""

    train: Rows
    selection: Rows
    test: Rows


def split_rows(n_rows: int, number: int) -> Split:
    """Shuffle rows and cut them 50-25-25, as the paper does: at random, classes as they fall."""
    shuffled = np.random.default_rng(number).permutation(n_rows)
    return Split(*np.split(shuffled, [n_rows // 2, n_rows * 3 // 4]))


@dataclass(frozen=True)
class Case:
    """A problem of the paper, with the parameters that its tuning found."""

    load: Callable[[int], CostlyData]  # given the number of a draw, where the data are drawn
    threshold: float
    emsco: EMSCO
    split: Callable[[int, int], Split] = split_rows  # given how many rows there are, and a number

    def problems(self, number: int, max_stages: int | None = None) -> tuple[Problem, Problem]:
        """Give a split of a number as two problems: what is selected on, and what is judged on."""
        data = self.load(number)
        split = self.split(len(data.y), number)
        stages = max_stages or min(round(data.X.shape[1] / 2), 10)
        return (
            ask(data, split.train, split.selection, self.threshold, stages),
            ask(data, split.train, split.test, self.threshold, stages),
        )


class _Asked:
    """A search that searches nothing: it keeps the problem, to be searched as one likes."""

    problem: Problem

    def run(self, problem: Problem, rng: Any, callback: Any = None) -> SearchResult:  # noqa: ARG002
        self.problem = problem
        at_once = np.zeros((1, problem.n_sources), dtype=np.int8)
        return SearchResult(problem.front(problem.candidates(at_once)), [])


def ask(
    data: CostlyData,
    train: Rows,
    rows: Rows,
    threshold: float | list[StageThreshold],
    max_stages: int,
) -> Problem:
    """Make the problem of designs fitted on some rows and evaluated on others, as in the paper.

    One threshold for all stages, or several to try; and every source is bought in the end.
    """
    asked = _Asked()
    CascadeSearchCV(
        costs=data.costs,
        search=asked,
        threshold=threshold,
        max_stages=max_stages,
        allow_unused=False,
        cv=[(train, rows)],
        select=lambda front: front[0],
        refit=False,
    ).fit(data.X, data.y)
    return asked.problem


def _pima(number: int) -> CostlyData:  # noqa: ARG001  # one table, whatever the draw
    """Price by class, 100 each: 1 what is asked or weighed, 3 what needs blood, 2 the rest."""
    classes = {
        "age": 1, "pregnancies": 1, "bmi": 1, "pedigree": 1,
        "blood_pressure": 2, "skin_thickness": 2,
        "glucose": 3, "insulin": 3,
    }  # fmt: skip
    X, y, _ = load_pima()
    return CostlyData(X, y, Costs.per_feature({name: 100 * classes[name] for name in X}))


def _credit(number: int) -> CostlyData:  # noqa: ARG001
    return load_credit()


def _heart(number: int) -> CostlyData:  # noqa: ARG001
    return load_heart()


def _heart_without_time(number: int) -> CostlyData:  # noqa: ARG001
    X, y, costs = load_heart()
    prices = {source.name: source.cost for source in costs.sources if source.name != "time"}
    return CostlyData(X[list(prices)], y, Costs.per_feature(prices))


def _synthetic50(number: int) -> CostlyData:
    X, y = make_classification(4000, 50, n_informative=25, random_state=number)
    return _priced(X, y, [10] * 50)


def _synthetic15(number: int) -> CostlyData:
    X, y = make_classification(
        8000, 15, n_informative=12, class_sep=0.85, flip_y=0.02, random_state=number
    )
    return _priced(X, y, PRICES15)


def _example(number: int) -> CostlyData:  # noqa: ARG001
    """Give the rows of the authors' public script in the order of its three parts."""
    parts = [load_example(part=part) for part in ("train", "val", "test")]
    X = np.vstack([np.asarray(part.X) for part in parts])
    return _priced(X, np.concatenate([part.y for part in parts]), PRICES15)


def _split_example(n_rows: int, number: int) -> Split:
    """Give the script's own parts as split 0, and shuffled rows as the others."""
    if number:
        return split_rows(n_rows, number)
    return Split(*np.split(np.arange(n_rows), [1999, 2998]))


def _priced(X: NDArray[np.float64], y: NDArray[np.intp], prices: list[int]) -> CostlyData:
    return CostlyData(X, y, Costs.per_feature(prices))


def _emsco(rate: float, crossover: float, population: int, beta: float) -> EMSCO:
    return EMSCO(
        population=population,
        generations=150,
        mutation_rate=rate,
        crossover_rate=crossover,
        elite_fraction=0.2,
        beta=beta,
        elite="designs",
    )


_SYNTHETIC15 = 0.85, _emsco(0.075, 0.80, 250, 2.0)
_HEART = 0.75, _emsco(0.075, 0.75, 300, 2.0)
CASES = {
    "Pima": Case(_pima, 0.65, _emsco(0.075, 0.80, 300, 2.0)),
    "Credit": Case(_credit, 0.75, _emsco(0.075, 0.80, 300, 2.5)),
    "Heart": Case(_heart, *_HEART),
    "Heart without time": Case(_heart_without_time, *_HEART),
    "Synthetic50": Case(_synthetic50, 0.55, _emsco(0.05, 0.80, 300, 2.5)),
    "Synthetic15": Case(_synthetic15, *_SYNTHETIC15),
    EXAMPLE: Case(_example, *_SYNTHETIC15, _split_example),
}
EXACT = ("Pima", "Heart", "Heart without time", "Credit")  # few enough designs to walk them all
