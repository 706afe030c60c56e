"""What is known of a value while tracing, and what operations on it do."""
