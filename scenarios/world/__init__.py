"""Owns the world: what a target acts on, which is outside it, outlives it, and writes down what really happened.

One process serves many cases, kept apart by address: a scripted model provider, a service with three receivers, and
the log of both, which is on disk before anything is answered.
"""
