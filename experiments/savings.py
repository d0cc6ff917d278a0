"""What stages before a model that is there already save, and whether agreement is kept as promised.

A model is fitted on some rows and stays as it is. Its answers on other rows are a log: one half of
it is searched, the other half certifies. The rest is fresh: price and changes are told on it.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom  # type: ignore[import-untyped]  # scipy ships no types
from sklearn.base import BaseEstimator
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from emsco import CascadeSearchCV, LocalSearch
from emsco.certify import Targets, certify_together
from emsco.certify._hypothesis_family import in_order, passed, shares
from emsco.certify.savings import savings
from emsco.datasets import CostlyData, load_covtype, load_kdd, load_phishing, load_spambase
from emsco.exceptions import EmscoWarning
from emsco.rows.ledger import forget_all
from experiments.headline import boosted_trees
from experiments.tables import markdown

TARGETS = (0.98, 0.99, 0.995)
CONFIDENCE = 0.99
KINDS = ("logistic", "boosted")
_SEARCHED = 4_000  # rows


class Case(NamedTuple):
    """A problem, how its rows are divided, and what a search of it may take."""

    load: Callable[[], CostlyData]
    model: int  # rows that the model is fitted on
    log: int
    fresh: int
    sets: int = 256  # source sets fitted where there are more


CASES = {
    "phishing, 7 sources": Case(load_phishing, 3_000, 5_828, 2_602),
    "phishing, 13 sources": Case(lambda: load_phishing(sources=13), 3_000, 5_828, 2_602),
    "KDD": Case(load_kdd, 5_000, 12_000, 10_000),
    "spambase": Case(load_spambase, 1_200, 2_800, 601),
    "covtype": Case(load_covtype, 10_000, 12_000, 10_000, sets=100),
}
_DRAWS = 1_000
_DRAWN = 1_828  # calibration rows of a draw


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Measure savings by data, model and stages; then hold agreement against the truth."""
    wanted = ["KDD:logistic:logistic"] if small else only or [*CASES, "validity"]
    rows = []
    for (name, case), model, stages in product(CASES.items(), KINDS, KINDS):
        if {name, f"{name}:{model}", f"{name}:{model}:{stages}"} & set(wanted):
            rows += _measure(name, case, model, stages)
    header = ["data", "model", "stages", "agreement promised", "price paid", "never get to it",
              "changed on fresh rows", "changed where certified", "seconds"]  # fmt: skip
    tables = [markdown(header, rows)] if rows else []
    if small or "validity" in wanted:
        tables.append(_validity(draws=100 if small else _DRAWS))
    return "\n\n".join(tables)


def _measure(name: str, case: Case, kind: str, stages: str) -> list[list[str]]:
    """Search, certify, and hold what is certified against fresh rows."""
    X, final, costs, log, fresh = prepared(case, kind)
    search = search_for(case, final, costs, stages)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmscoWarning)
        found = savings(
            search,
            X.iloc[log],
            agreement=TARGETS,
            confidence=CONFIDENCE,
            way="front",  # the ladder has an experiment of its own
            random_state=0,
        )
    seconds = time.perf_counter() - start
    rows = []
    answers = final.predict(X.iloc[fresh])
    for saving in found.each:
        told = [name, kind, stages, f"{saving.agreement:.1%}"]
        if saving.best is None:
            rows.append([*told, "100%", "0%", "-", saving.certificate.sentence, f"{seconds:.0f}"])
        else:
            decisions = search.cascade(saving.best.candidate).decide(X.iloc[fresh])
            early = decisions.exit_stage < saving.best.candidate.design.n_stages - 1
            changed = len(saving.changed) / len(found.certified_on)
            rows.append(
                [
                    *told,
                    f"{decisions.cost.mean() / costs.total:.1%}",
                    f"{early.mean():.1%}",
                    f"{(decisions.label != answers).mean():.2%}",
                    f"{changed:.2%} of {len(found.certified_on):,}",
                    f"{seconds:.0f}",
                ]
            )
        print(json.dumps(rows[-1]), flush=True)
    return rows


def search_for(case: Case, final: Any, costs: Any, stages: str) -> CascadeSearchCV:
    """Make the search for stages before a model."""
    few_sets = 2 ** len(costs.names) <= case.sets
    return CascadeSearchCV(
        boosted_trees() if stages == "boosted" else None,
        costs=costs,
        final=final,
        target="agreement",
        search=None if few_sets else LocalSearch(fits=case.sets),
        select={"by": "accuracy"},
        cv=3,
        max_rows=_SEARCHED,
        n_jobs=1,
        random_state=0,
    )


class Prepared(NamedTuple):
    """A table, a model fitted on some of its rows, prices, and which rows are logged and fresh."""

    X: Any
    final: Any
    costs: Any
    log: NDArray[np.intp]
    fresh: NDArray[np.intp]


def prepared(case: Case, kind: str) -> Prepared:
    """Fit the model on its rows, and draw the log and the fresh rows from the others."""
    X, y, costs = case.load()
    text = make_column_selector(dtype_exclude="number")(X)
    X = X.astype(dict.fromkeys(text, "category"))
    ends = np.cumsum([case.model, case.log, case.fresh])
    order = np.random.default_rng(0).permutation(len(X))
    train, log, fresh, _ = np.split(order, ends)
    return Prepared(X, _model(kind).fit(X.iloc[train], y[train]), costs, log, fresh)


def _model(kind: str) -> BaseEstimator:
    """Make a model as teams have them."""
    if kind == "boosted":
        return boosted_trees().set_params(max_iter=100, max_leaf_nodes=31)
    words = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    encoded = make_column_transformer(
        (words, make_column_selector(dtype_exclude="number")), remainder=StandardScaler()
    )
    return make_pipeline(encoded, LogisticRegression(max_iter=2000))


def _validity(draws: int) -> str:
    """Draw calibration rows again and again; count draws with any certificate that is false.

    Rows are drawn with replacement from those that neither model nor search have seen: what is true
    of a candidate is then its share on those, exactly.
    """
    rows = []
    for kind in KINDS:
        X, final, costs, log, fresh = prepared(CASES["phishing, 7 sources"], kind)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EmscoWarning)
            search = CascadeSearchCV(
                costs=costs, final=final, target="agreement", select={"by": "accuracy"},
                max_rows=_SEARCHED, n_jobs=2, random_state=0,
            ).fit(X.iloc[log])  # fmt: skip
        pool = X.iloc[fresh]
        answers = np.asarray(final.predict(pool))
        changed = np.array([search.cascade(c).decide(pool).label != answers for c in search.front_])
        rng = np.random.default_rng(0)
        drawn = rng.integers(len(pool), size=(draws, _DRAWN))
        counts = np.array([changed[:, rows].sum(axis=1) for rows in drawn]).T  # candidates x draws
        _check(search, pool.iloc[drawn[0]], counts[:, 0])
        truth = 1 - changed.mean(axis=1)
        for target in (*TARGETS, *_just_missed(truth)):
            level = 1 - CONFIDENCE
            listed = _certified(search, counts, target, level)
            false = (listed & (truth < target)[:, None]).any(axis=0).sum()
            issued = listed.any(axis=0).mean()
            if false > binom.ppf(0.999, draws, level):
                raise SystemExit(f"False certificates of {target}: {false} of {draws} draws.")
            rows.append([kind, f"{target:.2%}", str(len(truth)), str((truth < target).sum()),
                         f"{issued:.1%}", f"{false} of {draws:,}"])  # fmt: skip
            print(json.dumps(rows[-1]), flush=True)
    header = ["model", "agreement promised", "candidates", "that do not keep it",
              f"draws with a certificate at {CONFIDENCE:.0%}", "with a false one"]  # fmt: skip
    return markdown(header, rows)


def _just_missed(truth: NDArray[np.float64]) -> list[float]:
    """Give a target that many candidates miss, each by little: the hardest."""
    near = np.sort(truth[(truth > 0.97) & (truth < 1)])
    return [float(np.nextafter(near[len(near) // 2], 1))]


def _certified(
    search: CascadeSearchCV, counts: NDArray[np.intp], target: float, level: float
) -> NDArray[np.bool_]:
    """Say for each draw whom a certificate lists: candidates x draws, in the order of the front."""
    front = list(search.front_)
    order = [front.index(c) for c in in_order(front, Targets(agreement=target), search.costs_)]
    levels = level * shares(len(order), len(front))
    p_values = binom.cdf(counts[order], _DRAWN, 1 - target)
    listed = np.zeros(counts.shape, dtype=np.bool_)
    for draw in range(counts.shape[1]):
        own = [order[place] for place in passed(levels, p_values[:, draw].item)]
        listed[own, draw] = True
    return listed


def _check(search: CascadeSearchCV, X: Any, counts: NDArray[np.intp]) -> None:
    """Make sure that what `savings` asks lists the same on the same rows."""
    # Drawn twice, a row counts as two: the truth here is about draws from these rows. What was
    # asked of them before does not count either.
    forget_all()
    (certificate,) = certify_together(
        search,
        X,
        None,
        [Targets(agreement=0.98)],
        confidence=CONFIDENCE,
        keys=[f"drawn {i}" for i in range(len(X))],
        allow={"repeated rows": "rows are drawn with replacement"},
        way="front",
        chosen_first=False,
    )
    listed = _certified(search, counts[:, None], 0.98, 1 - CONFIDENCE)[:, 0]
    own = {c for c, is_listed in zip(search.front_, listed, strict=True) if is_listed}
    if {one.candidate for one in certificate.candidates} != own:
        raise SystemExit("the library and the simulation differ on the same rows.")
