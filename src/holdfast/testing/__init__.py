"""Test doubles and conformance suites, for Holdfast's own tests and for yours.

`forgetful_files` is a disk that keeps only synced data: a test writes to it, cuts the power at a chosen point, and
continues from a state in which a real disk could be. `weak_signature` collides all the time. `volumes` is the
conformance suite for volume organizations.

A double is never more forgiving than the contract it replaces, and the same seed gives the same result. The product
does not import this package.
"""
