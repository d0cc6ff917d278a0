"""The bodies of requests and answers of the chat completions API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, isfinite
from typing import Any, NamedTuple

from emsco.chat.label_reading import LabelSet
from emsco.chat.spending import Usage

PATH = "/chat/completions"
# What an endpoint may refuse: the request is then sent without it, or with its other name.
SCHEMA, LOGPROBS, TEMPERATURE, MAX_TOKENS = (
    "response_format",
    "logprobs",
    "temperature",
    "max_tokens",
)
REFUSABLE = (SCHEMA, LOGPROBS, TEMPERATURE, MAX_TOKENS)
_OTHER_NAMES = {SCHEMA: ("json_schema", "structured output"), LOGPROBS: ("log_probs", "logprob")}
_COMPLETE = ("stop", "eos_token", "end_turn", "stop_sequence")
_QUOTED = 200  # characters of an answer that is no label, in the question that is repeated


class ChatReply(NamedTuple):
    """What an endpoint answered: its text, why it ended, and the trust in its label if known."""

    content: str | None
    finish: str
    trust: float | None

    @property
    def is_refused(self) -> bool:
        """Whether the model refused to answer, so that it need not be asked again."""
        return self.finish in ("refusal", "content_filter", "invalid_request")


@dataclass(frozen=True)
class ChatRequest:
    """A question as it is sent.

    Parameters
    ----------
    model : str
        The name of the model.
    labels : LabelSet
        What it may answer.
    max_tokens : int
        The longest answer.
    logprobs : bool
        Whether to ask for log-probabilities.
    messages : sequence of (role, text)
        The conversation.
    """

    model: str
    labels: LabelSet
    max_tokens: int
    logprobs: bool
    messages: tuple[tuple[str, str], ...]

    @classmethod
    def of(
        cls, model: str, labels: LabelSet, max_tokens: int, logprobs: bool, question: str
    ) -> ChatRequest:
        """Ask about a row for the first time."""
        instruction = f"Answer with one of these labels and nothing else: {labels.listing}"
        return cls(
            model, labels, max_tokens, logprobs, (("system", instruction), ("user", question))
        )

    def again(self, reply: ChatReply | None) -> ChatRequest:
        """Ask again, because the answer was no label."""
        said = (reply.content if reply is not None else None) or ""
        correction = f"This is not one of the labels. Answer with one of: {self.labels.listing}"
        more = (("assistant", said[:_QUOTED]), ("user", correction)) if said else (
            ("user", correction),)  # fmt: skip
        return replace(self, messages=(*self.messages, *more))

    def body(self, refused: Sequence[str] = ()) -> dict[str, Any]:
        """Return the body of the request, without what the endpoint refuses."""
        limit = "max_completion_tokens" if MAX_TOKENS in refused else MAX_TOKENS
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": role, "content": text} for role, text in self.messages],
            limit: self.max_tokens,
        }
        if TEMPERATURE not in refused:
            body[TEMPERATURE] = 0
        if self.logprobs and LOGPROBS not in refused:
            body[LOGPROBS] = True
        if SCHEMA not in refused:
            schema = {"name": "answer", "strict": True, "schema": self.labels.schema}
            body[SCHEMA] = {"type": "json_schema", "json_schema": schema}
        return body


def encode(body: Mapping[str, Any]) -> bytes:
    """Write the body of a request, the same bytes each time."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def read_document(content: bytes) -> Any:
    """Read JSON; None if it is not valid."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def read_usage(document: Any) -> Usage | None:
    """Return the tokens that an answer says it was charged for; None if it does not say."""
    usage = _get(document, "usage")
    tokens_in, tokens_out = _get(usage, "prompt_tokens"), _get(usage, "completion_tokens")
    if not (_is_count(tokens_in) and _is_count(tokens_out)):
        return None
    total = _get(usage, "total_tokens")
    if _is_count(total):  # some leave thoughts out of one and count them in the other
        tokens_out = max(tokens_out, total - tokens_in)
    return Usage(tokens_in, tokens_out)


def read_reply(document: Any, labels: LabelSet) -> ChatReply | None:
    """Return what an endpoint answered; None if it is no answer of a chat model."""
    choices = _get(document, "choices")
    if not isinstance(choices, list) or len(choices) != 1:
        return None
    message, finish = _get(choices[0], "message"), _get(choices[0], "finish_reason")
    if not isinstance(message, dict) or not isinstance(finish, str):
        return None
    content = message.get("content")
    if message.get("refusal"):
        return ChatReply(None, "refusal", None)
    if content is not None and not isinstance(content, str):
        return None
    return ChatReply(content, finish, _trust(content, _get(choices[0], "logprobs"), labels))


def label_of(reply: ChatReply | None, labels: LabelSet) -> Any:
    """Return the label that a reply consists of; None if it is none, or was cut off."""
    if reply is None or reply.content is None or reply.finish not in _COMPLETE:
        return None
    found = labels.read(reply.content)
    return None if found is None else found.label


def refused_option(status: int, document: Any, body: Mapping[str, Any]) -> str | None:
    """Return which option of a request an endpoint refuses, by what it says; None if none."""
    if status not in (400, 403, 404, 422):
        return None
    parameter = _get(_get(document, "error"), "param")
    said = (parameter if isinstance(parameter, str) else error_text(document)).casefold()
    for name in REFUSABLE:
        if name not in body or not any(
            word in said for word in (name, *_OTHER_NAMES.get(name, ()))
        ):
            continue
        # Elsewhere, it is the question that is too long for the answer.
        if name != MAX_TOKENS or "max_completion_tokens" in error_text(document):
            return name
    return None


def error_text(document: Any) -> str:
    """Return what an endpoint says about an error."""
    error = _get(document, "error")
    parts = [_get(error, "message"), _get(error, "param")] if isinstance(error, dict) else [error]
    parts += [_get(document, "message"), _get(document, "detail")]
    return " ".join(part for part in parts if isinstance(part, str))


def _trust(content: str | None, logprobs: Any, labels: LabelSet) -> float | None:
    """Return the probability of the tokens of the label; None if it is not known.

    The tokens around a label are left out: a model that is made to write JSON may well have
    preferred to begin otherwise.
    """
    tokens = _get(logprobs, "content")
    label = None if content is None else labels.read(content)
    if label is None or content is None or not isinstance(tokens, list):
        return None
    start, end = (len(content[:place].encode()) for place in (label.start, label.end))
    total, place, written = 0.0, 0, b""
    for token in tokens:
        text, logprob = _token_bytes(token), _get(token, "logprob")
        if text is None or isinstance(logprob, bool) or not isinstance(logprob, int | float):
            return None
        if place < end and place + len(text) > start:
            total += logprob
        place += len(text)
        written += text
    if not written.startswith(content.encode()) or not isfinite(total) or total > 1e-6:
        return None
    return min(1.0, exp(total))


def _token_bytes(token: Any) -> bytes | None:
    raw, text = _get(token, "bytes"), _get(token, "token")
    if isinstance(raw, list) and all(_is_count(one) and one < 256 for one in raw):
        return bytes(raw)
    return text.encode("utf-8", "replace") if isinstance(text, str) else None


def _get(document: Any, name: str) -> Any:
    return document.get(name) if isinstance(document, dict) else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**40
