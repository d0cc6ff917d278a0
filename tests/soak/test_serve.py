"""The experiment on the service can fail: what it watches for, it finds."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest

from emsco import Decisions
from tests.soak.serve.attacks import ATTACKS, unexpected
from tests.soak.serve.cap import Spent
from tests.soak.serve.generator import Found
from tests.soak.serve.kept import logged
from tests.soak.serve.kills import (
    Round,
    counted_twice,
    known_paid,
    twice_in,
    unkept,
    unlike_logged,
)
from tests.soak.serve.reloads import DAMAGES, Expected
from tests.soak.serve.saturation import Overload
from tests.soak.serve.schema import answered, is_passed
from tests.soak.serve.soak import grows, tenths
from tests.soak.serve.stream import bar_of


def answer(name, label="phishing", paid=3.0, billed=True):
    """Make an answer with one decision."""
    fetches = [{"source": "url", "paid": 1.0, "billed": True},
               {"source": "whois", "paid": paid, "billed": billed}]  # fmt: skip
    row = {"id": f"{name}-0", "label": label, "accepted": True, "reason": "", "cost": paid,
           "receipt": {"fetches": fetches}}  # fmt: skip
    return {"id": name, "model": "m", "decisions": [row]}


def body(name, **told):
    """Make an answer as it is sent."""
    return json.dumps(answer(name, **told)).encode()


def entry(name, label="phishing"):
    """Make an entry of the log."""
    return {"id": f"{name}-0", "label": label, "accepted": True, "reason": "", "cost": 3.0}


# Kills


def test_receipts_know_what_was_billed_by_the_vendor_alone():
    assert known_paid(answer("a")) == 3.0
    assert known_paid(answer("a", billed=False)) == 0.0


def test_an_answer_that_is_not_kept_or_kept_otherwise_is_found():
    given = {"a": body("a"), "b": body("b"), "c": body("c")}
    kept = {"a": body("a").decode(), "b": body("b", label="legitimate").decode()}
    assert unkept(given, kept) == ["b", "c"]
    assert unkept({"a": body("a")}, kept) == []


def test_a_decision_that_is_counted_twice_is_found_in_its_round():
    """A killed process loses some; the last one ends in peace, and may lose none."""
    first, second = Round(answered=100, decided=60, without_id=10), Round(180, 150, 20)
    assert counted_twice([first, second]) == []
    assert counted_twice([replace(first, decided=111), replace(second, decided=201)]) == [0]
    assert counted_twice([first, replace(second, decided=149)]) == [1]
    assert counted_twice([first, replace(second, decided=151)]) == [1]
    unheard = replace(second, unheard=2)  # perhaps nobody listened
    assert counted_twice([first, replace(unheard, decided=148)]) == []
    assert counted_twice([first, replace(unheard, decided=147)]) == [1]
    assert counted_twice([first, replace(unheard, decided=151)]) == [1]


def test_a_log_with_a_decision_twice_or_otherwise_is_found(tmp_path):
    for number, entries in enumerate([[entry("a"), entry("b")], [entry("b"), entry("c", "other")]]):
        lines = [json.dumps(one) + "\n" for one in entries]
        (tmp_path / f"decisions-2026-01-31-{number}.jsonl").write_text("".join(lines))
    entries = logged(tmp_path)
    assert twice_in(entries) == ["b-0"]
    given = {name: body(name) for name in ("a", "b", "c", "d")}
    assert unlike_logged(entries, given) == (1, ["c-0"])


# The cap


@pytest.mark.parametrize(
    ("changed", "holds"),
    [
        ({}, True),
        ({"bill": 102.0}, False),  # spent beyond the cap
        ({"bill": 60.0}, False),  # never reached, so that nothing was shown
        ({"refused": 0}, False),
        ({"counted": 96.0}, False),  # the vendor has billed what the state does not know
    ],
)
def test_a_cap_is_reached_and_not_exceeded(changed, holds):
    assert Spent(cap=100.0, bill=99.0, counted=99.0, refused=5)._replace(**changed).holds is holds


# Spot checks on a stream


def stream_bar(what="process", closed=(), **became):
    killed = SimpleNamespace(
        callers=SimpleNamespace(became=Counter({"final": 100, "changed": 10} | became), cheap=50),
        standing={"period": 1}, closed=set(closed),
    )  # fmt: skip
    return bar_of("Redis", what, (20, "day" if what == "process" else "400"), 2, killed)


def test_more_changed_answers_than_all_periods_allow_are_found():
    assert stream_bar(changed=20).met
    assert not stream_bar(changed=21).met
    assert not stream_bar(changed=0).met  # nothing was shown
    assert not stream_bar(**{"wrong final": 1}).met
    restarted = ["store restarted"]
    assert not stream_bar(closed=restarted).met  # nobody restarted it
    assert stream_bar("store", restarted, changed=40).met  # of two periods
    assert not stream_bar("store", restarted, changed=41).met
    assert not stream_bar("store").met  # it went unnoticed


# Reloads


def test_an_answer_of_another_model_than_it_names_is_found():
    decisions = Decisions(["a", "b"], [True, True], [0, 1], [0.9, 0.9], [1.0, 1.0])
    expected = Expected()
    expected.add("m", decisions)
    told = {"label": "b", "accepted": True, "reason": "", "exit_stage": 1}
    assert expected.is_met({"model": "m", "decisions": [told]}, 1)
    assert not expected.is_met({"model": "m", "decisions": [told]}, 0)
    assert not expected.is_met({"model": "other", "decisions": [told]}, 1)
    assert not expected.is_met({"model": "m", "decisions": [told | {"exit_stage": 0}]}, 1)


def test_every_damage_damages():
    content = b"[whois]\npaid = true\n" * 10
    assert len(DAMAGES) == 10
    assert all(damage.spoil(content) != content for damage in DAMAGES.values())


# Attacks


def test_an_attack_that_is_answered_otherwise_or_not_at_all_is_found():
    became = {name: Counter({ATTACKS[name][1][0]: 2}) for name in ATTACKS}
    assert unexpected(became) == {}
    became["no JSON"] += Counter({"500 unexpected": 1})
    became["nothing"] = Counter()
    assert set(unexpected(became)) == {"no JSON", "nothing"}


# Saturation


def found(**changed):
    """Make what became of ten seconds of load, twice as much as 1,000 per second."""
    told = {"begun": 0.0, "seconds": 10.0, "sent": 20_000, "lost": 0,
            "statuses": {200: 9_000, 429: 11_000}, "p50": {200: 0.1}, "p99": {200: 0.2},
            "with_retry": 11_000}  # fmt: skip
    return Found(**told | changed)


SATURATED = found(sent=10_000, statuses={200: 10_000}, p99={200: 0.13}, with_retry=0)


def test_what_is_lost_or_answered_otherwise_under_load_is_found():
    good = Overload([SATURATED] * 3, [found()] * 3)
    assert (good.wrong, good.is_twice, round(good.refused, 2)) == ([], True, 0.55)
    assert round(good.ratio, 2) == 1.54
    assert Overload([SATURATED], [found(lost=1)]).wrong
    assert Overload([SATURATED], [found(statuses={200: 9_000, 503: 11_000})]).wrong
    assert Overload([SATURATED], [found(with_retry=10_999)]).wrong
    assert not Overload([SATURATED], [found(sent=15_000)]).is_twice
    assert Overload([SATURATED], [found(p99={200: 0.3})]).ratio > 2
    assert Overload([SATURATED], [found(p99={})]).ratio == float("inf")


# The schema


def test_a_report_with_a_failure_or_too_few_cases_is_found():
    report = {"complete": True, "failures": [], "errors": [], "exit_code": 0,
              "operations": {"tested": 5, "total": 5},
              "test_cases": {"generated": 400}}  # fmt: skip
    assert is_passed(report, 300)
    assert not is_passed(report, 500)
    for wrong in ({"failures": [{}]}, {"errors": [{}]}, {"complete": False}, {"exit_code": 1},
                  {"operations": {"tested": 4, "total": 5}}):  # fmt: skip
        assert not is_passed(report | wrong, 300)


def test_statuses_are_read_from_metrics():
    metrics = (
        "# HELP emsco_requests_total Requests, by the status of the answer.\n"
        'emsco_requests_total{status="200"} 12.0\nemsco_requests_total{status="500"} 2.0\n'
        'emsco_requests_created{status="200"} 1.7e9\n'
    )
    assert answered(metrics) == {200: 12, 500: 2}


# The soak


def test_what_grows_is_found():
    moments = [number / 10 for number in range(100)]
    flat = tenths(moments, [50.0] * 100, 0.0, 10.0)
    assert flat == [50.0] * 10
    assert not grows(flat, 5.0)
    growing = tenths(moments, [float(number) for number in range(100)], 0.0, 10.0)
    assert grows(growing, 20.0)
    assert grows(tenths(moments[:50], [50.0] * 50, 0.0, 10.0), 5.0)  # nobody looked in the end
