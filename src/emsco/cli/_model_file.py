"""Loading of searches and cascades from run folders and files, with their ledgers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emsco._utils.progress import tell
from emsco.cli._errors import note
from emsco.exceptions import ArtifactError, ColumnsError

if TYPE_CHECKING:
    from emsco import CascadeClassifier, CascadeSearchCV
    from emsco.cli._table_file import TableFile

SEARCH = "search.emsco"
MODEL = "model.emsco"
LEDGER = "ledger.jsonl"


def load_search(run: Path, trusted: Sequence[str] | None = None) -> CascadeSearchCV:
    """Load the search of a run, with its ledger."""
    return as_search(load_with_ledger(run, trusted), run)


def load_with_ledger(path: Path, trusted: Sequence[str] | None = None) -> Any:
    """Load a file, or the search of a run folder, with its ledger."""
    from emsco.certify import keep_ledger

    model = load_any(path, trusted)
    keep_ledger(model, ledger_of(path))
    return model


def ledger_of(path: Path) -> Path:
    """Return the path of the ledger: one per run folder, or one beside a single model."""
    folder = path if path.is_dir() else path.parent
    if path.is_dir() or (path.name in (SEARCH, MODEL) and (folder / SEARCH).exists()):
        return folder / LEDGER
    return path.with_name(f"{path.name}.ledger")


def keep_beside_rows(model: Any, rows: Path) -> None:
    """Keep the ledger of a model also beside its rows, and consult the other ledgers there.

    Other models then find the questions asked on these rows, and on copies with other columns.
    """
    from emsco.certify import keep_ledger
    from emsco.rows.ledger import consult_ledger

    if not (rows.is_file() or rows.is_dir()):  # a pipe has nothing beside it
        return
    beside = rows.resolve()
    for other in sorted(beside.parent.glob("*.ledger")):
        consult_ledger(other)
    own = beside.with_name(f"{beside.name}.ledger")
    if os.access(own if own.exists() else beside.parent, os.W_OK):
        keep_ledger(model, own)
    else:
        note(f"{own} cannot be written, so questions are recorded beside the model only.")


def as_search(model: Any, run: Path) -> CascadeSearchCV:
    """Return the model if it is a search."""
    from emsco import CascadeSearchCV

    if not isinstance(model, CascadeSearchCV):
        raise ArtifactError(
            f"{run} does not contain a search; give the folder written by `emsco search --out`."
        )
    return model


def load_cascade(path: Path, trusted: Sequence[str] | None = None) -> CascadeClassifier:
    """Load the cascade of a run or a file, or the one that a search has chosen."""
    from emsco import CascadeClassifier

    model = load_any(model_file(path), trusted)
    model = getattr(model, "best_cascade_", model)
    if not isinstance(model, CascadeClassifier):
        raise ArtifactError(f"{path} does not contain a cascade.")
    return model


def file_of(path: Path) -> Path:
    """Return the file itself, or the search of a run folder."""
    return path / SEARCH if path.is_dir() else path


def model_file(path: Path) -> Path:
    """Return the file itself, or the model of a run folder."""
    return path / MODEL if path.is_dir() else path


def load_any(path: Path, trusted: Sequence[str] | None = None) -> Any:
    """Load a file, or the search of a run folder."""
    from emsco import load

    if path.is_dir() and not file_of(path).exists():
        raise ArtifactError(
            f"{path} has no {SEARCH}; it is not a folder written by `emsco search --out`."
        )
    tell(f"load {file_of(path).name}")
    return load(file_of(path), trusted=trusted or ())


def read_fresh(model: Any, rows: TableFile, label: str | None) -> Any:
    """Read rows that a model has not seen, with the types that the model knows.

    Columns that it knows but does not use are read if the file has them, because rows are
    recognized by them too. Without a label, a column may hold the answers of the final model. A
    search for agreement with its final model takes no label.
    """
    from emsco import CascadeClassifier
    from emsco.cli._labelled_frame import read_features, read_labelled

    if label is not None:
        _refuse_needless(model, label)
    if isinstance(model, CascadeClassifier):
        layout, readers = model.decider_.layout, model.decider_.readers
    else:
        layout, readers = model.found_.layout, model.found_.stages.readers
    held = set(rows.names) - {label}
    names = [name for name in layout.names if name in readers or name in held]
    known = {"readers": readers, "classes": model.classes_}
    if label is not None:
        return read_labelled(rows, label, names, **known)
    if layout.answers is None:
        return read_features(rows, names, readers=readers), None
    X, answered = read_labelled(rows, layout.answers, names, **known)
    return X.assign(**{layout.answers: answered}), None


def read_optional(
    model: Any,
    fresh: Path | None,
    label: str | None,
    *,
    newlines_in_cells: bool,
    stake: str | None = None,
) -> tuple[Any, Any]:
    """Read the rows of --fresh, if it is set; it needs --label if the model needs labels.

    The column `stake` is read with those of the model.
    """
    from emsco.cli._labelled_frame import read_features
    from emsco.cli._table_file import open_rows
    from emsco.core.value_type import NUMBER_TYPE

    if stake is not None and fresh is None:
        raise ColumnsError("--stake is a column of --fresh; give both options.")

    if label is not None:
        _refuse_needless(model, label)
    if fresh is None and label is None:
        return None, None
    if fresh is None or (label is None and model.needs_labels):
        raise ColumnsError("--fresh needs --label, the column of its labels; give both options.")
    keep_beside_rows(model, fresh)
    rows = open_rows(fresh, newlines_in_cells=newlines_in_cells)
    X, y = read_fresh(model, rows, label)
    if stake is not None and stake not in X:
        more = read_features(rows, [stake], types={stake: NUMBER_TYPE}, again=True)
        X = X.assign(**{stake: more[stake].to_numpy()})
    return X, y


def _refuse_needless(model: Any, label: str) -> None:
    """Refuse a label if the answers of the final model are the truth."""
    if not getattr(model, "needs_labels", True):
        raise ColumnsError(
            f"A search for agreement takes no --label, because the answers of its final model are "
            f"the truth; got {label!r}."
        )
