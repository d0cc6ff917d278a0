"""Request bodies, with working examples.

Bodies are parsed strictly: text is not converted to numbers, and unknown fields are refused. Error
messages name the position in the body, never the value found there.
"""

from __future__ import annotations

import gc
import hashlib
import json
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from emsco.serve.problem_json import RequestProblem

MOST_LABEL = 256  # characters
_WHOLE = 2**63  # the limit of integers in databases
_LARGE = 65_536  # bytes; larger bodies are checked before they are validated
_MOST_MISTAKES = 1000  # listing all errors of a body of one megabyte takes seconds

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
# Of a list with a million mistakes, the first one is enough.
Keys = Annotated[list[Key], Field(fail_fast=True)]
Values = Annotated[list[Value], Field(fail_fast=True)]
Id = Annotated[str, Field(max_length=128, pattern=r"^[A-Za-z0-9._:-]+$")]


def _nothing() -> Any:
    """Return the default of an omitted field; an explicit null is refused by its type."""
    return None


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class DecideBody(_Body):
    """Body of `POST /v1/decide`: one key or several, with known values."""

    key: Key = Field(
        default_factory=_nothing, description="The key of the row to decide: text or an integer."
    )
    keys: Keys = Field(
        default_factory=_nothing, description="The keys of the rows to decide, instead of `key`."
    )
    known: dict[str, Value | Values] = Field(
        default_factory=dict,
        description="Values that you already have, by feature: one value with `key`, a list in the "
        "order of the keys with `keys`. A source whose values are all known is not fetched.",
    )
    id: Id = Field(
        default_factory=_nothing,
        description="Your id for this request. Repeating an id returns the same answer and buys "
        "nothing twice; with a different body it is refused. Ids are kept for 7 days.",
    )
    tenant: Annotated[str, Field(max_length=64, pattern=_NO_CONTROL)] = Field(
        "", description="The account that sources are charged to."
    )
    receipt: bool = Field(False, description="Whether to return what was fetched, paid and saved.")
    factors: bool = Field(False, description="Whether to return what each feature contributed.")

    @property
    def digest(self) -> str:
        """Hash of the body without its id."""
        known = sorted(self.known.items())
        fields = [self.key, self.keys, known, self.tenant, self.receipt, self.factors]
        return hashlib.sha256(to_json(fields)).hexdigest()


class DecideRequest(NamedTuple):
    """A request for decisions, whose rows are lists whatever its body was."""

    id: str  # of the body, or a random one
    body: DecideBody
    keys: list[Any]
    known: dict[str, list[Any]] | None


class FeedbackLabel(_Body):
    """The true label of one decision."""

    id: Annotated[str, Field(min_length=1, max_length=160)] = Field(
        description="The id of the decision, as returned in the answer."
    )
    label: Label = Field(description="The true label, once it is known.")


class FeedbackBody(_Body):
    """Body of `POST /v1/feedback`: true labels, which may be late, repeated and in any order."""

    labels: Annotated[list[FeedbackLabel], Field(min_length=1, fail_fast=True)]


_Read = TypeVar("_Read", bound=_Body)


class BodyParser(Generic[_Read]):
    """Parses and validates bodies of one type."""

    def __init__(self, kind: type[_Read]) -> None:
        self._kind = kind
        self._validate = TypeAdapter(kind).validator.validate_json

    def __call__(self, content: bytes) -> _Read:
        """Parse a body, or raise a problem."""
        if len(content) > _LARGE:
            self._look(content)
        try:
            read: _Read = self._validate(content)
        except ValidationError as error:
            raise self._problem(error, content) from None
        return read

    def _look(self, content: bytes) -> None:
        """Refuse a large body for its first mistake: finding all of them takes too long."""
        was_on = gc.isenabled()
        gc.disable()  # it would scan a million values while they are created
        try:
            body = from_json(content)
        except ValueError:
            return  # the validator reports the position
        finally:
            if was_on:
                gc.enable()
        if not isinstance(body, dict):
            return
        if any(name not in self._kind.model_fields for name in body):
            raise self._unknown()
        known = body.get("known")
        if isinstance(known, dict) and any(_is_no_value(value) for value in known.values()):
            raise RequestProblem(422, "body", f"`known`: {_EXPECTED['known']}")

    def _unknown(self) -> RequestProblem:
        listed = ", ".join(f"`{name}`" for name in self._kind.model_fields)
        return RequestProblem(
            422, "body", f"The body has an unknown field; the fields are {listed}."
        )

    def _problem(self, error: ValidationError, content: bytes) -> RequestProblem:
        """Describe the first mistake, without any value that the client sent."""
        if error.error_count() > _MOST_MISTAKES:
            message = f"The body has more than {_MOST_MISTAKES:,} mistakes"
            return RequestProblem(422, "body", f"{message}; /openapi.json describes it.")
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        if first["type"] == "json_invalid":
            return RequestProblem(400, "json", f"The body is not valid JSON{_place(content)}.")
        if first["type"] == "extra_forbidden":
            if len(first["loc"]) > 1:
                where = f"`{first['loc'][0]}` has an unknown field"
                return RequestProblem(422, "body", f"{where}; the fields are `id`, `label`.")
            return self._unknown()
        if not first["loc"]:
            return RequestProblem(422, "body", "The body must be a JSON object.")
        where = str(first["loc"][0])
        row = next((part for part in first["loc"][1:] if isinstance(part, int)), None)
        at = "" if row is None or where == "known" else f", item {row}"
        return RequestProblem(422, "body", f"`{where}`{at}: {_EXPECTED.get(where, first['msg'])}")


def _is_no_value(value: Any) -> bool:
    """Return whether this is neither a value nor a list of values."""
    if isinstance(value, list):
        return any(isinstance(one, dict | list) for one in value)
    return isinstance(value, dict)


def _place(content: bytes) -> str:
    """Return where JSON is invalid, if Python finds it invalid, too."""
    try:
        json.loads(content)
    except json.JSONDecodeError as error:
        return f", at line {error.lineno} column {error.colno}"
    except ValueError:  # not text
        pass
    return ""


# What a field must be; messages never contain what was sent.
_EXPECTED = {
    "key": "must be non-empty text or a 64-bit integer.",
    "keys": "must be a list of non-empty texts or 64-bit integers.",
    "known": "must be an object that maps each name to a value (number, text, true, false or null) "
    "or to a list of values.",
    "id": "must be 1 to 128 letters, digits or the characters . _ : -",
    "tenant": "must be text of at most 64 characters, without control characters.",
    "receipt": "must be true or false.",
    "factors": "must be true or false.",
    "labels": 'must be a list of {"id": the id of a decision, "label": text of at most '
    f"{MOST_LABEL} characters, a number, true or false}}.",
}


def decide_examples(needed: dict[str, Any], known: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return example bodies for `POST /v1/decide` that work as they are."""
    keys = ["a81f", "77c0"]
    one: dict[str, Any] = {"key": keys[0], "known": needed} if needed else {"key": keys[0]}
    many: dict[str, Any] = {"keys": keys}
    if needed:
        many["known"] = {name: [value] * len(keys) for name, value in needed.items()}
    return {
        "one": {"summary": "One row", "value": one},
        "many": {
            "summary": "Several rows, each with a receipt",
            "value": {**many, "receipt": True},
        },
        "known": {
            "summary": "A row with known values",
            "value": {**one, "known": {**needed, **known}},
        },
        "safe": {
            "summary": "A request that is safe to repeat: the same id returns the same answer",
            "value": {**one, "id": "order-2041", "tenant": "shop"},
        },
        "why": {"summary": "The factors behind the label", "value": {**one, "factors": True}},
    }
