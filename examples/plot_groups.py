"""
Who gets no answer?
===================

A laboratory answers most patients by few tests and sends the others to a specialist. Does it send
one sex more often than the other, does it err on one more often, and what would it cost to treat
both more alike?

The 7,200 patients are those of the UCI thyroid data, in their official parts. Their sex is coded 0
and 1; more than two in three are coded 0. The prices are Turney's, with the 16 questions as one
source, and sex is one of the questions.
"""

# %%
# Figures by group
# ----------------
#
# The group of each row is any array of labels. It is used to compare, not to decide: it is a
# feature only if it is a column of X.

# sphinx_gallery_thumbnail_path = "images/thumbnails/groups.svg"
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.tree import DecisionTreeClassifier

from emsco import CascadeSearchCV, Costs, Review, Source, evaluate
from emsco.datasets import load_cleveland, load_thyroid
from emsco.exceptions import SelectionError

X, y, listed = load_thyroid()
sex = np.where(X["sex"] == 0, "sex 0", "sex 1")
known, fresh = slice(None, 3772), slice(3772, None)
questions = Source("questions", features=list(X)[:16], cost=16)
costs = Costs([questions, *listed.sources[16:]], review=Review(60, accuracy=0.98), unit="CAD")
tree = DecisionTreeClassifier(max_depth=6, min_samples_leaf=10, random_state=0)
rule = {"min_accuracy": 0.99, "min_coverage": 0.85}
search = CascadeSearchCV(tree, costs=costs, max_stages=3, select=rule, random_state=0)
search = search.fit(X[known], y[known])
before = evaluate(search.decide(X[fresh]), y[fresh], by=sex[fresh])
before

# %%
# A star would mark what is counted on fewer than 30 rows. The interval of a gap begins above 0 only
# if some two groups differ, and there it does: fewer patients of sex 0 get an answer.
#
# A bound on the gap
# ------------------
#
# ``max_gap`` leaves out candidates whose groups may differ by more. Every two groups must keep it
# with the margin of a choice, on the rows that were searched. The other bounds stay as they were.

after = None
for limit in (0.04, 0.02, 0.01, 0.005):
    try:
        search.choose(**rule, max_gap={"coverage": limit}, by=sex[known])
    except SelectionError as error:
        print(f"{limit:.1%}: {str(error).split(';')[0]}")
        break
    after = evaluate(search.decide(X[fresh]), y[fresh], by=sex[fresh])
    gap = next(gap for gap in after.gaps if gap.measure == "coverage")
    print(f"{limit:.1%}: {after.overall.cost:.2f} CAD, on fresh rows {gap}")

# %%
# On fresh rows a gap may be larger than was asked for: what was selected is an estimate, with a
# margin for chance, and no promise. Side by side, the first choice and the last one, with 95%
# intervals:

figure, axes = plt.subplots(1, 2, figsize=(7.2, 2.8), sharey=True, layout="constrained")
for ax, (name, parts) in zip(axes, {"before": before, "after": after}.items(), strict=True):
    frame = parts.to_frame()
    ends = abs(frame[["coverage low", "coverage high"]].T.to_numpy() - frame["coverage"].to_numpy())
    ax.errorbar(frame["coverage"], frame["group"], xerr=ends, fmt="o", color="#0072B2", capsize=5)
    title = f"{name}: {parts.overall.cost:.1f} CAD, {parts.overall.accuracy:.1%} right"
    ax.set(title=title, xlabel="coverage", ylim=(-0.6, 1.6))
    ax.xaxis.set_major_formatter("{x:.0%}")
    ax.spines[["top", "right"]].set_visible(False)
limits = [end for ax in axes for end in ax.get_xlim()]
for ax in axes:
    ax.set_xlim(min(limits), max(limits))

# %%
# Here both sexes gain answers, a little more is paid, and a little less often are answers right.
# All shares must be looked at: a gap in one can be closed at the expense of another, or of
# everybody.

pd.DataFrame(
    {
        f"{name}, {group}": {
            "sick missed": f"{own.missed['sick']:.1%}",
            "sick rejected": f"{own.rejected['sick']:.1%}",
            "healthy rejected": f"{own.rejected['healthy']:.1%}",
            "right when answered": f"{own.accuracy:.1%}",
        }
        for name, parts in {"before": before, "after": after}.items()
        for group, own in parts.items()
    }
).T

# %%
# Too few to say
# --------------
#
# The Cleveland heart data have 303 patients, 97 of them women. Of the women who are sick, too few
# are left to conclude anything, so no gap is shown for them, and none can be bounded:

heart, state, prices = load_cleveland()
sexes = heart["sex"].map({0.0: "women", 1.0: "men"})
small = CascadeSearchCV(costs=prices, select={"min_coverage": 0.8}, random_state=0)
small = small.fit(heart, state)
try:
    small.choose(max_gap={"missed": 0.1}, by=sexes, min_coverage=0.8)
except SelectionError as error:
    print(error)

# %%
# What this does and does not establish
# -------------------------------------
#
# It says how groups that you name are treated, on rows like these, as far as their number allows.
# It does not say why. Rejecting can widen gaps: Jones, Sagawa, Koh, Kumar and Liang (*Selective
# Classification Can Magnify Disparities Across Groups*, ICLR 2021) found on five data sets that it
# tends to magnify differences that are there when every row is answered, and can even lower the
# accuracy of a group. Bu, Lee and others (*Fair Selective Classification via Sufficiency*, ICML
# 2021) change the training instead. Where groups differ in how many are sick, no classifier that
# errs can have both equal precision and equal shares missed of every class (Chouldechova, *Big
# Data*, 2017), and equal shares can harm those whom they were meant to protect (Corbett-Davies and
# Goel, *The Measure and Mismeasure of Fairness*, 2018). Which share should be equal is for people
# to decide; :doc:`/choosing` has the rule of ``max_gap``.
