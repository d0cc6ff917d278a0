"""
Which tests does this patient need?
===================================

A heart clinic can ask questions for 4 CAD, and order nine tests for 3 to 103 CAD each. Some tests
share a part of their price: whoever has drawn blood for one value pays only the laboratory for the
second. Which tests should be ordered, in which order, and for whom?

The patients are the 303 of the Cleveland data; the prices are those that Turney published in 1995,
from the fee schedule of Ontario. They are few rows, so everything here is an estimate with a wide
margin. What to do about that is at the end.
"""

# %%
# The price list
# --------------
#
# Turney's list prices each test alone. Nobody asks for a patient's age and not for the sex, so the
# four answers that are there at once become one source, ``questions``. Tests of a group name the
# same *setup*: it is paid once, with the first of them (:doc:`/prices`).

# sphinx_gallery_thumbnail_path = "images/thumbnails/clinic.svg"
import warnings

from sklearn.model_selection import train_test_split

from emsco import (
    CascadeSearchCV,
    Costs,
    FlowDisplay,
    InputGuard,
    Source,
    SourcesDisplay,
    evaluate,
)
from emsco.datasets import load_cleveland
from emsco.exceptions import SelectionWarning

warnings.simplefilter("ignore", SelectionWarning)  # that there are few rows, as said above

X, y, listed = load_cleveland()
setups = {"A": "blood draw", "B": "thallium test", "C": "exercise ECG"}
questions = ["age", "sex", "cp", "trestbps"]
tests = [source for source in listed.sources if source.name not in questions]
costs = Costs(
    [
        Source("questions", features=questions, cost=4),
        *(Source(test.name, cost=test.cost, setup=setups.get(test.setup)) for test in tests),
    ],
    setups={setups[group]: price for group, price in listed.setups.items()},
    unit="CAD",
)
for source in costs.sources:
    shared = f" + {costs.setups[source.setup]:6.2f} {source.setup}" if source.setup else ""
    print(f"{source.name:9} {source.cost:6.2f}{shared}")

# %%
# The second value of an exercise ECG is nearly free:

print(f"slope alone: {costs.of(['slope']):.2f} CAD")
print(f"slope after exang: {costs.of(['slope'], paid=['exang']):.2f} CAD")

# %%
# The search
# ----------
#
# Three stages at most, because a patient does not come back often. A guard, because some values are
# missing: whoever lacks one that nobody lacked in training is rejected, not guessed at. A third of
# the patients is set aside, to see later what the choice is worth.

X_known, X_fresh, y_known, y_fresh = train_test_split(
    X, y, test_size=0.33, stratify=y, random_state=0
)
search = CascadeSearchCV(costs=costs, max_stages=3, guard=InputGuard(), random_state=0)
search.fit(X_known, y_known)
display = SourcesDisplay.from_search(search)

# %%
# From left to right, the candidates of the front grow more expensive. The questions are worth their
# price to nearly all of them. Whoever buys one value of the exercise ECG often takes another, which
# is nearly free then; the thallium test is for those who may spend most.
#
# What the patients go through
# ----------------------------
#
# Without further bounds, the search chooses the cheapest design that, on the patients it was given,
# beats ordering everything in both classes and answers at least 80% (:doc:`/choosing`). This is how
# the patients that were set aside go through it:

decisions = search.decide(X_fresh)
display = FlowDisplay.from_decisions(decisions, search, y=y_fresh)

# %%
# Patients for whom the questions are enough leave at once and pay 4 CAD; the rejected ones have had
# all tests of the design and go to the cardiologist, with the results in hand.

chosen = evaluate(decisions, y_fresh)
everything = evaluate(search.cascade(search.all_sources_).decide(X_fresh), y_fresh)
for name, found in {"this cascade": chosen, "all tests for all": everything}.items():
    figures = f"right on {found.accuracy:.1%} of the {found.coverage:.1%} answered"
    print(f"{name:17}: {figures}, for {found.cost:3.0f} CAD per patient")

# %%
# A hundred patients cannot tell the two apart: each share is known to within some eight points.
# What they do show is the price, and how many are left to the cardiologist.
#
# What to do with it
# ------------------
#
# Before this is used on anybody, collect rows until a :doc:`certificate </certificates>` can be
# given, and bound what must not happen, as :doc:`/gallery/plot_unequal_harms` does: a sick patient
# sent home is not the same as a healthy one who is sent to the cardiologist.
