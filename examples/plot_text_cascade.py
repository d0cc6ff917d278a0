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
# says what the transformer says. They are selected figures of the log, and promise nothing. So the
# transformer is asked about 500 more messages, and a certificate says what holds for others:

certificate = certify(search, batch[:500], agreement=0.98, confidence=0.9)
print(fill(certificate.sentence, 80))

# %%
# The cheapest certified cascade decides the other 2,000 messages:

cascade = search.cascade(certificate.select(by="cost").candidate)
rest = batch[500:]
decisions = cascade.decide(rest)
answers = Transformer().predict(rest)
print(f"{decisions.cost.mean():.2f} ms instead of {costs.of(['embedding']):.2f} per message")
print(f"{(decisions.label == answers).mean():.2%} of the decisions are the transformer's")
display = FlowDisplay.from_decisions(decisions, cascade, y=answers)

# %%
# Beside BARGAIN
# --------------
#
# BARGAIN (SIGMOD 2026, ``pip install bargain``) is a cascade of two models with the same aim. The
# comparison has 200 draws. In each, messages are divided anew into a log of 1,587 and a batch of
# 2,500 to be processed, and the cheap stages are fitted anew. *Three stages* is the cascade above.
# *Two stages* has the cheap model that BARGAIN is given, which sees words and characters; so these
# two work with the same scores, the same target and the same confidence.
#
# Agreement means the same to both: the share of messages that end with the transformer's answer,
# those that it gave itself included. Every call counts, also those for calibration. emsco plans
# its calibration rows from the figures of the log, before it sees any; BARGAIN has its defaults.

draws = pd.read_csv(results / "text.csv", comment="#")
n_batch = len(batch)
methods = {"cascade": "three stages", "same": "two stages", "bargain": "BARGAIN"}
lines = []
for (target, confidence), asked in draws.groupby(["target", "confidence"]):
    for method, name in methods.items():
        own = asked.filter(like=f"{method}_").rename(columns=lambda c: c.split("_")[1])
        rest = n_batch - own.calibration
        avoided = 100 * (1 - own.calls / n_batch)
        line = {
            "agreement": target,
            "confidence": confidence,
            "method": name,
            "calibration rows": own.calibration.mean(),
            "calls avoided %": avoided.mean(),
            "standard error": avoided.sem(),
            "of the rest %": 100 * (1 - (own.calls - own.calibration) / rest).mean(),
            "none avoided": (own.calls == n_batch).sum(),
            "ms per message": own.ms.mean(),
            "promise broken": (own.unlike / n_batch > 1 - target + 1e-9).sum(),
            "rest below": (own.changed / rest > 1 - target + 1e-9).sum(),
            "lowest of a batch %": 100 * (1 - own.changed.max() / n_batch),
        }
        lines.append(line)
shown = pd.DataFrame(lines)
is_bargain = shown.method == "BARGAIN"  # it chooses its calibration rows: the rest tells nothing
view = pd.DataFrame(
    {
        "method": shown.method,
        "calibration rows": shown["calibration rows"].round().astype(int),
        "calls avoided %": [
            f"{mean:.1f} ± {error:.1f}"
            for mean, error in zip(shown["calls avoided %"], shown["standard error"], strict=True)
        ],
        "of the rest %": shown["of the rest %"].round(1),
        "none avoided": shown["none avoided"],
        "ms": shown["ms per message"].round(2),
        "promise broken": shown["promise broken"],
        "rest below": shown["rest below"].astype(str).mask(is_bargain, "-"),
    }
)
view.set_index([shown.agreement, shown.confidence])

# %%
# How to read it: calls avoided have their standard error, "of the rest" are the messages that
# were not calibrated on, and "none avoided" counts draws in which emsco could certify nothing, so
# that the transformer answered everything. emsco promises what holds for all messages that the
# calibration rows were drawn from, BARGAIN what holds for the batch it gives back; "promise
# broken" counts draws in which this was not so. Of 200 draws, 20 may be such at a confidence of
# 0.9, and 2 at 0.99; none of 200 leaves room for a true share of up to 1.8%. "Rest below" counts
# draws in which the rest of the batch alone agreed less than promised. This happens more often:
# where the calibration rows were lucky, the rest of the same batch is not.
# Calls of the transformer, in percent of the batch:

figure, panels = plt.subplots(1, 2, sharey=True, figsize=(9, 4.4), layout="constrained")
for panel, (confidence, own) in zip(panels, shown.groupby("confidence"), strict=True):
    places = np.arange(len(own)) + np.arange(len(own)) // len(methods)
    calls = 100 - own["calls avoided %"]
    calibration = 100 * own["calibration rows"] / n_batch
    panel.barh(places, calibration, color="#225588", label="to calibrate")
    panel.barh(places, calls - calibration, left=calibration, color="#e69f00", label="afterwards")
    panel.set_yticks(places, own.agreement.map("{:g}  ".format) + own.method)
    panel.set(title=f"confidence {confidence:g}", xlabel="calls of the transformer, %")
    panel.spines[["top", "right"]].set_visible(False)
panels[0].invert_yaxis()
panels[1].legend(frameon=False)
figure.show()

# %%
# Who is better at what
# ---------------------
#
# Both keep their promises. With the same scores, emsco avoids more calls for an agreement of 0.95.
# For 0.98, BARGAIN is ahead by one or two points, no more than chance explains. For 0.99 it is
# ahead by eight or nine points: if you have one batch and want that much agreement, use BARGAIN.
#
# - **Calibration.** BARGAIN looks after every ten calls and stops as soon as it is sure. emsco says
#   beforehand how many rows it will take, about twice as many; if it is refused, all were in vain.
# - **Afterwards.** BARGAIN tries twenty thresholds in order, and ends at the first that it cannot
#   show to be good enough. emsco tests the whole front and takes the cheapest that is certified. So
#   it asks less often once it is certified.
# - **The next batch.** BARGAIN promises nothing about it and begins again. A certificate holds for
#   messages of the same kind, whenever they come: nothing is calibrated again, until a
#   :doc:`monitor </guard-and-monitor>` says that it should be.
# - **Milliseconds.** Calls are not all that is paid. Three stages make a few more calls than two,
#   but most messages leave after the word counts, so that they cost least for 0.95.
#
# One table shows one thing. These messages are not hard: the transformer is right on 97.8% of those
# that it was not fitted on, and the cheap classifiers would be right on 96.8% and 97.0% if they
# were fitted on the same labels. Where the cheap model is worse, both methods avoid less.
