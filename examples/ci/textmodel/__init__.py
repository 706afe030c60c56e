"""A small classifier of texts."""
