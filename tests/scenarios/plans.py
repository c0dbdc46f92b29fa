"""Owns how the tests write addresses and plans in few words."""

from __future__ import annotations

from faults.plan import Address, Fault, Kill, Op, Start


def at(name: str, ordinal: int = 1) -> Address:
    """The address of this point and ordinal."""
    return Address(point=name, ordinal=ordinal)


def moment(address: str, *ops: Op) -> Fault:
    """These operations at `point#ordinal`."""
    return Fault(at=Address.parse(address), ops=ops)


def death(address: str) -> Fault:
    """Who stands there is killed, and a worker is started."""
    return moment(address, Kill(), Start(role="worker"))
