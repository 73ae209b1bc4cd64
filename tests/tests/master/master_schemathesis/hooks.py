"""Leads Schemathesis to where there is something to find: objects that are there, patches that say something.

What it generates would hardly ever name an object, or a kind; so most requests get the names of what stands in
`master_tables/objects.yaml`, and the rest stay as they are. The choices hang on what was generated alone.
"""

import json
import zlib

import schemathesis

# Name and namespace of the object that exists of every kind.
NAME, NAMESPACE = "a", "default"
# Timeout of watches. The default of half an hour would count as a missing response.
WATCH_SECONDS = 1
# Parameters that are strings in the documents, although the server accepts only these values.
WORDS = {
    "dryRun": ["All"],
    "fieldValidation": ["Strict", "Warn", "Ignore"],
    "propagationPolicy": ["Background", "Foreground", "Orphan"],
    "resourceVersionMatch": ["Exact", "NotOlderThan"],
}
OPERATION = {
    "type": "object",
    "required": ["op", "path"],
    "properties": {
        "op": {"enum": ["add", "remove", "replace", "move", "copy", "test"]},
        "path": {
            "enum": ["", "/", "/metadata", "/metadata/labels", "/metadata/labels/x", "/metadata/finalizers/-", "/spec"]
            + ["/spec/replicas", "/spec/template/spec/containers/0", "/data", "/status", "/kind", "/metadata/name"]
        },
        "from": {"enum": ["/metadata", "/spec", "/metadata/labels", "/nowhere"]},
        "value": {},
    },
}


@schemathesis.hook
def before_load_schema(context, document):
    """Says of patches what the document leaves open: they look like the object, or are operations on it."""
    for methods in document["paths"].values():
        bodies = methods.get("patch", {}).get("requestBody", {}).get("content", {})
        answer = methods.get("patch", {}).get("responses", {}).get("200", {}).get("content", {})
        for kind, body in bodies.items():
            if kind == "application/json-patch+json":
                body["schema"] = {"type": "array", "items": OPERATION}
            elif answer:
                body["schema"] = {"anyOf": [{"type": "object"}, answer["application/json"]["schema"]]}


@schemathesis.hook
def before_call(context, case, kwargs):
    """Names what is there in most requests, and keeps those that would take everything away from doing so."""
    draw = zlib.crc32(repr((case.path_parameters, case.query, case.body)).encode())
    parameters, query = case.path_parameters, case.query
    if parameters:
        if "namespace" in parameters and draw % 8:
            parameters["namespace"] = NAMESPACE
        if "name" in parameters and draw % 4:
            parameters["name"] = NAME
    for word, words in WORDS.items():
        if isinstance(query, dict) and word in query and draw % 4:
            query[word] = words[draw % len(words)]
    if is_watch(case):
        query["timeoutSeconds"] = WATCH_SECONDS
    if case.method == "DELETE" and (draw % 16 or not (parameters or {}).get("name")):
        case.query = {**(query or {}), "dryRun": "All"}
    if isinstance(case.body, dict) and draw % 16:
        say_what_it_is(case, draw)


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """Drops what is no fault: a watch is announced as a list and is a line an event; 405 says what is allowed in words."""
    is_line = is_watch(case) and type(failure).__name__ in {"JsonSchemaError", "MalformedJson"}
    is_header = response.status_code == 405 and "`Allow` header" in failure.message
    return not (is_line or is_header)


def is_watch(case):
    """Whether events are asked for, as the server reads it."""
    query = case.query if isinstance(case.query, dict) else {}
    return "watch" in query and str(query["watch"]).lower() not in {"false", "0"}


def say_what_it_is(case, draw):
    """Gives a body the kind that its path wants, and a name."""
    of = case.operation.definition.raw.get("x-kubernetes-group-version-kind")
    if case.method == "DELETE" or not of:
        return
    case.body["kind"] = of["kind"]
    case.body["apiVersion"] = f"{of['group']}/{of['version']}".lstrip("/")
    metadata = case.body.get("metadata")
    if not isinstance(metadata, dict):
        metadata = case.body["metadata"] = {}
    for decided in ("namespace", "resourceVersion", "uid", "managedFields"):
        if draw % 3:
            metadata.pop(decided, None)
    metadata["name"] = (case.path_parameters or {}).get("name") or f"b{draw % 5}"


@schemathesis.check
def mistakes_are_told(ctx, response, case):
    """Whatever goes wrong is told as a Status, in JSON, that says what."""
    if response.status_code < 400:
        return
    kind = response.headers.get("content-type", [""])[0]
    assert kind == "application/json", f"{response.status_code} is told in {kind!r}: {response.content[:200]}"
    status = json.loads(response.content)
    said = (status.get("kind"), status.get("status"), status.get("code"))
    assert said == ("Status", "Failure", response.status_code) and status.get("message"), status
