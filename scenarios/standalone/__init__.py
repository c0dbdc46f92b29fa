"""Owns what a reproducer in one file needs beside the harness's own modules: who plays it, and two stand-ins.

`player.py` is its main program. `data.py` stands in for the part of pydantic that those modules use, and is called
`pydantic` there; `front.py` serves the world in place of uvicorn. Both are for such a file alone: the harness itself uses
the libraries, and tests hold the stand-ins against them.
"""
