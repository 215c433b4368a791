"""Proof that nothing is lost and nothing is done twice: kills at every commit and every effect, random histories, power cuts."""
