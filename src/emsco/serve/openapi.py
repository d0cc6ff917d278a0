"""The OpenAPI description of the service, with examples that work."""

from __future__ import annotations

from typing import Any

from emsco.serve.deployment import Deployment
from emsco.serve.problem_json import MEDIA_TYPE, TITLES
from emsco.serve.request_bodies import DecideBody, FeedbackBody, decide_examples
from emsco.serve.settings import Settings

_PROBLEM = {"$ref": "#/components/schemas/Problem"}
_ANY: dict[str, Any] = {}
_TEXT, _NUMBER, _WHOLE, _BOOL = (
    {"type": name} for name in ("string", "number", "integer", "boolean")
)


def description(deployed: Deployment, settings: Settings) -> dict[str, Any]:
    """Return the OpenAPI description of the service with this model and these limits."""
    from emsco import __version__

    needed = {name: deployed.example(name) for name in deployed.needed}
    first = deployed.decider.costs.columns(deployed.bought[0])
    known = {name: deployed.example(name) for name in first}
    label = {"id": "order-2041-0", "label": deployed.decider.classes.tolist()[0]}
    late = {"summary": "The true label of a decision", "value": {"labels": [label]}}
    problem = _object({"type": _TEXT, "title": _TEXT, "status": _WHOLE, "detail": _TEXT})
    schemas = {**_bodies(deployed, settings), **_answers(), "Problem": problem}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "emsco",
            "version": __version__,
            "description": "Decisions of a cascade that buys features in stages, exits when it is "
            "confident, and rejects when it never is.",
        },
        "paths": {
            "/v1/decide": {"post": _post(
                "decide", "Decide one row or several", "Decide", decide_examples(needed, known),
                "Answer", (400, 401, 408, 409, 413, 415, 422, 429, 500, 503),
            )},
            "/v1/feedback": {"post": _post(
                "feedback", "Send true labels", "Feedback", {"late": late},
                "Taken", (400, 401, 408, 413, 415, 422, 429, 500, 503),
            )},
            "/v1/model": {"get": _get(
                "model", "Get design, prices, certificate and alarms", "Model", (400, 401, 500)
            )},
            "/healthz": {"get": _get("healthz", "Liveness check", "Status", (400, 500))},
            "/readyz": {"get": _get(
                "readyz", "Readiness check", "Status", (400, 500, 503)
            )},
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }  # fmt: skip


def _post(
    name: str,
    summary: str,
    body: str,
    examples: dict[str, Any],
    answer: str,
    problems: tuple[int, ...],
) -> dict[str, Any]:
    content = {"schema": {"$ref": f"#/components/schemas/{body}"}, "examples": examples}
    sent = {"required": True, "content": {"application/json": content}}
    return {**_get(name, summary, answer, problems), "requestBody": sent}


def _get(name: str, summary: str, answer: str, problems: tuple[int, ...]) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{answer}"}
    responses: dict[str, Any] = {
        "200": {"description": "OK", "content": {"application/json": {"schema": schema}}}
    }
    for status in problems:
        content = {MEDIA_TYPE: {"schema": _PROBLEM}}
        responses[str(status)] = {"description": TITLES[status], "content": content}
    described = {"operationId": name, "summary": summary, "responses": responses}
    return described if 401 not in problems else {**described, "security": [{"bearer": []}, {}]}


def _object(properties: dict[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    needed = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": needed}


def _list(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


def _bodies(deployed: Deployment, settings: Settings) -> dict[str, Any]:
    """Return the schemas of request bodies, as strict as a schema can be."""
    found: dict[str, Any] = {}
    for name, kind in (("Decide", DecideBody), ("Feedback", FeedbackBody)):
        schema = kind.model_json_schema(ref_template="#/components/schemas/{model}")
        found |= schema.pop("$defs", {})
        found[name] = schema
    decide, feedback = found["Decide"], found["Feedback"]
    fields = decide["properties"]
    fields["key"]["anyOf"][0]["maxLength"] = settings.max_key
    fields["keys"]["items"]["anyOf"][0]["maxLength"] = settings.max_key
    fields["keys"] |= {"minItems": 1, "maxItems": settings.max_rows}
    feedback["properties"]["labels"]["maxItems"] = settings.max_rows
    values = fields["known"].pop("additionalProperties")
    one = {"anyOf": [kind for kind in values["anyOf"] if kind.get("type") != "array"]}
    fields["known"] |= {"additionalProperties": False, "required": list(deployed.needed)}
    fields["known"]["properties"] = dict.fromkeys((*deployed.features, *deployed.needed), values)
    decide["required"] = ["known"] if deployed.needed else []
    decide["oneOf"] = [
        {"required": ["key"], "properties": {"known": {"additionalProperties": one},
                                             "keys": False}},
        {"required": ["keys"], "properties": {"known": {"additionalProperties": _list(one)},
                                              "key": False}},
    ]  # fmt: skip
    return found


def _answers() -> dict[str, Any]:
    """Return the schemas of answers."""
    decision = _object(
        {"id": _TEXT, "label": {"description": "The label; null if the row is rejected."},
         "accepted": _BOOL,
         "guess": {"description": "The best guess for a rejected row; null if no stage judged it."},
         "reason": _TEXT,
         "retry": _BOOL | {"description": "Whether a retry with a new id may succeed."},
         "confidence": _NUMBER, "cost": _NUMBER, "exit_stage": _WHOLE, "latency": _NUMBER,
         "share": _NUMBER | {"description": "Of the label, if labels have weights."},
         "receipt": {"type": "object"}, "factors": {"type": "object"}, "model": _TEXT},
        optional=("share", "receipt", "factors", "model"),
    )  # fmt: skip
    return {
        "Decision": decision,
        "Answer": _object({
            "id": _TEXT, "model": {"type": ["string", "null"]},
            "decisions": _list({"$ref": "#/components/schemas/Decision"}),
        }),
        "Taken": _object({"received": _WHOLE, "unknown_labels": _list(_TEXT), "logged": _WHOLE},
                         optional=("logged",)),
        "Status": _object({"status": _TEXT, "state": _TEXT}, ("state",)),
        "Model": _object({
            "model": _TEXT, "labels": _list(_ANY), "stages": _list({"type": "object"}),
            "prices": {"type": "object"}, "unit": _TEXT, "promise": _TEXT,
            "certificate": {"type": ["object", "null"]}, "alarms": _list(_ANY),
            "shadow": _BOOL, "canary": {"type": ["object", "null"]},
            "spot_checks": {"type": ["object", "null"]},
        }),
    }  # fmt: skip
