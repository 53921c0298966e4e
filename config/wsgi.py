import os
from typing import Any

from django.core.handlers.wsgi import WSGIRequest
from django.core.wsgi import get_wsgi_application
from django.utils.http import parse_header_parameters

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")


class Request(WSGIRequest):
    def _set_content_type_params(self, meta: Any) -> None:
        """Without the charset: Django would decode the address with it, and some of Python's codecs cannot do that."""
        self.content_type, self.content_params = parse_header_parameters(meta.get("CONTENT_TYPE", ""))


application = get_wsgi_application()
application.request_class = Request
