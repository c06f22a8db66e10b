"""What the node agent autoscaler is made of: its custom resources, groups of nodes, sizes, and the DaemonSets."""
