import uuid
from typing import Any

from django.urls import path
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from bench.floor.models import Document, Row

PAGE = 50


class Rows(APIView):
    """The one-insert view."""

    def post(self, request: Request) -> Response:
        given: Any = request.data
        row = Row.objects.create(prompt=given["prompt"], body=given)
        return Response({"id": str(row.pk), "status": row.status}, status=201)


class Decide(APIView):
    """The one-update view: guarded, so that exactly one decision wins."""

    def post(self, request: Request, row_id: uuid.UUID) -> Response:
        won = Row.objects.filter(pk=row_id, status="pending").update(status="resolved", resolution=request.data)
        return Response({"id": str(row_id), "status": "resolved"}, status=200 if won else 409)


class Documents(APIView):
    def get(self, request: Request) -> Response:
        envelope, *results = Document.objects.order_by("position").values_list("body", flat=True)[: PAGE + 1]
        return Response(envelope | {"results": results})

    def put(self, request: Request) -> Response:
        """The envelope first, then what is in it."""
        given: Any = request.data
        bodies = [{name: value for name, value in given.items() if name != "results"}, *given["results"]]
        Document.objects.all().delete()
        Document.objects.bulk_create(Document(position=place, body=body) for place, body in enumerate(bodies))
        return Response({"stored": len(bodies)})


class OneDocument(APIView):
    def get(self, request: Request, position: int) -> Response:
        return Response(Document.objects.get(position=position).body)


urlpatterns = [
    path("rows", Rows.as_view()),
    path("rows/<uuid:row_id>/decide", Decide.as_view()),
    path("documents", Documents.as_view()),
    path("documents/<int:position>", OneDocument.as_view()),
]
