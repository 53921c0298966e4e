"""What we sign is checked here by the library that receivers use."""

from datetime import UTC, datetime, timedelta

import pytest
import standardwebhooks
from standardwebhooks.webhooks import WebhookVerificationError

from notifications import signing

BODY = '{"data":{"question":"Größe?"},"type":"checkpoint.created"}'.encode()


def headers(*secrets: str, at: datetime | None = None, message_id: str = "0197-a") -> dict[str, str]:
    return signing.signed_headers(message_id=message_id, body=BODY, secrets=secrets, at=at or datetime.now(UTC))


def accepts(secret: str, body: bytes, sent: dict[str, str]) -> bool:
    try:
        standardwebhooks.Webhook(secret).verify(body, sent)
    except WebhookVerificationError:
        return False
    return True


def test_the_public_library_accepts_what_we_sign():
    secret = signing.new_secret()
    assert accepts(secret, BODY, headers(secret))


def test_it_refuses_another_secret_body_id_or_moment():
    secret = signing.new_secret()
    sent = headers(secret)
    assert not accepts(signing.new_secret(), BODY, sent)
    assert not accepts(secret, BODY + b" ", sent)
    assert not accepts(secret, BODY, sent | {"webhook-id": "0197-b"})
    assert not accepts(secret, BODY, sent | {"webhook-timestamp": str(int(sent["webhook-timestamp"]) + 1)})
    assert not accepts(secret, BODY, headers(secret, at=datetime.now(UTC) - timedelta(minutes=6)))


def test_while_a_secret_is_changed_both_accept():
    old, new = signing.new_secret(), signing.new_secret()
    sent = headers(new, old)
    assert len(sent["webhook-signature"].split(" ")) == 2
    assert accepts(old, BODY, sent)
    assert accepts(new, BODY, sent)


def test_a_secret_without_padding_signs_as_well():
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    assert accepts(secret, BODY, headers(secret))
    assert accepts("whsec_QUJD", BODY, headers("whsec_QUJD=="))


def test_secrets_are_long_and_never_the_same():
    made = {signing.new_secret() for _ in range(50)}
    assert len(made) == 50
    assert all(secret.startswith("whsec_") and len(secret) == 50 for secret in made)


@pytest.mark.parametrize("prefix", ["whsec_", ""])
def test_the_example_of_the_standard_comes_out_as_written_there(prefix):
    found = signing.signature(
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "1614265330",
        b'{"test": 2432232314}',
        f"{prefix}MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    )
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
