"""A process that decides rows, watches them and serves metrics, for tests with Prometheus.

Arguments: the state's file, and how many workers share the metrics (0: this process alone).
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from emsco import CascadeClassifier, Costs, Source, StageDesign
from emsco.live import CallableSource, LiveCascade, Sources

N = 400
RNG = np.random.default_rng(0)
Y = RNG.integers(2, size=N)
FRAME = pd.DataFrame({name: Y * weight + RNG.normal(size=N) for name, weight in
                      {"cheap": 1.0, "lab": 2.0, "scan": 3.0}.items()})  # fmt: skip
COSTS = Costs([Source("cheap", cost=1), Source("lab", cost=5), Source("scan", cost=20)])


def live_cascade() -> LiveCascade:
    """Create a live cascade of three stages; for one row in ten, the lab fails."""
    design = StageDesign.from_stages([["cheap"], ["lab"], ["scan"]])
    cascade = CascadeClassifier(design=design, costs=COSTS, threshold=0.9).fit(FRAME, Y)

    def source(name: str, fails: bool = False) -> CallableSource:
        async def fetch(keys, _):
            if fails and RNG.random() < 0.1:
                raise ConnectionError
            await asyncio.sleep(0.001)
            return {key: {name: FRAME[name][key]} for key in keys}

        return CallableSource(function=fetch, paid=True)

    return LiveCascade(
        cascade,
        Sources({"cheap": source("cheap"), "lab": source("lab", True), "scan": source("scan")}),
    )


def tell(port: int) -> None:
    """Print the port of the metrics."""
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()


async def decide(path: str, worker: int, port: int | None = 0) -> None:
    """Decide rows forever; count and label them."""
    from emsco.certify.monitor import CertificateMonitor
    from emsco.serve.audit_watch import AuditWatch
    from emsco.serve.check_period import Admission
    from emsco.serve.metrics import Metrics
    from emsco.serve.metrics_server import MetricsServer
    from emsco.serve.settings import Settings
    from emsco.serve.shadow import ShadowAnswer
    from emsco.serve.state import open_state
    from emsco.serve.stream_checks import StreamChecks

    metrics, live = Metrics(), live_cascade()
    metrics.model(live)
    if port is not None:
        token = os.environ.get("EMSCO_TOKEN_METRICS")
        tell(MetricsServer(metrics.registry, port, token=token).port)
    state = await open_state(path)
    promised = CertificateMonitor(accuracy=0.99, coverage=0.9, exits=(0.9, 0.05, 0.05))
    watch = AuditWatch(promised, state, model=live.model, audit=0.5, label_after=0.5, cohort=0.5)
    await watch.start()
    stream = StreamChecks(Settings(max_changed=100, per="day"), state, "final")
    for call in itertools.count():
        begin = time.perf_counter()
        keys = RNG.integers(N, size=RNG.integers(1, 20)).tolist()
        decisions = await live.decide(keys)
        ids = [f"{worker}.{call}-{row}" for row in range(len(keys))]
        metrics.decided(decisions, time.perf_counter() - begin, live.model)
        metrics.shadowed(ShadowAnswer(decisions, decisions), live.model)
        metrics.canary(live.model, 0.05)
        metrics.request(200 if call % 7 else 429)
        metrics.queue(call % 3)
        watch.decided(decisions, ids, live.model)
        labelled = zip(ids[: len(ids) - call % 2], keys, strict=False)
        await watch.feedback({one: int(Y[key]) for one, key in labelled})
        if call % 20 == 0:
            await stream._batches.run([Admission(f"{worker}.{call}", RNG.random())])
            metrics.stream(stream)
            await watch.work()
            metrics.watch(watch)
            metrics.gates(live)
        await asyncio.sleep(0.005)


def main(path: str, workers: int) -> None:
    """Decide in this process, or in several with shared metrics."""
    if not workers:
        asyncio.run(decide(path, 0))
        return
    from multiprocessing import get_context

    from emsco.serve.metrics_server import MetricsServer, share_metrics

    share_metrics(Path(path).parent / "shared")
    context = get_context("spawn")
    for worker in range(workers):
        context.Process(target=work, args=(f"{path}{worker}", worker), daemon=True).start()
    tell(MetricsServer(None, 0).port)
    time.sleep(600)


def work(path: str, worker: int) -> None:
    """Decide as one of several workers."""
    asyncio.run(decide(path, worker, port=None))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
