"""`emsco decide` on 20 million rows of Parquet: time, memory, and bytes read.

The reference program reads through the same readers, decides by bare numpy, and writes the same
columns with the same writer. Memory is that of a process of its own. All files are in a temporary
folder, which is deleted in the end.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
from typer.testing import CliRunner

from benchmarks.measure import Result, apart, best_times, peak_mb
from benchmarks.warehouse import (
    FILE_ROWS,
    STAGES,
    bare_batches,
    bare_file,
    counting,
    stages_of,
    write_covtype,
)
from emsco import CascadeClassifier, dump
from emsco.arrow import decide_batches, open_dataset, parts_of
from emsco.cli._app import app

ROWS, SMALL_ROWS = 20_000_000, 400_000
GROUP, SMALL_GROUP = 2**17, 2**14  # rows


def run(*, small: bool = False) -> Iterator[Result]:
    """Measure time, memory and bytes read; `small` holds no time to a bar: it is noise there."""
    with TemporaryDirectory(prefix="emsco-arrow-") as folder:
        yield from _deciding(Path(folder), SMALL_ROWS if small else ROWS, small=small)


def _deciding(folder: Path, n_rows: int, *, small: bool) -> Iterator[Result]:
    group = SMALL_GROUP if small else GROUP
    cascade = write_covtype(folder / "rows", n_rows, group)
    model, out = folder / "model.emsco", folder / "out.parquet"
    dump(cascade, model)
    stages = stages_of(cascade)
    here, there = folder / "here.parquet", folder / "there.parquet"

    def ours() -> None:
        arguments = ["decide", str(model), str(folder / "rows"), "--out", str(here), "--force"]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output

    def theirs() -> None:
        bare_file(folder / "rows", cascade, stages, there)

    def seam() -> None:
        for _ in decide_batches(cascade, open_dataset(folder / "rows")):
            pass

    def bare() -> None:
        for _ in bare_batches(folder / "rows", cascade, stages):
            pass

    written, referred, decided, referred_alone = best_times(
        ours, theirs, seam, bare, rounds=2 if not small else 3
    )
    differing = _differing(here, there)
    # The folded weights differ in the last bit, so a row on the very threshold may differ.
    assert differing <= 2 + n_rows // 10**6, differing
    exits = _exits(here, len(STAGES))
    facts = {
        "rows": n_rows,
        "million_rows_a_second": round(n_rows / written / 1e6, 3),
        "exits": exits,
        "file_mb": _size_mb(folder / "rows"),
        "load": round(os.getloadavg()[0], 1),
    }
    bar = None if small else 0.8
    yield Result(
        "arrow.decide: speed of emsco decide, of bare numpy with the same reader and writer",
        referred / written,
        bar,
        at_most=False,
        facts=facts,
    )
    yield Result(
        "arrow.decide: speed of decide_batches, of bare numpy with the same reader",
        referred_alone / decided,
        facts={"million_rows_a_second": round(n_rows / decided / 1e6, 3)},
    )
    here.unlink()
    there.unlink()
    few = folder / "few"
    few.mkdir()
    for path in sorted((folder / "rows").iterdir())[: max(1, n_rows // FILE_ROWS // 10)]:
        (few / path.name).symlink_to(path)
    peaks = {}
    for name in ("few", "rows"):
        told = apart("benchmarks.arrow", str(model), str(folder / name), str(out))
        peaks[name] = told["peak_mb"]
    yield Result(
        "arrow.decide: peak memory on all rows, of that on a tenth",
        peaks["rows"] / peaks["few"],
        1.2,
        facts={"peak_mb": peaks["rows"], "peak_mb_of_a_tenth": peaks["few"]},
    )
    yield from _bytes(folder, cascade, group)


def _bytes(folder: Path, cascade: CascadeClassifier, group: int) -> Iterator[Result]:
    """Count the bytes of later stages' columns that are read, in both orders of the rows."""
    _sort(folder / "rows", folder / "sorted", cascade, group)
    first = list(cascade.decider_.plan.stages[0].features)
    for name in ("rows", "sorted"):
        size_first, size_later = _chunk_sizes(folder / name, cascade.decider_.columns_read, first)
        system, reads = counting()
        dataset = pa.dataset.dataset(str(folder / name), filesystem=system, format="parquet")
        for _ in decide_batches(cascade, dataset):
            pass
        n_read = sum(length for _, _, length in reads) / 1e6
        order = "in any order" if name == "rows" else "sorted by the first stage's confidence"
        yield Result(
            f"arrow.bytes: of later columns read, of a full scan, rows {order}",
            (n_read - size_first) / size_later,
            1.05 if name == "rows" else 0.9,
            facts={
                "read_mb": round(n_read, 1),
                "first_stage_mb": round(size_first, 1),
                "later_stages_mb": round(size_later, 1),
            },
        )


def _sort(source: Path, folder: Path, cascade: CascadeClassifier, group: int) -> None:
    """Write the same rows, the surest of the first stage first."""
    folder.mkdir()
    stage = cascade.decider_.plan.stages[0]
    dataset = open_dataset(source)
    sure = []
    for part in parts_of(dataset):
        columns = part.table(list(stage.features))
        values = {n: columns[n].to_numpy().astype(np.float64) for n in stage.features}
        sure.append(np.max(np.array(stage.judge(values)), axis=0))
    order = np.argsort(-np.concatenate(sure), kind="stable")
    table = dataset.to_table().take(pa.array(order))
    for number, start in enumerate(range(0, table.num_rows, FILE_ROWS)):
        path = folder / f"part-{number:03}.parquet"
        some = table.slice(start, FILE_ROWS)
        pa.parquet.write_table(some, path, row_group_size=group, use_dictionary=False)


def _differing(here: Path, there: Path) -> int:
    """Count rows whose label or exit differs."""
    names = ["label", "accepted", "exit_stage"]
    ours, theirs = (pa.parquet.read_table(path, columns=names) for path in (here, there))
    differs = np.zeros(ours.num_rows, dtype=np.bool_)
    for name in names:
        differs |= ours[name].to_numpy() != theirs[name].to_numpy()
    return int(differs.sum())


def _exits(path: Path, n_stages: int) -> list[float]:
    exits = pa.parquet.read_table(path, columns=["exit_stage"])["exit_stage"].to_numpy()
    shares: list[float] = (np.bincount(exits, minlength=n_stages) / len(exits)).round(3).tolist()
    return shares


def _size_mb(folder: Path) -> float:
    return round(sum(path.stat().st_size for path in folder.iterdir()) / 1e6, 1)


def _chunk_sizes(folder: Path, names: list[str], first: list[str]) -> tuple[float, float]:
    """Give the size of the columns of the first stage, and of all later ones, in MB."""
    sizes = dict.fromkeys(names, 0)
    for path in folder.iterdir():
        metadata = pa.parquet.read_metadata(path)
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            for place in range(group.num_columns):
                chunk = group.column(place)
                if chunk.path_in_schema in sizes:
                    sizes[chunk.path_in_schema] += chunk.total_compressed_size
    own = sum(sizes[name] for name in first)
    return own / 1e6, (sum(sizes.values()) - own) / 1e6


def main(model: str, rows: str, out: str) -> None:
    """Decide a folder by the command line, and print the memory that it took."""
    result = CliRunner().invoke(app, ["decide", model, rows, "--out", out, "--force"])
    assert result.exit_code == 0, result.output
    print(json.dumps({"peak_mb": peak_mb()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
