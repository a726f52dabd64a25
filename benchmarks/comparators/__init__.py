"""Batch feature selection that the papers compare with: they see all rows at once, so they are no operators."""
