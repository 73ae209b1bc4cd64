"""Every kind, as its own class reads it: a field that a class cannot be without is in every answer."""

import inspect
import os
import re
import unittest

import yaml
from kubernetes import client, dynamic

OBJECTS = os.path.join(os.path.dirname(__file__), "..", "master_tables", "objects.yaml")
# A path of its own for each kind; and a class that refuses events of the older sort, which the stock server has as well.
EXCEPT = {"CustomObjectsApi", "EventsV1Api"}
# What a class lists that lies in namespaces is listed over all of them.
LIST = re.compile(r"list_(?!namespaced_)\w+(?<!with_http_info)$")


class Kinds(unittest.TestCase):
    def test_what_is_created_is_listed_by_its_class(self):
        server = client.ApiClient()
        kinds = dynamic.DynamicClient(server).resources
        with open(OBJECTS) as file:
            objects = list(yaml.safe_load_all(file))
        for one in objects:
            place = kinds.get(api_version=one["apiVersion"], kind=one["kind"])
            place.create(body=one, namespace="default" if place.namespaced else None)
        read = set()
        for name, of_group in inspect.getmembers(client, inspect.isclass):
            if not name.endswith("Api") or name in EXCEPT:
                continue
            lists = [way for way, _ in inspect.getmembers(of_group, inspect.isfunction) if LIST.match(way)]
            for way in lists:
                try:
                    found = getattr(of_group(server), way)()
                except client.ApiException as missing:
                    # A group or a kind that is not served.
                    self.assertEqual(missing.status, 404, f"{name}.{way}: {missing}")
                    continue
                read.update((found.api_version, found.kind.removesuffix("List")) for one in found.items)
        for one in objects:
            if not one["apiVersion"].startswith("events.k8s.io/"):
                self.assertIn((one["apiVersion"], one["kind"]), read)
