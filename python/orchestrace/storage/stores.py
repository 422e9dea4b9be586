"""Clients of object storage, and their errors as one line without secrets.

A client finds its credentials as others of its kind do: environment, files of configuration, the machine's
role. What a server or client says is never repeated, since it quotes addresses with signatures in them.
"""

import base64
import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from .. import _core
from ..base.errors import InputError
from ..base.extras import install
from ..base.text import plain
from .addresses import Address

CLIENT: Final[dict[str, Any]] = {
    "connect_timeout": "10s",
    "timeout": "60s",
    "user_agent": f"orchestrace/{_core.VERSION}",
}
"""Of one request: a range of an object, or a part of one that is written."""
RETRIES: Final[dict[str, Any]] = {
    "max_retries": 6,
    "backoff": {
        "init_backoff": timedelta(milliseconds=200),
        "max_backoff": timedelta(seconds=5),
        "base": 2,
    },
    "retry_timeout": timedelta(minutes=3),
}
"""Of a request that fails on the way, or that a server answers with 5xx."""

_LATE: Final = re.compile(r"TimedOut|timed out")
_UNREACHED: Final = re.compile(r"ConnectError|Connect,|dns error|tcp connect|ConnectionRefused|Unreachable")
"""Kinds of errors as the client prints them."""
_CREDENTIALS: Final = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or AWS_SKIP_SIGNATURE=true",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN",
}


class Unlike(InputError):
    """An object is gone, or is another one than was asked for."""


def open_store(address: Address) -> Any:
    """A client for the bucket, container or host of an address.

    Raises
    ------
    InputError
        The extra `storage` is not installed, or the client refuses its configuration.
    """
    try:
        from obstore import store as stores
    except ImportError:
        raise InputError(f"{address.scheme}:// needs the extra storage: {install('storage')}") from None
    client = dict(CLIENT)
    options: dict[str, Any] = {"client_options": client, "retry_config": RETRIES}
    try:
        if address.scheme == "s3":
            endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
            if endpoint:
                client["allow_http"] = endpoint.startswith("http://")
                options["endpoint"] = endpoint
            return stores.S3Store(address.place, **options, **_profile())
        if address.scheme == "gs":
            return stores.GCSStore(address.place, **options)
        if address.scheme == "az":
            return stores.AzureStore(address.place, **options)
        client["allow_http"] = address.scheme == "http"
        if address.user:
            client["default_headers"] = {
                "authorization": "Basic " + base64.b64encode(address.user.encode()).decode()
            }
        query = f"/?{address.query}" if address.query else ""
        return stores.HTTPStore.from_url(f"{address.scheme}://{address.place}{query}", **options)
    except InputError:
        raise
    except Exception as error:
        raise refusal(address, error) from None


def _profile() -> dict[str, Any]:
    """Credentials from the files of the AWS tools, which boto3 reads, unless the environment has them."""
    if os.environ.get("AWS_ACCESS_KEY_ID") or os.environ.get("AWS_SKIP_SIGNATURE"):
        return {}
    files = [
        Path(os.environ.get(name) or Path.home() / ".aws" / file)
        for name, file in (("AWS_SHARED_CREDENTIALS_FILE", "credentials"), ("AWS_CONFIG_FILE", "config"))
    ]
    if not os.environ.get("AWS_PROFILE") and not any(file.is_file() for file in files):
        return {}
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        if os.environ.get("AWS_PROFILE"):
            raise InputError(
                "AWS_PROFILE is set, and boto3 reads profiles: pip install boto3, or set AWS_ACCESS_KEY_ID "
                "and AWS_SECRET_ACCESS_KEY"
            ) from None
        return {}
    return {"credential_provider": Boto3CredentialProvider()}


def is_passing(error: Exception) -> bool:
    """Whether the same request may well succeed the next time."""
    if type(error).__name__ != "GenericError":
        return False
    status = _status(error)
    return status is None or status >= 500 or status in (408, 429)


def _status(error: Exception) -> int | None:
    match = re.search(r"status code: (\d{3})", str(error))
    return int(match[1]) if match else None


def refusal(address: Address, error: Exception, doing: str = "read") -> InputError:
    """The fault and its cure in one line, without the text of the error, which may hold secrets."""
    kind, text, status = type(error).__name__, str(error), _status(error)
    url, place = plain(address.url), plain(f"{address.scheme}://{address.place}")
    container = {"az": "container"}.get(address.scheme, "bucket")
    names = _CREDENTIALS.get(address.scheme, "the signature of the address")
    if "NoSuchBucket" in text or "ContainerNotFound" in text:
        return InputError(f"'{url}': there is no {container} '{place}': create it first, or correct its name")
    if isinstance(error, FileNotFoundError):
        return Unlike(f"no such object: '{url}'; correct the key (names are case-sensitive)")
    if kind in ("PermissionDeniedError", "UnauthenticatedError") or status in (401, 403):
        return InputError(f"'{url}': access denied to {doing} it: check {names}, and what they may do")
    if kind in ("PreconditionError", "NotModifiedError"):
        return changed(address)
    if kind == "InvalidPathError":
        return InputError(f"'{url}' is not a key that can be read: it has an empty part, '.' or '..'")
    if "MissingAccount" in text or "MissingBucketName" in text:
        return InputError(f"'{url}': set {names}")
    if "token request" in text or "metadata" in text or "credential" in text.lower():
        return InputError(f"'{url}': no credentials were found or they are refused: set {names}")
    if status is not None:
        return InputError(f"'{url}' cannot be {_past(doing)}: the server answers with {status}")
    if _LATE.search(text):
        reason = "the server does not answer in time; try again, or read fewer at once"
    elif _UNREACHED.search(text):
        hint = " and AWS_ENDPOINT_URL" if address.scheme == "s3" else ""
        reason = f"no connection to the server; check the network{hint}"
    else:
        reason = "the connection breaks off again and again; try again later"
    return InputError(f"'{url}' cannot be {_past(doing)}: {reason}")


def changed(address: Address) -> InputError:
    """An object is not the one that was listed."""
    return Unlike(f"'{plain(address.url)}' has changed since it was listed: run the same call again")


def _past(doing: str) -> str:
    return {"read": "read", "write": "written", "list": "listed", "remove": "removed"}[doing]
