"""What the journeys stand on: the administrator's clients, a namespace each, and what a refusal says."""

import contextlib
import json
import threading
import unittest

from kubernetes import client, config

# How long anything may take: a busy two-core machine runs several tests at once.
DEADLINE_SECONDS = 60

config.load_kube_config()


class Journey(unittest.TestCase):
    """A journey in a namespace of its own."""

    maxDiff = None

    def setUp(self):
        self.core = client.CoreV1Api()
        namespace = self.core.create_namespace({"metadata": {"generateName": "journey-"}})
        self.namespace = namespace.metadata.name

    def config_map(self, name, data=None, **metadata):
        """Creates a ConfigMap."""
        body = {"metadata": {"name": name, **metadata}, "data": data or {}}
        return self.core.create_namespaced_config_map(self.namespace, body)

    def names(self, **options):
        """The names of the ConfigMaps that a list shows, without the one that every namespace has."""
        found = self.core.list_namespaced_config_map(self.namespace, **options).items
        return [one.metadata.name for one in found if one.metadata.name != "kube-root-ca.crt"]

    @contextlib.contextmanager
    def refused(self, code, reason):
        """What is done inside is refused so; what the server says is in the list once that is over."""
        said = []
        with self.assertRaises(client.ApiException) as caught:
            yield said
        refusal = caught.exception
        self.assertEqual(refusal.headers["Content-Type"], "application/json", refusal.body)
        status = json.loads(refusal.body)
        self.assertEqual((status["kind"], status["apiVersion"], status["status"]), ("Status", "v1", "Failure"))
        self.assertEqual((refusal.status, status["code"], status.get("reason")), (code, code, reason), status)
        self.assertTrue(status["message"], status)
        said.append(status)

    def within(self, what, task):
        """Does something that could hang, on a thread that is left behind if it does."""
        answers = []
        thread = threading.Thread(target=lambda: answers.append(task()), daemon=True)
        thread.start()
        thread.join(DEADLINE_SECONDS)
        self.assertTrue(answers, f"{what} has failed or takes too long")
        return answers[0]
