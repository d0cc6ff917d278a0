"""Problems with costs: public tables with the prices of their columns, and one made to measure.

The loaders read a folder of the user's: the argument `folder`, or else the environment variable
`EMSCO_DATA`. Nothing is downloaded. A file is CSV with a header, the label last and an empty cell
where a value is missing; one whose sha256 is not the known one is refused, because another table
would give other figures without a word. X is a pandas DataFrame, so the loaders need pandas.
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
