"""What goes wrong, as exceptions that say what and why."""

import json

from bed import Journey
from kubernetes import client


class Errors(Journey):
    def test_an_invalid_object_is_told_field_by_field(self):
        body = {
            "metadata": {"name": "Bad_Name"},
            "spec": {"containers": [{"name": "c"}, {"name": "c", "image": "i"}], "restartPolicy": "Sometimes"},
        }
        with self.refused(422, "Invalid") as said:
            self.core.create_namespaced_pod(self.namespace, body)
        details = said[0]["details"]
        self.assertEqual((details["kind"], details["name"]), ("Pod", "Bad_Name"))
        fields = {cause["field"]: cause["reason"] for cause in details["causes"]}
        self.assertEqual(fields["spec.containers[0].image"], "FieldValueRequired")
        self.assertEqual(fields["spec.containers[1].name"], "FieldValueDuplicate")
        self.assertEqual(fields["spec.restartPolicy"], "FieldValueNotSupported")
        self.assertEqual(fields["metadata.name"], "FieldValueInvalid")

    def test_what_is_missing_or_there_already_is_named(self):
        with self.refused(404, "NotFound") as said:
            client.AppsV1Api().read_namespaced_deployment("none", self.namespace)
        self.assertEqual(said[0]["details"], {"name": "none", "group": "apps", "kind": "deployments"})
        self.config_map("there")
        with self.refused(409, "AlreadyExists") as said:
            self.config_map("there")
        self.assertEqual(said[0]["details"], {"name": "there", "kind": "configmaps"})
        with self.refused(404, "NotFound") as said:
            self.core.create_namespaced_config_map("nowhere", {"metadata": {"name": "m"}})
        self.assertEqual(said[0]["details"]["kind"], "namespaces")
        with self.refused(400, "BadRequest"):
            self.core.create_namespaced_config_map(self.namespace, {"metadata": {"name": "m", "namespace": "other"}})

    def test_paths_methods_and_bodies_that_make_no_sense(self):
        def call(method, path, body=None, **headers):
            return client.ApiClient().call_api(
                path, method, body=body, header_params=headers, auth_settings=["BearerToken"], response_types_map={}
            )

        here = f"/api/v1/namespaces/{self.namespace}/configmaps"
        with self.refused(404, "NotFound"):
            call("GET", "/apis/nothing.example/v1/unicorns")
        with self.refused(405, "MethodNotAllowed"):
            call("PUT", here, {"metadata": {"name": "m"}})
        with self.refused(415, "UnsupportedMediaType"):
            call("PATCH", f"{here}/kube-root-ca.crt", {}, **{"Content-Type": "application/json"})
        with self.refused(406, "NotAcceptable"):
            call("GET", here, Accept="image/png")
        with self.refused(400, "BadRequest"):
            call("POST", here, "no object", **{"Content-Type": "application/json"})
        big = {"metadata": {"name": "big"}, "data": {"a": "x" * (4 << 20)}}
        with self.refused(413, "RequestEntityTooLarge"):
            self.core.create_namespaced_config_map(self.namespace, big)

    def test_an_object_that_waits_is_answered_as_it_is(self):
        self.config_map("kept", finalizers=["journey.example/wait"])
        answer = self.core.delete_namespaced_config_map("kept", self.namespace, _preload_content=False)
        self.assertEqual(json.loads(answer.data)["kind"], "ConfigMap")
