"""Write the golden files beside this script: one of each kind, in the present format.

Each of them must stay readable; `tests/io/test_golden.py` compares what is read with
`expected.json`. Checkpoints have none: they belong to the versions of Python and of the libraries
that wrote them. Run `python tests/files/make.py` only if a kind of file is added.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.naive_bayes import GaussianNB

from emsco import (
    CascadeClassifier,
    CascadeSearchCV,
    CertificateMonitor,
    Costs,
    InputGuard,
    Review,
    Source,
    StageDesign,
    dump,
)
from emsco.certify import certify, fingerprint
from emsco.final import LoggedAnswers
from emsco.live import CallableSource, HTTPSource, KnownSource, RedisSource, Sources, SQLSource
from emsco.rows.ledger import forget_all
from emsco.serve.shadow import ShadowMode
from emsco.serve.shadow_log import read_shadow_log

FIELDS = ("label", "accepted", "exit_stage", "confidence", "cost", "reason", "latency")
LABELS = np.array(["ill", "well", "\u00fcber"])
COSTS = Costs(
    [
        Source("questions", features=["age", "smoker"], cost=1.0, latency=0.5),
        Source("marker", cost=12.25, setup="blood", requires=["questions"]),
        Source("visit", features=["ward", "seen"], cost=30.0, setup="blood", latency=2.0),
    ],
    setups={"blood": 3.1},
    review=Review(50.0, accuracy=0.98),
    unit="EUR",
)
DESIGN = StageDesign.from_stages([["questions"], ["marker"], ["visit"]])
NUMBERS = ("cheap", "dear")
PRICES = Costs.per_feature([1.0, 20.0], NUMBERS)


def patients(n_rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Draw rows of every type of column, and their labels."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=n_rows)
    table = pd.DataFrame(
        {
            "age": 40 + 20 * truth + rng.normal(0, 8, n_rows),
            "smoker": rng.choice(["yes", "no", "former"], n_rows),
            "marker": np.where(rng.random(n_rows) < 0.1, np.nan, truth + rng.normal(size=n_rows)),
            "ward": pd.Categorical(rng.integers(3, size=n_rows)),
            "seen": rng.random(n_rows) < 0.2 + 0.3 * truth,
        }
    )
    return table, LABELS[truth]


def numbers(n_rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Draw rows of two columns of numbers, and their labels."""
    rng = np.random.default_rng(seed)
    sick = rng.random(n_rows) < 0.5
    columns = {
        "cheap": np.round(sick + rng.normal(0, 0.8, n_rows), 3),
        "dear": np.round(4 * sick + rng.normal(0, 0.8, n_rows), 3),
    }
    return pd.DataFrame(columns), np.where(sick, "sick", "well")


def odd_patients() -> pd.DataFrame:
    """Return rows to decide: ordinary ones, and values that a guard rejects."""
    rows = patients(20, 3)[0]
    rows["ward"] = rows["ward"].astype(int)
    rows.loc[3, "age"] = 1e9
    rows.loc[5, "smoker"] = "unheard of"
    rows.loc[7, "marker"] = None
    return rows


def plain_rows(rows: pd.DataFrame) -> dict[str, list[Any]]:
    """Return rows as JSON holds them."""
    columns = {name: rows[name].astype(object) for name in rows}
    return {name: column.where(column.notna(), None).tolist() for name, column in columns.items()}


def decided(model: Any, rows: pd.DataFrame) -> dict[str, list[Any]]:
    """Return the decisions of a model as JSON holds them."""
    decisions = model.decide(rows)
    return {name: getattr(decisions, name).tolist() for name in FIELDS}


def figures(front: Any) -> list[dict[str, Any]]:
    """Return the candidates of a front with their figures as JSON holds them."""
    return [
        {
            "stages": [list(stage) for stage in candidate.design.stages],
            "threshold": candidate.threshold,
            "accuracy": candidate.evaluation.accuracy,
            "coverage": candidate.evaluation.coverage,
            "cost": candidate.evaluation.cost,
            "right": dict(candidate.evaluation.class_right),
            "given": dict(candidate.evaluation.label_accepted),
        }
        for candidate in front
    ]


def models(folder: Path) -> dict[str, Any]:
    """Write models, the certificate of one and its ledger, and return what they decide."""
    X, y = patients(90, 0)
    guard = InputGuard(pool=["smoker"])
    threshold = (0.9, {"ill": 0.6, "\u00fcber": 0.8, "well": 0.65}, 0.5)
    cascade = CascadeClassifier(design=DESIGN, costs=COSTS, threshold=threshold, guard=guard)
    cascade.fit(X, y)
    fresh = patients(60, 1)
    cascade.certificate_ = certify(cascade, *fresh, accuracy=0.6, ledger=folder / "ledger.jsonl")
    assert cascade.certificate_.certified
    dump(cascade, folder / "cascade.emsco")
    search = CascadeSearchCV(
        costs=COSTS, threshold=[0.6, 0.8], cv=2, guard=guard, select={"min_accuracy": 0.7},
        random_state=0,
    )  # fmt: skip
    search.fit(X, y)
    dump(search, folder / "search.emsco")
    dump(search.front_, folder / "front.emsco")
    X, y = numbers(120, 0)
    asked = {"design": StageDesign.from_stages([["cheap"], ["dear"]]), "costs": PRICES}
    final = CascadeClassifier(GaussianNB(), **asked, final=GaussianNB().fit(X, y)).fit(X, y)
    dump(final, folder / "final.emsco")
    logged = CascadeClassifier(**asked, final=LoggedAnswers("verdict"))
    logged.fit(X.assign(verdict=y), y)
    dump(logged, folder / "logged.emsco")
    odd, plain = odd_patients(), numbers(12, 2)[0]
    verdicts = plain.assign(verdict=final.final.predict(plain))
    return {
        "rows": {"patients": plain_rows(odd), "numbers": plain_rows(verdicts)},
        "fresh": [plain_rows(fresh[0]), fresh[1].tolist()],
        "cascade": decided(cascade, odd) | {"fingerprint": fingerprint(cascade)},
        "certificate": {
            "targets": cascade.certificate_.targets.to_dict()
            | {"max_missed": dict(cascade.certificate_.targets.max_missed)},
            "rows": cascade.certificate_.rows_fingerprint,
            "bounds": [list(c.bounds[:3]) for c in cascade.certificate_.candidates],
        },
        "search": decided(search, odd) | {"fingerprint": fingerprint(search.best_cascade_)},
        "front": figures(search.front_),
        "final": decided(final, plain),
        "logged": decided(logged, verdicts) | {"fingerprint": fingerprint(logged)},
    }


def monitor(folder: Path) -> dict[str, Any]:
    """Write the state of a monitor with labels to come, and return the alarms that follow."""
    X, y = patients(400, 0)
    cascade = CascadeClassifier(design=DESIGN, costs=COSTS, threshold=0.6).fit(X, y)
    forget_all()
    certificate = certify(cascade, *patients(300, 1), accuracy=0.6, max_missed={"ill": 0.5})
    watch = CertificateMonitor.of(certificate, cascade, share=0.5, random_state=0)
    rows, truth = patients(300, 2)
    watch.decided(cascade.decide(rows), keys=range(300))
    watch.labelled(range(100), truth[:100])
    (folder / "monitor.json").write_text(json.dumps(watch.state()) + "\n", encoding="utf-8")
    wrong = np.where(truth == "ill", "well", "ill")
    raised = watch.labelled(range(100, 300), wrong[100:])
    alarms = [[alarm.what, alarm.at] for alarm in raised]
    return {"wrong": wrong[100:].tolist(), "alarms": alarms}


def shadow_log(folder: Path) -> dict[str, Any]:
    """Write the log of a cascade in shadow, and return its rows."""
    X, y = numbers(120, 0)
    design = StageDesign.from_stages([["cheap"], ["dear"]])
    cascade = CascadeClassifier(design=design, costs=PRICES, final=GaussianNB().fit(X, y)).fit(X, y)
    rows, truth = numbers(6, 2)

    def source(name: str) -> CallableSource:
        return CallableSource(
            function=lambda keys, _: {key: {name: float(rows[name][key])} for key in keys}
        )

    os.environ["EMSCO_LOG_KEY"] = "a secret of the golden files, which hides keys"
    with TemporaryDirectory() as place:
        settings = SimpleNamespace(log=place, on_log_failure="drop", max_cost=None, deadline=5.0)
        sources = Sources({name: source(name) for name in NUMBERS})

        async def write() -> None:
            mode = ShadowMode(cascade.decider_, sources, settings, "golden")  # type: ignore[arg-type]
            async with mode.live:
                answer = await mode.decide(list(range(6)), None)
            receipts = answer.answered.receipts
            await mode.keep_labels([(r.id, truth[i]) for i, r in enumerate(receipts[:4])])

        asyncio.run(write())
        for kind in ("decisions", "labels"):
            (path,) = Path(place).glob(f"{kind}-*.jsonl")
            (folder / f"{kind}-golden.jsonl").write_bytes(path.read_bytes())
    return {"rows": [vars(row) for row in read_shadow_log(folder).rows]}


def tables(folder: Path) -> None:
    """Write prices and live sources."""
    COSTS.to_toml(folder / "costs.toml")
    (folder / "sources.toml").write_text(sources().to_toml(), encoding="utf-8")


def sources() -> Sources:
    """Return one live source of each kind that a file can describe."""
    return Sources(
        {
            "known": KnownSource(),
            "page": RedisSource(
                url_env="REDIS_URL", key="page:{key}", fields={"length": "len"}, key_field="id",
                time_field="seen_at", max_age=7 * 86400.0,
            ),
            "whois": HTTPSource(
                url="https://whois.example/v1/{domain}", features={"domain_age": "/age_days"},
                headers_env={"Authorization": "WHOIS_TOKEN"}, timeout=0.4, paid=True, max_spend=200,
            ),
            "registry": SQLSource(
                url_env="REGISTRY_DSN", query="SELECT id, dns FROM d WHERE id IN :keys",
                key_field="id",
            ),
        }
    )  # fmt: skip


def make(folder: Path) -> None:
    """Write all files."""
    forget_all()
    (folder / "ledger.jsonl").unlink(missing_ok=True)
    expected = models(folder) | {"monitor": monitor(folder), "log": shadow_log(folder)}
    tables(folder)
    text = json.dumps(expected, indent=0, ensure_ascii=False)
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    make(Path(__file__).parent)
