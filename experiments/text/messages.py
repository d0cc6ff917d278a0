"""The SMS Spam Collection without repeated messages, and how a draw divides it."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from emsco.exceptions import DatasetError

FILE = "sms_spam.csv.gz"
_SHA256 = "3aacea68de8db76b91fb3312a70e7d7ccd84cce6accb3d9c975233f471f73b06"
HEAD = 1_000  # labelled messages that the classifier of the dear model is fitted on
BATCH = 2_500  # messages that a draw processes; the others are the log
_Positions = NDArray[np.intp]


class Messages(NamedTuple):
    """Texts and labels (1 is spam), none of them twice."""

    text: NDArray[np.object_]
    label: NDArray[np.int64]
    n_given: int  # with those that repeat another


class Division(NamedTuple):
    """Positions of messages: those the dear model has answered already, and those to process."""

    log: _Positions
    batch: _Positions


def load() -> Messages:
    """Read the table from the folder that EMSCO_DATA names, and leave out repeated messages.

    Two messages are the same if they differ in digits, punctuation, spaces and case only: spam is
    sent again with another number, and must not be on both sides of a division.
    """
    folder = os.environ.get("EMSCO_DATA")
    get = f"get the SMS Spam Collection (UCI 228) as a CSV with text and label (sha256 {_SHA256})"
    if not folder or not (path := Path(folder) / FILE).is_file():
        raise DatasetError(f"{FILE} is not there; {get}, and set EMSCO_DATA to its folder.")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != _SHA256:
        raise DatasetError(f"{path} is not the expected table; {get}.")
    table = pd.read_csv(io.BytesIO(gzip.decompress(content)), keep_default_na=False)
    first = ~table["text"].map(letters).duplicated()
    return Messages(
        table["text"][first].to_numpy(dtype=object), table["label"][first].to_numpy(), len(table)
    )


def letters(text: str) -> str:
    """Give the letters of a message, by which it is compared.

    Examples
    --------
    >>> from experiments.text.messages import letters
    >>> letters("Call  08001 NOW!") == letters("call 08002 now")
    True
    """
    return re.sub(r"[\W\d_]+", " ", text.lower()).strip()


def head(n_messages: int) -> _Positions:
    """Draw the labelled messages of the dear model, which no draw uses."""
    return np.sort(np.random.default_rng(0).permutation(n_messages)[:HEAD])


def others(n_messages: int) -> _Positions:
    """Give the messages that draws divide."""
    return np.setdiff1d(np.arange(n_messages), head(n_messages))


def divide(positions: _Positions, draw: int, n_batch: int = BATCH) -> Division:
    """Divide messages at random; the first of a batch are those that are calibrated on."""
    order = np.random.default_rng([1, draw]).permutation(positions)
    return Division(order[n_batch:], order[:n_batch])
