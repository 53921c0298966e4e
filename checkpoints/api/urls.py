"""The checkpoint routes, once; ``config/urls.py`` mounts them where clients expect them."""

import uuid

from django.urls import path, register_converter

from checkpoints.api import audit, views


class AnyCaseUUID:
    regex = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"

    def to_python(self, value: str) -> uuid.UUID:
        return uuid.UUID(value)

    def to_url(self, value: uuid.UUID | str) -> str:
        return str(value)


register_converter(AnyCaseUUID, "id")

# Where clients of the older documents look for the same routes. One address is described; these are its other names.
ALIASES = ("v1/modules/scaicore/", "v1/scaicore/", "api/v1/scaicore/")

urlpatterns = [
    path("checkpoints", views.Checkpoints.as_view()),
    path("checkpoints/<id:checkpoint_id>", views.OneCheckpoint.as_view()),
    path("checkpoints/<id:checkpoint_id>/history", views.History.as_view()),
    path("checkpoints/<id:checkpoint_id>/resolve", views.Resolve.as_view()),
    path("checkpoints/<id:checkpoint_id>/cancel", views.Cancel.as_view()),
    path("checkpoints/<id:checkpoint_id>/reassign", views.Reassign.as_view()),
    path("checkpoints/<id:checkpoint_id>/claim", views.Claim.as_view()),
    path("checkpoints/<id:checkpoint_id>/release", views.Release.as_view()),
    path("checkpoints/<id:checkpoint_id>/extend", views.Extend.as_view()),
    path("checkpoints/<id:checkpoint_id>/remind", views.Remind.as_view()),
    path("checkpoints/<id:checkpoint_id>/comment", views.Comment.as_view()),
    path("checkpoints/<id:checkpoint_id>/audit", audit.CheckpointAudit.as_view()),
    path("audit", audit.Audit.as_view()),
]
