"""What dynamo_lite tells people: the reasons of graph breaks, and totals.

On the ground: every room may import it, and it imports none.
"""
