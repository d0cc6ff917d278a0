"""
Features from Redis, fetched only where they are needed
=======================================================

A link checker answers requests. It computes the features of an address itself; those of the page
and what a search engine knows of it are in Redis, where other programs keep them up to date. How
many of the 1,000 lookups for 500 requests are needed, and what happens if a key is not there?

The pages are those of Hannousse and Yahiouche; that a lookup costs 30 or 40 is our assumption.
"""

# %%
# A cascade of three stages
# -------------------------
#
# The design is given here; :doc:`/gallery/plot_phishing` searches for one.

# sphinx_gallery_thumbnail_path = "images/thumbnails/redis.svg"
import os

import matplotlib.pyplot as plt
import numpy as np
import redis

from emsco import CascadeClassifier, Costs, StageDesign
from emsco.datasets import load_phishing
from emsco.live import CallableSource, LiveCascade, RedisSource, Sources

X, y, listed = load_phishing()
prices = {source.name: source for source in listed.sources}
costs = Costs([prices[name] for name in ("url", "google_index", "page")])
X = X[list(costs.features)]
order = np.random.default_rng(0).permutation(len(X))
known, requests = order[:2000], order[2000:2500]
design = StageDesign.from_stages([["url"], ["google_index"], ["page"]])
cascade = CascadeClassifier(design=design, costs=costs, threshold=0.9).fit(X.iloc[known], y[known])

# %%
# What the store holds
# --------------------
#
# One hash per source and page, which repeats the key as ``id``: Redis replies by position, and this
# is how a reply is known to be about the row that was asked for. One hash is left out, on purpose.

address = os.environ.get("EMSCO_TEST_REDIS", "redis://127.0.0.1:6379/0")
keys = [f"page-{row}" for row in requests]
values = {
    source.name: X.iloc[requests][list(source.features)].set_axis(keys).to_dict("index")
    for source in costs.sources
}
gone = keys[3]
del values["google_index"][gone]
try:
    with redis.Redis.from_url(address, socket_connect_timeout=2) as store:
        batch = store.pipeline()
        for name in ("google_index", "page"):
            for key, fields in values[name].items():
                batch.hset(f"gallery:{name}:{key}", mapping={"id": key, **fields})
                batch.expire(f"gallery:{name}:{key}", 600)
        batch.execute()
    in_redis = True
    print("The features are in Redis.")
except (redis.ConnectionError, redis.TimeoutError):
    in_redis = False
    print("No Redis answered when this page was built: functions answer in its place.")

# %%
# Decide
# ------
#
# A source says how a key becomes an address in the store, or which function to call. Nothing else
# changes: the cascade decides as it does on a table.


def source_of(name):
    """Describe how a source is fetched: the address is looked at here, the rest is in Redis."""
    if in_redis and name != "url":
        return RedisSource(key=f"gallery:{name}:{{key}}", url=address, key_field="id")
    found = values[name]
    return CallableSource(function=lambda keys, _: {k: found[k] for k in keys if k in found})


live = LiveCascade(cascade, Sources({name: source_of(name) for name in values}))
decisions = live.decide_now(keys)
live.close_now()
decisions.to_frame()[["label", "accepted", "exit_stage", "cost", "reason"]].head(6)

# %%
# The page that is not in the store is rejected, with a reason that names the source. Nothing was
# guessed, and the other rows do not notice. Its receipt:

receipt = decisions[keys.index(gone)].receipt
for fetch in receipt.fetches:
    print(f"stage {fetch.stage}: {fetch.source}, {fetch.reason or fetch.how}")
print(f"not needed: {', '.join(receipt.not_needed)}; saved {receipt.saved:.0f}")

# %%
# What was fetched
# ----------------

needed = {name: sum(name not in d.receipt.not_needed for d in decisions) for name in values}
paid = np.cumsum([decision.receipt.paid for decision in decisions])
_, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.4), layout="constrained")
bars = left.bar(needed.keys(), needed.values(), color=["#D0D0D0", "#0072B2", "#0072B2"], width=0.6)
left.bar_label(bars)
left.set(title="requests that needed it", ylim=(0, 560))
right.plot(paid, color="#0072B2", linewidth=2, label="paid")
right.plot([0, 500], [0, 500 * costs.total], "--", color="#222222", label="everything for all")
right.set(title="cost so far", xlabel="requests", xlim=(0, len(keys)), ylim=(0, None))
right.legend(frameon=False)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)

# %%
# What to do with it
# ------------------
#
# Write the sources down in ``sources.toml``, with addresses in environment variables, and try them
# with ``emsco live compare`` before the first request: it finds values that differ from those in
# training (:doc:`/live`). ``emsco serve`` makes a service of both files (:doc:`/serving`).
