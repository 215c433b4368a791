"""Our errors as HTTP answers: ``{"code", "message", "cure", "facts"}`` with a status that says what the caller may do."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from appliance.contracts.errors import (
    Corrupt,
    FloorhandError,
    Malformed,
    NotPermitted,
    Refused,
    StorageFullError,
    Unavailable,
    Uncertain,
    Unidentified,
)
from appliance.foundation.invalid_input import field_of, sentence_of, words_of

# First match counts, so a class stands before the one it descends from.
_STATUS: tuple[tuple[type[FloorhandError], int], ...] = (
    (StorageFullError, 507),  # insufficient storage
    (Unavailable, 429),  # too many requests: try again after Retry-After
    (Unidentified, 401),  # show another token
    (NotPermitted, 403),
    (Refused, 409),  # conflict: as things are, no
    (Malformed, 422),
    (Uncertain, 502),  # the other side did not answer; read back
    (Corrupt, 500),
    (FloorhandError, 500),
)
_ADDRESSES = "/v1/openapi.json describes every address and its values"


def add_error_answers(api: FastAPI) -> None:
    """Make ``api`` answer errors in one form."""

    async def ours(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, FloorhandError)
        status = next(number for kind, number in _STATUS if isinstance(error, kind))
        headers, cure = {}, error.cure
        if isinstance(error, Unavailable):
            headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
            cure = cure or f"Try again in {headers['Retry-After']} s."
        if isinstance(error, Unidentified):
            headers["WWW-Authenticate"] = 'Bearer error="invalid_token"'  # RFC 6750, section 3
        return _answer(status, error.code, error.message, cure, error.facts, headers)

    async def invalid(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        faults = [{"key": field_of(each), "message": words_of(each)} for each in error.errors()]
        message = "; ".join(map(sentence_of, error.errors()))
        return _answer(422, Malformed.code, message, f"Correct what is named; {_ADDRESSES}.", {"faults": faults}, {})

    async def other(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http")
        message = f"{request.method} {request.url.path}: {error.detail}"
        return _answer(error.status_code, code, message, f"See: {_ADDRESSES}.", {}, {})

    api.add_exception_handler(FloorhandError, ours)
    api.add_exception_handler(RequestValidationError, invalid)
    api.add_exception_handler(HTTPException, other)


def _answer(
    status: int, code: str, message: str, cure: str, facts: Mapping[str, Any], headers: Mapping[str, str]
) -> JSONResponse:
    # Facts are for records and may hold enums, paths, times, and numbers that JSON has no word for.
    plain = json.loads(json.dumps(facts, default=str), parse_constant=str)
    return JSONResponse({"code": code, "message": message, "cure": cure, "facts": plain}, status, dict(headers))
