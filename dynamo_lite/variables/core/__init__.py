"""What every kind of value is built on: the base class, what its methods are handed, lazy wrapping, keys, constants.

May import: no other room of `variables` but `polyfills`.
"""
