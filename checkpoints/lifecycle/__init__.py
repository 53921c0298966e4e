"""The only writer of the checkpoint row. Every verb is one short transaction: the guarded change and one event."""

from checkpoints.lifecycle.creating import Draft, create
from checkpoints.lifecycle.deciding import cancel, comment, resolve
from checkpoints.lifecycle.expiring import expire_batch, expire_one, set_aside
from checkpoints.lifecycle.noting import notified, put_reminder_off, remind_batch, remind_one
from checkpoints.lifecycle.routing import claim, reassign, release, reroute
from checkpoints.lifecycle.timing import extend, remind

__all__ = [
    "Draft",
    "cancel",
    "claim",
    "comment",
    "create",
    "expire_batch",
    "expire_one",
    "extend",
    "notified",
    "put_reminder_off",
    "reassign",
    "release",
    "remind",
    "remind_batch",
    "remind_one",
    "reroute",
    "resolve",
    "set_aside",
]
