"""A synthetic problem in which more expensive sources are more informative."""

from __future__ import annotations

import numpy as np

from emsco.core.costs import Costs, Source
from emsco.datasets._table_files import CostlyData
from emsco.exceptions import require


def make_costly_classification(
    n_rows: int = 1000,
    n_sources: int = 6,
    *,
    features_per_source: int = 1,
    n_classes: int = 2,
    class_sep: float = 1.0,
    random_state: int | np.random.Generator | None = None,
) -> CostlyData:
    """Generate a problem in which more expensive sources are more informative.

    In every feature the class means are `class_sep` apart, in a random order of its own. Source i
    costs 2**i and adds normal noise with standard deviation 2 / sqrt(cost), so paying twice as much
    is like measuring twice.

    Parameters
    ----------
    n_rows : int, default=1000
        The number of rows; the classes are equally frequent.
    n_sources : int, default=6
        The number of sources, named s0, s1, ...
    features_per_source : int, default=1
        The number of features per source, named s0_0, s0_1, ...; a single feature has the name of
        its source.
    n_classes : int, default=2
        The number of classes, labelled 0, 1, ...
    class_sep : float, default=1.0
        The distance between neighbouring classes.
    random_state : int, numpy Generator or None, default=None
        The source of randomness; an int gives the same problem every time.

    Examples
    --------
    >>> from emsco import CascadeClassifier, StageDesign, evaluate
    >>> from emsco.datasets import make_costly_classification
    >>> X, y, costs = make_costly_classification(2000, 3, class_sep=4, random_state=0)
    >>> {source.name: source.cost for source in costs.sources}
    {'s0': 1.0, 's1': 2.0, 's2': 4.0}
    >>> design = StageDesign.from_stages([["s0"], ["s1"], ["s2"]])
    >>> cascade = CascadeClassifier(design=design, costs=costs, threshold=0.95)
    >>> evaluation = evaluate(cascade.fit(X[:1000], y[:1000]).decide(X[1000:]), y[1000:])
    >>> f"{evaluation.accuracy:.1%} right for {evaluation.cost:.1f} of {costs.total:.0f}"
    '99.6% right for 3.4 of 7'
    """
    rng = np.random.default_rng(random_state)
    names = [f"s{i}" for i in range(n_sources)]
    several = {name: [f"{name}_{j}" for j in range(features_per_source)] for name in names}
    features = {name: [name] for name in names} if features_per_source == 1 else several
    costs = Costs([Source(s, features=features[s], cost=2**i) for i, s in enumerate(names)])
    y = rng.permutation(np.arange(n_rows) % n_classes)
    columns = {}
    for source in costs.sources:
        for feature in source.features:
            place = class_sep * (rng.permutation(n_classes) - (n_classes - 1) / 2)
            columns[feature] = place[y] + rng.normal(0, 2 / np.sqrt(source.cost), n_rows)
    return CostlyData(require("pandas").DataFrame(columns), y, costs)
