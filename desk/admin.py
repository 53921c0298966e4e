"""What the desk shows; Django's admin looks for this module."""

from desk import checkpoints, jobs, people, programs, tenancy

__all__ = ["checkpoints", "jobs", "people", "programs", "tenancy"]
