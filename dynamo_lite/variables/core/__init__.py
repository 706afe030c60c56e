"""What every kind of value is built on: the tracker's protocol, lazy wrapping, attribute lookup, dict keys, constants.

May import: no other room of `variables` but `polyfills`.
"""
