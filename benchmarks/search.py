"""Searches: fits, the exact front, the kernel, the genetic and the hybrid search, thresholds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from benchmarks.bare_loop import compile_bare_loop
from benchmarks.measure import Result, best_times
from benchmarks.problems import Data, credit, example, heart, phishing, pima, synthetic50
from emsco import Candidate, CascadeClassifier, ParetoFront, StageDesign, evaluate
from emsco.engine import LocalEngine
from emsco.search._problem import Problem
from emsco.search._thresholds import thresholds_by_stage
from emsco.search.strategies.emsco import EMSCO
from emsco.search.strategies.exhaustive import Exhaustive, _Walk
from emsco.search.strategies.hybrid import Hybrid
from emsco.search.strategies.local_search import LocalSearch


@dataclass(frozen=True)
class Size:
    """How much is measured of what takes minutes."""

    seeds: int = 10
    splits: int = 20
    problems: int = 3  # the first so many of a part
    thresholds: int = 26
    rows: int | None = None  # of each part, for the thresholds; None: all
    emsco: EMSCO = field(default_factory=EMSCO)  # where no exact front can be had
    evaluations: int = LocalSearch().evaluations  # of the hybrid search
    bars: bool = True

    def bar(self, bar: float | None) -> float | None:
        """Give a bar that means something at this size."""
        return bar if self.bars else None

    @property
    def hybrid(self) -> Hybrid:
        """The hybrid search of this size."""
        return Hybrid(local=LocalSearch(self.evaluations))


SMALL = Size(
    seeds=1,
    splits=2,
    problems=1,
    thresholds=4,
    rows=500,
    emsco=EMSCO(population=50, generations=10),
    evaluations=20_000,
    bars=False,
)


def run(*, small: bool = False) -> Iterator[Result]:
    """Measure everything, which takes minutes; small, the same code in seconds."""
    size = SMALL if small else Size()
    yield from fits()
    yield from exact()
    yield from kernel()
    yield from proposing()
    yield from genetic(size)
    yield from hybrid(size)
    yield from large(size)
    yield from thresholds(size)
    yield from fresh(size)


def every_set(n_sources: int) -> NDArray[np.bool_]:
    """List every source set but the empty one."""
    sets: NDArray[np.bool_] = (np.arange(1, 2**n_sources)[:, None] >> np.arange(n_sources)) & 1 == 1
    return sets


def fits() -> Iterator[Result]:
    """Time a fit in a batch against scikit-learn's own, one thread a side."""
    data = credit()
    train, select, _ = data.split(0)
    yield _fit_ratio("Credit", data, train, select, 40)
    data, train, select, _ = example()
    yield _fit_ratio("the example", data, train, select, 14)


def _fit_ratio(
    name: str, data: Data, train: NDArray[np.intp], select: NDArray[np.intp], bar: float
) -> Result:
    sets = every_set(len(data.costs.names))
    fitter = data.fits(train, select)
    X = np.column_stack(list(data.columns.values()))
    X = (X[train] - X[train].mean(axis=0)) / X[train].std(axis=0)
    sample = np.random.default_rng(0).choice(len(sets), 200, replace=False)

    def reference(solver: str) -> Callable[[], None]:
        def fit() -> None:
            for one in sets[sample]:
                LogisticRegression(solver=solver).fit(X[:, one], data.y[train])

        return fit

    with threadpool_limits(1):
        ours, lbfgs, newton = best_times(
            lambda: fitter.outcomes(sets),
            reference("lbfgs"),
            reference("newton-cholesky"),
            rounds=3,
        )
    ours, theirs = ours / len(sets), min(lbfgs, newton) / len(sample)
    facts = {
        "microseconds": round(ours * 1e6, 1),
        "lbfgs": round(lbfgs / len(sample) * 1e6),
        "newton_cholesky": round(newton / len(sample) * 1e6),
    }
    title = f"fits of {name} in batches, times faster than scikit-learn"
    return Result(title, theirs / ours, bar, at_most=False, facts=facts)


def exact() -> Iterator[Result]:
    """Time the exact front of Credit, fits included, on both cores."""
    data = credit()
    train, select, _ = data.split(0)
    _warm_up(data, train, select)
    start = time.perf_counter()
    problem = data.problem(train, select, max_stages=4, engine=LocalEngine(-1))
    front, history = Exhaustive().run(problem)
    seconds = time.perf_counter() - start
    designs = history[0]["designs"]
    assert designs == StageDesign.count(14, 4)
    facts = {"designs": designs, "front": len(front), "ties": sum(history[0]["ties"])}
    yield Result("exact front of Credit, seconds", seconds, 15, facts=facts)


def _warm_up(data: Data, train: NDArray[np.intp], select: NDArray[np.intp]) -> None:
    """Compile the kernels: what is measured is their work, not the compiler's."""
    few = {name: data.columns[name] for name in list(data.columns)[:3]}
    small = Data(few, data.y, type(data.costs).per_feature([1, 2, 3], list(few)), data.threshold)
    Exhaustive().run(small.problem(train, select, max_stages=4))


def kernel() -> Iterator[Result]:
    """Time the walk against a bare loop over the same bits, one thread a side."""
    data = credit()
    train, select, _ = data.split(0)
    problem = data.problem(train, select, max_stages=4)
    walk = _Walk.prepare(problem)
    bits = problem.table.accepted[0, walk.positions], problem.table.right[0, walk.positions]
    firsts, bare = np.arange(1, 2**14, 32), compile_bare_loop()
    walked, counted = walk._walk_chunk(firsts, bits)[1], bare(firsts, *bits)
    ours, theirs = best_times(
        lambda: walk._walk_chunk(firsts, bits), lambda: bare(firsts, *bits), rounds=40
    )
    speed = (walked / ours) / (counted / theirs)
    facts = {"designs_a_second": round(walked / ours)}
    yield Result("exhaustive kernel, share of a bare loop's speed", speed, 0.61, False, facts)


def proposing() -> Iterator[Result]:
    """Time the genetic search on Credit, its table filled beforehand."""
    data = credit()
    train, select, _ = data.split(0)
    problem = data.problem(train, select, max_stages=4)
    problem.table.positions(every_set(14))
    EMSCO(generations=2).run(problem, np.random.default_rng(0))
    (seconds,) = best_times(lambda: EMSCO().run(problem, np.random.default_rng(0)), rounds=3)
    microseconds = seconds / (300 * 151) * 1e6
    yield Result("EMSCO, microseconds a design proposed", microseconds, 25)


def _exactly(data: Data, seed: int = 0) -> tuple[Problem, ParetoFront]:
    train, select, _ = data.split(seed)
    problem = data.problem(train, select, max_stages=4, engine=LocalEngine(-1))
    return problem, Exhaustive().run(problem).front


def genetic(size: Size) -> Iterator[Result]:
    """Hold the genetic search's hypervolume against the exact one: worst of ten seeds."""
    for name, data in _by_size(size):
        problem, front = _exactly(data)
        for elite, bar in (("evaluations", 0.985), ("designs", None)):
            shares = [
                EMSCO(elite=elite).run(problem, np.random.default_rng(seed)).front.hypervolume()
                / front.hypervolume()
                for seed in range(size.seeds)
            ]
            title = f'EMSCO, elite="{elite}", share of the exact hypervolume, {name}'
            facts = {"mean": round(float(np.mean(shares)), 4)}
            yield Result(title, min(shares), size.bar(bar), False, facts)


def _by_size(size: Size) -> Iterator[tuple[str, Data]]:
    for name, load in (("Pima", pima), ("Heart", heart), ("Credit", credit))[: size.problems]:
        yield name, load()


def hybrid(size: Size) -> Iterator[Result]:
    """Hold the hybrid search's hypervolume against the exact one: worst of ten seeds."""
    problems = (("Heart", heart, 0.995), ("Credit", credit, 0.9999))
    for name, load, bar in problems[: size.problems]:
        problem, front = _exactly(load())
        exact_points = {candidate.objectives for candidate in front}
        shares, found, designs = [], [], []
        start = time.perf_counter()
        for seed in range(size.seeds):
            result = size.hybrid.run(problem, np.random.default_rng(seed))
            shares.append(result.front.hypervolume() / front.hypervolume())
            points = {candidate.objectives for candidate in result.front}
            found.append(len(points & exact_points) / len(exact_points))
            # Local search counts on from what the genetic search has evaluated.
            designs.append(result.history[-1]["designs"])
        assert max(designs) <= size.evaluations
        facts = {
            "share_of_evaluations": round(float(np.mean(found)), 3),
            "fewest_of_evaluations": round(min(found), 3),
            "designs": max(designs),
            "seconds": round((time.perf_counter() - start) / size.seeds, 1),
        }
        title = f"Hybrid, share of the exact hypervolume, {name}"
        yield Result(title, min(shares), size.bar(bar), False, facts)


def large(size: Size) -> Iterator[Result]:
    """Run both where no exact front can be had: hypervolume, and time with the fits."""
    data, train, select, _ = example()
    synthetic = synthetic50()
    split = synthetic.split(0)
    for name, these, rows, max_stages in (
        ("the example", data, (train, select), 7),
        ("Synthetic50", synthetic, split[:2], 10),
    )[: size.problems]:

        def timed(search: Any, seed: int, these: Data = these, rows: Any = rows,
                  max_stages: int = max_stages) -> tuple[float, float, int]:  # fmt: skip
            problem = these.problem(*rows, max_stages=max_stages)
            start = time.perf_counter()
            front = search.run(problem, np.random.default_rng(seed)).front
            return front.hypervolume(), time.perf_counter() - start, len(problem.table)

        timed(EMSCO(generations=1), 0)
        runs = [timed(size.emsco, seed) for seed in range(size.seeds)]
        ours = [timed(size.hybrid, seed) for seed in range(min(size.seeds, 3))]
        best, seconds = max(run[0] for run in runs), min(run[1] for run in runs)
        facts = {
            "emsco_best": round(best, 5),
            "emsco_seconds": round(seconds, 1),
            "emsco_source_sets": int(np.mean([run[2] for run in runs])),
            "hybrid": [round(run[0], 5) for run in ours],
            "source_sets": [run[2] for run in ours],
        }
        worst = min(run[0] for run in ours)
        yield Result(f"Hybrid on {name}, worst hypervolume against EMSCO's best",
                     worst / best, size.bar(1.0), False, facts)  # fmt: skip
        slowest = max(run[1] for run in ours)
        facts = {"seconds": [round(run[1], 1) for run in ours]}
        title = f"Hybrid on {name}, time against EMSCO's shortest"
        yield Result(title, slowest / seconds, size.bar(1.0), True, facts)


def _cascade(data: Data, candidate: Candidate, train: NDArray[np.intp]) -> CascadeClassifier:
    X = np.column_stack([column[train] for column in data.columns.values()])
    cascade = CascadeClassifier(
        design=candidate.design, costs=_by_position(data), threshold=candidate.threshold
    )
    cascade.fit(X, data.y[train])
    return cascade


def _by_position(data: Data) -> Any:
    """Name the columns of an array as scikit-learn does, in the same sources."""
    place = {name: f"x{i}" for i, name in enumerate(data.columns)}
    sources = [
        type(source)(
            source.name,
            features=[place[feature] for feature in data.costs.columns(source)],
            cost=source.cost,
        )
        for source in data.costs.sources
    ]
    return type(data.costs)(sources)


def thresholds(size: Size) -> Iterator[Result]:
    """Price eight targets with thresholds by stage, against shared ones, on fresh rows."""
    data = phishing()
    train, select, fresh_rows = (rows[: size.rows] for rows in data.split(0))
    grid = [round(0.5 + 0.4992 * (i + 1) / size.thresholds, 4) for i in range(size.thresholds)]
    problem = data.problem(
        train, select, max_stages=4, thresholds=grid, allow_unused=True, engine=LocalEngine(-1)
    )
    shared = Exhaustive().run(problem).front
    own = thresholds_by_stage(problem, shared, np.random.default_rng(0))
    X = np.column_stack([column[fresh_rows] for column in data.columns.values()])
    # At four coverages, half a point and two points below the best accuracy that can be had.
    targets = [
        (coverage, round(best - below, 4))
        for coverage in (0.8, 0.85, 0.9, 0.95)
        for best in [
            shared.select(min_coverage=coverage, by="accuracy", caution=0).evaluation.accuracy
        ]
        for below in (0.005, 0.02)
    ]
    ratios = []
    told = []
    for coverage, accuracy in targets:
        prices = []
        for front in (shared, own):
            chosen = front.select(min_coverage=coverage, min_accuracy=accuracy, caution=0)
            decisions = _cascade(data, chosen, train).decide(X)
            fresh_evaluation = evaluate(decisions, data.y[fresh_rows])
            prices.append(fresh_evaluation.cost)
            told.append([coverage, accuracy, *(round(v, 4) for v in (
                chosen.evaluation.cost, fresh_evaluation.cost, fresh_evaluation.coverage,
                fresh_evaluation.accuracy))])  # fmt: skip
        ratios.append(prices[1] / prices[0])
    facts = {"ratios": [round(r, 3) for r in ratios], "fronts": [len(shared), len(own)]}
    lower = sum(ratio < 1 for ratio in ratios)
    title = "thresholds by stage, targets priced lower on fresh rows"
    yield Result(title, lower, size.bar(5), False, facts)
    facts = {"coverage_accuracy_selected_fresh": told}
    title = "thresholds by stage, highest price against shared"
    yield Result(title, max(ratios), size.bar(1.05), True, facts)


def fresh(size: Size) -> Iterator[Result]:
    """Show fronts on fresh rows beside what they were selected on: 20 splits, no bar."""
    for name, data in _by_size(size):
        rows: dict[str, list[tuple[float, float]]] = {"exact": [], "Hybrid": []}
        for seed in range(size.splits):
            train, _, fresh_rows = data.split(seed)
            problem, front = _exactly(data, seed)
            found = size.hybrid.run(problem, np.random.default_rng(seed)).front
            unseen = data.problem(train, fresh_rows, max_stages=4)
            for search, its_front in (("exact", front), ("Hybrid", found)):
                designs = np.array([c.design.assignment for c in its_front], dtype=np.int8)
                again = unseen.front(unseen.candidates(designs))
                rows[search].append((its_front.hypervolume(), again.hypervolume()))
        for search, pairs in rows.items():
            selected, unseen_share = np.array(pairs).T
            facts = {
                "splits": size.splits,
                "selected": round(float(selected.mean()), 4),
                "deviation": round(float((unseen_share - selected).std(ddof=1)), 4),
            }
            title = f"{search} front of {name}, hypervolume on fresh rows, mean of splits"
            yield Result(title, float(unseen_share.mean()), facts=facts)
