"""Questions in a provider's batch file, and its result file read back into the kept answers.

A request is identified by the digest by which its answer is kept. So whatever comes back counts for
every row that asks the same, and what failed is simply still to be asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from emsco._utils.atomic_write import write_whole
from emsco.chat.answer_cache import AnswerCache
from emsco.chat.chat_model import ChatModel
from emsco.chat.chat_protocol import (
    PATH,
    ChatReply,
    ChatRequest,
    encode,
    error_text,
    label_of,
    read_document,
    read_reply,
    read_usage,
    refused_option,
)
from emsco.chat.chat_session import UNCHARGED
from emsco.chat.spending import UNIT
from emsco.exceptions import BatchError, EndpointError

_FAULTY = (400, 413, 422)  # the request itself is at fault, and would be again
_MOST_FAULTS = 5  # that are named


class PendingRequest(NamedTuple):
    """A request whose answer has not come."""

    digest: str
    body: Mapping[str, Any]
    amount: int  # the most that it can cost


class DeferredResult(NamedTuple):
    """What a result file had: answers, and requests that are to be made again."""

    n_answers: int
    n_failed: int


@dataclass(frozen=True)
class DeferredQuestions:
    """Questions to a model whose answers come in files.

    Parameters
    ----------
    model : ChatModel
        The model.
    cache : AnswerCache
        The answers so far.
    """

    model: ChatModel
    cache: AnswerCache

    def labels(self, questions: Sequence[str]) -> tuple[list[Any], dict[str, PendingRequest]]:
        """Return the label of each question, and what is still to be asked, by digest.

        A question has no label if it is still to be asked, or if its answers are none.
        """
        found: dict[str, Any] = {}
        pending: dict[str, PendingRequest] = {}
        refused = self.cache.refused(self.model.terms.account)
        with self.cache.transaction():  # one view of the file
            for question in dict.fromkeys(questions):
                found[question], waiting = self._look_up(question, refused)
                if waiting is not None:
                    pending[waiting.digest] = waiting
        return [found[question] for question in questions], pending

    def _look_up(self, question: str, refused: Sequence[str]) -> tuple[Any, PendingRequest | None]:
        """Return the label of a question, or the request that it waits for."""
        terms = self.model.terms
        request: ChatRequest = terms.first(question)
        for is_last in (False, True):
            body = request.body(refused)
            written = encode(body)
            digest = terms.digest(written)
            reply = self.cache.find(digest)
            if reply is None:
                return None, PendingRequest(digest, body, terms.reservation(written))
            label = label_of(reply, terms.labels)
            if label is not None or reply.is_refused or is_last:
                return label, None
            request = request.again(reply)
        raise AssertionError("A question is repeated once.")

    def write(self, path: Path, pending: Iterable[PendingRequest], name: str) -> None:
        """Write the file of a batch; what it can cost at most is written down before.

        `name` tells its reservations from those of other files.
        """
        pending = list(pending)
        terms, account = self.model.terms, self.model.terms.account
        with self.cache.transaction():
            new = [
                one for one in pending
                if self.cache.reserved(account, f"{name} {one.digest}") is None
            ]  # fmt: skip
            for one in new:
                tag = f"{name} {one.digest}"
                if self.cache.reserve(account, tag, one.amount, terms.limit) is None:
                    spending = self.cache.spending(account)
                    most = sum(each.amount for each in new) / UNIT
                    raise EndpointError(
                        f"{len(new):,} requests to {self.model.model} may cost {most:.6g}, beyond "
                        f"`max_spend`: {spending.known:.6g} are spent. Raise it, or ask for less."
                    )
        url = urlsplit(self.model.base_url).path.rstrip("/") + PATH
        lines = (
            encode({"custom_id": one.digest, "method": "POST", "url": url, "body": one.body})
            + b"\n"
            for one in pending
        )
        write_whole(path, lines)

    def read(self, path: Path, pending: Mapping[str, PendingRequest], name: str) -> DeferredResult:
        """Read a result file: as a whole, or refused by line with nothing recorded.

        Requests without a line, or with an error that may pass, are to be made again.
        """
        terms, account = self.model.terms, self.model.terms.account
        answered = set()
        with self.cache.transaction():
            lines = _read_lines(path, lambda digest: self._is_made(digest, pending, name))
            for digest, (status, document) in lines.items():
                reply, cost = None, None
                if 200 <= status < 300:
                    usage = read_usage(document)
                    cost = None if usage is None else terms.prices.cost(usage)
                    reply = read_reply(document, terms.labels)
                else:
                    cost = 0 if status < 500 or status in UNCHARGED else None
                    body = pending[digest].body if digest in pending else {}
                    option = refused_option(status, document, body)
                    if option is not None:
                        self.cache.refuse(account, [option])
                    elif status in _FAULTY:
                        reply = ChatReply(None, "invalid_request", None)
                if reply is not None:
                    answered.add(digest)
                reservation = self.cache.reserved(account, f"{name} {digest}")
                if reservation is not None:  # otherwise it was read before
                    self.cache.settle(account, reservation, cost, digest, reply)
        return DeferredResult(len(answered), len(pending.keys() - answered))

    def _is_made(self, digest: str, pending: Mapping[str, PendingRequest], name: str) -> bool:
        """Return whether a request was made in a file, also if its answer is known by now."""
        if digest in pending or self.cache.find(digest) is not None:
            return True
        return self.cache.reserved(self.model.terms.account, f"{name} {digest}") is not None


def _read_lines(path: Path, is_made: Callable[[str], bool]) -> dict[str, tuple[int, Any]]:
    """Return the status and the document for each request that has a line."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BatchError(f"{path} cannot be read: {error.strerror}.") from error
    found: dict[str, tuple[int, Any]] = {}
    faults: list[str] = []
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip():
            continue
        record = read_document(line)
        digest = record.get("custom_id") if isinstance(record, dict) else None
        if not isinstance(record, dict):
            faults.append(f"line {number} is not JSON")
        elif not isinstance(digest, str) or not is_made(digest):
            faults.append(f"line {number} is for a request that was not made, {digest!r:.20}")
        elif digest in found:
            faults.append(f"line {number} is the second one for its request")
        else:
            found[digest] = _outcome(record)
    if faults:
        more = f" and {len(faults) - _MOST_FAULTS:,} more" if len(faults) > _MOST_FAULTS else ""
        raise BatchError(
            f"{path} is refused, and nothing of it was recorded: "
            f"{'; '.join(faults[:_MOST_FAULTS])}{more}. It must be the whole result of this batch."
        )
    return found


def _outcome(record: Mapping[str, Any]) -> tuple[int, Any]:
    """Return the status and the document of a line; an error without a status may pass."""
    response = record.get("response")
    if isinstance(response, dict) and type(response.get("status_code")) is int:
        return response["status_code"], response.get("body")
    is_error = record.get("error") is not None or error_text(response)
    return (429 if is_error else 500), None
