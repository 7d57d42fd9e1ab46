"""Tests on real brokers, in a package: what `scope="package"` gives them ends with the last of them."""
