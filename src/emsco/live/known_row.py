"""One row whose values the caller has all sent: decided at once, as nothing must be fetched."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from emsco.core.decisions import Decisions
from emsco.live.live_plan import LivePlan
from emsco.live.purchases import PurchaseBatch, Receipts


def decide_known_row(
    terms: LivePlan,
    known: Mapping[str, list[Any]],
    receipts: Receipts,
) -> Decisions | None:
    """Decide the row; None if a value is missing or unusual, and the decision loop must look at it.

    The values of a row that comes over a network are checked more strictly than those of a table,
    so only floats, integers and texts are taken here.
    """
    if not terms.every_feature <= known.keys():
        return None
    decider, begin = terms.decider, time.monotonic()
    row = {feature: values[0] for feature, values in known.items()}
    judged = decider.one_row.judge(row, strictly=True)
    if judged is None:
        return None
    waited, now = time.monotonic() - begin, time.time()
    for stage in range(judged.exit_stage + 1):
        for source in terms.requirements[stage]:
            values = {feature: known[feature] for feature in terms.features[source]}
            receipts.answers.append(
                PurchaseBatch.known_row(values, source=source, stage=stage, waited=waited, now=now)
            )
    share = None if decider.plan.rule.is_equal else np.array([judged.share])
    return Decisions.trusted(
        label=decider.classes.take([judged.winner]),
        accepted=np.array([judged.accepted]),
        exit_stage=np.array([judged.exit_stage]),
        confidence=np.array([judged.confidence]),
        cost=np.zeros(1),
        reason=None,
        latency=np.array([waited]),
        share=share,
    )
