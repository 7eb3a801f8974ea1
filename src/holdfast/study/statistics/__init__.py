"""Estimators of the studies: numbers in, numbers out, no archive."""
