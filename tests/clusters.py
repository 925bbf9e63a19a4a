"""A Ray cluster of two nodes, one core each, on this machine; and the death of one of them."""

from contextlib import contextmanager

OBJECT_STORE = 200 << 20  # bytes a node
QUICK = {  # a death is noticed in two seconds instead of fifteen
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 2000,
    "health_check_failure_threshold": 4,
}


class TwoNodes:
    """`kill()` ends the second node at once, as a power cut would; `revive()` adds another in its place."""

    def __init__(self, cluster, node):
        self.cluster, self.node = cluster, node
        self.address = cluster.address

    def kill(self):
        self.cluster.remove_node(self.node, allow_graceful=False)
        self.node = None

    def revive(self):
        if self.node is None:
            self.node = self.cluster.add_node(num_cpus=1, object_store_memory=OBJECT_STORE)
            self.cluster.wait_for_nodes()


@contextmanager
def two_nodes():
    """Started, and this process connected to the first of them."""
    import ray
    from ray.cluster_utils import Cluster

    size = {"num_cpus": 1, "object_store_memory": OBJECT_STORE}
    head = {**size, "include_dashboard": False, "_system_config": QUICK}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        node = cluster.add_node(**size)
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False)
        yield TwoNodes(cluster, node)
    finally:
        ray.shutdown()
        cluster.shutdown()
