"""A node of the Ray clusters that are started here, on this machine."""

NODE = {"num_cpus": 1, "object_store_memory": 200 << 20}
