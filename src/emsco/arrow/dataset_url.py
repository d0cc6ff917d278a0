"""Data sets by where they are: files and folders here, and in the stores that pyarrow knows."""

from __future__ import annotations

import re
from os import PathLike, fspath
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.fs

from emsco.exceptions import ArtifactError, require

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_SECRETS = re.compile(r"//[^/@]*@")


def is_url(source: str | PathLike[str]) -> bool:
    """Say whether a name is a URL, and no path here."""
    return bool(_SCHEME.match(fspath(source)))


def open_dataset(source: str | PathLike[str], *, format: str = "parquet") -> Any:  # noqa: A002
    """Open a file, or a folder with all files below it, as a pyarrow data set.

    Folders named like `year=2024` give a column of that name. Files and folders whose names begin
    with a dot or an underscore are ignored.

    Parameters
    ----------
    source : str or path
        A path, or a URL: `s3://`, `gs://`, `abfs://` and others through pyarrow's file systems, any
        other through fsspec. How they find credentials is theirs to say: usually the environment.
    format : str, default="parquet"
        The format of the files, as pyarrow names it.

    Returns
    -------
    pyarrow.dataset.Dataset
        The data set.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa, pyarrow.dataset
    >>> from emsco.arrow import open_dataset
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = pa.table({"age": [31, 45], "year": [2023, 2024]})
    ...     pa.dataset.write_dataset(
    ...         table, folder, format="parquet", partitioning=["year"], partitioning_flavor="hive"
    ...     )
    ...     open_dataset(folder).schema.names
    ['age', 'year']
    """
    name = fspath(source)
    redacted = _SECRETS.sub("//", name)
    try:
        if is_url(name):
            system, path = file_system_of(name)
        else:
            system, path = pa.fs.LocalFileSystem(), name
        # Folders above a file that is given by itself say nothing of its rows.
        is_folder = system.get_file_info(path).type == pa.fs.FileType.Directory
        partitioning = "hive" if is_folder else None
        dataset = pa.dataset.dataset(
            path, filesystem=system, format=format, partitioning=partitioning
        )
    except FileNotFoundError as error:
        raise ArtifactError(f"There is no file or folder {redacted}.") from error
    except (pa.ArrowException, OSError) as error:
        why = _SECRETS.sub("//", str(error)).rstrip(".")
        raise ArtifactError(f"{redacted} cannot be read as {format}: {why}.") from error
    if not dataset.schema.names:
        raise ArtifactError(f"{redacted} holds no {format} files.")
    return dataset


def file_system_of(url: str) -> tuple[Any, str]:
    """Return the file system of a URL and the path in it: pyarrow's own, else fsspec's.

    Examples
    --------
    >>> from emsco.arrow import file_system_of
    >>> system, path = file_system_of("file:///decided/rows")
    >>> system.type_name, path
    ('local', '/decided/rows')
    """
    try:
        system, path = pa.fs.FileSystem.from_uri(url)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        scheme = url.partition("://")[0]
        fsspec = require("fsspec", "arrow")
        try:
            found, path = fsspec.core.url_to_fs(url)
        except ImportError as lacking:
            raise ArtifactError(
                f"{scheme}:// needs a package that is not installed: {lacking}."
            ) from lacking
        except ValueError:
            # Without its cause, which repeats the URL: it may hold keys.
            raise ArtifactError(f"No file system is known for {scheme}://.") from None
        system = pa.fs.PyFileSystem(pa.fs.FSSpecHandler(found))
    return system, path
