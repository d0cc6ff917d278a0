"""
A credit bureau whose calls share a fee
=======================================

A lender has the application form for nothing, and can ask the employer. A credit bureau sends three
reports: 2.00 EUR for opening a file on somebody, and 0.30 to 0.50 per report. A bank sends two
statements, for 1.20 EUR of consent and 0.20 each. Which of them should be asked about whom?

The applications are the 690 of the Australian credit data. Its columns are real but anonymous, so
which of them come from whom is our assumption, and so are the prices.
"""

# %%
# Two ways to write the prices down
# ---------------------------------
#
# The fee is a *setup*: it is paid once per application, with the first report (:doc:`/prices`).
# Whoever adds it to every report instead gets a price list that looks plausible and is wrong.

# sphinx_gallery_thumbnail_path = "images/thumbnails/credit_bureau.svg"
import warnings

import numpy as np
import pandas as pd

from emsco import CascadeSearchCV, Costs, FlowDisplay, Source, SourcesDisplay, evaluate
from emsco.datasets import load_credit
from emsco.exceptions import SelectionWarning

warnings.simplefilter("ignore", SelectionWarning)  # that 460 rows are few

FEES = {"enquiry": 2.00, "consent": 1.20}
REPORTS = [
    ("report_1", "A8", 0.40, "enquiry"),
    ("report_2", "A9", 0.30, "enquiry"),
    ("report_3", "A10", 0.50, "enquiry"),
    ("statement_1", "A13", 0.20, "consent"),
    ("statement_2", "A14", 0.20, "consent"),
]
OTHERS = [
    Source("form", features=["A1", "A2", "A3", "A4", "A11", "A12"], cost=0),
    Source("employer", features=["A5", "A6", "A7"], cost=0.80),
]
shared = Costs(
    OTHERS + [Source(n, features=[c], cost=p, setup=fee) for n, c, p, fee in REPORTS],
    setups=FEES,
    unit="EUR",
)
each = Costs(
    OTHERS + [Source(n, features=[c], cost=p + FEES[fee]) for n, c, p, fee in REPORTS], unit="EUR"
)
print(f"all sources: {shared.total:.2f} EUR with shared fees, {each.total:.2f} if all pay theirs")

# %%
# What each list buys
# -------------------
#
# Both searches see the same applications and choose by the same rule. What they have chosen is then
# decided on fresh applications, and billed as the bureau really bills it.

X, label, _ = load_credit()
y = np.where(label == 1, "granted", "refused")
order = np.random.default_rng(0).permutation(len(X))
known, fresh = order[:460], order[460:]
rows, searches = {}, {}
for name, costs in {"shared fees": shared, "fee on every call": each}.items():
    search = CascadeSearchCV(costs=costs, max_stages=3, random_state=0)
    searches[name] = search.fit(X.iloc[known], y[known])
    decisions = search.decide(X.iloc[fresh])
    stages = search.best_cascade_.stages_
    bought = [sum(stages[: last + 1], ()) for last in decisions.exit_stage]
    found = evaluate(decisions, y[fresh])
    rows[name] = {
        "buys": str(search.best_candidate_.design),
        "answered": f"{found.coverage:.1%}",
        "right": f"{found.accuracy:.1%}",
        "billed per application": f"{np.mean([shared.of(sources) for sources in bought]):.2f} EUR",
    }
pd.DataFrame(rows).T

# %%
# The list with shared fees knows that a second report costs 0.30 EUR once the file is open, and
# asks for it where the first leaves a doubt. The other list believes that it costs 2.30 EUR, and
# turns to the employer instead, who has less to say: it answers fewer applications, for more money.
# The front shows the same, source by source:

display = SourcesDisplay.from_search(searches["shared fees"])

# %%
# How applications go through it
# ------------------------------

search = searches["shared fees"]
display = FlowDisplay.from_decisions(search.decide(X.iloc[fresh]), search, y=y[fresh])

# %%
# What to do with it
# ------------------
#
# Look at which rejected applications are worth a person's time: the summary above the picture says
# how many of those who would have been granted a loan got no answer. ``max_rejected`` bounds that
# (:doc:`/gallery/plot_unequal_harms`). And whoever is refused may ask why: ``decide(X,
# factors=True)`` gives each decision what its features contributed (:doc:`/guard-and-monitor`).
