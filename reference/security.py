"""Owns who may come in: the bearer token, and the names under which this server may be asked.

A page in a browser can send requests to a server on loopback, directly or by a name that it lets point there (DNS
rebinding). So a Host that is not this server's own is refused, and so is any Origin that is not exactly the address that
was asked. The token is the rest: it is in a file that only its owner can read, and is compared in constant time. It is
never logged, and stands in no file but its own.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import secrets
import stat
from pathlib import Path

from starlette.types import ASGIApp, Receive, Scope, Send

from reference import errors
from reference.model import Refused

TOKEN_BYTES = 32
TOKEN_CHARS_MAX = 512
OPEN_PATHS = frozenset({"/health", "/openapi.json"})  # they say nothing of any session


def token(path: Path) -> str:
    """The token stored at `path`, made if there is none. The file has mode 0600 afterwards. Raises Refused if it cannot
    be used."""
    try:
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            return _stored(path)
        with os.fdopen(fd, "w") as file:
            made = secrets.token_urlsafe(TOKEN_BYTES)
            file.write(made)
            file.flush()
            os.fsync(fd)
        return made
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "is no text"
        raise Refused("token_unusable", f"{path}: {why}; delete it to get a new token", "token", 400) from None


def _stored(path: Path) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(22, "is no plain file")
        os.fchmod(fd, 0o600)
        text = file.read(TOKEN_CHARS_MAX + 1).decode("ascii").strip()
    if not 16 <= len(text) <= TOKEN_CHARS_MAX or not text.isprintable() or " " in text:
        # Empty after a death between making and writing it, or not ours: not a token that keeps anybody out.
        raise OSError(22, "holds no token")
    return text


class Guard:
    """The outermost layer of the app. `bound` is the host that the server listens on."""

    def __init__(self, app: ASGIApp, token: str, bound: str) -> None:
        self._app = app
        self._token = token.encode()
        self._bound = bound

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"this server speaks HTTP only, not {scope['type']}")
        refused = self._refused(scope)
        if refused is None:
            await self._app(scope, receive, send)
            return
        response = errors.refusal(refused)
        if refused.status == 401:
            response.headers["WWW-Authenticate"] = "Bearer"
        await response(scope, receive, send)

    def _refused(self, scope: Scope) -> Refused | None:
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        tokens = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(hosts) != 1 or not is_own_host(hosts[0].decode("latin-1"), self._bound):
            return Refused("host_foreign", "Host: is not an address of this server", "Host", 421)
        if origins and origins != [b"http://" + hosts[0]]:
            return Refused("origin_foreign", "Origin: is not this server; pages of others may not call it", "Origin", 403)
        if scope["path"] not in OPEN_PATHS and not self._knows(tokens):
            return Refused(
                "token_wrong",
                "Authorization: needs `Bearer TOKEN` with the token from the file `token` in the data folder",
                "Authorization",
                401,
            )
        return None

    def _knows(self, tokens: list[bytes]) -> bool:
        given = tokens[0] if len(tokens) == 1 else b""
        scheme, _, value = given.partition(b" ")
        return hmac.compare_digest(value.strip(), self._token) and scheme.lower() == b"bearer"


def is_own_host(header: str, bound: str) -> bool:
    """Whether a Host header names this server: an IP address that it listens on, `localhost` where it listens on
    loopback, or the very name it was told to listen on. Any other name could be one that was made to point here."""
    name = _without_port(header)
    if name is None:
        return False
    if name == bound.lower():
        return True
    address, own = _address(name), _address("127.0.0.1" if bound.lower() == "localhost" else bound)
    if own is None:
        return False
    if address is None:
        return name == "localhost" and (own.is_loopback or own.is_unspecified)
    return own.is_unspecified or address == own or (own.is_loopback and address.is_loopback)


def _without_port(header: str) -> str | None:
    if header.startswith("["):
        name, closed, port = header[1:].partition("]")
        if not closed or (port and not port.startswith(":")):
            return None
        port = port[1:]
    else:
        name, _, port = header.partition(":")
    return name.lower() if name and (not port or (port.isascii() and port.isdigit())) else None


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
