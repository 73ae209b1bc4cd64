"""Watches from a revision, informers, and errors for watches from a compacted revision."""

import queue

from bed import DEADLINE_SECONDS, Journey
from kubernetes import client, informer, watch


class Watches(Journey):
    def changes(self, revision, count, **options):
        """The first changes after a revision, as pairs of event type and name."""
        seen, stream = [], watch.Watch()
        events = stream.stream(
            self.core.list_namespaced_config_map,
            self.namespace,
            resource_version=revision,
            timeout_seconds=DEADLINE_SECONDS,
            **options,
        )
        for event in events:
            seen.append((event["type"], event["object"].metadata.name))
            if len(seen) == count:
                stream.stop()
        return seen

    def test_a_watch_tells_everything_after_its_revision_and_nothing_before(self):
        self.config_map("before")
        revision = self.core.list_namespaced_config_map(self.namespace).metadata.resource_version
        self.config_map("a")
        self.core.patch_namespaced_config_map("a", self.namespace, {"metadata": {"labels": {"of": "b"}}})
        self.core.delete_namespaced_config_map("a", self.namespace)
        self.config_map("b", labels={"of": "b"})
        whole = [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "b")]
        self.assertEqual(self.changes(revision, 4), whole)
        # With a label selector, an object is added when it gets the label.
        picked = [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "b")]
        self.assertEqual(self.changes(revision, 3, label_selector="of=b"), picked)
        self.assertEqual(self.changes(revision, 1, field_selector="metadata.name=b"), [("ADDED", "b")])

    def test_a_watch_without_a_revision_begins_with_what_is_there(self):
        self.config_map("a")
        # The root certificate is in every namespace.
        seen = self.changes(None, 2)
        self.assertEqual(sorted(seen), [("ADDED", "a"), ("ADDED", "kube-root-ca.crt")])

    def test_a_watch_ends_when_its_time_is_up(self):
        made = self.config_map("a")
        ended = self.core.list_namespaced_config_map(
            self.namespace,
            watch=True,
            timeout_seconds=1,
            resource_version=made.metadata.resource_version,
            field_selector="metadata.name=a",
            allow_watch_bookmarks=True,
            _preload_content=False,
        )
        self.assertEqual(self.within("the end of a watch", ended.read), b"")

    def test_a_revision_that_is_forgotten_or_to_come_is_refused(self):
        events = watch.Watch().stream(
            self.core.list_namespaced_config_map, self.namespace, resource_version="999999999", timeout_seconds=5
        )
        with self.refused(504, "Timeout"):
            next(events)
        with self.refused(400, "BadRequest"):
            self.core.list_namespaced_config_map(self.namespace, resource_version="yesterday")

    def test_an_informer_keeps_a_picture(self):
        self.config_map("first", {"a": "1"})
        heard = queue.Queue()
        of_maps = informer.SharedInformer(
            self.core.list_namespaced_config_map, namespace=self.namespace, field_selector="metadata.name=first"
        )
        for kind in (informer.ADDED, informer.MODIFIED, informer.DELETED):
            of_maps.add_event_handler(kind, lambda one, kind=kind: heard.put((kind, one.data)))
        of_maps.start()
        self.assertEqual(heard.get(timeout=DEADLINE_SECONDS), ("ADDED", {"a": "1"}))
        self.core.patch_namespaced_config_map("first", self.namespace, {"data": {"a": "2"}})
        self.assertEqual(heard.get(timeout=DEADLINE_SECONDS), ("MODIFIED", {"a": "2"}))
        self.assertEqual(of_maps.cache.get_by_key(f"{self.namespace}/first").data, {"a": "2"})
        self.core.delete_namespaced_config_map("first", self.namespace)
        self.assertEqual(heard.get(timeout=DEADLINE_SECONDS)[0], "DELETED")
        self.assertEqual(of_maps.cache.list(), [])
