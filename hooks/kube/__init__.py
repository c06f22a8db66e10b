"""Kubernetes vocabulary as pure functions: quantities, durations, selectors, names, metadata, conditions, events."""
