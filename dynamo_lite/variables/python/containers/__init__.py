"""Lists, tuples, dicts, sets, deques, and the iterators of builtins: real containers whose items are trackers."""
