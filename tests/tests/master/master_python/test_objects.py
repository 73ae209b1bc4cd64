"""Objects of several groups from their creation to their end, by the typed classes."""

from bed import Journey
from kubernetes import client

POD = {"containers": [{"name": "c", "image": "shop/web:1", "resources": {"requests": {"cpu": "100m"}}}]}


def deployment(name, replicas):
    """A Deployment as the typed classes make one."""
    labels = {"app": name}
    container = client.V1Container(name="web", image="shop/web:1", ports=[client.V1ContainerPort(container_port=80)])
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels), spec=client.V1PodSpec(containers=[container])
    )
    spec = client.V1DeploymentSpec(
        replicas=replicas, selector=client.V1LabelSelector(match_labels=labels), template=template
    )
    return client.V1Deployment(metadata=client.V1ObjectMeta(name=name, labels=labels), spec=spec)


class Objects(Journey):
    def test_a_deployment_is_created_changed_scaled_and_deleted(self):
        apps = client.AppsV1Api()
        made = apps.create_namespaced_deployment(self.namespace, deployment("web", 2))
        self.assertEqual((made.spec.replicas, made.spec.strategy.type, made.metadata.generation), (2, "RollingUpdate", 1))
        self.assertEqual(made.spec.template.spec.containers[0].image_pull_policy, "IfNotPresent")
        self.assertEqual(made.metadata.creation_timestamp.tzinfo.utcoffset(None).total_seconds(), 0)
        self.assertEqual(made.metadata.managed_fields[0].operation, "Update")

        strategic = {"spec": {"template": {"spec": {"containers": [{"name": "log", "image": "shop/log:1"}]}}}}
        patched = apps.patch_namespaced_deployment("web", self.namespace, strategic)
        self.assertEqual([one.name for one in patched.spec.template.spec.containers], ["log", "web"])
        operations = [{"op": "replace", "path": "/spec/replicas", "value": 3}]
        patched = apps.patch_namespaced_deployment("web", self.namespace, operations)
        self.assertEqual((patched.spec.replicas, patched.metadata.generation), (3, 3))

        read = apps.read_namespaced_deployment("web", self.namespace)
        read.spec.paused = True
        replaced = apps.replace_namespaced_deployment("web", self.namespace, read)
        self.assertTrue(replaced.spec.paused)
        with self.refused(409, "Conflict"):
            apps.replace_namespaced_deployment("web", self.namespace, read)

        scale = apps.read_namespaced_deployment_scale("web", self.namespace)
        self.assertEqual((scale.kind, scale.spec.replicas, scale.status.selector), ("Scale", 3, "app=web"))
        scale = apps.patch_namespaced_deployment_scale("web", self.namespace, {"spec": {"replicas": 5}})
        self.assertEqual(scale.spec.replicas, 5)
        status = {"status": {"replicas": 4, "observedGeneration": 4}}
        told = apps.patch_namespaced_deployment_status("web", self.namespace, status)
        self.assertEqual((told.status.replicas, told.spec.replicas), (4, 5))

        options = client.V1DeleteOptions(propagation_policy="Background", grace_period_seconds=0)
        gone = apps.delete_namespaced_deployment("web", self.namespace, body=options)
        self.assertEqual((gone.status, gone.details.name, gone.details.kind), ("Success", "web", "deployments"))
        with self.refused(404, "NotFound"):
            apps.read_namespaced_deployment("web", self.namespace)

    def test_a_job_and_a_cron_job_get_what_nobody_says(self):
        batch = client.BatchV1Api()
        spec = {"template": {"spec": {**POD, "restartPolicy": "Never"}}}
        job = batch.create_namespaced_job(self.namespace, {"metadata": {"generateName": "once-"}, "spec": spec})
        self.assertTrue(job.metadata.name.startswith("once-"))
        self.assertEqual((job.spec.completions, job.spec.backoff_limit), (1, 6))
        self.assertIn("batch.kubernetes.io/controller-uid", job.spec.selector.match_labels)
        cron = {"metadata": {"name": "nightly"}, "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": spec}}}
        cron = batch.create_namespaced_cron_job(self.namespace, cron)
        self.assertEqual((cron.spec.concurrency_policy, cron.spec.suspend), ("Allow", False))
        with self.refused(422, "Invalid") as said:
            batch.patch_namespaced_cron_job("nightly", self.namespace, {"spec": {"schedule": "whenever"}})
        self.assertEqual(said[0]["details"]["causes"][0]["field"], "spec.schedule")

    def test_roles_give_a_user_what_they_say(self):
        rbac = client.RbacAuthorizationV1Api()
        rule = client.V1PolicyRule(api_groups=[""], resources=["configmaps"], verbs=["get", "list"])
        rbac.create_namespaced_role(
            self.namespace, client.V1Role(metadata=client.V1ObjectMeta(name="reader"), rules=[rule])
        )
        user = client.ApiClient()
        user.set_default_header("Impersonate-User", "jane")
        jane = client.CoreV1Api(user)
        with self.refused(403, "Forbidden") as said:
            jane.list_namespaced_config_map(self.namespace)
        self.assertIn('User "jane" cannot list resource "configmaps"', said[0]["message"])
        binding = client.V1RoleBinding(
            metadata=client.V1ObjectMeta(name="jane"),
            role_ref=client.V1RoleRef(api_group="rbac.authorization.k8s.io", kind="Role", name="reader"),
            subjects=[client.RbacV1Subject(kind="User", name="jane", api_group="rbac.authorization.k8s.io")],
        )
        rbac.create_namespaced_role_binding(self.namespace, binding)
        self.assertEqual(jane.list_namespaced_config_map(self.namespace).kind, "ConfigMapList")
        with self.refused(403, "Forbidden"):
            jane.delete_namespaced_config_map("kube-root-ca.crt", self.namespace)
        asked = client.V1SubjectAccessReview(
            spec=client.V1SubjectAccessReviewSpec(
                user="jane",
                resource_attributes=client.V1ResourceAttributes(
                    namespace=self.namespace, verb="list", resource="configmaps"
                ),
            )
        )
        review = client.AuthorizationV1Api().create_subject_access_review(asked)
        self.assertTrue(review.status.allowed)

    def test_a_token_of_a_service_account_says_who_it_is(self):
        self.core.create_namespaced_service_account(self.namespace, {"metadata": {"name": "robot"}})
        request = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=600))
        answer = self.core.create_namespaced_service_account_token("robot", self.namespace, request)
        here = client.Configuration.get_default_copy()
        here.cert_file = here.key_file = None
        here.api_key = {"authorization": f"Bearer {answer.status.token}"}
        robot = client.ApiClient(here)
        me = client.AuthenticationV1Api(robot).create_self_subject_review({})
        self.assertEqual(me.status.user_info.username, f"system:serviceaccount:{self.namespace}:robot")
        here.api_key = {"authorization": "Bearer none.of.ours"}
        with self.refused(401, "Unauthorized"):
            client.CoreV1Api(client.ApiClient(here)).list_node()

    def test_secrets_services_and_pods_keep_what_they_were_given(self):
        secret = self.core.create_namespaced_secret(
            self.namespace, {"metadata": {"name": "s"}, "stringData": {"key": "value"}, "immutable": True}
        )
        self.assertEqual((secret.type, secret.data), ("Opaque", {"key": "dmFsdWU="}))
        with self.refused(422, "Invalid"):
            self.core.patch_namespaced_secret("s", self.namespace, {"data": {"key": "b3RoZXI="}})
        ports = [{"port": 80, "targetPort": "http"}]
        body = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": ports}}
        service = self.core.create_namespaced_service(self.namespace, body)
        self.assertEqual((service.spec.type, service.spec.ports[0].protocol), ("ClusterIP", "TCP"))
        self.assertEqual(service.spec.ports[0].target_port, "http")
        pod = self.core.create_namespaced_pod(self.namespace, {"metadata": {"name": "p"}, "spec": POD})
        self.assertEqual((pod.status.phase, pod.status.qos_class), ("Pending", "Burstable"))
        self.assertEqual(pod.spec.service_account_name, "default")
        bound = client.V1Binding(
            metadata=client.V1ObjectMeta(name="p"), target=client.V1ObjectReference(kind="Node", name="n1")
        )
        # The class of the answer is not the one the server gives: a Status.
        self.core.create_namespaced_pod_binding("p", self.namespace, bound, _preload_content=False)
        self.assertEqual(self.core.read_namespaced_pod("p", self.namespace).spec.node_name, "n1")
        gone = self.core.delete_namespaced_pod("p", self.namespace, grace_period_seconds=7)
        self.assertEqual(gone.metadata.deletion_grace_period_seconds, 7)
        self.core.delete_namespaced_pod("p", self.namespace, grace_period_seconds=0)
        with self.refused(404, "NotFound"):
            self.core.read_namespaced_pod("p", self.namespace)
