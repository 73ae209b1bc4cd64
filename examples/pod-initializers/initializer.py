"""Two pod initializers: `limits` sets resource limits on containers, `images` pins their images by digest.

    python3 initializer.py limits
    python3 initializer.py images --digests digests.json     {"docker.io/library/nginx:1.27": "sha256:..."}

Run as many copies as you like. An initializer keeps no state: its work is listed in the pods themselves, so a restart loses nothing.
The master runs with --scheduling-gates example.com/limits,example.com/images; initializers.yaml grants the permissions.
"""

import argparse
import json
import pathlib

from kubernetes import config
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import ConflictError, DynamicApiError, NotFoundError

LIMITS = {"cpu": "500m", "memory": "256Mi"}


def limits(container):
    """The limits that a container gets for resources without a request or limit."""
    resources = container.get("resources", {})
    given = {**resources.get("requests", {}), **resources.get("limits", {})}
    return {"resources": {"limits": {name: LIMITS[name] for name in LIMITS if name not in given}}}


def images(container, digests):
    """The image of a container by digest, if its digest is in the list."""
    image = container["image"]
    return {"image": f"{image}@{digests[image]}"} if image in digests else {}


def initialize(pods, gate, fill, retry_seconds):
    """Completes every pod whose first gate is this one, and removes the gate with the same request."""
    while True:  # A watch ends after a while. The next one starts with all waiting pods, also those that were rejected.
        for event in pods.watch(field_selector=f"spec.schedulingGates[0].name={gate}", timeout=retry_seconds):
            if event["type"] not in ("ADDED", "MODIFIED"):
                continue  # DELETED: the pod has passed this gate.
            pod = event["raw_object"]
            name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
            patch = {
                "metadata": {"resourceVersion": pod["metadata"]["resourceVersion"]},
                "spec": {
                    "schedulingGates": [{"$patch": "delete", "name": gate}],
                    "containers": [{"name": one["name"], **fill(one)} for one in pod["spec"]["containers"]],
                },
            }
            try:
                pods.finalize.patch(body=patch, name=name, namespace=namespace)
                print(f"{namespace}/{name} has passed {gate}", flush=True)
            except (ConflictError, NotFoundError):
                pass  # Another copy was faster, or the pod has changed: then the watch sends it again.
            except DynamicApiError as error:
                print(f"{namespace}/{name} waits at {gate}: {error.summary()}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["limits", "images"])
    parser.add_argument("--digests", type=pathlib.Path, help="a file with a JSON object that maps images to digests")
    parser.add_argument("--again", type=int, default=60, metavar="SECONDS", help="time until a rejected pod is tried again")
    arguments = parser.parse_args()
    digests = json.loads(arguments.digests.read_text()) if arguments.digests else {}
    pods = DynamicClient(config.new_client_from_config()).resources.get(api_version="v1", kind="Pod")
    fill = limits if arguments.what == "limits" else lambda container: images(container, digests)
    initialize(pods, f"example.com/{arguments.what}", fill, arguments.again)


if __name__ == "__main__":
    main()
