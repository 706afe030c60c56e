"""What dynamo_lite reports to its user: the reasons of graph breaks, and counters.

Every room may import it; it imports none.
"""
