"""Problems with costs: public tables with the prices of their columns, and one made to measure.

The small tables are part of the package. The large ones (`load_kdd`, `load_nslkdd` and
`load_covtype`) are read from the folder that the argument `folder` or the environment variable
`EMSCO_DATA` names; the error says where each file is public. Nothing is downloaded. A file is CSV
with a header, the label last and an empty cell where a value is missing; one whose sha256 is not
the known one is refused, because another table would give other figures without a word. X is a
pandas DataFrame, so the loaders need pandas: `pip install 'emsco[cli]'`.

Where the tables come from, and under which licences, is in each loader's docstring and in the file
NOTICE.
"""

from emsco.datasets._files import CostlyData
from emsco.datasets._made import make_costly_classification
from emsco.datasets._public import (
    load_cleveland,
    load_covtype,
    load_credit,
    load_example,
    load_heart,
    load_hepatitis,
    load_kdd,
    load_magic,
    load_nslkdd,
    load_phishing,
    load_pima,
    load_spambase,
    load_thyroid,
)

__all__ = [
    "CostlyData",
    "load_cleveland",
    "load_covtype",
    "load_credit",
    "load_example",
    "load_heart",
    "load_hepatitis",
    "load_kdd",
    "load_magic",
    "load_nslkdd",
    "load_phishing",
    "load_pima",
    "load_spambase",
    "load_thyroid",
    "make_costly_classification",
]
