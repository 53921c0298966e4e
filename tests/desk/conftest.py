from collections.abc import Callable

import pytest
from django.test import Client

from checkpoints.models import Checkpoint
from tenants.models import User

LIST = "/admin/checkpoints/checkpoint/"


@pytest.fixture
def desk(signed_in: Callable[[User], Client], tenant_admin: User) -> Client:
    """The browser of acme's tenant admin."""
    return signed_in(tenant_admin)


@pytest.fixture
def page_of() -> Callable[[Checkpoint], str]:
    return lambda checkpoint: f"{LIST}{checkpoint.pk}/change/"


@pytest.fixture
def order() -> Callable[[Checkpoint, str], str]:
    """The address of a command: ``order(refund, "claim")``."""
    return lambda checkpoint, command: f"{LIST}{checkpoint.pk}/do/{command}/"
