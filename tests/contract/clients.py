"""Google's two Python clients behind one way of calling: ``call("instances.list", zone=...)``.

Each builds its own URLs and bodies from its own definition; only the names are translated here."""

from __future__ import annotations

import inspect
import json
import re
import typing
from typing import Any

from google.auth.credentials import AnonymousCredentials
from google.cloud import compute_v1
from googleapiclient.discovery import build

Json = dict[str, Any]


class CloudCompute:
    """google-cloud-compute."""

    name = "google-cloud-compute"

    def __init__(self, url: str) -> None:
        self._url = url
        self._clients: dict[str, Any] = {}

    def call(self, method: str, body: Json | None = None, **params: Any) -> Json:
        """Call a method by its discovery name; the answer as JSON (lists: all pages' items)."""
        resource, verb = method.split(".")
        client = self._client(resource)
        name = _snake(verb)
        function = getattr(client, f"{name}_unary", None) or getattr(client, name)
        annotation = inspect.signature(function).parameters["request"].annotation
        kind = typing.get_args(annotation)[0]
        request = {_snake(key): value for key, value in params.items()}
        if body is not None:
            (field,) = [name for name in kind.meta.fields if name.endswith("_resource")]
            request[field] = kind.meta.fields[field].message.from_json(json.dumps(body))
        found = function(request=request, timeout=30)
        if hasattr(found, "pages"):
            return {"all": [_plain(item) for item in found]}
        plain: Json = _plain(found)
        return plain

    def _client(self, resource: str) -> Any:
        if resource not in self._clients:
            kind = getattr(compute_v1, f"{resource[0].upper()}{resource[1:]}Client")
            self._clients[resource] = kind(
                credentials=_anonymous(), client_options={"api_endpoint": self._url}
            )
        return self._clients[resource]


class ApiClient:
    """google-api-python-client, with the discovery document that the emulator serves."""

    name = "google-api-python-client"

    def __init__(self, url: str, version: str = "v1") -> None:
        self._service = build(
            "compute", version, credentials=_anonymous(), static_discovery=False,
            discoveryServiceUrl=f"{url}/discovery/v1/apis/{{api}}/{{apiVersion}}/rest",
        )  # fmt: skip

    def call(self, method: str, body: Json | None = None, **params: Any) -> Json:
        """Call a method by its discovery name; the answer as JSON (lists: all pages' items)."""
        resource, verb = method.split(".")
        collection = getattr(self._service, resource)()
        words = {**params, **({"body": body} if body is not None else {})}
        request = getattr(collection, verb)(**words)
        found: Json = request.execute()
        following = getattr(collection, f"{verb}_next", None)
        if following is None:
            return found
        everything: list[Any] = []
        while True:
            items: Any = found.get("items", found.get("managedInstances", []))
            everything += items if isinstance(items, list) else [[k, v] for k, v in items.items()]
            request = following(request, found)
            if request is None:
                return {"all": everything}
            found = request.execute()


def _plain(item: Any) -> Any:
    if isinstance(item, tuple):
        return [item[0], _plain(item[1])]
    return json.loads(type(item).to_json(item, use_integers_for_enums=False))


CLIENTS = (CloudCompute, ApiClient)


def _anonymous() -> Any:
    return AnonymousCredentials()  # type: ignore[no-untyped-call]


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", lambda m: f"_{m.group(1).lower()}", name)
