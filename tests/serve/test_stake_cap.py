"""A service of a model with a cap on stakes needs the stake of every row."""

from served import CASCADE, QUICK, THOROUGH, Store, served

from emsco import CascadeClassifier
from emsco.cascade.stake_cap import StakeCap

CAPPED = CascadeClassifier.of(
    CASCADE.decider_.capped(StakeCap("amount", 500)), CASCADE.fitted_rows_, threshold=0.8
)


def test_rows_above_the_cap_are_rejected_and_fetch_nothing(tmp_path):
    store = Store()
    with served(tmp_path, store.sources, cascade=CAPPED) as one:
        body = {"keys": [QUICK, THOROUGH], "known": {"amount": [20, 900]}}
        first, second = one.decide(**body).json()["decisions"]
        assert first["accepted"]
        assert (second["accepted"], second["reason"]) == (False, "above cap: amount")
        assert second["cost"] == 0
        assert THOROUGH not in store.asked["page"] + store.asked["bureau"]
        refused = one.decide(key=QUICK)
        assert refused.status_code == 422
        assert "amount" in refused.text
        (odd,) = one.decide(key=QUICK, known={"amount": "much"}).json()["decisions"]
        assert odd["reason"] == "invalid value: amount"
        listed = one.client.get("/v1/model").json()
        assert "amount" in listed["known"]
