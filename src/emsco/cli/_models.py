"""What a run folder or a file holds: a search, or the cascade to decide by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emsco.exceptions import ArtifactError, ColumnsError

if TYPE_CHECKING:
    from emsco import CascadeClassifier, CascadeSearchCV

SEARCH = "search.emsco"
MODEL = "model.emsco"


def load_search(run: Path, trusted: Sequence[str] | None = None) -> CascadeSearchCV:
    """Load the search of a run."""
    return as_search(load_any(run, trusted), run)


def as_search(model: Any, run: Path) -> CascadeSearchCV:
    """Refuse what is no search."""
    from emsco import CascadeSearchCV

    if not isinstance(model, CascadeSearchCV):
        raise ArtifactError(
            f"{run} holds no search; name the folder that `emsco search --out` wrote."
        )
    return model


def load_cascade(path: Path, trusted: Sequence[str] | None = None) -> CascadeClassifier:
    """Load the cascade of a run, of a file, or the one that a search has chosen."""
    from emsco import CascadeClassifier

    model = load_any(path / MODEL if path.is_dir() else path, trusted)
    model = getattr(model, "best_cascade_", model)
    if not isinstance(model, CascadeClassifier):
        raise ArtifactError(f"{path} holds no cascade to decide by.")
    return model


def file_of(path: Path) -> Path:
    """Name the file, or the search of a run folder."""
    return path / SEARCH if path.is_dir() else path


def load_any(path: Path, trusted: Sequence[str] | None = None) -> Any:
    """Load a file, or the search of a run folder."""
    from emsco import load

    if path.is_dir() and not file_of(path).exists():
        raise ArtifactError(
            f"{path} has no {SEARCH}; it is not a folder that `emsco search --out` wrote."
        )
    with telling_trust():
        return load(file_of(path), trusted=trusted or ())


@contextmanager
def telling_trust() -> Iterator[None]:
    """Say by which option a file is trusted."""
    try:
        yield
    except ArtifactError as error:
        told = str(error).replace("pass trusted=", "name them by --trust: ")
        raise ArtifactError(told) from error


def read_fresh(model: Any, path: Path, label: str) -> Any:
    """Read rows that a model has not seen, each column and the label as the model knows them."""
    from emsco import CascadeClassifier
    from emsco.cli._frames import read_labelled

    if isinstance(model, CascadeClassifier):
        encodings, names = model._encoding, list(model._missing_seen)
    else:
        encodings, names = model._training.encodings, list(model._training.missing)
    return read_labelled(path, label, names, encodings=encodings, classes=model.classes_)


def read_optional(model: Any, fresh: Path | None, label: str | None) -> tuple[Any, Any]:
    """Read fresh rows where a file of them is named; its label must be too."""
    if fresh is None and label is None:
        return None, None
    if fresh is None or label is None:
        raise ColumnsError("--fresh names a file and --label its column of labels; give both.")
    X, y = read_fresh(model, fresh, label)
    return X, y
