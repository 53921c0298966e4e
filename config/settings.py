"""One file, read top-down. Every value comes from the environment or `.env`; `docs/configuration.md` lists them."""

import os
import sys
from pathlib import Path
from urllib.parse import quote

from config import environment as env

BASE_DIR = Path(__file__).resolve().parent.parent
env.read_env_file(BASE_DIR / os.environ.get("HOLDPOINT_ENV_FILE", ".env"))

# --- What it is ---------------------------------------------------------------------------------------------------

VERSION = "0.1.0"
DEBUG = env.flag("DEBUG")
SECRET_KEY = env.text("SECRET_KEY") or ("debug-only-" + "not-a-secret-" * 4 if DEBUG else "")
BASE_URL = env.text("BASE_URL", "http://localhost:8000").rstrip("/")
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS") or ["localhost", "127.0.0.1", "[::1]", env.host_of(BASE_URL)]
CSRF_TRUSTED_ORIGINS = [BASE_URL] if env.host_of(BASE_URL) else []

INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "tenants",
    "checkpoints",
    "notifications",
    # Before the desk, which takes its pages over: whoever writes a schedule has code executed.
    "django_q",
    "desk",
    # Without its own admin site: the desk's takes that place.
    "unfold.apps.BasicAppConfig",
    "desk.apps.AdminConfig",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "rest_framework",
    "axes",
    "anymail",
]

MIDDLEWARE = [
    "config.middleware.RequestId",
    "config.middleware.OnlyUtf8",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# --- Where it keeps things ----------------------------------------------------------------------------------------

# As part of an address: the folder of the clone may have any name.
VAR = quote(str(BASE_DIR / "var"))
DATABASES = {"default": env.database(env.text("DATABASE_URL", f"sqlite:///{VAR}/holdpoint.sqlite3"))}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# The jobs' own library has an index with a condition, which MariaDB leaves away; none of ours may have one.
SILENCED_SYSTEM_CHECKS = ["models.W037"]

STATIC_URL = "/static/"
# After collectstatic: compressed, and cached by browsers for good. Before it: straight from the packages.
STATIC_FOLDER = BASE_DIR / "staticfiles"
COLLECTED = "collectstatic" in sys.argv or (STATIC_FOLDER / "staticfiles.json").is_file()
STATIC_ROOT = STATIC_FOLDER if COLLECTED else None
WHITENOISE_USE_FINDERS = not COLLECTED
WHITENOISE_AUTOREFRESH = False
WHITENOISE_MAX_AGE = 86400 if COLLECTED else 60
STATE_DIR = Path(env.text("STATE_DIR") or BASE_DIR / "var" / "state")
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": STATE_DIR}},
    "staticfiles": {
        "BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"
        if COLLECTED
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}

# --- Who signs in -------------------------------------------------------------------------------------------------

AUTH_USER_MODEL = "tenants.User"
AUTHENTICATION_BACKENDS = ["tenants.lockout.LockoutBackend", "tenants.signin.EmailBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
LOGIN_URL = "admin:login"
SIGN_IN_LINK_HOURS = env.number("SIGN_IN_LINK_HOURS", 48, least=1, most=24 * 30)
PASSWORD_RESET_TIMEOUT = SIGN_IN_LINK_HOURS * 3600

# Wrong passwords before the door closes: for one account from one address, and for all accounts from one address.
AXES_FAILURE_LIMIT = env.number("SIGN_IN_TRIES", 5, least=1)
SIGN_IN_TRIES_PER_ADDRESS = env.number("SIGN_IN_TRIES_PER_ADDRESS", 50, least=1)
SIGN_IN_LOCK_MINUTES = env.number("SIGN_IN_LOCK_MINUTES", 15, least=1, most=60 * 24)
AXES_HANDLER = "tenants.lockout.Tries"
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_COOLOFF_TIME = "tenants.lockout.cool_off"
AXES_USERNAME_CALLABLE = "tenants.lockout.account_of"
AXES_CLIENT_IP_CALLABLE = "tenants.lockout.address_for_tries"
AXES_LOCKOUT_CALLABLE = "tenants.lockout.page"
AXES_RESET_ON_SUCCESS = True
# Somebody who keeps trying does not keep the owner of the account out for ever.
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_DISABLE_ACCESS_LOG = True
# Tries belong to no tenant: nobody reads them on the desk.
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False

SECURE = BASE_URL.startswith("https://")
SESSION_COOKIE_SECURE = SECURE
CSRF_COOKIE_SECURE = SECURE
SECURE_SSL_REDIRECT = env.flag("SECURE_SSL_REDIRECT", SECURE)
SECURE_HSTS_SECONDS = env.number("SECURE_HSTS_SECONDS", 31536000 if SECURE else 0)
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE
SECURE_HSTS_PRELOAD = SECURE
SECURE_REFERRER_POLICY = "same-origin"
# Only a proxy that always sets these headers may be trusted with them.
TRUST_PROXY = env.flag("TRUST_PROXY")
if TRUST_PROXY:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
X_FRAME_OPTIONS = "DENY"

# --- Words and time -----------------------------------------------------------------------------------------------

LANGUAGE_CODE = "en"
USE_I18N = True
USE_TZ = True
# Rows are in UTC; tenants have their own zone for what people read. Anything else makes MariaDB ask for zone tables.
TIME_ZONE = "UTC"

# --- The API ------------------------------------------------------------------------------------------------------

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "tenants.authentication.ApiKeyAuthentication",
        "tenants.authentication.TenantSessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["tenants.authentication.HasTenant"],
    "DEFAULT_THROTTLE_CLASSES": ["tenants.limits.RequestsPerMinute"],
    "DEFAULT_PARSER_CLASSES": ["checkpoints.api.parsing.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "checkpoints.api.parsing.AlwaysJSON",
    "EXCEPTION_HANDLER": "checkpoints.api.problems.handle",
    "UNAUTHENTICATED_USER": None,
    "DEFAULT_METADATA_CLASS": None,
    "URL_FORMAT_OVERRIDE": None,
}
API_BODY_BYTES = env.number("API_BODY_BYTES", 2 * 1024 * 1024, least=1024)
# MariaDB takes no JSON of more than 31 levels; the body itself is one.
API_JSON_DEPTH = env.number("API_JSON_DEPTH", 32, least=1, most=32)
# Zero: no limit.
API_RATE_PER_MINUTE = env.number("API_RATE_PER_MINUTE", 6000)
API_WRONG_KEYS_PER_MINUTE = env.number("API_WRONG_KEYS_PER_MINUTE", 600)
DATA_UPLOAD_MAX_MEMORY_SIZE = API_BODY_BYTES

# --- Jobs ---------------------------------------------------------------------------------------------------------

SWEEP_EXPIRE_SECONDS = env.number("SWEEP_EXPIRE_SECONDS", 300, least=1)
SWEEP_REROUTE_SECONDS = env.number("SWEEP_REROUTE_SECONDS", 300, least=1)
SWEEP_REMIND_SECONDS = env.number("SWEEP_REMIND_SECONDS", 900, least=1)
SWEEP_DISTRIBUTE_SECONDS = env.number("SWEEP_DISTRIBUTE_SECONDS", 60, least=1)
SWEEP_DELIVER_SECONDS = env.number("SWEEP_DELIVER_SECONDS", 60, least=1)
SWEEP_DIGEST_SECONDS = env.number("SWEEP_DIGEST_SECONDS", 300, least=1)
SWEEP_FORGET_SECONDS = env.number("SWEEP_FORGET_SECONDS", 600, least=1)
# Mail, each room and each webhook are lanes of their own: one that is down or slow delays only itself.
DELIVERY_LANES_AT_ONCE = env.number("DELIVERY_LANES_AT_ONCE", 8, least=1, most=64)
DELIVERY_LANE_SECONDS = env.number("DELIVERY_LANE_SECONDS", 40, least=1, most=240)
DELIVERY_KEEP_DAYS = env.number("DELIVERY_KEEP_DAYS", 90, least=1)
# Zero: no limit.
MAIL_PER_RECIPIENT_PER_HOUR = env.number("MAIL_PER_RECIPIENT_PER_HOUR", 200)
MAIL_PER_TENANT_PER_HOUR = env.number("MAIL_PER_TENANT_PER_HOUR", 20000)
WEBHOOK_DISABLE_DAYS = env.number("WEBHOOK_DISABLE_DAYS", 5)
SWEEP_BATCH = env.number("SWEEP_BATCH", 300, least=1, most=5000)

# A job that takes longer is ended; one whose worker died is taken up again after the second number.
Q_CLUSTER = {
    "name": "holdpoint",
    "label": "Jobs",
    "workers": env.number("Q_WORKERS", 2, least=1, most=64),
    "timeout": env.number("Q_TIMEOUT_SECONDS", 300, least=10, most=86400),
    "retry": env.number("Q_RETRY_SECONDS", 900, least=10, most=7 * 86400),
    "max_attempts": 2,
    "ack_failures": True,
    "catch_up": False,
    # Jobs say in rows of their own when they ran; failures are kept, and removed by `forget_tasks`.
    "save_limit": -1,
    # A lease starts as a task enters memory: few of them wait there.
    "bulk": 1,
    "queue_limit": 2,
    "poll": 0.3,
    "recycle": 1000,
}
REDIS_URL = env.text("REDIS_URL")
Q_CLUSTER |= {"redis": REDIS_URL} if REDIS_URL else {"orm": "default"}
# After a change its messages are looked after at once, not at the next interval.
JOBS_NUDGE = env.flag("JOBS_NUDGE", True)
# Three of them fit into the patience of whoever watches the worker.
WORKER_BEAT_SECONDS = env.number("WORKER_BEAT_SECONDS", 10, least=1, most=20)

# --- Mail ---------------------------------------------------------------------------------------------------------

globals().update(env.email(env.text("EMAIL_URL", f"folder:///{VAR}/mail")))
# Keys, and how the provider proves who it is when it reports back. What it cannot do (such as leaving a tracker out of
# one message) is left away: a mail that cannot be tracked is better than none.
ANYMAIL = env.family("ANYMAIL_", IGNORE_UNSUPPORTED_FEATURES=True, REQUESTS_TIMEOUT=20)
DEFAULT_FROM_EMAIL = env.text("DEFAULT_FROM_EMAIL", "Holdpoint <holdpoint@localhost>")
# Webhooks and chats inside the operator's own network, and over plain http.
WEBHOOK_ALLOW_PRIVATE = env.flag("WEBHOOK_ALLOW_PRIVATE")

# --- The admin ----------------------------------------------------------------------------------------------------

UNFOLD = {
    "SITE_TITLE": "Holdpoint",
    "SITE_HEADER": "Holdpoint",
    "SITE_SUBHEADER": "Decisions that programs wait for",
    "SITE_SYMBOL": "front_hand",
    "SITE_URL": None,
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": "desk.navigation.icon"}],
    "SHOW_HISTORY": False,
    "SHOW_VIEW_ON_SITE": False,
    "STYLES": ["desk.navigation.stylesheet"],
    "SIDEBAR": {"navigation": "desk.navigation.sections"},
}

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": env.one_of("LOG_LEVEL", LOG_LEVELS, "INFO")},
    # A refused request is an answer, not an incident.
    "loggers": {
        "django.request": {"level": "ERROR"},
        "django.security.DisallowedHost": {"level": "CRITICAL"},
        "axes": {"level": "WARNING"},
        # It speaks of every task.
        "django-q": {"level": "WARNING"},
    },
}
