"""The same work on many machines, by Ray (extra `scale`).

benching    blocks of benchmark tasks
embedding   pictures to shards of features
actors      one task's pile, held by many
"""

from handful.cluster.actors import Actors

__all__ = ["Actors"]
