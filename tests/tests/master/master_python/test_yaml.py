"""Files of several objects, created or applied at once."""

import tempfile

import yaml
from bed import Journey
from kubernetes import client, utils

FILE = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: web}
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: settings}
  data: {mode: "on"}
- apiVersion: v1
  kind: Service
  metadata: {name: web}
  spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {serviceAccountName: web, containers: [{name: web, image: "web:1"}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: web}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
"""


class Files(Journey):
    def test_every_object_of_a_file_is_created(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(FILE)
            file.flush()
            made = utils.create_from_yaml(client.ApiClient(), file.name, namespace=self.namespace)
            self.assertEqual([one.metadata.name for some in made for one in some], ["web", "settings", "web", "web", "web", "web"])
            with self.assertRaises(utils.FailToCreateError) as caught:
                utils.create_from_yaml(client.ApiClient(), file.name, namespace=self.namespace)
        self.assertEqual([refusal.status for refusal in caught.exception.api_exceptions], [409] * 6)
        self.assertIn('configmaps \\"settings\\" already exists', str(caught.exception))

    def test_every_object_of_a_file_is_applied(self):
        objects = [one for one in yaml.safe_load_all(FILE) if one["kind"] != "List"]
        for _ in range(2):
            utils.create_from_yaml(client.ApiClient(), yaml_objects=objects, namespace=self.namespace, apply=True)
        role = client.RbacAuthorizationV1Api().read_namespaced_role("web", self.namespace)
        self.assertEqual([one.manager for one in role.metadata.managed_fields], ["python-client"])
