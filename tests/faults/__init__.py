"""Owns the tests of faults/: real processes, sockets and files."""
