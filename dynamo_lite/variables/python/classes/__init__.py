"""Classes: calling them, ``isinstance`` and ``issubclass``, ``super()``."""
