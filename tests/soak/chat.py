"""Chat models under faults and kills: no wrong label, no answer paid for twice, and the whole bill.

A server of the tests answers over real sockets and keeps books of its own. In the first part,
twenty of a hundred requests have a fault. In the second, the process that asks is killed at random.
In the third, money ends in the middle, again and again.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from emsco.exceptions import EndpointError
from emsco.final import ChatModel
from experiments.tables import markdown
from tests.chat.chat_server import COUNTED, FAULTS, Charge, ChatServer

QUESTIONS, SMALL_QUESTIONS = 20_000, 1_500
KILLS, SMALL_KILLS = 20, 4
PRICE_IN, PRICE_OUT = 0.15, 0.6
LABELS = ["spam", "ham", "unsure"]
SHARE = 0.2
PARTS = ("faults", "kills", "money")


def messages(n: int) -> pd.DataFrame:
    """Make rows, whose label follows from their number."""
    return pd.DataFrame({"text": [f"message {i}" for i in range(n)]})


def label_of(question: str) -> str:
    """Return the label of a question."""
    return LABELS[int(question.rsplit(" ", 1)[1]) % 3]


def model_of(base_url: str, folder: str, **settings: Any) -> ChatModel:
    """Make a model that asks the server."""
    return ChatModel(
        base_url, "toy", "Is this spam? {text}", LABELS, api_key_env=None,
        answers=os.path.join(folder, "answers.sqlite"), price_in=PRICE_IN, price_out=PRICE_OUT,
        **{"timeout": 4.0, "backoff": 0.05, "concurrency": 32, **settings},
    )  # fmt: skip


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Run the parts; give a table of what was found, or end with what is wrong."""
    parts = {"faults": faults, "kills": kills, "money": money}
    found: list[list[str]] = []
    for name, part in parts.items():
        if only and name not in only:
            continue
        begin = time.monotonic()
        facts = part(small=small)
        facts["seconds"] = round(time.monotonic() - begin, 1)
        sys.stdout.write(json.dumps({"part": name, **facts}) + "\n")
        sys.stdout.flush()
        found += [[name, fact, f"{value:,}"] for fact, value in facts.items()]
    return markdown(["part", "what", "found"], found)


def faults(*, small: bool) -> dict[str, Any]:
    """Ask many questions, a fifth of them with a fault, with just enough money."""
    n = SMALL_QUESTIONS if small else QUESTIONS
    with (
        ChatServer(label_of, share=SHARE, seed=1).running() as server,
        TemporaryDirectory() as here,
    ):
        model = model_of(server.base_url, here, max_spend=n * 1e-4)
        labels = asyncio.run(model(messages(n)))
        wrong = sum(label not in (None, LABELS[i % 3]) for i, label in enumerate(labels))
        spending = model.spending()
        facts = {
            "questions": n,
            "kinds of faults": len(server.kinds - {"none"}),
            "requests charged": len(server.bill),
            "wrong labels": wrong,
            "no label": sum(label is None for label in labels),
            "bill": round(server.charged(PRICE_IN, PRICE_OUT), 9),
            "of it known": round(spending.known, 9),
            "of it unknown": round(server.charged(PRICE_IN, PRICE_OUT, counted=False), 9),
            "upper bound of that": round(spending.unknown, 9),
        }
        _must(not wrong, "a label is wrong", facts)
        _must(facts["no label"] < 0.1 * n, "too many rows have no label", facts)
        lost = _lost(Path(model.answers or ""))
        explained = math.fsum(
            (charge.tokens_in * PRICE_IN + charge.tokens_out * PRICE_OUT) / 1e6
            for charge in _known(server.bill, lost)
        )
        facts["of it unknown"] = round(facts["bill"] - explained, 9)
        _must(abs(explained - spending.known) < 1e-7, "the bill is not what was told", facts)
        _must(lost.total() == spending.n_unknown, "a lost call was not told", facts)
        n_lost = sum(one.kind not in COUNTED for one in server.bill)
        _must(n_lost <= spending.n_unknown, "a lost call was not told", facts)
        _must(facts["of it unknown"] <= spending.unknown, "an upper bound is none", facts)
        _must(facts["bill"] <= n * 1e-4, "more was charged than was allowed", facts)
        _must(server.kinds >= {*FAULTS}, "a fault did not occur", facts)
    return facts


_CHILD = """
import asyncio, sys
sys.path.insert(0, "."); from tests.soak.chat import messages, model_of
found = asyncio.run(model_of(sys.argv[1], sys.argv[2])(messages(int(sys.argv[3]))))
print(len(found))
"""


def kills(*, small: bool) -> dict[str, Any]:
    """Kill the process that asks at random times, and begin it again."""
    n_kills, rng = (SMALL_KILLS if small else KILLS), random.Random(2)
    n = 150 * n_kills
    with (
        ChatServer(label_of, share=SHARE, delay=0.02, seed=2).running() as server,
        TemporaryDirectory() as here,
    ):
        command = [sys.executable, "-c", _CHILD, server.base_url, here, str(n)]
        model = model_of(server.base_url, here)
        killed = twice = 0
        while True:
            come, at = _digests(Path(model.answers or "")), len(server.bill)
            child = subprocess.Popen(command, stdout=subprocess.PIPE)
            if killed < n_kills:
                began = time.monotonic()
                while len(server.bill) == at and child.poll() is None:  # it has begun to ask
                    time.sleep(0.01)
                time.sleep(rng.uniform(0.0, 2.0))
                child.send_signal(signal.SIGKILL)
                killed += child.wait() == -signal.SIGKILL
                _must(time.monotonic() - began < 600, "a process asks nothing", {})
            else:
                _must(child.wait() == 0, "the last process ended with an error", {})
            time.sleep(0.1)
            twice += sum(one.digest in come for one in server.bill[at:])
            spending = model.spending()
            bill = server.charged(PRICE_IN, PRICE_OUT)
            facts = {
                "questions": n, "kills": killed, "answers paid for again": twice,
                "requests charged": len(server.bill),
                "bill": round(bill, 9), "known": round(spending.known, 9),
                "upper bound of the rest": round(spending.unknown, 9),
            }  # fmt: skip
            _must(not twice, "an answer that had come was paid for again", facts)
            _must(spending.known <= bill + 1e-9, "more is known than was charged", facts)
            _must(bill <= spending.known + spending.unknown + 1e-9, "a charge is missing", facts)
            if child.returncode == 0 and killed >= n_kills:
                break
        lost = sum(one.kind not in COUNTED for one in server.bill)
        facts["in flight when killed"] = spending.n_unknown - lost
        _must(0 <= facts["in flight when killed"] <= 32 * killed, "calls in flight are odd", facts)
    return facts


def money(*, small: bool) -> dict[str, Any]:
    """Ask with a limit that is reached, three processes at a time, and raise it step by step."""
    n, steps = (300, 2) if small else (6_000, 12)
    with (
        ChatServer(label_of, share=SHARE, seed=3).running() as server,
        TemporaryDirectory() as here,
    ):
        reached = 0
        for step in range(1, steps + 1):
            most = step * n * 4e-5 / steps
            code = (
                'import asyncio, sys; sys.path.insert(0, "."); '
                "from tests.soak.chat import asked_with\n"
                f"print(asked_with({server.base_url!r}, {here!r}, {n}, {most}))"
            )
            children = [
                subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
                for _ in range(3)
            ]
            ends = [child.communicate()[0].strip() for child in children]
            _must({*ends} <= {"stopped", "done"}, "a process ended otherwise", {"ends": ends})
            reached += ends.count("stopped")
            bill = server.charged(PRICE_IN, PRICE_OUT)
            _must(bill <= most, "more was charged than was allowed", {"bill": bill, "most": most})
        facts = {
            "questions": n, "limits": steps, "processes stopped by one": reached,
            "bill": round(bill, 9), "last limit": most,
        }  # fmt: skip
        _must(reached > 0, "no limit was reached", facts)
    return facts


def asked_with(base_url: str, folder: str, n: int, most: float) -> str:
    """Ask in a process of its own; say whether money ended it."""
    try:
        asyncio.run(model_of(base_url, folder, max_spend=most, timeout=2.0)(messages(n)))
    except EndpointError as error:
        return "stopped" if "max_spend" in str(error) else str(error)
    return "done"


def _lost(path: Path) -> Counter[str]:
    """Return the digests of the calls whose cost is told as unknown."""
    with closing(sqlite3.connect(path)) as db:
        return Counter(digest for (digest,) in db.execute("SELECT digest FROM reservation"))


def _known(bill: list[Charge], lost: Counter[str]) -> list[Charge]:
    """Return the charges that are not lost; all of a request cost the same.

    The server cannot say which these are: an answer that it has sent may still come too late.
    """
    left, known = Counter(lost), []
    for charge in bill:
        if left[charge.digest]:
            left[charge.digest] -= 1
        else:
            known.append(charge)
    return known


def _digests(path: Path) -> set[str]:
    """Return the digests of the requests whose answers have come."""
    if not path.exists():
        return set()
    with closing(sqlite3.connect(path)) as db:
        return {digest for (digest,) in db.execute("SELECT digest FROM reply")}


def _must(is_so: bool, otherwise: str, facts: dict[str, Any]) -> None:
    if not is_so:
        raise SystemExit(f"{otherwise}: {json.dumps(facts)}")
