"""The dynamic client: what there is, found by discovery; server-side apply; objects without classes."""

from bed import DEADLINE_SECONDS, Journey
from kubernetes import client, dynamic
from kubernetes.dynamic import exceptions


class Dynamic(Journey):
    @classmethod
    def setUpClass(cls):
        cls.client = dynamic.DynamicClient(client.ApiClient())

    def test_discovery_finds_kinds_by_their_names(self):
        found = self.client.resources.get(api_version="apps/v1", kind="Deployment")
        self.assertEqual((found.name, found.namespaced), ("deployments", True))
        self.assertIn("scale", found.subresources)
        for words in ({"name": "pods"}, {"kind": "Pod"}, {"short_names": ["po"]}):
            self.assertEqual(self.client.resources.get(api_version="v1", **words).kind, "Pod", words)
        self.assertEqual(self.client.version["kubernetes"]["gitVersion"].split(".")[:2], ["v1", "36"])
        with self.assertRaises(exceptions.ResourceNotFoundError):
            self.client.resources.get(api_version="v1", kind="Unicorn")
        kinds = {resource.kind for found in self.client.resources for resource in found}
        self.assertLessEqual({"Pod", "CronJob", "Role", "StorageClass", "Lease"}, kinds)

    def test_objects_live_and_die_without_classes(self):
        maps = self.client.resources.get(api_version="v1", kind="ConfigMap")
        body = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "m", "labels": {"a": "b"}}, "data": {"x": "1"}}
        made = maps.create(body=body, namespace=self.namespace)
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": made.metadata.resourceVersion}, "data": {"y": "2"}}
        maps.replace(body=body, namespace=self.namespace)
        with self.assertRaises(exceptions.ConflictError):
            maps.replace(body=body, namespace=self.namespace)
        kind = "application/merge-patch+json"
        maps.patch(name="m", namespace=self.namespace, body={"data": {"z": "3", "y": None}}, content_type=kind)
        found = maps.get(namespace=self.namespace, label_selector="a=b")
        self.assertEqual([one.data.to_dict() for one in found.items], [{"z": "3"}])
        events = maps.watch(namespace=self.namespace, name="m", timeout=DEADLINE_SECONDS)
        self.assertEqual(next(events)["object"].metadata.name, "m")
        maps.delete(name="m", namespace=self.namespace)
        with self.assertRaises(exceptions.NotFoundError) as caught:
            maps.get(name="m", namespace=self.namespace)
        self.assertIn('configmaps "m" not found', caught.exception.summary())

    def test_appliers_own_what_they_set(self):
        deployments = self.client.resources.get(api_version="apps/v1", kind="Deployment")
        labels = {"app": "web"}

        def wanted(image, **spec):
            pod = {"containers": [{"name": "web", "image": image}]}
            template = {"metadata": {"labels": labels}, "spec": pod}
            spec = {"selector": {"matchLabels": labels}, "template": template, **spec}
            return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}

        def apply(manager, body, **options):
            return deployments.server_side_apply(
                body=body, name="web", namespace=self.namespace, field_manager=manager, **options
            )

        made = apply("one", wanted("web:1", replicas=2))
        self.assertEqual((made.spec.replicas, made.metadata.managedFields[0].operation), (2, "Apply"))
        again = apply("one", wanted("web:1", replicas=2))
        self.assertEqual(again.metadata.resourceVersion, made.metadata.resourceVersion)
        with self.assertRaises(exceptions.ConflictError) as caught:
            apply("two", wanted("web:2"))
        self.assertIn('conflict with "one"', caught.exception.summary())
        taken = apply("two", wanted("web:2"), force_conflicts=True)
        self.assertEqual(taken.spec.template.spec.containers[0].image, "web:2")
        # What its only owner no longer wants goes back to what it would be by itself.
        given_up = apply("one", {**wanted("web:2"), "metadata": {"name": "web"}})
        self.assertEqual(given_up.spec.replicas, 1)

    def test_parts_of_objects_have_their_own_ways(self):
        apps = client.AppsV1Api()
        body = {
            "metadata": {"name": "rs"},
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
            },
        }
        apps.create_namespaced_replica_set(self.namespace, body)
        sets = self.client.resources.get(api_version="apps/v1", kind="ReplicaSet")
        scale = sets.scale.get(name="rs", namespace=self.namespace)
        self.assertEqual((scale.kind, scale.spec.replicas), ("Scale", 1))
        kind = "application/merge-patch+json"
        sets.scale.patch(name="rs", namespace=self.namespace, body={"spec": {"replicas": 4}}, content_type=kind)
        self.assertEqual(sets.get(name="rs", namespace=self.namespace).spec.replicas, 4)
