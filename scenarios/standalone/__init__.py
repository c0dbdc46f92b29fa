"""Owns what a reproducer in one file needs beside the harness's own modules: who plays it, and stand-ins for packages.

`player.py` is its main program. `data.py` and `compact.py` stand in for the parts of pydantic and orjson that those modules
use, and are called `pydantic` and `orjson` there; `front.py` serves the world in place of uvicorn. All are for such a file
alone: the harness itself uses the libraries, and tests hold the stand-ins against them.
"""
