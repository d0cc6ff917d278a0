"""Checks of output files, made before anything is read or searched."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from emsco._utils.atomic_write import is_as_it_is, refuse_irregular
from emsco.exceptions import ArtifactError

_STDIN = Path("-")


def check_outputs(
    outputs: Iterable[Path | None], inputs: Iterable[Path | None], *, force: bool
) -> None:
    """Refuse outputs that are inputs or not files, and without `force` those that exist.

    None is an option that is not set, and the input `-` is standard input.
    """
    taken = [path for path in inputs if path is not None]
    for output in outputs:
        if output is None:
            continue
        try:
            refuse_irregular(output)
        except OSError as error:
            raise ArtifactError(f"{output} cannot be written: {error.strerror}.") from error
        if is_as_it_is(output):
            continue
        for path in taken:
            if _is_same(path, output):
                raise ArtifactError(
                    f"{output} would overwrite {path}, which this command also reads or writes; "
                    "choose another file."
                )
        if output.exists() and not force:
            raise ArtifactError(
                f"{output} already exists; choose another name, or use --force to overwrite it."
            )
        taken.append(output)


def refuse_inside(output: Path | None, folder: Path | None) -> None:
    """Refuse an output in the input folder: the next run would read it as rows."""
    if output is None or folder is None or not folder.is_dir():
        return
    if Path(os.path.realpath(output)).is_relative_to(os.path.realpath(folder)):
        raise ArtifactError(
            f"{output} is inside {folder}, which this command reads; write to another folder."
        )


def _is_same(path: Path, output: Path) -> bool:
    """Compare files through links and other spellings, or by name if one does not exist."""
    try:
        return os.path.samefile(0 if path == _STDIN else path, output)
    except OSError:  # one of them does not exist
        return path != _STDIN and os.path.realpath(path) == os.path.realpath(output)
