"""Metahooks: Kubernetes controllers written as pure functions, served to Metacontroller."""

__version__ = "0.1.0"
