"""The HTTP interface: a FastAPI application with a fast path for decisions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from emsco.serve.bearer_tokens import DECIDE, FEEDBACK, Tokens, is_forwarded, is_loopback
from emsco.serve.events import ERROR, log_event, where
from emsco.serve.openapi import description
from emsco.serve.problem_json import MEDIA_TYPE, RequestProblem, problem
from emsco.serve.request_bodies import BodyParser, DecideBody, FeedbackBody
from emsco.serve.request_limits import SCOPE, BodyReader, ClientGone, TaskCancellation
from emsco.serve.service import Service, dumped

_JSON = "application/json"
_DECIDE = "/v1/decide"
_OPEN = ("/healthz", "/readyz")  # health checks need no token
_USES = {"/v1/feedback": FEEDBACK}  # all other routes need the token for decisions


def make_app(service: Service, tokens: Tokens) -> FastAPI:
    """Create the ASGI application of a service."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.stop()

    settings = service.settings
    bodies = BodyReader(settings.max_body, settings.body_timeout)
    door: dict[str, Any] = {"tokens": tokens, "service": service, "bodies": bodies}
    app = _App(
        title="emsco",
        lifespan=lifespan,
        docs_url=None,  # the page would load scripts from other hosts
        redoc_url=None,
        redirect_slashes=False,
        middleware=[Middleware(Door, **door)],
        telemetry={"tracing": False, "metrics": False, "logs": False},  # would record requests
    )
    app.door = Door(None, **door)
    _add_routes(app, service, bodies)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestProblem, _problem)
    app.openapi = lambda: description(service.deployed, settings)  # type: ignore[method-assign]
    return app


class _App(FastAPI):
    """An application with a fast path for decisions."""

    door: Door

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        if scope["type"] == "http" and scope["path"] == _DECIDE and scope["method"] == "POST":
            await self.door(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def _add_routes(app: FastAPI, service: Service, bodies: BodyReader) -> None:
    read_labels = BodyParser(FeedbackBody)

    @app.post("/v1/feedback")
    async def feedback(request: Request) -> Response:
        headers = dict(request.scope["headers"])
        body = read_labels(await bodies.read(headers, request.receive))
        return Response(dumped(await service.feedback(body)), media_type=_JSON)

    @app.get("/v1/model")
    async def model() -> Response:
        return Response(dumped(service.model()), media_type=_JSON)

    @app.get("/healthz")
    async def healthz() -> Response:
        return Response(b'{"status":"alive"}', media_type=_JSON)

    @app.get("/readyz")
    async def readyz() -> Response:
        if await service.is_ready():
            if service.is_state_lost:
                return Response(b'{"status":"ready","state":"lost"}', media_type=_JSON)
            return Response(b'{"status":"ready"}', media_type=_JSON)
        raise problem("draining" if service.is_draining else "state")

    @app.post(_DECIDE)
    async def decide() -> Response:
        raise problem("unexpected")  # never reached: the route makes other methods 405, not 404


class Door:
    """Middleware that checks every request's token and routes decisions on a fast path."""

    def __init__(self, app: Any, tokens: Tokens, service: Service, bodies: BodyReader) -> None:
        self._app, self._tokens, self._service, self._bodies = app, tokens, service, bodies
        self._read = BodyParser(DecideBody)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path, metrics = scope["path"], self._service.metrics
        if metrics is not None:
            send = _counted(send, metrics)
        try:
            headers = dict(scope["headers"])
            self._check(path, headers)
            if path == _DECIDE and scope["method"] == "POST":
                await self._decide(scope, headers, receive, send)
            else:
                await self._app(scope, receive, send)
        except RequestProblem as refused:
            await refused.send(send)
        except ClientGone:
            pass
        except Exception as error:
            log_event("unexpected", ERROR, error=where(error))
            await problem("unexpected").send(send)

    def _check(self, path: str, headers: dict[bytes, bytes]) -> None:
        tokens = self._tokens.by_use
        use = _USES.get(path, DECIDE)
        if path in _OPEN and tokens:
            return
        if use in tokens:
            self._tokens.check(use, headers.get(b"authorization"))
        elif not _is_local(headers.get(b"host", b"")):
            # DNS rebinding: a web page could reach this machine under the page's own host name.
            raise problem("host")
        elif path not in _OPEN and is_forwarded(headers):
            # A proxy on this machine would open the service to everyone who can reach the proxy.
            raise problem("proxy")

    async def _decide(
        self, scope: Any, headers: dict[bytes, bytes], receive: Any, send: Any
    ) -> None:
        """Read a request, decide it while the client stays connected, and answer."""
        if self._service.queue.is_full:
            raise problem("queue-full")
        connection = scope.get(SCOPE)
        is_here = connection is not None and connection.has_body
        body = self._read(await self._bodies.read(headers, receive, is_here=is_here))
        ending = TaskCancellation()
        listening = None
        if connection is not None:
            if connection.is_gone:
                raise ClientGone
            connection.on_leave = ending.end
        else:
            listening = asyncio.ensure_future(_listen(receive, ending))
        try:
            answer = await self._service.decide(body)
        except asyncio.CancelledError:
            if ending.is_over():
                raise ClientGone from None
            if self._service.is_draining:  # the drain period is over
                raise problem("draining") from None
            raise
        finally:
            if connection is not None:
                connection.on_leave = None
            if listening is not None:
                listening.cancel()
        content = dumped(answer)
        size = str(len(content)).encode()
        coded = [(b"content-type", b"application/json"), (b"content-length", size)]
        await send({"type": "http.response.start", "status": 200, "headers": coded})
        await send({"type": "http.response.body", "body": content})


def _counted(send: Any, metrics: Any) -> Any:
    """Count responses by status."""

    async def counting(message: Any) -> None:
        if message["type"] == "http.response.start":
            metrics.request(message["status"])
        await send(message)

    return counting


@lru_cache(maxsize=100)
def _is_local(host: bytes) -> bool:
    """Return whether a Host header names this machine."""
    name = host.decode("latin-1")
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    return bool(name) and is_loopback(name)


async def _listen(receive: Any, ending: TaskCancellation) -> None:
    """Wait until the client disconnects, for connections that do not report it."""
    while (await receive())["type"] != "http.disconnect":
        pass
    ending.end()


async def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestProblem)  # for the type checker
    return Response(error.content, error.status, error.headers, media_type=MEDIA_TYPE)


async def _http_error(request: Request, error: Exception) -> Response:
    """Describe unknown routes and methods as problems."""
    assert isinstance(error, HTTPException)  # for the type checker
    details = {
        404: "The routes are /v1/decide, /v1/feedback, /v1/model, /healthz, /readyz and "
        "/openapi.json.",
        405: "The Allow header lists the methods of this route.",
    }
    detail = details.get(error.status_code, "The request cannot be answered.")
    kind = {404: "route", 405: "method"}.get(error.status_code, "request")
    return await _problem(request, RequestProblem(error.status_code, kind, detail, error.headers))
