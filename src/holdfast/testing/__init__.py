"""What Holdfast's own tests stand on, shipped so that yours can: test doubles and conformance suites.

A test double plays a part of the outside world at its worst. `forgetful` is a disk that keeps only what was synced: a
test writes to it, cuts the power at a chosen point, and goes on with a state that a real disk could have been left in.
`weak` is a signature that collides all the time. A conformance suite is one call that proves a new implementation of a
role against everything its callers rely on: `volumes` is the suite for volume organizations.

Guarantees: a double is never kinder than the contract it stands in for, and the same seed gives the same outcome.
Nothing in the product imports this package.
"""
