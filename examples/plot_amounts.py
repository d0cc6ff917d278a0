"""
Payments are not equal: shares of the amount
============================================

A bank lets a cascade pass payments and sends the doubtful ones to people. One payment in a hundred
is fraud. Most frauds are tests of stolen cards for a few coins; a quarter are accounts taken over,
for thousands. Which cascade loses the least *money*, at the same price and with as many payments
passed?

The payments are made from a seed, and so are the prices.
"""

# %%
# Few frauds have most of the money
# ---------------------------------

# sphinx_gallery_thumbnail_path = "images/thumbnails/amounts.svg"
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from emsco import CascadeSearchCV, evaluate
from emsco.datasets import make_payments
from emsco.plotting import FrontDisplay

X, y, costs = make_payments(24_000, random_state=0)
known, fresh = slice(0, 12_000), slice(12_000, None)
amount = X["amount"].to_numpy()
lost = np.sort(amount[y == "fraud"])[::-1]
tenth = lost[: len(lost) // 10].sum() / lost.sum()
print(f"A tenth of the frauds have {tenth:.0%} of the amount.")

# %%
# Search twice
# ------------
#
# ``stake="amount"`` counts amounts instead of payments: accuracy, coverage and what is missed are
# shares of the money. Nothing else differs: the same rows, folds and fitted stages. The amount is
# a feature here only because it has a price, 0. Of each front, take what misses the least fraud, as
# counted there, while it passes 93% of all payments for at most 1.5 ct each.


def least_missed(front):
    """Choose what misses the least, of those that pass enough payments and cost little enough."""
    able = []
    for candidate in front:
        found = candidate.evaluation
        passed = (found.by_row or found).coverage
        if passed >= 0.93 and found.cost <= 1.5:
            able.append(candidate)
    return min(able, key=lambda c: (c.evaluation.missed["fraud"], c.evaluation.cost))


searches, rows, found = {}, {}, {}
for name, stake in {"by payments": None, "by amount": "amount"}.items():
    search = CascadeSearchCV(
        costs=costs,
        threshold=[0.97, 0.98, 0.985, 0.99, 0.993, 0.995, 0.997, 0.998, 0.999],
        max_stages=3,
        cv=2,
        select=least_missed,
        luck=False,
        random_state=0,
    ).fit(X[known], y[known], stake=stake)
    searches[name] = search
    decisions = search.decide(X[fresh])
    found[name] = evaluate(decisions, y[fresh], stake=amount[fresh])
    rows[name] = {
        "buys": str(search.best_candidate_.design),
        "cost, ct": f"{found[name].cost:.2f} of {costs.total:.2f}",
        "payments passed": f"{found[name].by_row.coverage:.1%}",
        "frauds missed": f"{found[name].by_row.missed['fraud']:.0%}",
        "of their amount": f"{found[name].missed['fraud']:.0%}",
    }
pd.DataFrame(rows)

# %%
# The search by amount spends on what shows large frauds, and passes more of the small ones.
#
# The front by amount
# -------------------
#
# Both axes are shares of the money; the cost is the mean per payment, as it is paid by payment.

FrontDisplay.from_search(searches["by amount"])

# %%
# What is lost
# ------------
#
# Fresh frauds that each cascade passed, the largest first, and what they add up to.

figure, ax = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
for (name, search), colour in zip(searches.items(), ("#D55E00", "#0072B2"), strict=True):
    decisions = search.decide(X[fresh])
    passed = decisions.accepted & (decisions.label == "fine") & (y[fresh] == "fraud")
    total = np.cumsum(np.sort(amount[fresh][passed])[::-1])
    ax.step(np.arange(1, len(total) + 1), total, color=colour, label=name)
ax.set(xlabel="frauds passed, the largest first", ylabel="lost in all")
ax.yaxis.set_major_formatter("{x:,.0f}")
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)

# %%
# What to do with it
# ------------------
#
# Give the amount as ``stake`` if an error on a large payment is worse than one on a small payment.
# Weights of rows are something else: ``sample_weight`` changes what is fitted, and no figure. Few
# large payments decide shares of money, so they are known less exactly than shares of rows: margins
# and intervals say by how much (:doc:`/choosing`).
