"""The methods by name, in the protocol's order, each with the base learner it is given."""

from __future__ import annotations

from experiments.peers.all_sources import all_sources
from experiments.peers.catboost import catboost
from experiments.peers.cost_ordered import cost_ordered
from experiments.peers.information import Paths
from experiments.peers.l1 import l1
from experiments.peers.lightgbm import coupled, lazy
from experiments.peers.method import Base, Method
from experiments.peers.miser import greedy_miser
from experiments.peers.nsga2 import nsga2
from experiments.peers.ours import search_cascades

METHODS: dict[str, tuple[Base, Method]] = {
    "ours-linear": ("linear", search_cascades),
    "all-linear": ("linear", all_sources),
    "stages-linear": ("linear", cost_ordered),
    "l1": ("linear", l1),
    "nsga2": ("linear", nsga2),
    "ours-trees": ("trees", search_cascades),
    "all-trees": ("trees", all_sources),
    "stages-trees": ("trees", cost_ordered),
    "lightgbm-coupled": ("trees", coupled),
    "lightgbm-lazy": ("trees", lazy),
    "miser": ("trees", greedy_miser),
    "catboost": ("trees", catboost),
    "information": ("trees", Paths),
}
OURS: dict[Base, str] = {"linear": "ours-linear", "trees": "ours-trees"}
