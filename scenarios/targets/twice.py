"""Owns `twice`, a liar for the harness's own tests: it sends every write two times, and its records show one.

It is `naive` in everything else: same lines, same store, same state shown. Only the world can tell them apart.
"""

from __future__ import annotations

import contextlib
import importlib.util
from pathlib import Path
from typing import Any


def load_naive() -> Any:
    """The program beside this one, as a module, without any package around it."""
    spec = importlib.util.spec_from_file_location("naive", Path(__file__).with_name("naive.py"))
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


naive = load_naive()
send_once = naive.call_service


def send_twice(receiver: str, arguments: dict[str, Any], call_id: str) -> str:
    """Send the write under a key that nobody is told of, then as it should be."""
    with contextlib.suppress(*naive.BROKEN):
        send_once(receiver, arguments, f"{call_id}-again")
    return str(send_once(receiver, arguments, call_id))


naive.call_service = send_twice

if __name__ == "__main__":
    naive.main()
