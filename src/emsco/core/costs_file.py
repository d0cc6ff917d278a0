"""Costs as files: TOML with everything they can say, or a price list in CSV, a column a line."""

from __future__ import annotations

import csv
import io
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from emsco._utils.toml_writer import fields_beside, toml_key, toml_value
from emsco.core.value_type import SKIP
from emsco.exceptions import CostsError, refuse_unknown_keys

CSV_ENDING = ".csv"
_PARTS = ("sources", "setups", "descriptions", "review", "errors", "unit")  # of a TOML file
_SEPARATORS = "\t;|,"  # the first wins a tie, because 1,5 may be a price


def read_toml(
    path: str | os.PathLike[str], source_fields: Sequence[str], review_fields: Sequence[str]
) -> dict[str, Any]:
    """Read a TOML file of costs as the parameters of `Costs`, of sources and of the review."""
    with open(path, "rb") as file:
        try:
            data = tomllib.load(file)
        except tomllib.TOMLDecodeError as error:
            hint = '; quote names with a space: "blood test" = 3' * ("after a key" in str(error))
            raise CostsError(f"{os.fspath(path)} is not valid TOML: {error}{hint}.") from error
    refuse_unknown_keys(data, _PARTS, os.fspath(path), CostsError)
    refuse_unknown_keys(data.get("review", ()), review_fields, "[review]", CostsError)
    entries: dict[str, Mapping[str, Any]] = {}
    skipped: list[str] = []
    try:
        for name, entry in data["sources"].items():
            fields = entry if isinstance(entry, dict) else {"cost": entry}
            refuse_unknown_keys(fields, source_fields, f"The source {name!r}", CostsError)
            used = _without_skipped(name, fields, skipped)
            if used is not None:
                entries[name] = used
    except (TypeError, KeyError, AttributeError) as error:
        raise unreadable(path, error) from error
    return {**data, "sources": entries, "skipped": skipped}


def _without_skipped(
    name: str, fields: Mapping[str, Any], skipped: list[str]
) -> Mapping[str, Any] | None:
    """Leave columns of the type "skip" out of a source, and list them; None if none is left."""
    kinds, features = fields.get("type"), fields.get("features", name)
    features = [features] if isinstance(features, str) else list(features)
    if kinds == SKIP:
        kinds = dict.fromkeys(features, SKIP)
    if not isinstance(kinds, dict) or SKIP not in kinds.values():
        return fields
    skipped += [feature for feature in features if kinds.get(feature) == SKIP]
    used = [feature for feature in features if kinds.get(feature) != SKIP]
    rest = {feature: kind for feature, kind in kinds.items() if kind != SKIP}
    return {**fields, "features": used, "type": rest} if used else None


def unreadable(path: str | os.PathLike[str], error: Exception) -> CostsError:
    """Make the error for a file whose values are not of the kinds that costs have."""
    return CostsError(f"{os.fspath(path)} does not describe costs: {error}.")


def write_toml(costs: Any, path: str | os.PathLike[str] | None) -> str:
    """Return `Costs` as TOML text, and write it if a path is given."""
    lines = [f"unit = {toml_value(costs.unit)}", ""] if costs.unit else []
    lines.append("[sources]")
    for source in costs.sources:
        fields = {"cost": source.cost} | fields_beside(
            source, type(source)(source.name, cost=source.cost)
        )
        entry = fields if len(fields) > 1 else source.cost
        lines.append(f"{toml_key(source.name)} = {toml_value(entry)}")
    lines += [f"{toml_key(name)} = {toml_value({'type': SKIP})}" for name in costs.skipped]
    if costs.setups:
        lines += ["", "[setups]"]
        lines += [f"{toml_key(name)} = {toml_value(price)}" for name, price in costs.setups.items()]
    if costs.descriptions:
        lines += ["", "[descriptions]"]
        lines += [f"{toml_key(n)} = {toml_value(words)}" for n, words in costs.descriptions.items()]
    if costs.review is not None:
        fields = {"cost": costs.review.cost} | fields_beside(
            costs.review, type(costs.review)(costs.review.cost)
        )
        lines += ["", "[review]"]
        lines += [f"{name} = {toml_value(value)}" for name, value in fields.items()]
    if costs.errors:
        lines += ["", "[errors]"]
        lines += [f"{toml_key(str(c))} = {toml_value(price)}" for c, price in costs.errors.items()]
    if path is not None:
        Path(path).write_text("\n".join([*lines, ""]), encoding="utf-8")
    return "\n".join([*lines, ""])


def read_csv(path: str | os.PathLike[str]) -> dict[str, float]:
    """Read a price list: a column and its price a line; the first line may name the two."""
    text = Path(path).read_text(encoding="utf-8-sig")
    first = text.partition("\n")[0]
    separator = max(_SEPARATORS, key=first.count)
    rows = [row for row in csv.reader(io.StringIO(text), delimiter=separator) if any(row)]
    prices: dict[str, float] = {}
    for number, row in enumerate(rows):
        price = _number(row[1].strip()) if len(row) == 2 else None
        if price is None and len(row) == 2 and not number:
            continue  # the names of the two columns
        if price is None:
            raise CostsError(
                f"{os.fspath(path)} must have a column and its price on every line, such as "
                f"age,1.5; got {separator.join(row)!r:.80}."
            )
        name = row[0].strip()
        if name in prices:
            raise CostsError(f"{os.fspath(path)} has two prices for {name!r}; give one.")
        prices[name] = price
    if not prices:
        raise CostsError(f"{os.fspath(path)} has no prices; write lines such as age,1.5.")
    return prices


def _number(text: str) -> float | None:
    """Read a price, also with a decimal comma; None if it is none."""
    try:
        return float(text.replace(",", ".", 1) if text.count(",") == 1 else text)
    except ValueError:
        return None
