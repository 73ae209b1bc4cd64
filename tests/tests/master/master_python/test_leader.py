"""Candidates that elect a leader over a ConfigMap, by the module that comes with the client."""

import threading

from bed import DEADLINE_SECONDS, Journey
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.configmaplock import ConfigMapLock


class Candidate(ConfigMapLock):
    """One that can be cut off from the server."""

    def __init__(self, name, namespace):
        super().__init__("leader", namespace, name)
        self.is_cut_off = False
        self.leads, self.is_done = threading.Event(), threading.Event()
        # The shortest times the module takes. The pause can be shorter afterwards, because it is not checked again.
        settings = electionconfig.Config(
            self, lease_duration=3, renew_deadline=2, retry_period=1,
            onstarted_leading=self.leads.set, onstopped_leading=self.is_done.set,
        )
        settings.retry_period = 0.05
        threading.Thread(target=leaderelection.LeaderElection(settings).run, daemon=True).start()

    def update(self, name, namespace, record):
        return not self.is_cut_off and super().update(name, namespace, record)


class Leaders(Journey):
    def holder(self):
        found = self.core.read_namespaced_config_map("leader", self.namespace)
        return found.metadata.annotations["control-plane.alpha.kubernetes.io/leader"]

    def test_one_leads_and_another_takes_over(self):
        first = Candidate("first", self.namespace)
        self.assertTrue(first.leads.wait(DEADLINE_SECONDS))
        second = Candidate("second", self.namespace)
        self.assertIn('"holderIdentity": "first"', self.holder())
        self.assertFalse(second.leads.is_set())
        first.is_cut_off = True
        self.assertTrue(second.leads.wait(DEADLINE_SECONDS), self.holder())
        self.assertTrue(first.is_done.wait(DEADLINE_SECONDS))
        self.assertIn('"holderIdentity": "second"', self.holder())
        second.is_cut_off = True
        self.assertTrue(second.is_done.wait(DEADLINE_SECONDS))
