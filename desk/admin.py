"""What the desk shows; Django's admin looks for this module."""

from desk import checkpoints, people, programs, tenancy

__all__ = ["checkpoints", "people", "programs", "tenancy"]
