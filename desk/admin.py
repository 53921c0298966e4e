"""What the desk shows; Django's admin looks for this module."""

from desk import channels, checkpoints, deliveries, jobs, people, programs, tenancy, unreachable, webhooks

__all__ = [
    "channels",
    "checkpoints",
    "deliveries",
    "jobs",
    "people",
    "programs",
    "tenancy",
    "unreachable",
    "webhooks",
]
