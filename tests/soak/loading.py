"""Whether files that were damaged or forged are refused, and what loading them does meanwhile."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
import time
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from emsco import CascadeClassifier, CascadeSearchCV, InputGuard, StageDesign, dump, load
from emsco.exceptions import ArtifactError, EmscoWarning
from experiments.tables import markdown
from tests.soak.damage import DAMAGES
from tests.soak.forgeries import MARKER

MOST_MEMORY = 100.0  # MB above what there was before a file was loaded
# What no refused file may lead to; `open` only for writing.
EVENTS = (
    "import", "exec", "open", "pickle.find_class", "marshal.load", "marshal.loads", "code.__new__",
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork",
    "os.forkpty", "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.chmod", "os.putenv",
    "os.symlink", "os.link", "socket.__new__", "socket.connect", "ctypes.dlopen",
    "sys._getframe.f_code", "shutil.rmtree", "shutil.move", "shutil.copyfile",
)  # fmt: skip
# What the valid files need to be trusted with: forged ones get as far as they can.
TRUSTED = [
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.tree._tree.Tree",
]


class Watch:
    """Notes what happens inside the interpreter while it is on; a hook cannot be taken off."""

    def __init__(self) -> None:
        self.on = False
        self.seen: list[str] = []
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on or event not in EVENTS:
            return
        writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        if event == "open" and not int(arguments[2] or 0) & writes:
            return
        self.seen.append(f"{event} {arguments!r:.200}")


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Load 10,000 files that are damaged or forged; `--small`, some 300."""
    rng = np.random.default_rng(0)
    rows = []
    here = os.getcwd()
    with TemporaryDirectory() as folder:
        Path(folder, f"{MARKER}.py").write_text(f"open({MARKER!r}, 'w')\n", encoding="utf-8")
        sys.path.insert(0, folder)
        os.chdir(folder)
        try:
            files = valid_files(Path(folder))
            gc.freeze()  # what is there to stay need not be looked at before every file
            watch = Watch()
            for name, (mutate, count) in DAMAGES.items():
                if only is not None and name not in only:
                    continue
                path = Path(folder, "mutated.emsco")
                told = {"refused": 0, "events": 0, "memory": 0.0, "seconds": 0.0}
                n_files = max(3, count // 40) if small else count
                for _ in range(n_files):
                    mutate(rng, files, path)
                    _load(path, name, watch, told)
                    path.unlink()
                print(json.dumps({"files": name, "number": n_files} | told), flush=True)
                rows.append(
                    [name, f"{n_files:,}", f"{told['refused']:,}", f"{told['memory']:.1f}",
                     f"{1000 * told['seconds']:.0f}"]
                )  # fmt: skip
            if Path(MARKER).exists():
                raise SystemExit("A foreign command or module was run.")
        finally:
            os.chdir(here)
            sys.path.remove(folder)
    header = ["files", "number", "refused", "most memory, MB", "longest, ms"]
    return markdown(header, rows)


def valid_files(folder: Path) -> dict[str, bytes]:
    """Write and load one file of each kind; what is imported for good reason is imported here."""
    rng = np.random.default_rng(1)
    labels = rng.integers(3, size=300)
    y = np.array(["high", "low", "mid"])[labels]
    table = pd.DataFrame(
        {
            "number": labels + rng.normal(size=300),
            "holes": np.where(rng.random(300) < 0.1, np.nan, labels + rng.normal(size=300)),
            "text": rng.choice(["a", "b", "c"], 300),
        }
    )
    numbers = table[["number", "holes"]].fillna(0.0).to_numpy()
    stages = StageDesign.from_stages([["x0"], ["x1"]])
    forest = RandomForestClassifier(3, max_depth=3, random_state=0)
    calibrated = CalibratedClassifierCV(make_pipeline(StandardScaler(), LogisticRegression()), cv=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmscoWarning)
        search = CascadeSearchCV(threshold=0.75, cv=2, random_state=0).fit(table, y)
    models: dict[str, Any] = {
        "binary": CascadeClassifier(design=stages).fit(numbers, labels > 0),
        "guarded": CascadeClassifier(guard=InputGuard()).fit(table, y),
        "forest": CascadeClassifier(forest, design=stages).fit(numbers, y),
        "calibrated": CascadeClassifier(calibrated).fit(numbers, y),
        "front": search.front_,
        "search": search,
    }
    files = {}
    for name, model in models.items():
        path = folder / f"{name}.emsco"
        dump(model, path)
        load(path, trusted=TRUSTED)
        files[name] = path.read_bytes()
    return files


def _load(path: Path, name: str, watch: Watch, told: dict[str, Any]) -> None:
    before = reset_peak()
    known = set(sys.modules)
    started = time.perf_counter()
    watch.on = True
    try:
        load(path, trusted=TRUSTED)
        error: BaseException | None = None
    except Exception as raised:
        error = raised
    finally:
        watch.on = False
    added = [f"module {module}" for module in set(sys.modules) - known]
    told["seconds"] = max(told["seconds"], time.perf_counter() - started)
    told["memory"] = max(told["memory"], peak() - before)
    if type(error) is not ArtifactError:
        kept = Path("/tmp") / f"not-refused-{os.getpid()}.emsco"
        kept.write_bytes(path.read_bytes()[: 2**24])
        raise SystemExit(f"{name}: not refused, but {error!r}; the file is {kept}.") from error
    told["refused"] += 1
    if watch.seen or added:
        raise SystemExit(f"{name}: {error} came with {watch.seen + added}.")
    if told["memory"] > MOST_MEMORY:
        raise SystemExit(f"{name}: {error} came with {told['memory']:.0f} MB more memory.")


def reset_peak() -> float:
    """Begin to measure the peak of memory anew, and give what there is now, in MB.

    What making the file left free is given back first, or it would hide what loading takes.
    """
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return _status("VmRSS")


def peak() -> float:
    """Give the most memory that there was since then, in MB."""
    return _status("VmHWM")


def _status(name: str) -> float:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith(f"{name}:"))
