"""Owns how an error looks to a client: status, and a body `{"error": {"code", "field", "message"}}` of one line each.

400 body that is not JSON, header that is none      Refused, by the caller
401 no token or a wrong one                         security
403 foreign Origin, 421 foreign Host                security
404 unknown session, call or path; 405 method       Refused; router
409 older control version, other text               Refused, by the engine
413 body too large, 422 wrong or missing field      app
500 a fault of this program                         anything not named here
503 state that cannot be read, or an app that exits StateUnavailable, OSError, Refused
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError
from starlette.responses import Response

from reference.model import Refused, StateUnavailable

RETRY_AFTER_S = 1
REFRESH = "ask GET /health again; once it says ok, everything is there as it was"


class JSON(Response):
    """A JSON response, compact."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")


def body(code: str, message: str, field: str | None = None) -> dict[str, Any]:
    """The body of an error."""
    return {"error": {"code": code, "field": field, "message": " ".join(message.split())}}


def refusal(error: Refused) -> JSON:
    """The response to a request that its client has to change, or to send again later."""
    headers = {"Retry-After": str(RETRY_AFTER_S)} if error.status == 503 else {}
    if error.status == 413:
        headers["Connection"] = "close"  # what is left of the body is not wanted
    return JSON(body(error.code, error.message, error.field), error.status, headers)


def unavailable(error: StateUnavailable) -> JSON:
    """The response while the store cannot be read: its reason and how to refresh (UIX-4)."""
    data = body("state_unavailable", str(error))
    data["error"] |= {"state": "state_unavailable", "reason_code": "recovery_failed", "refresh": REFRESH}
    return JSON(data, 503, {"Retry-After": str(RETRY_AFTER_S)})


def invalid(error: ValidationError) -> Refused:
    """What is wrong with a body, naming its first wrong field."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return Refused("json_invalid", f"body: {first['msg']}; send one JSON object", "body", 400)
    field = ".".join(str(part) for part in first["loc"]) or "body"
    return Refused("field_invalid", f"{field}: {first['msg']}", field, 422)
