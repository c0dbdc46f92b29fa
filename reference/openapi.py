"""Owns the description of the HTTP API: one operation each as plain data, from which routes and OpenAPI are both made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

REQUEST_ID_CHARS_MAX = 200
TEXT_CHARS_MAX = 256 * 1024

RequestId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=REQUEST_ID_CHARS_MAX,
        pattern=r"^[!-~]+$",
        description="The client's own id for this request; sent again with the same id, it is one request.",
    ),
]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class NewSession(_Body):
    """A session to create."""

    workspace: str | None = Field(default=None, min_length=1, description="Folder for its tools; an absolute path.")
    request_id: RequestId | None = None


class NewInput(_Body):
    """An input to accept."""

    request_id: RequestId
    text: str = Field(min_length=1, max_length=TEXT_CHARS_MAX, pattern=r"\S")
    version: int | None = Field(
        default=None,
        ge=0,
        lt=2**63,
        description="Control version seen when this was first sent: a later Stop holds for it.",
    )


class NewControl(_Body):
    """What the user wants of a session. `version`: the control version that the user has seen; a newer one decides."""

    action: Literal["pause", "resume", "stop", "retry"]
    version: int | None = Field(default=None, ge=0, lt=2**63)


class Resolution(_Body):
    """What the user decides about an effect whose outcome is unknown."""

    action: Literal["retry", "abandon"]
    risk_acknowledged: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation. statuses: what it answers, besides the errors that every operation can answer."""

    method: str
    path: str
    name: str
    summary: str
    statuses: dict[int, str]
    body: type[_Body] | None = None
    media: str = "application/json"
    public: bool = False


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "POST",
        "/sessions",
        "create_session",
        "Create a session.",
        {201: "Created", 409: "Same id, other request"},
        NewSession,
    ),
    Operation("GET", "/sessions", "list_sessions", "Every session's snapshot.", {200: "Snapshots by session"}),
    Operation("GET", "/sessions/{session}", "show_session", "The canonical snapshot.", {200: "Snapshot", 404: "Unknown"}),
    Operation(
        "POST",
        "/sessions/{session}/inputs",
        "send_input",
        "Accept an input. It is stored before the answer, and worked on whatever dies after it.",
        {202: "Accepted", 200: "Accepted before", 404: "Unknown session", 409: "Same id, other text"},
        NewInput,
    ),
    Operation(
        "POST",
        "/sessions/{session}/control",
        "control_session",
        "Pause, resume, stop, or retry what failed. It holds from the moment of the answer.",
        {200: "Stored", 404: "Unknown session", 409: "Older control version, or nothing to resume"},
        NewControl,
    ),
    Operation(
        "POST",
        "/sessions/{session}/effects/{call_id}",
        "resolve_effect",
        "Decide about an effect whose outcome is unknown, knowing the risk.",
        {200: "Stored", 404: "Unknown session or call", 409: "Not unknown, or risk not acknowledged"},
        Resolution,
    ),
    Operation(
        "GET",
        "/sessions/{session}/events",
        "watch_session",
        "Numbered events after `Last-Event-ID`, then whatever comes.",
        {200: "Events", 400: "Last-Event-ID is no number", 404: "Unknown session"},
        media="text/event-stream",
    ),
    Operation("GET", "/snapshot", "snapshot", "Every session's snapshot.", {200: "Snapshots by session"}),
    Operation("POST", "/quit", "quit", "Stop every work for good, then end app and workers.", {200: "Stored"}),
    Operation("GET", "/health", "health", "Whether the state can be read.", {200: "It can", 503: "It cannot"}, public=True),
    Operation("GET", "/openapi.json", "openapi", "This description.", {200: "OpenAPI"}, public=True),
)

_ALWAYS = {401: "No token, or a wrong one", 403: "Foreign Origin", 421: "Foreign Host", 500: "Fault", 503: "Unavailable"}
_WITH_BODY = {400: "Body is not JSON", 413: "Body too large", 422: "Field wrong or missing"}
_ERROR_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "field", "message"],
            "properties": {
                "code": {"type": "string"},
                "field": {"type": ["string", "null"], "description": "The part of the request that is wrong."},
                "message": {"type": "string"},
            },
        }
    },
}


def document(version: str, operations: Iterable[Operation] = OPERATIONS) -> dict[str, Any]:
    """The OpenAPI 3.1 description of these operations."""
    paths: dict[str, dict[str, Any]] = {}
    schemas: dict[str, Any] = {"Error": _ERROR_SCHEMA}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
        if each.body:
            schemas[each.body.__name__] = each.body.model_json_schema()
    return {
        "openapi": "3.1.0",
        "info": {"title": "Reference runtime of agent sessions", "version": version},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(each: Operation) -> dict[str, Any]:
    errors = _ALWAYS | (_WITH_BODY if each.body else {})
    if each.public:
        errors = {status: said for status, said in errors.items() if status not in {401, 503}}
    described: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.summary,
        "responses": {
            str(status): _response(status, said, each.media) for status, said in sorted((errors | each.statuses).items())
        },
    }
    parameters = [
        {"name": name.strip("{}"), "in": "path", "required": True, "schema": {"type": "string"}}
        for name in each.path.split("/")
        if name.startswith("{")
    ]
    if each.media == "text/event-stream":
        parameters.append(
            {"name": "Last-Event-ID", "in": "header", "required": False, "schema": {"type": "integer", "minimum": 0}}
        )
    if parameters:
        described["parameters"] = parameters
    if each.body:
        schema = {"$ref": f"#/components/schemas/{each.body.__name__}"}
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    if each.public:
        described["security"] = []
    return described


def _response(status: int, said: str, media: str) -> dict[str, Any]:
    if status >= 400:
        return {"description": said, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}
    schema = {"type": "string"} if media == "text/event-stream" else {"type": "object"}
    return {"description": said, "content": {media: {"schema": schema}}}
