"""
When one error is worse than another
====================================

A laboratory screens for thyroid disease. One patient in thirteen is sick. Telling a sick patient
"healthy" is a harm that nobody sees; sending a healthy one to a specialist costs 60 CAD. A model
that is right on 97% of its answers sounds good, and can be useless. What should be asked for
instead?

The 7,200 patients are those of the UCI thyroid data, in their official parts; the prices are
Turney's, with the 16 questions as one source.
"""

# %%
# One search
# ----------
#
# Trees suit these values, which have limits beyond which somebody is sick. Any classifier with
# ``predict_proba`` can be a stage (:doc:`/searching`). The review is the specialist.

# sphinx_gallery_thumbnail_path = "images/thumbnails/unequal_harms.svg"
import matplotlib.pyplot as plt
import pandas as pd
from sklearn.tree import DecisionTreeClassifier

from emsco import CascadeSearchCV, Costs, FlowDisplay, Review, Source, evaluate
from emsco.datasets import load_thyroid

X, y, listed = load_thyroid()
X_known, y_known, X_fresh, y_fresh = X[:3772], y[:3772], X[3772:], y[3772:]
costs = Costs(
    [Source("questions", features=list(X)[:16], cost=16), *listed.sources[16:]],
    review=Review(60, accuracy=0.98),
    unit="CAD",
)
tree = DecisionTreeClassifier(max_depth=6, min_samples_leaf=10, random_state=0)
rule = {"min_coverage": 0.8}
search = CascadeSearchCV(tree, costs=costs, max_stages=3, select=rule, random_state=0)
search = search.fit(X_known, y_known)

# %%
# Four ways to ask
# ----------------
#
# *Accuracy* counts all errors alike. ``max_missed`` bounds the share of the sick who are told that
# they are healthy, and ``max_rejected`` the share who get no answer. A *loss* prices everything:
# the sources, the review, and each kind of error. What a missed patient costs is for a doctor to
# say; here it is 2,000 CAD, and 100 CAD for a healthy one who is treated.

PRICE = {"sick": 2000, "healthy": 100}
wishes = {
    "accuracy": {"min_accuracy": 0.97, "min_coverage": 0.8},
    "max_missed": {"max_missed": {"sick": 0.05}, "min_coverage": 0.8},
    "and max_rejected": {"max_missed": {"sick": 0.05}, "max_rejected": {"sick": 0.1}},
    "loss": {"by": "loss", "error_cost": PRICE},
}
found = {}
for wish, asked in wishes.items():
    decisions = search.choose(**asked).decide(X_fresh)
    found[wish] = evaluate(decisions, y_fresh)
pd.DataFrame(
    {
        wish: {
            "right": f"{each.accuracy:.1%}",
            "answered": f"{each.coverage:.1%}",
            "CAD": f"{each.cost:.1f}",
            "loss": f"{each.loss(review=costs.review, error_cost=PRICE):.1f}",
        }
        for wish, each in found.items()
    }
).T

# %%
# On fresh patients, all four are right on more than 97% of what they answer. Now the sick alone:

figure, ax = plt.subplots(figsize=(7.2, 3.2), layout="constrained")
shares = pd.DataFrame(
    {
        wish: {
            "recognised": 1 - each.rejected["sick"] - each.missed["sick"],
            "rejected": each.rejected["sick"],
            "missed": each.missed["sick"],
        }
        for wish, each in found.items()
    }
).T
shares.plot.barh(stacked=True, ax=ax, color=["#0072B2", "#D0D0D0", "#D55E00"], width=0.6)
for bars, ink in zip(ax.containers, ["white", "black", "black"], strict=True):
    shown = [f"{share:.0%}" if share > 0.03 else "" for share in bars.datavalues]
    ax.bar_label(bars, shown, label_type="center", color=ink)
ax.set(xlabel="share of the sick patients", xlim=(0, 1))
ax.xaxis.set_major_formatter("{x:.0%}")
ax.invert_yaxis()
ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)
ax.spines[["top", "right"]].set_visible(False)

# %%
# The first misses a quarter of the sick. The second misses nobody, because it answers hardly any of
# them: a rejection is not harmless when it is always the same people who are rejected. The third
# bounds both. The last was told what things are worth, and spends a little more on tests where they
# save a review or an error. That its loss is not the lowest on fresh patients is a matter of one or
# two of them, at 2,000 CAD each.

display = FlowDisplay.from_decisions(decisions, search, y=y_fresh)

# %%
# What to do with it
# ------------------
#
# Bounds by class are met with a margin for luck (:doc:`/choosing`), and are still estimates:
# ``certify(search, X_cal, y_cal, max_missed={"sick": 0.05}, max_rejected={"sick": 0.2})`` makes a
# promise of them (:doc:`/certificates`). :doc:`/rejection` is for those who have to answer for it.
