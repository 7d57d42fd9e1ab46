"""Tests on a real Spark, in one session."""
