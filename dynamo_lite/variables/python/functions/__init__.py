"""Python functions and cells, C functions, and the binding of a call's arguments."""
