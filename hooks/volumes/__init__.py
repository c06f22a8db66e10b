"""What the volume autoscaler is made of: its custom resources, claims, usage, and the checks that decide."""
