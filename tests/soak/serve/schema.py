"""schemathesis against the description of the running service: no 5xx, no undocumented answer."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from emsco import dump
from tests.soak.live.bars import Bar, tell
from tests.soak.live.ports import free_port
from tests.soak.serve.process import serving
from tests.soak.serve.world import World, fitted

_PART = "schema"
# A schema cannot say that an id belongs to one body, nor that the features of a source come
# together: what it allows may be refused, by a documented answer.
LEFT_OUT = "positive_data_acceptance"
FEATURES = 2  # of each source, so that many cases have all of them and are decided


def measure(world: World, *, small: bool) -> list[Bar]:
    """Try 10,000 cases; `--small`, some hundreds."""
    least, examples = (300, 160) if small else (10_000, 5_100)
    metrics = free_port()
    with tempfile.TemporaryDirectory(dir=world.folder) as name:
        other = replace(world, folder=Path(name))
        dump(fitted(most=FEATURES)[1], other.model)
        other.write_sources()
        with serving(other, "--metrics-port", str(metrics)) as process:
            report = _tried(process.url, examples, other.folder)
            statuses = answered(_read(f"http://127.0.0.1:{metrics}/metrics"))
            unforeseen = process.told("unexpected")
            code = process.end()
    failures = [f"{one['code']} {one['title']} ({one['count']})" for one in report["failures"]]
    failures += [str(error)[:200] for error in report["errors"]]
    generated = int(report["test_cases"]["generated"])
    bad = sum(n for status, n in statuses.items() if status >= 500)
    tell(_PART, cases=generated, failures=failures, statuses=statuses, unforeseen=unforeseen,
         seed=report["seed"], code=code, accepted=report["valid_rates"])  # fmt: skip
    told = ", ".join(f"{n:,} x {status}" for status, n in sorted(statuses.items()))
    return [
        Bar(f"{generated:,} cases of schemathesis: undocumented answers, other failures", "0",
            "; ".join(failures) or f"0; {told}",
            is_passed(report, least) and not code),
        Bar("answers 5xx, by the metrics of the service", "0", str(bad),
            not bad and not unforeseen and sum(statuses.values()) >= least),
    ]  # fmt: skip


def is_passed(report: Mapping[str, Any], least: int) -> bool:
    """Say whether all operations were tried, with so many cases in all, and nothing was found."""
    operations = report["operations"]
    return bool(
        report["complete"] and not report["failures"] and not report["errors"]
        and not report["exit_code"] and operations["tested"] == operations["total"] > 0
        and report["test_cases"]["generated"] >= least
    )  # fmt: skip


def answered(metrics: str) -> Counter[int]:
    """Read from metrics how many requests had which status."""
    found: Counter[int] = Counter()
    for line in metrics.splitlines():
        if line.startswith("emsco_requests_total{"):
            labels, _, number = line.rpartition(" ")
            found[int(labels.partition('status="')[2].partition('"')[0])] += int(float(number))
    return found


def _tried(url: str, examples: int, folder: Path) -> dict[str, Any]:
    subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", "--max-examples",
         str(examples), "--seed", "1", "--exclude-checks", LEFT_OUT, "--continue-on-failure",
         "--suppress-health-check", "all", "--report", "json", "--report-json-path",
         str(folder / "report.json"), "--no-color"],
        cwd=folder, check=False, stdout=sys.stderr,
    )  # fmt: skip
    report: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return report


def _read(url: str) -> str:
    with urllib.request.urlopen(url) as answer:
        return str(answer.read().decode())
