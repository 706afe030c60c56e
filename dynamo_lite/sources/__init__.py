"""Where values came from: the places that guards check and generated code reloads values from.

Enters: accessors, from the frame on.
Leaves: a tree of `Source` with the checks of each place.
May import: `exc`, `insight`.
"""
