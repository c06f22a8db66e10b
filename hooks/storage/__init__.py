"""What the storage nodes are chosen by: ReplicatedStorageClasses, their pools, and the data that nodes hold."""
