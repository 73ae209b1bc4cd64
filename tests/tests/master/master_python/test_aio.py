"""The asynchronous client, which speaks through another HTTP library."""

import asyncio

from bed import DEADLINE_SECONDS, Journey
from kubernetes.aio import client, config


class Asynchronous(Journey):
    def test_objects_are_written_and_read(self):
        asyncio.run(asyncio.wait_for(self.journey(), DEADLINE_SECONDS))

    async def journey(self):
        await config.load_kube_config()
        async with client.ApiClient() as api:
            core = client.CoreV1Api(api)
            await core.create_namespaced_config_map(self.namespace, {"metadata": {"name": "m"}, "data": {"a": "1"}})
            await core.patch_namespaced_config_map("m", self.namespace, {"data": {"b": "2"}})
            listed = await core.list_namespaced_config_map(self.namespace, field_selector="metadata.name=m")
            self.assertEqual([one.data for one in listed.items], [{"a": "1", "b": "2"}])
            await core.delete_namespaced_config_map("m", self.namespace)
            with self.assertRaises(client.ApiException) as caught:
                await core.read_namespaced_config_map("m", self.namespace)
            self.assertEqual(caught.exception.status, 404)
