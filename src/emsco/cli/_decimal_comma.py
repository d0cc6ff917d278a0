"""Numbers with decimal commas: `0,0006` is 0.0006.

A comma may also separate thousands. A file is read with decimal commas only if one of its columns
of numbers is unambiguous, such as `0,5`; `1,234` alone is refused, because the two readings differ
by a factor of a thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from emsco.cli._errors import note
from emsco.exceptions import ValuesError
from emsco.rows.arrow_columns import as_numbers, is_text

_DECIMAL = r"^\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*$"
_EITHER = r"^\s*[+-]?[1-9]\d{0,2},\d{3}\s*$"
# Separated by commas, dots before a decimal comma, spaces (France) or apostrophes (Switzerland).
_THOUSANDS = (
    r"^\s*[+-]?\d{1,3}((,\d{3}){2,}|(,\d{3})+\.\d*|(\.\d{3})+,\d+"
    r"|([ '\x{2019}\x{a0}\x{202f}]\d{3})+([.,]\d*)?)\s*$"
)
_DOTTED = r"^\s*[+-]?[1-9]\d{0,2}(\.\d{3})+\s*$"

_SEPARATED = "separates thousands; write the number without separators"
_UNSURE = "can be {point} or {whole}; write the number as one of these"


class DecimalCommas:
    """Detect decimal commas in a file, column by column.

    With `private`, no message shows a number from the file.
    """

    def __init__(self, path: Path | str, *, private: bool = False) -> None:
        self._path, self._private = path, private
        self._seen = False

    def respelled(
        self, column: pa.Array, name: str, others: Callable[[], Iterable[pa.Array]]
    ) -> pa.Array:
        """Return the numbers of a column with decimal points.

        `others` returns the columns of the file, which may show what a comma means in it.
        """
        if not is_text(column):
            return column
        self._refuse(column, name, _THOUSANDS, _SEPARATED)
        commas = pc.match_substring_regex(column, _DECIMAL)
        if not pc.any(commas).as_py():
            return column
        if not (self._seen or _is_sure(column) or any(map(_shows_commas, others()))):
            self._refuse(column, name, _EITHER, _UNSURE)
        self._refuse(column, name, _DOTTED, f"is next to decimal commas and {_UNSURE}")
        if not self._seen and not self._private:
            cell = column.filter(commas)[0].as_py()
            note(
                f"emsco: {self._path} has decimal commas: {cell!r} in {name!r} is read as "
                f"{_point(cell)}."
            )
        self._seen = True
        return pc.if_else(commas, pc.replace_substring(column, ",", "."), column)

    def _refuse(self, column: pa.Array, name: str, pattern: str, why: str) -> None:
        found = column.filter(pc.match_substring_regex(column, pattern))
        if not len(found):
            return
        if self._private:
            raise ValuesError(
                f"A number in column {name!r} of {self._path} is ambiguous; write numbers with a "
                "decimal point and no other separator.",
                column=name,
            )
        cell = found[0].as_py()
        point, whole = _point(cell), cell.strip().replace(",", "").replace(".", "")
        why = why.format(point=point, whole=whole)
        raise ValuesError(f"{cell!r} in column {name!r} {why}.", column=name)


def is_numeric(column: pa.Array) -> bool:
    """Return whether a column of text holds only numbers, whatever their commas mean."""
    if not is_text(column):
        return False
    numerals = pc.match_substring_regex(column, f"({_DECIMAL})|({_THOUSANDS})")
    try:
        as_numbers(pc.if_else(numerals, "0", column))
    except pa.ArrowInvalid:
        return False
    return True


def _point(cell: str) -> str:
    return cell.strip().replace(",", ".")


def _shows_commas(column: pa.Array) -> bool:
    return is_numeric(column) and _is_sure(column)


def _is_sure(column: pa.Array) -> bool:
    """Return whether some cell has a comma that can only be a decimal comma."""
    commas = pc.match_substring_regex(column, _DECIMAL)
    either = pc.match_substring_regex(column, _EITHER)
    return bool(pc.any(pc.and_not(commas, either)).as_py())
