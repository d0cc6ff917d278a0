"""The files of a round: what is sent, what comes back from each reviewer, and what is settled."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from emsco.exceptions import BatchError

_ENDINGS = "csv|tsv|txt|xlsx|xls|xlsm|ods|numbers"  # spreadsheets are refused when they are read


@dataclass(frozen=True)
class SheetFiles:
    """A file of rows to be answered, and the files that may hold the answers.

    Parameters
    ----------
    folder : Path
        The folder of the job.
    number : int
        Which round this is.
    is_settling : bool, default=False
        Whether these are the rows of the round that reviewers answered differently.
    """

    folder: Path
    number: int
    is_settling: bool = False

    @property
    def ask(self) -> Path:
        """The rows to be answered."""
        return self.folder / f"{'settle' if self.is_settling else 'ask'}-{self.number}.csv"

    @property
    def answers(self) -> Path:
        """Where the answers belong; that of a reviewer has a name before its ending."""
        return self.folder / f"{'settled' if self.is_settling else 'answers'}-{self.number}.csv"

    @property
    def settling(self) -> SheetFiles:
        """The files of the rows that were answered differently."""
        return SheetFiles(self.folder, self.number, is_settling=True)

    def found(self) -> dict[str, Path]:
        """Return the files of answers that are there, by reviewer."""
        stem = re.escape(self.answers.stem)
        named = re.compile(rf"{stem}(?:\.(?P<name>.+))?\.(?:{_ENDINGS})", re.IGNORECASE)
        alike = re.compile(rf"{stem}(?!\d).*\.(?:{_ENDINGS})", re.IGNORECASE)  # "answers-1 (2).csv"
        found: dict[str, Path] = {}
        folded: dict[str, Path] = {}
        for path in sorted(self.folder.iterdir()):
            match = named.fullmatch(path.name)
            if match is None:
                if alike.fullmatch(path.name):
                    raise BatchError(
                        f"{path} is not the name of a file of answers; call it {self.answers.stem}."
                        "NAME.csv, with the name of the reviewer, or move it away."
                    )
                continue
            name = match["name"] or "(no name)"
            before = folded.setdefault(name.casefold(), path)
            if before != path:
                raise BatchError(
                    f"{before} and {path} are both from the reviewer {name}; keep one of them."
                )
            found[name] = path
        return found

    def strange(self) -> Path | None:
        """Return a file of answers, or of rows to settle, although no row was sent yet."""
        paths = [*self.found().values()]
        if not self.is_settling:
            settling = self.settling
            paths += [
                *([settling.ask] if settling.ask.exists() else []),
                *settling.found().values(),
            ]
        return next(iter(paths), None)
