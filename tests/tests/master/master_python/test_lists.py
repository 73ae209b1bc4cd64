"""Lists in pieces, selectors, trials, and what deleting may be asked."""

from bed import Journey
from kubernetes import client


class Lists(Journey):
    def test_pieces_of_a_list_make_the_whole_as_it_was(self):
        made = [f"m{number}" for number in range(7)]
        for name in made:
            self.config_map(name)
        pieces, token, left = [], None, []
        while token != "":
            page = self.core.list_namespaced_config_map(self.namespace, limit=3, _continue=token or "")
            if not token:
                # What comes between two pieces is in neither.
                self.config_map("m55")
            pieces += [one.metadata.name for one in page.items]
            left.append(page.metadata.remaining_item_count)
            token = page.metadata._continue or ""
        self.assertEqual([name for name in pieces if name != "kube-root-ca.crt"], made)
        self.assertEqual(left[-1], None)
        self.assertEqual(self.names(), sorted(made + ["m55"]))
        with self.refused(400, "BadRequest"):
            self.core.list_namespaced_config_map(self.namespace, limit=1, _continue="nonsense")

    def test_selectors_pick(self):
        for name, labels in [("a", {"tier": "front"}), ("b", {"tier": "back", "old": ""}), ("c", {})]:
            self.config_map(name, labels=labels)
        picked = {
            "tier=front": ["a"],
            "tier!=front": ["b", "c"],
            "tier in (front,back),!old": ["a"],
            "tier notin (front)": ["b", "c"],
            "tier": ["a", "b"],
        }
        for selector, names in picked.items():
            self.assertEqual(self.names(label_selector=selector), names, selector)
        self.assertEqual(self.names(field_selector="metadata.name=b"), ["b"])
        self.assertEqual(self.names(field_selector="metadata.name!=b", label_selector="tier"), ["a"])
        everywhere = self.core.list_config_map_for_all_namespaces(label_selector="tier=front", pretty="true")
        self.assertIn(self.namespace, [one.metadata.namespace for one in everywhere.items])
        for wrong in ({"label_selector": "tier in"}, {"field_selector": "data.a=1"}):
            with self.refused(400, "BadRequest"):
                self.names(**wrong)

    def test_a_trial_is_answered_and_leaves_nothing(self):
        body = {"metadata": {"name": "trial"}, "data": {"a": "1"}}
        answer = self.core.create_namespaced_config_map(self.namespace, body, dry_run="All")
        self.assertEqual(answer.data, {"a": "1"})
        self.assertEqual(self.names(), [])
        self.core.create_namespaced_config_map(self.namespace, body)
        answer = self.core.patch_namespaced_config_map("trial", self.namespace, {"data": {"a": "2"}}, dry_run="All")
        self.assertEqual(answer.data, {"a": "2"})
        self.core.delete_namespaced_config_map("trial", self.namespace, dry_run="All")
        self.assertEqual(self.core.read_namespaced_config_map("trial", self.namespace).data, {"a": "1"})
        with self.refused(422, "Invalid"):
            self.core.create_namespaced_config_map(self.namespace, body, dry_run="Some")

    def test_unknown_fields_are_refused_where_that_is_asked_for(self):
        body = {"metadata": {"name": "typo"}, "dada": {"a": "1"}}
        with self.refused(400, "BadRequest") as said:
            self.core.create_namespaced_config_map(self.namespace, body, field_validation="Strict")
        self.assertIn('unknown field "dada"', said[0]["message"])
        _, _, headers = self.core.create_namespaced_config_map_with_http_info(
            self.namespace, body, field_validation="Warn"
        )
        self.assertEqual(headers["Warning"], '299 - "unknown field \\"dada\\""')

    def test_deleting_keeps_to_its_options(self):
        made = self.config_map("kept", finalizers=["journey.example/wait"])
        other = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="somebody-else"))
        with self.refused(409, "Conflict"):
            self.core.delete_namespaced_config_map("kept", self.namespace, body=other)
        # A finalizer keeps it; the answer is then the object, though the method says Status.
        right = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid=made.metadata.uid))
        self.core.delete_namespaced_config_map("kept", self.namespace, body=right)
        self.assertIsNotNone(self.core.read_namespaced_config_map("kept", self.namespace).metadata.deletion_timestamp)
        free = [{"op": "remove", "path": "/metadata/finalizers"}]
        self.core.patch_namespaced_config_map("kept", self.namespace, free)
        with self.refused(404, "NotFound"):
            self.core.read_namespaced_config_map("kept", self.namespace)
        for name in "abc":
            self.config_map(name, labels={"of": "b" if name == "b" else "rest"})
        self.core.delete_collection_namespaced_config_map(self.namespace, label_selector="of=rest")
        self.assertEqual(self.names(), ["b"])
        with self.refused(422, "Invalid"):
            self.core.delete_namespaced_config_map("b", self.namespace, propagation_policy="Somehow")
