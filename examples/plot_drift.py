"""
Has the world changed? A monitor watches a filter that moves
============================================================

A mail filter was fitted in one office: mail that mentions George, the laboratory, or the telephone
prefix is welcome there. Then it is rolled out in another office, where nobody is called George. No
value is invalid, nothing raises an error. Who notices, when, and is the promise broken?

The mail is Spambase, collected at Hewlett-Packard by a George. The words of that office are in it,
and setting them to 0 from some day on is a change that really could have happened. Prices are the
milliseconds that we suppose counting takes.
"""

# %%
# A filter with a promise
# -----------------------
#
# Three parts of the mail: to fit, to :doc:`certify </certificates>`, and the days to come.

# sphinx_gallery_thumbnail_path = "images/thumbnails/drift.svg"
import matplotlib.pyplot as plt
import numpy as np

from emsco import CascadeSearchCV, CertificateMonitor, Costs, Source, evaluate
from emsco.certify import certify
from emsco.datasets import load_spambase

X, label, _ = load_spambase()
order = np.random.default_rng(0).permutation(len(X))
X, y = X.iloc[order].reset_index(drop=True), np.where(label == 1, "spam", "mail")[order]
names = list(X)
costs = Costs(
    [
        Source("words", features=names[:48], cost=8),
        Source("characters", features=names[48:54], cost=1),
        Source("capitals", features=names[54:], cost=1),
    ],
    unit="ms",
)
search = CascadeSearchCV(costs=costs, max_rows=1000, random_state=0).fit(X[:1500], y[:1500])
search.choose(min_accuracy=0.93, min_coverage=0.85)
certificate = certify(search.best_cascade_, X[1500:2700], y[1500:2700], accuracy=0.9)
promise, _, condition = certificate.sentence.partition(". ")[0].partition(", provided")
print(search.best_candidate_.design, f"{promise},", f"provided{condition}.", sep="\n")

# %%
# Nineteen days, and a move after the ninth
# -----------------------------------------
#
# The monitor is given each day's decisions, and the labels of the mail that was accepted. From the
# certificate it knows what to expect: how often answers are right, how many rows are accepted, what
# they cost, and how many reach each stage.

local = ["hp", "hpl", "george", "650", "lab", "labs", "telnet", "857", "415", "85"]
moved = X.assign(**{f"word_freq_{word}": 0.0 for word in local})
monitor = CertificateMonitor.of(certificate, search.best_cascade_, alpha=0.01)
days, evidence = [], []
for day in range(19):
    rows = slice(2700 + 100 * day, 2800 + 100 * day)
    office = X if day < 9 else moved
    decisions = search.decide(office[rows])
    alarms = monitor.decided(decisions)
    alarms += monitor.labelled(range(100 * day, 100 * day + 100), y[rows])
    for alarm in alarms:
        print(f"day {day + 1}: {alarm.message}")
    days.append(evaluate(decisions, y[rows]))
    evidence.append(monitor.evidence)

# %%
# What it saw
# -----------
#
# The evidence against each promise is the wealth of a gambler who bets that it is broken. As long
# as it holds, the bets lose. With ``alpha=0.01``, there is a false alarm in at most one of a
# hundred such monitors, ever.

number = np.arange(1, 20)
figure, (above, below) = plt.subplots(2, figsize=(7.2, 5), sharex=True, layout="constrained")
above.plot(number, [found.accuracy for found in days], "o-", color="#0072B2", label="accuracy")
above.plot(number, [found.coverage for found in days], "s-", color="#222222", label="coverage")
above.axhline(0.9, color="#0072B2", linestyle=":", label="accuracy promised")
above.set(ylim=(0.6, 1), ylabel="share of the day")
above.yaxis.set_major_formatter("{x:.0%}")
styles = {"accuracy": "o#0072B2", "coverage": "s#222222", "cost": "^#999999", "exits": "D#D55E00"}
for what, style in styles.items():
    against = [each[what] for each in evidence]
    below.semilogy(number, against, "-", marker=style[0], color=style[1:], label=what)
below.set(xlabel="day", ylabel="evidence", xticks=number[::2])
for ax in (above, below):
    ax.axvspan(9.5, 19.5, color="#F0F0F0", zorder=0)
    ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    ax.spines[["top", "right"]].set_visible(False)
above.annotate("another office", (9.8, 0.62))

# %%
# The alarm comes on the third day in the other office, from the traffic of the last stage, and not
# from accuracy: the filter does not make more errors, it has become unsure, and says so by
# rejecting more. That is what a reject option is for. It also needs no label to be noticed.

monitor

# %%
# What to do with it
# ------------------
#
# An alarm says that rows are no longer like those of the certificate; from now on, nothing is
# promised. Look at what changed (here ten columns are always 0, which a guard does not object to,
# because a mail without these words is nothing unusual), fit again with labels of the new office,
# and certify again. :doc:`/guard-and-monitor` says how labels must be drawn for a monitor to be
# right.
