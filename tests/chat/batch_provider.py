"""A provider's batch: a file of requests becomes a file of results, some of them errors."""

from __future__ import annotations

import json
import random

ERRORS = ("expired", "429", "500", "missing", "no body", "400")


def run_batch(server, ask, answers, *, share=0.0, kinds=ERRORS, seed=0):
    """Answer a file of requests as a server would, in another order; return the errors by kind."""
    rng = random.Random(seed)
    lines, errors = [], {}
    requests = [json.loads(line) for line in ask.read_text(encoding="utf-8").splitlines()]
    rng.shuffle(requests)
    for request in requests:
        assert (request["method"], request["url"]) == ("POST", "/v1/chat/completions")
        kind = rng.choice(kinds) if rng.random() < share else None
        record = {"id": f"batch_req_{len(lines)}", "custom_id": request["custom_id"], "error": None}
        if kind is None:
            body = server.document("none", request["body"], json.dumps(request["body"]).encode())
            record["response"] = {"status_code": 200, "request_id": "r", "body": body}
        else:
            errors[kind] = errors.get(kind, 0) + 1
            if kind == "missing":
                continue
            record |= _error(kind)
        lines.append(json.dumps(record))
    answers.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return errors


def _error(kind):
    if kind == "expired":
        return {
            "response": None,
            "error": {"code": "batch_expired", "message": "It took too long."},
        }
    if kind == "no body":
        return {"response": {"status_code": 200, "request_id": "r", "body": None}}
    body = {"error": {"message": "It cannot be done.", "code": "x"}}
    return {"response": {"status_code": int(kind), "request_id": "r", "body": body}}
