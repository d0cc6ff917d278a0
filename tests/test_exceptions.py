"""Errors have one root, survive pickling, and say what to install."""

from __future__ import annotations

import pickle

import pytest

from emsco import exceptions
from emsco.exceptions import (
    Code,
    EmscoError,
    EmscoWarning,
    Keyword,
    Message,
    MissingExtraError,
    Parameter,
    ValuesError,
    quoted,
    require,
)


def test_every_error_has_one_root():
    errors = [e for e in vars(exceptions).values() if isinstance(e, type)]
    named = [e for e in errors if issubclass(e, Exception) and not issubclass(e, Warning)]
    assert len(named) >= 9
    assert all(issubclass(error, EmscoError) for error in named)
    warned = [e for e in errors if issubclass(e, Warning)]
    assert len(warned) >= 3
    assert all(issubclass(warning, EmscoWarning) for warning in warned)


def test_an_error_keeps_its_place_through_pickle():
    """Workers in other processes send their errors home."""
    error = pickle.loads(pickle.dumps(ValuesError("bad", row=3, column="age")))
    assert (str(error), error.row, error.column) == ("bad", 3, "age")


def test_a_message_keeps_its_parts():
    """Through sums, errors, warnings and pickle; the first parameter is the one it is about."""
    message = "Give " + Parameter("cv") + f" or {1 + 1} of " + Keyword("caution", 0) + "."
    assert message == "Give `cv` or 2 of caution=0."
    for made in (ValuesError(message, value=9), EmscoWarning(message, value=9)):
        again = pickle.loads(pickle.dumps(made))
        assert (str(again), again.parameter, again.value) == (message, "cv", 9)
        assert [type(part) for part in again.message.parts] == [str, Parameter, str, Keyword, str]
    lines = Message("\n").join(["a", Code("f()"), message])
    assert lines == f"a\nf()\n{message}"
    assert lines.parts[2:4] == (Code("f()"), "\n")
    assert EmscoError("plain").parameter is None
    assert EmscoError("plain", parameter="y", value=1).parameter == "y"


def test_a_missing_module_is_answered_with_its_extra():
    with pytest.raises(MissingExtraError, match=r"pip install 'emsco\[plot\]'"):
        require("no_such_module", "plot")
    with pytest.raises(ImportError, match="pip install 'no_such_module'"):
        require("no_such_module.inner")


def test_long_lists_are_cut():
    assert quoted(["a", "b"]) == "'a', 'b'"
    assert quoted(range(10), most=2) == "0, 1 and 8 more"
