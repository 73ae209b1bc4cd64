"""Kinds that are defined while the master runs, and their objects."""

import time

from bed import DEADLINE_SECONDS, Journey
from kubernetes import client, dynamic, watch

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1},
                "colour": {"type": "string", "default": "red"},
                "replicas": {"type": "integer", "default": 1},
            },
        },
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
    },
}


class Definitions(Journey):
    def define(self, group):
        """Serves widgets of that group; returns once they can be written."""
        definitions = client.ApiextensionsV1Api()
        name = f"widgets.{group}"
        version = {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": SCHEMA},
            "subresources": {
                "status": {},
                "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
            },
            "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
        }
        names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]}
        body = {"metadata": {"name": name}, "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}}
        definitions.create_custom_resource_definition(body)
        stream = watch.Watch()
        for event in stream.stream(
            definitions.list_custom_resource_definition,
            field_selector=f"metadata.name={name}",
            timeout_seconds=DEADLINE_SECONDS,
        ):
            conditions = event["object"].status.conditions or []
            if any(one.type == "Established" and one.status == "True" for one in conditions):
                stream.stop()
        return definitions, name

    def test_objects_of_a_defined_kind(self):
        group = "objects.journey.example"
        self.define(group)
        widgets = client.CustomObjectsApi()
        place = (group, "v1", self.namespace, "widgets")
        body = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 3, "shape": "round"}}
        made = widgets.create_namespaced_custom_object(*place, body)
        self.assertEqual(made["spec"], {"size": 3, "colour": "red", "replicas": 1})
        with self.refused(422, "Invalid") as said:
            widgets.create_namespaced_custom_object(*place, {**body, "metadata": {"name": "x"}, "spec": {"size": 0}})
        self.assertEqual(said[0]["details"]["causes"][0]["field"], "spec.size")

        patched = widgets.patch_namespaced_custom_object(*place, "w", {"spec": {"colour": "blue"}})
        self.assertEqual((patched["spec"]["colour"], patched["metadata"]["generation"]), ("blue", 2))
        status = widgets.patch_namespaced_custom_object_status(*place, "w", {"status": {"replicas": 9}, "spec": {"size": 7}})
        self.assertEqual((status["status"], status["spec"]["size"]), ({"replicas": 9}, 3))
        scale = widgets.patch_namespaced_custom_object_scale(*place, "w", {"spec": {"replicas": 4}})
        self.assertEqual((scale["spec"]["replicas"], scale["status"]["replicas"]), (4, 9))
        read = widgets.get_namespaced_custom_object(*place, "w")
        read["spec"]["size"] = 5
        widgets.replace_namespaced_custom_object(*place, "w", read)
        with self.refused(409, "Conflict"):
            widgets.replace_namespaced_custom_object(*place, "w", read)

        listed = widgets.list_cluster_custom_object(group, "v1", "widgets")
        self.assertEqual((listed["kind"], len(listed["items"])), ("WidgetList", 1))
        revision = listed["metadata"]["resourceVersion"]
        widgets.delete_namespaced_custom_object(*place, "w")
        stream, seen = watch.Watch(), []
        for event in stream.stream(
            widgets.list_namespaced_custom_object, *place, resource_version=revision, timeout_seconds=DEADLINE_SECONDS
        ):
            seen.append((event["type"], event["object"]["metadata"]["name"]))
            stream.stop()
        self.assertEqual(seen, [("DELETED", "w")])

    def test_a_kind_comes_and_goes(self):
        group = "kinds.journey.example"
        definitions, name = self.define(group)
        found = dynamic.DynamicClient(client.ApiClient()).resources
        # Discovery is kept in a file: what is new is looked for once more.
        found.invalidate_cache()
        widgets = found.get(api_version=f"{group}/v1", kind="Widget")
        body = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}}
        applied = widgets.server_side_apply(body=body, name="w", namespace=self.namespace, field_manager="journey")
        self.assertEqual(applied.spec.colour, "red")
        # The watch starts at a revision before the deletion, which can end at once.
        revision = definitions.read_custom_resource_definition(name).metadata.resource_version
        definitions.delete_custom_resource_definition(name)
        stream = watch.Watch()
        for event in stream.stream(
            definitions.list_custom_resource_definition,
            field_selector=f"metadata.name={name}",
            resource_version=revision,
            timeout_seconds=DEADLINE_SECONDS,
        ):
            if event["type"] == "DELETED":
                stream.stop()
        with self.refused(404, "NotFound"):
            definitions.read_custom_resource_definition(name)
        # A controller stops to serve the kind after the definition is gone.
        with self.refused(404, "NotFound"):
            end = time.monotonic() + DEADLINE_SECONDS
            while time.monotonic() < end:
                client.CustomObjectsApi().list_cluster_custom_object(group, "v1", "widgets")
                time.sleep(0.05)
