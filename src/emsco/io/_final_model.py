"""Existing models in files: as skops files, with a list of trusted types, or as ONNX."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from emsco.exceptions import ArtifactError, Keyword, ModelError, require
from emsco.learners.final_model import OnnxModel


def load_final(path: str | os.PathLike[str], *, trusted: Sequence[str] = ()) -> Any:
    """Load a model to be used as the last stage, from a `.onnx` file or a skops file.

    Parameters
    ----------
    path : str or path
        The file.
    trusted : sequence of str, default=()
        Types that may be loaded although skops does not trust them by default. The error message
        names the types that a file needs.

    Raises
    ------
    ArtifactError
        If the file needs types to be trusted.
    ModelError
        If the file cannot be read, or does not hold a model with `predict`.

    Examples
    --------
    >>> from emsco.io import load_final
    >>> load_final("no such file")
    Traceback (most recent call last):
    emsco.exceptions.ModelError: no such file cannot be read: No such file or directory.
    """
    name = os.fspath(path)
    if name.endswith(".onnx"):
        return OnnxModel(name)
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise ModelError(f"{name} cannot be read: {error.strerror}.") from error
    skops = require("skops.io", "skops")
    try:
        unknown = set(skops.get_untrusted_types(data=content)) - set(trusted)
    except Exception as error:  # any file can be given
        raise ModelError(
            f"{name} is not a model that emsco can read: {error}. Save the model with "
            "skops.io.dump(model, ...) or as ONNX."
        ) from error
    if unknown:
        raise ArtifactError(
            f"{name} holds types that skops does not trust by default; if you know who wrote it, "
            "and only then, pass " + Keyword("trusted", sorted(unknown)) + "."
        )
    try:
        model = skops.loads(content, trusted=list(trusted))
    except Exception as error:  # as above
        raise ModelError(f"{name} cannot be loaded by skops: {error}.") from error
    if not hasattr(model, "predict"):
        raise ModelError(f"{name} holds a {type(model).__name__}, which has no `predict`.")
    return model
