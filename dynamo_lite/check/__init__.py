"""Checks for continuous integration: is this one graph, and does it stay one? The command line and the pytest plugin.

What enters are callables with their inputs, scripts, or tests. What leaves is, for each, whether it was captured within
its limits, and findings with code, place and hint where not. It stands above the public interface and imports from
there downwards; nothing but the command line's `__main__` imports it.
"""
