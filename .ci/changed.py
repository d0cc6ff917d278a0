"""Name the tests of what changed: by a file's name, or because they import it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

LAWS = [
    f"tests/test_{name}.py"
    for name in ("rooms", "import", "decide", "front", "evaluation", "costs", "design", "decider")
]
# What takes minutes by itself is for CI.
LONG = {
    f"test_{name}"
    for name in [
        "brute_force",
        "scikit_learn_contract",
        "experiments",
        "peers",
        "browser",
        "process",
        "readme",
        "sceptic",
        "behaviour",
        "benchmarks",
        "testing",
        "plugging_in",
    ]
}
MOST = 12  # files of tests besides the laws


def changed() -> list[Path]:
    """List files that differ from the main branch's last landing, or from the commit before."""
    base = "origin/main" if _git("branch", "--remotes", "--list", "origin/main") else "HEAD~1"
    names = _git("diff", "--name-only", base) + _git("ls-files", "--others", "--exclude-standard")
    return [Path(name) for name in dict.fromkeys(names) if Path(name).exists()]


def _git(*command: str) -> list[str]:
    return subprocess.run(["git", *command], capture_output=True, text=True).stdout.split()


def tests_of(files: list[Path]) -> list[str]:
    """Give tests that changed, then those named after what changed, then those that import it."""
    known = [path for path in Path("tests").rglob("test_*.py") if path.stem not in LONG]
    own = [path for path in files if path in known]
    source = [path for path in files if path.parts[0] == "src" and path.suffix == ".py"]
    stems = {path.stem.lstrip("_") for path in source} | {path.parent.name for path in source}
    named = [path for path in known if path.stem.removeprefix("test_") in stems]
    modules = [".".join(path.with_suffix("").parts[1:]) for path in source]
    pattern = re.compile("|".join(rf"\b{re.escape(module)}\b" for module in modules) or r"(?!)")
    importing = [path for path in known if pattern.search(path.read_text())]
    return [str(path) for path in dict.fromkeys([*own, *named, *importing])]


if __name__ == "__main__":
    print(*dict.fromkeys([*tests_of(changed())[:MOST], *LAWS]), sep="\n")  # noqa: T201
