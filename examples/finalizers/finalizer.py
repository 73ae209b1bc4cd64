"""Two finalizers of pods: `limits` gives containers limits, `images` names their images by digest.

    python3 finalizer.py limits
    python3 finalizer.py images --digests digests.json     {"docker.io/library/nginx:1.27": "sha256:..."}

Each may run as often as you like, and be killed whenever you like: what is to be done stands in the pods. The master runs
with --scheduling-gates example.com/limits,example.com/images; finalizers.yaml lets them act.
"""

import argparse
import json
import pathlib

from kubernetes import config
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import ConflictError, DynamicApiError, NotFoundError

LIMITS = {"cpu": "500m", "memory": "256Mi"}


def limits(container):
    """Limits of what a container says nothing about."""
    said = container.get("resources", {})
    known = {**said.get("requests", {}), **said.get("limits", {})}
    return {"resources": {"limits": {name: LIMITS[name] for name in LIMITS if name not in known}}}


def images(container, digests):
    """Its image by digest, where one is known."""
    image = container["image"]
    return {"image": f"{image}@{digests[image]}"} if image in digests else {}


def finish(pods, gate, fill, again_seconds):
    """Fills in every pod whose turn it is, and takes the gate off with the same write."""
    while True:  # A watch ends after a while; the next one begins with all that wait, those that were refused too.
        for event in pods.watch(field_selector=f"spec.schedulingGates[0].name={gate}", timeout=again_seconds):
            if event["type"] not in ("ADDED", "MODIFIED"):
                continue  # DELETED: its turn is over.
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
                pass  # Another copy was quicker, or the pod has changed: then it is seen again.
            except DynamicApiError as refused:
                print(f"{namespace}/{name} waits at {gate}: {refused.summary()}", flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("what", choices=["limits", "images"])
    arguments.add_argument("--digests", type=pathlib.Path, help="a file with a JSON object: digests by image")
    arguments.add_argument("--again", type=int, default=60, metavar="SECONDS", help="when a refused pod is tried again")
    given = arguments.parse_args()
    digests = json.loads(given.digests.read_text()) if given.digests else {}
    pods = DynamicClient(config.new_client_from_config()).resources.get(api_version="v1", kind="Pod")
    fill = limits if given.what == "limits" else lambda container: images(container, digests)
    finish(pods, f"example.com/{given.what}", fill, given.again)


if __name__ == "__main__":
    main()
