"""Owns which address of a case is answered by what, below `/c/CASE`, whichever server it is that hears the request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from scenarios.world import effects, provider
from scenarios.world.exchange import Exchange
from scenarios.world.state import CaseWorld

Handler = Callable[[CaseWorld, Exchange], Awaitable[None]]


async def heard(case: CaseWorld, exchange: Exchange) -> None:
    """Answer when every request that came in before this one is written down, or will never be whole."""
    for each in case.live - {exchange}:
        await each.heard()
    await exchange.reply(200, {"heard": True}, close=True)


ADDRESSES: dict[str, tuple[str, Handler]] = {
    "/v1/chat/completions": ("POST", provider.completions),
    **{f"/effects/{name}": ("POST", effects.receiver(name)) for name in effects.RECEIVERS},
    "/effects/state": ("GET", effects.state),
    "/v1/models": ("GET", provider.models),
    "/heard": ("GET", heard),
}
