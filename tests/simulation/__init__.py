"""A world in which the volume autoscaler lives for a simulated week: storage, workloads, metrics, and meddlers.

Nothing here runs by the real clock or by chance: an agenda moves the time from one thing that happens to the next, and
all dice are thrown from a seed. The hooks are called as they are, the rehearsal plays Metacontroller, and `Laws`
watches every answer and every write. `python -m tests.simulation --seeds 1000` lives through many weeks.
"""
