"""A table of messages, without labels or prices, labelled by one command and a chat model."""

from __future__ import annotations

import time
from pathlib import Path

import pandas as pd
import pytest
from chat_server import ChatServer
from commands import call

from experiments.text import dear, kept, messages

PROMPT = "Is this spam? "


@pytest.mark.data
@pytest.mark.nightly
@pytest.mark.parametrize("agreement", [0.98, 0.99])
def test_messages_are_labelled_from_nothing(agreement, tmp_path, monkeypatch):
    """The server answers as the kept transformer; calls are saved, and the promise holds."""
    monkeypatch.chdir(tmp_path)
    texts = messages.load().text
    final = ["spam" if answer else "ham" for answer in dear.answers(kept.load().scores)]
    pd.DataFrame({"id": range(len(texts)), "body": texts}).to_csv("tickets.csv", index=False)
    known = dict(zip(texts, final, strict=True))
    with ChatServer(lambda question: known.get(question.removeprefix(PROMPT))).running() as server:
        Path("chat.toml").write_text(
            f'base_url = "{server.base_url}"\nmodel = "kept"\nprompt = "{PROMPT}{{body}}"\n'
            'labels = ["spam", "ham"]\napi_key_env = ""\nprice_in = 0.15\nprice_out = 0.6\n'
            "concurrency = 32\n"
        )
        begin = time.perf_counter()
        found = call("label", "begin", "tickets.csv", "--text", "body", "--labels", "spam,ham",
                     "--key", "id", "--agreement", agreement, "--chat", "chat.toml",
                     "--newlines-in-cells")  # fmt: skip
        seconds = time.perf_counter() - begin
    assert found.code == 0, found.err
    labels = pd.read_csv("job/labels.csv", dtype=str)["label"]
    wrong, avoided = int((labels != final).sum()), 1 - len(server.bill) / len(texts)
    print(f"{agreement}: {avoided:.1%} of calls avoided, {wrong} differ, {seconds:.0f} s")  # noqa: T201  # shown by -s
    assert wrong <= (1 - agreement) * len(texts)  # holds but for one batch in a hundred
    assert avoided > 0.3
    assert seconds < 180
