"""Base of the tests: clients of the administrator, a namespace per test, and checks of error responses."""

import contextlib
import json
import threading
import unittest

from kubernetes import client, config, watch

# Deadline of every wait: a busy two-core machine runs several tests at once.
DEADLINE_SECONDS = 60
# The ConfigMap with the root certificate that the root-ca-certificate-publisher adds to every namespace.
ROOT_CA = "kube-root-ca.crt"

config.load_kube_config()


class Journey(unittest.TestCase):
    """A test with its own namespace."""

    maxDiff = None

    def setUp(self):
        self.core = client.CoreV1Api()
        namespace = self.core.create_namespace({"metadata": {"generateName": "journey-"}})
        self.namespace = namespace.metadata.name
        # Controllers add these to every namespace. Tests of lists and watches start after the ConfigMap. The server
        # lets a pod wait for the account for two seconds only.
        for list_function, name in (
            (self.core.list_namespaced_config_map, ROOT_CA),
            (self.core.list_namespaced_service_account, "default"),
        ):
            stream = watch.Watch()
            for _ in stream.stream(
                list_function,
                self.namespace,
                field_selector=f"metadata.name={name}",
                timeout_seconds=DEADLINE_SECONDS,
            ):
                stream.stop()

    def config_map(self, name, data=None, **metadata):
        """Creates a ConfigMap."""
        body = {"metadata": {"name": name, **metadata}, "data": data or {}}
        return self.core.create_namespaced_config_map(self.namespace, body)

    def names(self, **options):
        """The names of the listed ConfigMaps, without the root certificate."""
        found = self.core.list_namespaced_config_map(self.namespace, **options).items
        return [one.metadata.name for one in found if one.metadata.name != ROOT_CA]

    @contextlib.contextmanager
    def refused(self, code, reason):
        """Expects this error response from the statements in the block, and appends its Status to the list."""
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
        """Runs a call that could hang on a thread of its own, with a deadline."""
        answers = []
        thread = threading.Thread(target=lambda: answers.append(task()), daemon=True)
        thread.start()
        thread.join(DEADLINE_SECONDS)
        self.assertTrue(answers, f"{what} has failed or takes too long")
        return answers[0]
