"""The same work on many machines, with Ray (extra `scale`).

embedding       pictures to parts of a feature set
embedding_part  one of these parts, on one machine
actors          the pile of one task, held by many machines
"""

from handful.cluster.actors import Actors

__all__ = ["Actors"]
