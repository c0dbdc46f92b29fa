"""Owns the programs that are judged beside the reference."""
