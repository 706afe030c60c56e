"""Sequences, dicts, sets, deques and the iterators of builtins: trackers held in real Python containers."""
