"""
A warehouse of Parquet files, and columns that are never read
=============================================================

A laboratory keeps its thyroid results in Parquet files: a column per test, a file per month, sorted
by TSH, because most questions ask for high values of it. All patients are to be screened by the
cascade. In a warehouse nothing is bought any more, but reading is not free. How much must be read?

The patients are those of the UCI thyroid data, the prices are Turney's. The months are ours.
"""

# %%
# A model in a file
# -----------------
#
# First TSH, then what the patients have said, then the other hormones. The design is given here;
# :doc:`/gallery/plot_unequal_harms` searches for one.

# sphinx_gallery_thumbnail_path = "images/thumbnails/warehouse.svg"
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib.colors import ListedColormap

from emsco import CascadeClassifier, Costs, Source, StageDesign, dump
from emsco.arrow import decide_batches, open_dataset
from emsco.datasets import load_thyroid

X, y, listed = load_thyroid()
costs = Costs(
    [Source("questions", features=list(X)[:16], cost=16), *listed.sources[16:]], unit="CAD"
)
design = StageDesign.from_stages([["TSH"], ["questions"], ["T3", "TT4", "T4U", "FTI"]])
cascade = CascadeClassifier(design=design, costs=costs, threshold=0.93).fit(X[:3772], y[:3772])
workspace = tempfile.TemporaryDirectory()
folder = Path(workspace.name)
dump(cascade, folder / "model.emsco")

# %%
# The warehouse has six months of the other patients, in row groups of 25 rows.

patients = X[3772:].assign(patient=np.arange(3772, len(X)))
for number, rows in enumerate(np.array_split(np.arange(len(patients)), 6), 1):
    month = patients.iloc[rows].sort_values("TSH")
    (folder / "rows" / f"month={number}").mkdir(parents=True)
    file = folder / "rows" / f"month={number}" / "part.parquet"
    pq.write_table(pa.Table.from_pandas(month, preserve_index=False), file, row_group_size=25)

# %%
# One command
# -----------
#
# ``emsco decide`` takes the model and the folder. ``--keep`` copies columns to each decision;
# ``month`` is one, because a folder is named ``month=1``.

command = "decide model.emsco rows --keep patient,month --out decisions.parquet"
called = [sys.executable, "-m", "emsco", *command.split()]
done = subprocess.run(called, cwd=folder, check=True, capture_output=True, text=True)
print(f"$ emsco {command}\n{done.stdout}{done.stderr}")
pd.read_parquet(folder / "decisions.parquet").head()

# %%
# What was read
# -------------
#
# In Python, ``decide_batches`` takes a data set, or *readers*: objects that are asked for the
# columns of a stage as long as rows of theirs are undecided. This one notes what is read.


class RowGroup:
    """A row group that notes which of its columns were asked for."""

    def __init__(self, file, number):
        self.file, self.number, self.asked = file, number, set()
        self.num_rows = file.metadata.row_group(number).num_rows

    def read(self, columns, rows):
        """Read columns, of all rows or of some."""
        self.asked |= set(columns)
        table = self.file.read_row_group(self.number, columns=columns)
        return table if rows is None else table.take(rows)


files = [pq.ParquetFile(path) for path in sorted((folder / "rows").rglob("*.parquet"))]
groups = [RowGroup(file, number) for file in files for number in range(file.num_row_groups)]
noted = pa.Table.from_batches(decide_batches(cascade, groups))
plain = pa.Table.from_batches(decide_batches(cascade, open_dataset(folder / "rows")))
print("the same decisions:", noted.equals(plain))
workspace.cleanup()

# %%
# A row of the picture is a column of the files, and a column is a row group. White was never read.

columns = ["TSH", *X.columns[:16], "T3", "TT4", "T4U", "FTI"]
read = np.array([[name in group.asked for group in groups] for name in columns])
figure, ax = plt.subplots(figsize=(8.4, 4.4), layout="constrained")
ax.imshow(read, aspect="auto", interpolation="nearest", cmap=ListedColormap(["white", "#0072B2"]))
per_file = len(groups) / len(files)
for number in range(1, len(files)):
    ax.axvline(number * per_file - 0.5, color="#D0D0D0")
ax.set_xticks((np.arange(6) + 0.5) * per_file - 0.5, [f"month {n}" for n in range(1, 7)])
ax.set_yticks(range(len(columns)), columns, fontsize="small")
ax.tick_params(length=0)
ax.set_title(f"{read.mean():.0%} of the column chunks were read")

# %%
# What to do with it
# ------------------
#
# Sort or partition files by what the first stage uses: doubtful rows then share row groups, and the
# columns of later stages are read for these alone. The same call takes ``s3://bucket/rows``;
# :doc:`/engines` has recipes for DuckDB, Spark and Ray, and :doc:`/scaling` for more than one
# machine.
