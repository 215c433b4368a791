"""The coordinator as an ASGI application: routes, one map from errors to answers, no state of its own."""

from __future__ import annotations

import math

from fastapi import FastAPI, Request
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from appliance.contracts.errors import FloorhandError, Unavailable
from appliance.coordinator.desk import Desk
from appliance.coordinator.errors import status_of
from appliance.coordinator.routes import changes, devices, health, operations, session_tokens, work_orders
from appliance.foundation.invalid_input import sentence_of
from appliance.version import VERSION


def create_app(desk: Desk) -> FastAPI:
    """Return the application that serves from ``desk``.

    Every error is answered as ``{"code": …, "message": …, …facts}``, so that a client can tell this coordinator's word from
    that of a proxy or a captive portal in between.
    """
    app = FastAPI(title="Floorhand coordinator", version=VERSION, docs_url=None, redoc_url=None)
    app.state.desk = desk
    for routes in (health, devices, operations, changes, work_orders, session_tokens):
        app.include_router(routes.router)
    app.add_exception_handler(FloorhandError, _answer_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, _answer_http)
    return app


async def _answer_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, FloorhandError)
    headers = {"Retry-After": str(math.ceil(error.retry_after_s))} if isinstance(error, Unavailable) else {}
    content = jsonable_encoder({**error.facts, "code": error.code, "message": error.message})
    return JSONResponse(content, status_of(error), headers)


async def _answer_invalid(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    return JSONResponse({"code": "malformed", "message": sentence_of(error.errors()[0])}, 422)


async def _answer_http(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return JSONResponse({"code": f"http_{error.status_code}", "message": str(error.detail)}, error.status_code, error.headers)
