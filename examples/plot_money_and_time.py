"""
Money and waiting time, kept apart or brought together
======================================================

Tests cost money, and they cost days: questions are answered at once, everything else is for another
visit. Tests of one visit are done on the same day; a test that is ordered after seeing the result
of another is for the next one. Buying step by step therefore saves money and costs time. How many
visits are worth it?

The patients are those of Cleveland, the prices are Turney's, and so is the distinction between
answers that are immediate and those that are not. That it takes a day is our assumption.
"""

# %%
# Two figures for each source
# ---------------------------
#
# A price list has one unit of cost. Time goes beside it, as ``latency``: sources of one stage are
# fetched at the same time, so a stage takes as long as its slowest source, and stages add up.

# sphinx_gallery_thumbnail_path = "images/thumbnails/money_and_time.svg"
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from emsco import CascadeSearchCV, Costs, Source
from emsco.datasets import load_cleveland
from emsco.exceptions import SelectionError, SelectionWarning

warnings.simplefilter("ignore", SelectionWarning)  # that 303 rows are few

X, y, listed = load_cleveland()
groups = {
    "questions": ["age", "sex", "cp", "trestbps"],
    "blood": ["chol", "fbs"],
    "rest_ecg": ["restecg"],
    "exercise_ecg": ["exang", "oldpeak", "slope"],
    "thallium": ["thalach", "thal"],
    "fluoroscopy": ["ca"],
}
costs = Costs(
    [
        Source(name, features=tests, cost=listed.of(tests), latency=int(name != "questions"))
        for name, tests in groups.items()
    ],
    unit="CAD",
)
pd.DataFrame({s.name: {"CAD": s.cost, "days": s.latency} for s in costs.sources}).T

# %%
# Kept apart: a bound on the days
# -------------------------------
#
# "How cheap can it be with at most two visits?" is asked in two places. ``max_stages`` limits the
# search to designs that wait that often, and ``max_latency`` limits the choice to those whose
# slowest path is short enough. The second alone is not enough: a front keeps what is cheap, and if
# four stages are allowed, a quick design may have been beaten by a cheaper one that waits longer.

wanted = {"min_accuracy": 0.86, "min_coverage": 0.8, "caution": 0}
chosen, visits = {}, ["no visit", "one visit", "two visits", "three visits"]
for days in range(4):
    search = CascadeSearchCV(costs=costs, max_stages=days + 1, luck=False, random_state=0)
    try:
        search.fit(X, y).choose(max_latency=days, **wanted)
    except SelectionError as error:
        print(f"{visits[days]}: {str(error).partition(';')[0]}.")
        continue
    chosen[days] = search.best_candidate_
pd.DataFrame(
    {
        visits[days]: {
            "buys": str(candidate.design),
            "CAD": f"{candidate.evaluation.cost:.1f}",
            "days, mean": f"{candidate.evaluation.latency:.2f}",
            "days, worst": f"{candidate.evaluation.worst_latency:.0f}",
        }
        for days, candidate in chosen.items()
    }
).T

# %%
# Brought together: a price for a day
# -----------------------------------
#
# What is a day worth? Whoever can say so has one unit again, and the answer follows: the total is
# money plus days times their price. Where the lines cross, the best number of visits changes.

price = np.linspace(0, 200, 100)
figure, ax = plt.subplots(figsize=(7.2, 4), layout="constrained")
for days, colour in {1: "#0072B2", 2: "#D55E00", 3: "#222222"}.items():
    found = chosen[days].evaluation
    total = found.cost + price * found.latency
    ax.plot(price, total, color=colour, linewidth=2, label=visits[days])
ax.set(xlabel="price of a day (CAD)", ylabel="money and time per patient (CAD)", xlim=(0, 200))
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)

# %%
# If the price of a day is known before the search, put it into the price list, and every candidate
# of the front is judged by it. This counts the days of tests that are done on the same visit one by
# one, so it is right for work that somebody does (a clerk's minutes), and too strict for waiting.

priced = [Source(s.name, features=s.features, cost=s.cost + 60 * s.latency) for s in costs.sources]
together = Costs(priced, unit="CAD")
search = CascadeSearchCV(costs=together, max_stages=3, luck=False, random_state=0).fit(X, y)
found = search.choose(**wanted).best_candidate_
print(f"{found.design}: {found.evaluation.cost:.1f} CAD, a day at 60 CAD included")

# %%
# What to do with it
# ------------------
#
# Keep units apart as long as nobody can say what one is worth in the other, and show both to those
# who decide. Bring them together as soon as somebody can. Latencies of stores and services need not
# be guessed: ``emsco costs measure`` writes them into the price list (:doc:`/live`).
