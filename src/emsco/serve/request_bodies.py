"""The bodies of requests, and examples of them that work.

What a client sends is read strictly: a text is no number, and an unknown field is refused. What is
wrong is told by the place in the body, never by what stands there.
"""

from __future__ import annotations

import gc
import hashlib
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from emsco.serve.problem_json import RequestProblem

MOST_LABEL = 256  # characters
_WHOLE = 2**63  # the largest whole numbers that databases have
_LARGE = 65_536  # bytes of a body that is looked at before it is read
_MOST_MISTAKES = 1000  # that are looked at: to list those of a body of a megabyte takes seconds

_NO_CONTROL = r"^[^\x00-\x1f\x7f-\x9f]*$"

Text = Annotated[str, Field(min_length=1)]
Key = Text | Annotated[int, Field(ge=-_WHOLE, lt=_WHOLE)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Value = bool | Annotated[int, Field(ge=-_WHOLE, lt=_WHOLE)] | Number | str | None
Label = (
    bool
    | Annotated[int, Field(ge=-_WHOLE, lt=_WHOLE)]
    | Number
    | Annotated[str, Field(max_length=MOST_LABEL)]
)
# A list with a million mistakes has one that matters.
Keys = Annotated[list[Key], Field(fail_fast=True)]
Values = Annotated[list[Value], Field(fail_fast=True)]
Id = Annotated[str, Field(max_length=128, pattern=r"^[A-Za-z0-9._:-]+$")]


def _nothing() -> Any:
    """Return what stands for a field that is left out; null itself is refused, by its type."""
    return None


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class DecideBody(_Body):
    """What `POST /v1/decide` takes: one key or many, and what is known of them."""

    key: Key = Field(
        default_factory=_nothing, description="The row to decide: a text or a whole number."
    )
    keys: Keys = Field(
        default_factory=_nothing, description="The rows to decide, instead of `key`."
    )
    known: dict[str, Value | Values] = Field(
        default_factory=dict,
        description="Values that you already have, by feature: one value with `key`, a list in the "
        "order of the keys with `keys`. A source of which everything is known is not fetched.",
    )
    id: Id = Field(
        default_factory=_nothing,
        description="Your id of this request. The same id again gets the same answer, and nothing "
        "is bought twice; with another body it is refused. Ids are kept for 7 days.",
    )
    tenant: Annotated[str, Field(max_length=64, pattern=_NO_CONTROL)] = Field(
        "", description="On whose account money is spent."
    )
    receipt: bool = Field(False, description="Whether to tell what was fetched, paid and saved.")
    factors: bool = Field(False, description="Whether to tell what each feature contributed.")

    @property
    def digest(self) -> str:
        """What tells this body from others, apart from its id."""
        known = sorted(self.known.items())
        told = [self.key, self.keys, known, self.tenant, self.receipt, self.factors]
        return hashlib.sha256(to_json(told)).hexdigest()


class FeedbackLabel(_Body):
    """The true label of one decision."""

    id: Annotated[str, Field(min_length=1, max_length=160)] = Field(
        description="The id of the decision, as its answer had it."
    )
    label: Label = Field(description="The true label, once it is known.")


class FeedbackBody(_Body):
    """What `POST /v1/feedback` takes: true labels, late, repeated and in any order."""

    labels: Annotated[list[FeedbackLabel], Field(min_length=1, fail_fast=True)]


_Read = TypeVar("_Read", bound=_Body)


class BodyParser(Generic[_Read]):
    """Reads bodies of one kind.

    Examples
    --------
    >>> from emsco.serve.request_bodies import DecideBody, BodyParser
    >>> read = BodyParser(DecideBody)
    >>> read(b'{"key": "a81f", "known": {"amount": 120}}').known
    {'amount': 120}
    >>> read(b'{"key": "a81f", "retries": 3}')
    Traceback (most recent call last):
    emsco.serve.problem_json.RequestProblem: The body has an unknown field; it may have `key`,
    `keys`, `known`, `id`, `tenant`, `receipt`, `factors`.
    """

    def __init__(self, kind: type[_Read]) -> None:
        self._kind = kind
        self._validate = TypeAdapter(kind).validator.validate_json

    def __call__(self, content: bytes) -> _Read:
        """Read a body, or raise a problem."""
        if len(content) > _LARGE:
            self._look(content)
        try:
            read: _Read = self._validate(content)
        except ValidationError as error:
            raise self._problem(error) from None
        return read

    def _look(self, content: bytes) -> None:
        """Refuse a large body for its first mistake: to find all of them takes long."""
        was_on = gc.isenabled()
        gc.disable()  # it would look through a million values while they are made
        try:
            body = from_json(content)
        except ValueError:
            return  # whoever reads it says where
        finally:
            if was_on:
                gc.enable()
        if not isinstance(body, dict):
            return
        if any(name not in self._kind.model_fields for name in body):
            raise self._unknown()
        known = body.get("known")
        if isinstance(known, dict) and any(_is_no_value(value) for value in known.values()):
            raise RequestProblem(422, "body", f"`known`: {_TOLD['known']}")

    def _unknown(self) -> RequestProblem:
        listed = ", ".join(f"`{name}`" for name in self._kind.model_fields)
        return RequestProblem(422, "body", f"The body has an unknown field; it may have {listed}.")

    def _problem(self, error: ValidationError) -> RequestProblem:
        """Tell the first thing that is wrong, without what the client has sent."""
        if error.error_count() > _MOST_MISTAKES:
            told = f"The body has more than {_MOST_MISTAKES:,} mistakes"
            return RequestProblem(422, "body", f"{told}; /openapi.json describes it.")
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        if first["type"] == "json_invalid":
            return RequestProblem(400, "json", f"The body is not valid JSON{_place(first['msg'])}.")
        if first["type"] == "extra_forbidden":
            if len(first["loc"]) > 1:
                where = f"`{first['loc'][0]}` has an unknown field"
                return RequestProblem(422, "body", f"{where}; it may have `id`, `label`.")
            return self._unknown()
        if not first["loc"]:
            return RequestProblem(422, "body", "The body must be a JSON object.")
        where = str(first["loc"][0])
        row = next((part for part in first["loc"][1:] if isinstance(part, int)), None)
        at = "" if row is None or where == "known" else f", in place {row}"
        return RequestProblem(422, "body", f"`{where}`{at}: {_TOLD.get(where, first['msg'])}")


def _is_no_value(value: Any) -> bool:
    """Return whether something is neither a value nor a list of values."""
    if isinstance(value, list):
        return any(isinstance(one, dict | list) for one in value)
    return isinstance(value, dict)


def _place(message: str) -> str:
    """Keep where JSON ends to be valid: the rest of the message may hold what was sent."""
    _, found, place = message.rpartition(" at line ")
    return f", at line {place}" if found else ""


# What is expected of a field, whatever was sent.
_TOLD = {
    "key": "a text that is not empty, or a whole number of at most 64 bits.",
    "keys": "a list of texts that are not empty, or whole numbers of at most 64 bits.",
    "known": "an object of names with a value (number, text, true, false or null) or a list of "
    "such.",
    "id": "at most 128 letters, digits, and the signs . _ : -",
    "tenant": "a text of at most 64 characters, without control characters.",
    "receipt": "true or false.",
    "factors": "true or false.",
    "labels": 'a list of {"id": the id of a decision, "label": a text of at most '
    f"{MOST_LABEL} characters, a number, true or false}}.",
}


def decide_examples(needed: dict[str, Any], known: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Give examples of what to decide, which work as they stand.

    Parameters
    ----------
    needed : dict of str to value
        What requests of sources use and no source yields, so that every client must send it.
    known : dict of str to value
        The values of a source.
    """
    keys = ["a81f", "77c0"]
    one: dict[str, Any] = {"key": keys[0], "known": needed} if needed else {"key": keys[0]}
    many: dict[str, Any] = {"keys": keys}
    if needed:
        many["known"] = {name: [value] * len(keys) for name, value in needed.items()}
    return {
        "one": {"summary": "One row", "value": one},
        "many": {
            "summary": "Several rows, with a receipt each",
            "value": {**many, "receipt": True},
        },
        "known": {
            "summary": "A row of which something is known already",
            "value": {**one, "known": {**needed, **known}},
        },
        "safe": {
            "summary": "A request that can be repeated: the same id gets the same answer",
            "value": {**one, "id": "order-2041", "tenant": "shop"},
        },
        "why": {"summary": "What the label rests on", "value": {**one, "factors": True}},
    }


def feedback_examples(label: Any) -> dict[str, dict[str, Any]]:
    """Give an example of feedback, with a label that the model has."""
    sent = {"labels": [{"id": "order-2041-0", "label": label}]}
    return {"late": {"summary": "The true label of a decision", "value": sent}}
