"""Arrow as the seam to other engines: record batches in, decisions out; data sets by parts."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from emsco._utils.public_names import lazy
from emsco.exceptions import require

if TYPE_CHECKING:
    from emsco.arrow.batches import FIELDS as FIELDS
    from emsco.arrow.batches import decide_batches as decide_batches
    from emsco.arrow.batches import decision_schema as decision_schema
    from emsco.arrow.dataset_url import file_system_of as file_system_of
    from emsco.arrow.dataset_url import is_url as is_url
    from emsco.arrow.dataset_url import open_dataset as open_dataset
    from emsco.rows.dataset_blocks import sample_rows as sample_rows
    from emsco.rows.dataset_parts import BatchReader as BatchReader
    from emsco.rows.dataset_parts import DatasetPart as DatasetPart
    from emsco.rows.dataset_parts import parts_of as parts_of

if find_spec("pyarrow") is None:
    require("pyarrow", "arrow")  # says what to install

# Loaded when asked for: commands that only open files must not wait for scikit-learn.
NAMES = {
    "FIELDS": "arrow.batches",
    "DatasetPart": "rows.dataset_parts",
    "BatchReader": "rows.dataset_parts",
    "decide_batches": "arrow.batches",
    "decision_schema": "arrow.batches",
    "file_system_of": "arrow.dataset_url",
    "is_url": "arrow.dataset_url",
    "open_dataset": "arrow.dataset_url",
    "parts_of": "rows.dataset_parts",
    "sample_rows": "rows.dataset_blocks",
}

__all__ = sorted(NAMES)
__getattr__, __dir__ = lazy(__name__, NAMES)
