"""The package's version. A build reads it from here (``distribution/torch_requirement.py``)."""

__version__ = "0.1.0"
