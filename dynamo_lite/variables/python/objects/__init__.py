"""Instances: of the program's classes, exceptions, enum members, weak references, pre-existing iterators."""
