"""Python's own kinds of values, and the builtin functions.

Rooms, lowest first: `containers`, `numbers`, `functions`, `objects`, `classes`.
May import: `core`, `polyfills`.
"""
