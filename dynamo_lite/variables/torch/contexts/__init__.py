"""torch's context managers: recorded in the graph, and entered for real while tracing."""
