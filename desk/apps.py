from django.apps import AppConfig
from django.contrib.admin import apps


class DeskConfig(AppConfig):
    name = "desk"


class AdminConfig(apps.AdminConfig):
    default_site = "desk.site.Desk"
    default = False
