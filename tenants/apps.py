from django.apps import AppConfig


class TenantsConfig(AppConfig):
    name = "tenants"
    verbose_name = "People and access"

    def ready(self) -> None:
        from tenants import checks  # noqa: F401
