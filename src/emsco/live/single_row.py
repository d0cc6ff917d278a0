"""A single row of a live cascade, the usual case of a service, decided without the decision loop.

It is judged by the same numbers, from the same batches. What is unusual, such as a row without
values, is left to the loop, which takes from the call what was fetched: nothing is fetched twice.

The values of a row that comes over a network are checked more strictly than those of a table, so
only floats, integers and texts are taken here.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from emsco.cascade import Decider
from emsco.cascade.one_row import Judged
from emsco.core.decisions import ACCEPTED, LOW_CONFIDENCE, Decisions
from emsco.live.call import Call
from emsco.live.live_plan import LivePlan
from emsco.live.purchases import KNOWN, Purchase, PurchaseBatch, Receipts
from emsco.rows.columns import object_array

# By whether the row is accepted: to derive it takes as long as all other fields.
_REASON = {
    accepted: object_array([ACCEPTED if accepted else LOW_CONFIDENCE]) for accepted in (True, False)
}


def decide_known_row(
    terms: LivePlan, known: Mapping[str, list[Any]], receipts: Receipts
) -> Decisions | None:
    """Decide a row whose values the caller has all sent; None if that is not so, or it is unusual.

    Nothing is fetched, so that it needs no call.
    """
    if not terms.every_feature <= known.keys():
        return None
    begin = time.monotonic()
    row = {feature: values[0] for feature, values in known.items()}
    judged = terms.decider.one_row.judge(row, strictly=True)
    if judged is None:
        return None
    waited, now = time.monotonic() - begin, time.time()
    for stage in range(judged.exit_stage + 1):
        for source in terms.requirements[stage]:
            values = {feature: known[feature] for feature in terms.features[source]}
            batch = PurchaseBatch(values, [""], [KNOWN], [0.0], [True])
            receipts.purchases.append(Purchase(batch, source, stage, (0,), waited, now))
    return _decided(terms.decider, judged, 0.0, waited)


async def decide_fetched_row(decider: Decider, call: Call) -> Decisions | None:
    """Decide the only row of a call, stage by stage; None if the decision loop must decide it."""
    one_row, cost, latency = decider.one_row, 0.0, 0.0
    values, judged = one_row.places(), None
    for stage in range(len(decider.plan.stages)):
        batches, waited = await call.fetch(stage, [0])
        row = call.only_row(batches)
        judged = row and one_row.judge_stage(stage, row, values, strictly=True)
        if not judged:
            return None
        call.report_valid(batches)
        paid = 0.0
        for batch in batches.values():  # added up in the order of the loop
            paid += batch.paid[0]
        cost, latency = cost + paid, latency + waited
        if judged.accepted:
            break
    assert judged  # a cascade has a stage
    return _decided(decider, judged, cost, latency)


def _decided(decider: Decider, judged: Judged, cost: float, latency: float) -> Decisions:
    share = None if decider.plan.rule.is_equal else np.array([judged.share])
    return Decisions.trusted(
        label=decider.classes.take([judged.winner]),
        accepted=np.array([judged.accepted]),
        exit_stage=np.array([judged.exit_stage]),
        confidence=np.array([judged.confidence]),
        cost=np.array([cost]),
        reason=_REASON[judged.accepted],
        latency=np.array([latency]),
        share=share,
    )
