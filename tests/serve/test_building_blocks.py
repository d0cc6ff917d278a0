"""The small parts of the service, each alone: draws, limits, reasons, addresses, problems."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from emsco import Decisions
from emsco.exceptions import ServiceError, StateError
from emsco.monitor import CertificateMonitor
from emsco.serve.audit_cohorts import Audit, Cohort
from emsco.serve.bearer_tokens import Tokens, is_forwarded, is_loopback
from emsco.serve.canary import KeyDraw
from emsco.serve.events import where
from emsco.serve.incarnation import Incarnation
from emsco.serve.metrics import Metrics
from emsco.serve.model_compatibility import ModelTerms
from emsco.serve.model_monitor import by_decisions, by_labels
from emsco.serve.problem_json import RequestProblem, problem
from emsco.serve.rejection_causes import is_failure, is_passing, sent_invalid
from emsco.serve.request_bodies import BodyParser, DecideBody
from emsco.serve.request_limits import Queue, is_too_deep
from emsco.serve.settings import Settings
from emsco.serve.state._redis_state import redis_concerns
from emsco.serve.state.base import day_number, day_of, share_of
from emsco.serve.state.executors import GroupCommit
from emsco.serve.state.state_url import alone, without_secrets


def test_an_audit_draws_its_share_of_ids():
    audit = Audit(0.02, b"secret")
    drawn = audit.drawn([f"call-{row}" for row in range(10_000)])
    assert len(drawn) == 223
    assert audit.is_drawn(f"call-{drawn[0]}")
    assert not audit.is_drawn("call-0")


def test_a_cohort_states_its_accuracy_if_all_rows_without_a_label_were_wrong():
    day = Cohort(0, 86_400, accepted=100, labelled=90, right=86)
    assert (day.unlabelled, round(day.accuracy, 3), day.accuracy_at_worst) == (10, 0.956, 0.86)


def test_a_draw_of_keys_takes_its_share():
    draw = KeyDraw(0.05, b"secret", "a model")
    assert sum(draw(f"customer-{number}") for number in range(10_000)) == 501


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("example.com", False),
    ],
)
def test_a_loopback_address_is_reachable_from_this_machine_only(host, expected):
    assert is_loopback(host) is expected


def test_a_proxy_shows_in_the_headers():
    assert is_forwarded([b"host", b"x-forwarded-for"])
    assert not is_forwarded([b"host", b"accept"])


def test_a_token_is_needed_for_its_use_only():
    tokens = Tokens({"decide": "correct horse battery"})
    tokens.check("decide", b"Bearer correct horse battery")
    tokens.check("feedback", None)
    with pytest.raises(RequestProblem, match="Send the header `Authorization: Bearer TOKEN`"):
        tokens.check("decide", b"Bearer wrong horse")


def test_an_error_is_logged_by_type_and_line_without_its_text():
    with pytest.raises(ValueError, match="invalid literal") as failed:
        int("the key of a customer")
    assert where(failed.value).startswith("ValueError at test_building_blocks.py:")


def test_an_incarnation_survives_as_text():
    one = Incarnation("81f3", "2026-01-31T12:00:00+00:00")
    assert Incarnation.from_text(one.to_text()) == one


def test_a_rejected_row_counts_with_what_it_cost():
    metrics = Metrics()
    metrics.decided(Decisions(["no"], [False], [1], [0.6], [3.5]), seconds=0.004)
    assert metrics.registry.get_sample_value("emsco_paid_total", {"model": ""}) == 3.5


def test_a_new_model_must_have_the_labels_of_the_one_in_use():
    before = ModelTerms(("fraud", "good"), is_certified=False)
    message = (
        "The new model has the labels 'bad', 'good', but the model in use has 'fraud', 'good', "
        "which clients rely on; restart the service to change them."
    )
    with pytest.raises(ServiceError, match=message):
        ModelTerms(("bad", "good"), is_certified=True).check_after(before, Settings())


def test_the_parts_of_a_monitor_share_its_promises():
    whole = CertificateMonitor(accuracy=0.95, coverage=0.9, exits=(0.8, 0.2), rows=2000)
    assert list(by_labels(whole).evidence) == ["accuracy"]
    assert list(by_decisions(whole).evidence) == ["coverage", "exits"]


def test_a_problem_is_json():
    assert problem("queue-full").status == 429
    assert RequestProblem(413, "body-size", "Send at most 1000 bytes.").content == (
        b'{"type":"urn:emsco:body-size","title":"The body is too large","status":413,'
        b'"detail":"Send at most 1000 bytes."}'
    )


def test_reasons_are_failures_of_sources_or_not_and_may_pass_or_not():
    reasons = ("timeout: whois", "missing: whois", "out of range: TSH", "error: log", "")
    assert [is_failure(reason) for reason in reasons] == [True, True, False, True, False]
    assert [is_passing(reason) for reason in reasons] == [True, False, False, True, False]


def test_invalid_values_are_the_callers_only_if_the_caller_sent_them():
    odd = Decisions(["no"], [False], [0], [0.0], [0.0], reason=["invalid value: age"])
    assert sent_invalid(odd, {"age"}, {}) == [0]
    assert sent_invalid(odd, set(), {}) == []


def test_a_body_with_an_unknown_field_is_refused():
    read = BodyParser(DecideBody)
    assert read(b'{"key": "a81f", "known": {"amount": 120}}').known == {"amount": 120}
    with pytest.raises(RequestProblem, match="has an unknown field; the fields are `key`, `keys`"):
        read(b'{"key": "a81f", "retries": 3}')


def test_depth_is_counted_outside_of_text():
    assert not is_too_deep(b'{"known": {"text": "' + b"[" * 100 + b'"}}')
    assert is_too_deep(b'{"known": ' + b"[" * 100 + b"]" * 100 + b"}")


def test_a_queue_refuses_who_can_neither_run_nor_wait():
    async def ask(queue):
        async with queue:
            await asyncio.sleep(0.01)

    async def ask_four():
        queue = Queue(running=1, waiting=2)
        answers = await asyncio.gather(*(ask(queue) for _ in range(4)), return_exceptions=True)
        return [getattr(answer, "status", "answered") for answer in answers]

    assert asyncio.run(ask_four()) == ["answered", "answered", "answered", 429]


def test_several_workers_need_a_shared_state():
    assert Settings(port=8080).url == "http://127.0.0.1:8080"
    with pytest.raises(ServiceError, match="--workers 2 needs --state redis://"):
        Settings(workers=2)


def test_operations_wait_for_the_running_batch_only():
    sizes = []

    async def double(numbers):
        sizes.append(len(numbers))
        return [2 * number for number in numbers]

    async def main():
        batches = GroupCommit(double)
        return await asyncio.gather(*(batches.run(number) for number in (1, 2, 3)))

    assert asyncio.run(main()) == [2, 4, 6]
    assert sizes == [3]


def test_a_day_is_a_number_and_a_date():
    assert (day_of(20_484), day_number("2026-01-31")) == ("2026-01-31", 20_484)
    with pytest.raises(StateError, match="The day must look like"):
        day_number("31.1.2026")


def test_a_bill_cannot_have_more_than_is_unknown():
    assert share_of(3.0, unknown=12.0) == 0.25
    assert share_of(0.0, unknown=0.0) == 0.0
    with pytest.raises(StateError, match="must be from 0 to 12"):
        share_of(13.0, unknown=12.0)


def test_redis_without_a_file_is_a_concern():
    assert [concern.loses for concern in redis_concerns("redis://host", {}, "")] == [True]
    assert redis_concerns("redis://host", {"aof_enabled": 1}, "") == []


def test_a_url_is_shown_without_secrets():
    address = "postgresql://me:pass@word@host:5432/db?sslmode=require"
    assert without_secrets(address) == "postgresql://host:5432/db"


def test_a_locked_state_has_a_file_beside_it(tmp_path):
    with alone(Path(tmp_path, "state.sqlite"), "cards"):
        assert [path.name for path in tmp_path.iterdir()] == ["state.sqlite.lock"]
