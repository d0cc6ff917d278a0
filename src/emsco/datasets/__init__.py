"""Data sets with costs: public tables with prices for their columns, and three made ones.

The small tables are part of the package. The large ones (`load_kdd`, `load_nslkdd` and
`load_covtype`) are read from a folder, given by the argument `folder` or the environment variable
`EMSCO_DATA`; if a file is missing, the error says where it is publicly available. Nothing is
downloaded. A file is a CSV file with a header, the label in the last column, and empty cells for
missing values. A file whose sha256 differs from the known one is refused, because another table
would silently give other figures. X is a pandas DataFrame, so the loaders need pandas:
`pip install 'emsco[cli]'`.

The origin of each table and its licence are given in the docstring of its loader and in the file
NOTICE.
"""

from emsco.datasets._loans import make_loans
from emsco.datasets._payments import make_payments
from emsco.datasets._public_tables import (
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
from emsco.datasets._synthetic import make_costly_classification
from emsco.datasets._table_files import CostlyData

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
    "make_loans",
    "make_payments",
]
