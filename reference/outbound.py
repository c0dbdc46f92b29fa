"""Owns the HTTP client of a process, for the provider and for tools: how it is made, and what its errors show."""

from __future__ import annotations

import contextlib
import functools
import ssl
from typing import TypedDict
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import certifi

from reference.settings import Settings

CONNECT_S_MAX = 10.0
SILENCE_S_MAX = 300.0  # between two pieces of a stream: a model may think for minutes before its first word

# What shows that a request never left, and what is no address of the protocol at all.
NEVER_LEFT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientHttpProxyError)
NO_ADDRESS = (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError)


def client(settings: Settings) -> aiohttp.ClientSession:
    """The HTTP client of one process, for the provider and for tools, made where an event loop runs. Close it with `close`.

    It keeps no cookie, and asks a second time only with a GET whose kept connection turned out to be closed.
    """
    urls = [url for url in (settings.provider_url, settings.effects_url) if url]
    secure = any(url.lower().startswith("https:") for url in urls)
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=_trusting() if secure else trusting_nobody()),
        timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_S_MAX, sock_read=SILENCE_S_MAX),
        cookie_jar=aiohttp.DummyCookieJar(),
    )


class Plainly(TypedDict):
    """Arguments that every request is made with."""

    proxy: str | None
    allow_redirects: bool


def plainly(url: str) -> Plainly:
    """How this address is asked: through the proxy that the environment names for it, which on loopback is none, and
    without going where an answer points."""
    proxy = None
    with contextlib.suppress(ValueError):  # what is no address is refused when it is asked
        parts = urlsplit(url)
        if not (_is_loopback(url) or proxy_bypass(parts.netloc.rpartition("@")[2])):
            proxies = getproxies()
            proxy = proxies.get(parts.scheme) or proxies.get("all")
    return Plainly(proxy=proxy, allow_redirects=False)


@functools.cache
def _trusting() -> ssl.SSLContext:
    """One context for all of https: loading the certificates takes tens of milliseconds."""
    return ssl.create_default_context(cafile=certifi.where())


@functools.cache
def trusting_nobody() -> ssl.SSLContext:
    """For addresses without TLS. It holds no certificate, so that an unexpected https address fails and is not trusted."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _is_loopback(url: str) -> bool:
    try:
        return urlsplit(url).hostname in {"127.0.0.1", "::1", "localhost"}
    except ValueError:
        return False
