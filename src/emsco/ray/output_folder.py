"""The folder that decisions are written to: here or in a store, each file whole or not at all."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow.fs

from emsco._utils.atomic_write import write_whole
from emsco.arrow import file_system_of, is_url
from emsco.exceptions import ArtifactError, quoted

_PIECE = re.compile(r".*-\d{12}-\d+-[0-9a-f]{16}\.parquet", re.DOTALL)
_DRAFT = re.compile(r"\.(?P<name>.+\.parquet)\.[0-9a-f]{16}", re.DOTALL)


@dataclass(frozen=True)
class Folder:
    """A folder of a file system; it can be sent to workers."""

    system: Any
    path: str

    @classmethod
    def make(cls, out: str | os.PathLike[str]) -> Folder:
        """Open a folder, made if necessary."""
        try:
            if is_url(out):
                system, path = file_system_of(os.fspath(out))
            else:
                system, path = pyarrow.fs.LocalFileSystem(), os.path.abspath(out)
            system.create_dir(path, recursive=True)
        except (OSError, ValueError) as error:
            target = "That URL" if is_url(out) else os.fspath(out)  # a URL may hold keys
            why = str(error).rstrip(".")
            raise ArtifactError(f"{target} cannot be a folder to write to: {why}.") from error
        return cls(system, path)

    def names(self) -> set[str]:
        """List the files."""
        selector = pyarrow.fs.FileSelector(self.path)
        return {info.base_name for info in self.system.get_file_info(selector)}

    def refuse_inside(self, inputs: Iterable[str]) -> None:
        """Refuse a folder with input in it: a second run would decide the decisions of the first.

        Paths of two stores may look alike; then another folder is no loss.
        """
        for path in inputs:
            if path.startswith(f"{self.path}/"):
                raise ArtifactError(
                    f"{self.path} holds input, {path}; decisions need a folder of their own."
                )

    def refuse_others(self, expected: set[str], *, force: bool) -> None:
        """Refuse a folder with decisions on other rows or of another model, or empty it of them.

        Whoever reads the folder would take them, or any other file, for decisions of this run.
        What begins with a dot or an underscore is read by nobody.
        """
        others = sorted(name for name in self.names() - expected if name[0] not in "._")
        if force:
            for name in filter(_PIECE.fullmatch, others):
                self.system.delete_file(f"{self.path}/{name}")
            others = [name for name in others if not _PIECE.fullmatch(name)]
        if others:
            raise ArtifactError(
                f"{self.path} holds files that this run would not write: {quoted(others, most=2)}. "
                "Decisions on other input or of another model must not be mixed with these; give "
                "another folder, or use `force` to delete earlier decisions."
            )

    def write(self, name: str, content: Any) -> None:
        """Write a file under a name of its own, then give it its name."""
        path = f"{self.path}/{name}"
        if isinstance(self.system, pyarrow.fs.LocalFileSystem):
            write_whole(path, [memoryview(content)])
            return
        draft = f"{self.path}/.{name}.{secrets.token_hex(8)}"
        with self.system.open_output_stream(draft) as stream:
            stream.write(content)
        self.system.move(draft, path)

    def remove_drafts(self, names: set[str]) -> None:
        """Remove what workers that died have left of files that are written by now."""
        for found in self.names():
            draft = _DRAFT.fullmatch(found)
            if draft and draft["name"] in names:
                self.system.delete_file(f"{self.path}/{found}")
