"""
Which messages need the transformer?
====================================

A sentence transformer, with a classifier behind it, says which text messages are spam. You trust
it, and it takes twenty milliseconds of a core for every message. Counting words takes half of one.
Which messages can be answered without the transformer, if its decisions are to stay as they are?

The messages are those of the SMS Spam Collection: 5,574, of which 5,087 remain when those that
differ in digits, punctuation and case only count as one. The transformer is all-MiniLM-L6-v2. It
was run by ``python -m experiments text``; this page reads what it said, and needs no torch.
"""

# %%
# Three sources, priced in milliseconds
# -------------------------------------
#
# Where computing is the price, the price is measured: the time to compute what a source gives, one
# message after the other. Text is wide, so each source ends in one number, the log-odds of a linear
# classifier: of word counts, of character n-grams, or of the 384 numbers of the embedding.

# sphinx_gallery_thumbnail_path = "images/thumbnails/text_cascade.svg"
from pathlib import Path
from textwrap import fill

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from emsco import CascadeSearchCV, Costs, FlowDisplay, FrontDisplay
from emsco.batch import label_batch, plan_batch
from emsco.certify import certify

here = Path.cwd()
results = next(p for p in (here, *here.parents) if (p / "experiments").is_dir())
results = results / "experiments" / "results"
costs = Costs.from_toml(results / "text_costs.toml")
for source in costs.sources:
    print(f"{source.name:10} {source.cost:6.2f} {costs.unit}")

# %%
# The classifier of the transformer was fitted on 1,000 labelled messages and stays as it is. The
# two cheap ones learned from its answers in a log of 1,587 other messages, without any labels. The
# log itself has the numbers of fits without the own fold, as later messages have them.

kept = np.load(results / "text.npz")
n_log = len(kept["log"])
table = pd.DataFrame(
    {
        "words": kept["words"],
        "characters": kept["characters"],
        "embedding": kept["scores"][np.append(kept["log"], kept["batch"])],
    }
)
log, batch = table[:n_log], table[n_log:].reset_index(drop=True)
batch.head(3).round(2)

# %%
# Stages in front of the model you have
# -------------------------------------
#
# The transformer is the final model: it answers whatever gets to it, and its answers are what is
# right (:doc:`/final-models`).


class Transformer:
    """Says spam where the log-odds of its classifier are positive."""

    def predict(self, X):
        """Return the answer for each message."""
        return np.where(X["embedding"] > 0, "spam", "ham")


search = CascadeSearchCV(costs=costs, final=Transformer(), target="agreement", random_state=0)
search.fit(log)
search.choose(min_accuracy=0.98)
display = FrontDisplay.from_search(search)

# %%
# Every dot is a cascade, with its milliseconds per message and the share of messages on which it
# says what the transformer says. They are selected figures of the log, and promise nothing.
#
# A batch that is there
# ---------------------
#
# The 2,500 other messages wait to be labelled. At most 1% of the labels may differ from what the
# transformer would say. How many calls will that take? The plan rests on how sure the cheap stages
# are; nothing has been sent yet:

plan = plan_batch(search, batch, agreements=[0.95, 0.98, 0.99], confidences=[0.9, 0.99])
display = plan.plot()

# %%
# Random checks are sent first, then all messages below the place where too many of the checks were
# wrong. So the promise assumes nothing, neither of the messages nor of the cascade
# (:doc:`/labelling`):

labels = label_batch(search, batch, Transformer(), agreement=0.99)
print(fill(labels.sentence, 80))
print(f"{labels.n_calls:,} calls in {labels.rounds} rounds: {labels.avoided:.1%} avoided")
wrong = (labels.labels != Transformer().predict(batch)).sum()
print(f"{wrong} labels differ, of {labels.promises[0].most} that may")

# %%
# Messages that will come
# -----------------------
#
# A certificate is for messages that are not there yet. The transformer is asked about 500 of them,
# and it says what holds for others that are like these:

certificate = certify(search, batch[:500], agreement=0.98, confidence=0.9)
print(fill(certificate.sentence, 80))

# %%
# The cheapest certified cascade decides the others:

cascade = search.cascade(certificate.select(by="cost").candidate)
rest = batch[500:]
decisions = cascade.decide(rest)
print(f"{decisions.cost.mean():.2f} ms instead of {costs.of(['embedding']):.2f} per message")
display = FlowDisplay.from_decisions(decisions, cascade, y=Transformer().predict(rest))

# %%
# Beside BARGAIN
# --------------
#
# BARGAIN (SIGMOD 2026, ``pip install bargain``) labels a batch by two models, with the same promise
# as spot checks: the share of messages that end with the transformer's answer, those that it gave
# itself included. In each of 200 draws, messages are divided anew into a log of 1,587 and a batch
# of 2,500, and the cheap model, which sees words and characters, is fitted anew on the log. All
# work with its scores. *Held out*: 500 rows of the log fit nothing, and serve as free checks; this
# assumes that log and batch are alike. *Certificate*: as many messages as it plans are sent, and
# the rest is decided by the cheapest certified cascade.

draws = pd.read_csv(results / "text.csv", comment="#")
n_batch = len(batch)
methods = {
    "walk": "spot checks",
    "logged": "spot checks, held out",
    "bargain": "BARGAIN",
    "same": "certificate",
}
lines = []
for (target, confidence), asked in draws.groupby(["target", "confidence"]):
    for method, name in methods.items():
        own = asked.filter(like=f"{method}_").rename(columns=lambda c: c.split("_")[1])
        avoided = 100 * (1 - own.calls / n_batch)
        line = {
            "agreement": target,
            "confidence": confidence,
            "method": name,
            "calls avoided %": f"{avoided.mean():.1f} ± {avoided.sem():.1f}",
            "avoided": avoided.mean(),
            "checks": own.calibration.mean(),
            "none avoided": (own.calls == n_batch).sum(),
            "promise broken": (own.unlike / n_batch > 1 - target + 1e-9).sum(),
        }
        lines.append(line)
shown = pd.DataFrame(lines)
view = shown[["method", "calls avoided %", "none avoided", "promise broken"]]
view.set_index([shown.agreement, shown.confidence])

# %%
# Calls avoided have their standard error; "none avoided" counts draws in which the transformer
# answered everything. Of 200 draws, about 20 may break the promise at a confidence of 0.9, and 2 at
# 0.99. Calls of the transformer, in percent of the batch:

figure, panels = plt.subplots(1, 2, sharey=True, figsize=(9, 4.8), layout="constrained")
for panel, (confidence, own) in zip(panels, shown.groupby("confidence"), strict=True):
    places = np.arange(len(own)) + np.arange(len(own)) // len(methods)
    calls, checks = 100 - own.avoided, 100 * own.checks / n_batch
    panel.barh(places, checks, color="#225588", label="checks")
    panel.barh(places, calls - checks, left=checks, color="#e69f00", label="afterwards")
    panel.set_yticks(places, own.agreement.map("{:g}  ".format) + own.method)
    panel.set(title=f"confidence {confidence:g}", xlabel="calls of the transformer, %")
    panel.spines[["top", "right"]].set_visible(False)
panels[0].invert_yaxis()
panels[1].legend(frameon=False)
figure.show()

# %%
# Which one to use
# ----------------
#
# - **A batch that is there:** spot checks. They avoid more calls than BARGAIN at every agreement
#   and confidence, and need two rounds of calls where it looks after every ten.
# - **A log that is whole:** hold a part of it out. It saves most of what is left, if log and batch
#   are alike.
# - **Messages that will come:** a certificate. It is worth less for one batch, since it must also
#   hold for the next, but nothing is sent again until a :doc:`monitor </guard-and-monitor>` says
#   that it should be.
#
# One table shows one thing. These messages are not hard: the transformer is right on 97.8% of those
# that it was not fitted on, and the cheap classifiers would be right on 96.8% and 97.0% if they
# were fitted on the same labels. Where the cheap model is worse, all methods avoid less.
