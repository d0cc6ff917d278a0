"""A cascade with a chat model in a file: settings alone, and nothing is sent unasked."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from chat_server import ChatServer
from toy_chat import model_of

from emsco import CascadeSearchCV, Costs, dump, load
from emsco.cascade.fingerprint import fingerprint
from emsco.exceptions import ArtifactError, ModelError

KEY = "sk-proj-Zm9vYmFyYmF6"


def table(n):
    rng = np.random.default_rng(0)
    return pd.DataFrame({"easy": rng.normal(size=n).round(2), "hard": rng.normal(size=n).round(2)})


def verdict(question):
    easy, hard = map(float, question.rsplit(" ", 2)[1:])
    return "spam" if easy + 0.2 * hard > 0 else "ham"


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("TOY_KEY", KEY)
    with ChatServer(verdict, key=KEY).running() as server:
        yield server


def searched(server, folder):
    final = model_of(server, folder, prompt="Spam? {easy} {hard}", api_key_env="TOY_KEY")
    return CascadeSearchCV(
        costs=Costs.per_feature({"easy": 1, "hard": 50}), final=final, target="agreement", cv=3,
        random_state=0,
    ).fit(table(400))  # fmt: skip


def test_a_search_for_agreement_is_saved_and_loaded(server, tmp_path):
    search = searched(server, tmp_path)
    n_asked = len(server.bill)
    assert n_asked <= 400  # each row once, although it is in several folds
    X = table(600)[400:]
    decisions = search.best_cascade_.decide(X)
    assert decisions.accepted.all()
    path = tmp_path / "model.emsco"
    n_asked = len(server.bill)
    dump(search.best_cascade_, path)
    assert KEY.encode() not in path.read_bytes()
    trusted = [f"TOY_KEY@{server.base_url}"]
    with pytest.raises(
        ArtifactError, match=r"asks http://127.* with the key in TOY_KEY"
    ) as refused:
        load(path)
    assert trusted[0] in str(refused.value)
    again = load(path, trusted=trusted)
    assert len(server.bill) == n_asked  # neither writing nor reading a file asks anything
    assert again.decider_.final == search.final
    assert again.decide(X).label.tolist() == decisions.label.tolist()
    assert fingerprint(again) == fingerprint(search.best_cascade_)


def test_a_key_of_another_address_is_not_sent_there(server, tmp_path):
    """A forged file that names a secret of the environment, and an address of its own."""
    search = searched(server, tmp_path)
    dump(search, tmp_path / "search.emsco")
    with pytest.raises(ArtifactError, match="TOY_KEY"):
        load(tmp_path / "search.emsco", trusted=[server.base_url, "TOY_KEY", "OPENAI_API_KEY"])
    assert (
        load(tmp_path / "search.emsco", trusted=[f"TOY_KEY@{server.base_url}"]).final.model == "toy"
    )


def test_rows_without_an_answer_end_a_fit(server, tmp_path):
    server.answer = lambda question: None if "0.99" in question else verdict(question)
    with pytest.raises(ModelError, match="gave no label for"):
        searched(server, tmp_path)
