"""Label a batch as an expensive model would: spot checks with an exact promise."""

from emsco.batch.batch_labels import BatchLabels, BatchPromise
from emsco.batch.batch_plan import BatchPlan, plan_batch
from emsco.batch.label import label_answers, label_batch

__all__ = [
    "BatchLabels",
    "BatchPlan",
    "BatchPromise",
    "label_answers",
    "label_batch",
    "plan_batch",
]
