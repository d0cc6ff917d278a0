"""A small table of messages, what a server answers to them, and a model that asks it."""

from __future__ import annotations

import pandas as pd

from emsco.final import ChatModel

PROMPT = "Is this spam? {text}"
LABELS = ("spam", "ham")
PRICES = {"price_in": 0.15, "price_out": 0.6}


def messages(n):
    """Make rows, whose label follows from their number."""
    return pd.DataFrame({"text": [f"message {i}" for i in range(n)]})


def label_of(question):
    """Answer a question as the table has it."""
    return LABELS[int(question.rsplit(" ", 1)[1]) % 2]


def truth(n):
    """Give the labels of the rows."""
    return [LABELS[i % 2] for i in range(n)]


def model_of(server, folder, **settings):
    """Make a model that asks a server, with little patience."""
    quick = {"api_key_env": None, "timeout": 5.0, "backoff": 0.02, **PRICES}
    own = {"prompt": PROMPT, "labels": LABELS, "answers": folder / "answers.sqlite"}
    given = {"base_url": server.base_url, "model": "toy"} | quick | own | settings
    return ChatModel(**given)
