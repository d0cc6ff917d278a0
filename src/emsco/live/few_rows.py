"""A few rows of a live cascade, mostly a single one, decided one by one without the decision loop.

They are judged by the same numbers, from the same batches. If one of them is unusual, such as a row
without values, all are left to the loop, which takes from the call what was fetched: nothing is
fetched twice.

The values of a row that comes over a network are checked more strictly than those of a table, so
only floats, integers and texts are taken here.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from emsco.cascade import Decider
from emsco.cascade.one_row import Judged
from emsco.core.decisions import ACCEPTED, LOW_CONFIDENCE, Decisions
from emsco.live.call import Call
from emsco.live.live_plan import LivePlan
from emsco.live.purchases import KNOWN, Purchase, PurchaseBatch, Receipts
from emsco.rows.columns import object_array

# For more rows, arrays are soon faster: from about 20 guarded texts or 50 numbers on.
MOST_ROWS = 16


def decide_known_rows(
    terms: LivePlan, known: Mapping[str, list[Any]], receipts: Receipts
) -> Decisions | None:
    """Decide rows whose values the caller has all sent; None if that is not so, or one is unusual.

    Nothing is fetched, so that it needs no call.
    """
    if not terms.every_feature <= known.keys():
        return None
    begin, n_rows = time.monotonic(), len(receipts)
    judged = []
    for row in range(n_rows):
        own = {feature: values[row] for feature, values in known.items()}
        one = terms.decider.one_row.judge(own, strictly=True)
        if one is None:
            return None
        judged.append(one)
    waited, now = time.monotonic() - begin, time.time()
    for stage in range(max(one.exit_stage for one in judged) + 1):
        rows = [row for row, one in enumerate(judged) if one.exit_stage >= stage]
        n = len(rows)
        for source in terms.requirements[stage]:
            values = {name: [known[name][row] for row in rows] for name in terms.features[source]}
            batch = PurchaseBatch(values, [ACCEPTED] * n, [KNOWN] * n, [0.0] * n, [True] * n)
            receipts.purchases.append(Purchase(batch, source, stage, rows, waited, now))
    return _decided(terms.decider, judged, [0.0] * n_rows, [waited] * n_rows)


async def decide_fetched_rows(decider: Decider, call: Call, n_rows: int) -> Decisions | None:
    """Decide the rows of a call, stage by stage; None if the decision loop must decide them."""
    one_row = decider.one_row
    values, rows = [one_row.places() for _ in range(n_rows)], [*range(n_rows)]
    judged: dict[int, Judged] = {}  # the first stage judges all rows, in order
    cost, latency = [0.0] * n_rows, [0.0] * n_rows
    for stage in range(len(decider.plan.stages)):
        if not rows:
            break
        batches, waited = await call.fetch(stage, rows)
        for place, row in enumerate(rows):
            own = call.row(batches, place)
            one = own and one_row.judge_stage(stage, own, values[row], strictly=True)
            if not one:
                return None
            judged[row] = one
            paid = 0.0
            for batch in batches.values():  # added up in the order of the loop
                paid += batch.paid[place]
            cost[row] += paid
            latency[row] += waited
        call.report_valid(rows, batches)
        rows = [row for row in rows if not judged[row].accepted]
    return _decided(decider, judged.values(), cost, latency)


def _decided(
    decider: Decider, judged: Iterable[Judged], cost: list[float], latency: list[float]
) -> Decisions:
    winner, confidence, share, accepted, exit_stage = map(list, zip(*judged, strict=True))
    reason = None
    if not all(accepted):  # to derive it later would take longer
        reason = object_array([ACCEPTED if one else LOW_CONFIDENCE for one in accepted])
    return Decisions.trusted(
        label=decider.classes.take(winner),
        accepted=np.array(accepted),
        exit_stage=np.array(exit_stage),
        confidence=np.array(confidence),
        cost=np.array(cost),
        reason=reason,
        latency=np.array(latency),
        share=None if decider.plan.rule.is_equal else np.array(share),
    )
